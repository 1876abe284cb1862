//! Random choices: Python's generator where a seed is given, so that a seed gives what it gives in Ansible; else the
//! system's.
//!
//! ```text
//! seed (text) --(SHA-512)--> state of a Mersenne Twister --> below(n) --> choice, shuffle, password
//! ```
//!
//! Happy path: the same seed gives the same numbers on every run and machine, for `random(seed=..)`, `shuffle(seed=..)`
//! and the lookup `password`. Failures: the system gives no random bytes.

use std::io::Read;

use sha2::{Digest, Sha512};

const LENGTH: usize = 624;
const SHIFT: usize = 397;

/// A source of numbers.
pub(crate) enum Random {
    /// Determined by a seed.
    Seeded(Box<Twister>),
    /// The system's own.
    System(std::fs::File),
}

/// The Mersenne Twister MT19937.
pub(crate) struct Twister {
    state: [u32; LENGTH],
    next: usize,
}

impl Twister {
    fn plain(seed: u32) -> Self {
        let mut state = [seed; LENGTH];
        for i in 1..LENGTH {
            let before = state[i - 1];
            state[i] = 1_812_433_253u32
                .wrapping_mul(before ^ before >> 30)
                .wrapping_add(i as u32);
        }
        Self { state, next: LENGTH }
    }

    fn keyed(key: &[u32]) -> Self {
        let mut twister = Self::plain(19_650_218);
        let state = &mut twister.state;
        let (mut i, mut j) = (1, 0);
        for _ in 0..LENGTH.max(key.len()) {
            let before = state[i - 1];
            state[i] = (state[i] ^ (before ^ before >> 30).wrapping_mul(1_664_525))
                .wrapping_add(key[j])
                .wrapping_add(j as u32);
            i += 1;
            j = (j + 1) % key.len();
            if i >= LENGTH {
                state[0] = state[LENGTH - 1];
                i = 1;
            }
        }
        for _ in 0..LENGTH - 1 {
            let before = state[i - 1];
            state[i] = (state[i] ^ (before ^ before >> 30).wrapping_mul(1_566_083_941)).wrapping_sub(i as u32);
            i += 1;
            if i >= LENGTH {
                state[0] = state[LENGTH - 1];
                i = 1;
            }
        }
        state[0] = 0x8000_0000;
        twister
    }

    fn word(&mut self) -> u32 {
        if self.next >= LENGTH {
            for i in 0..LENGTH {
                let y = self.state[i] & 0x8000_0000 | self.state[(i + 1) % LENGTH] & 0x7fff_ffff;
                let twist = if y & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + SHIFT) % LENGTH] ^ y >> 1 ^ twist;
            }
            self.next = 0;
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c_5680;
        y ^= y << 15 & 0xefc6_0000;
        y ^ y >> 18
    }
}

/// The words of a number that is written big-endian, least significant first, without leading zeros.
fn words(bytes: &[u8]) -> Vec<u32> {
    let mut words: Vec<u32> = bytes
        .rchunks(4)
        .map(|chunk| chunk.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)))
        .collect();
    while words.len() > 1 && words.last() == Some(&0) {
        words.pop();
    }
    words
}

impl Random {
    /// Seeded by a text, as Python seeds by a `str`.
    pub fn of_text(seed: &str) -> Self {
        let mut bytes = seed.as_bytes().to_vec();
        bytes.extend(Sha512::digest(seed.as_bytes()));
        Self::Seeded(Box::new(Twister::keyed(&words(&bytes))))
    }

    /// Seeded by a number; its sign does not count.
    pub fn of_number(seed: i128) -> Self {
        Self::Seeded(Box::new(Twister::keyed(&words(&seed.unsigned_abs().to_be_bytes()))))
    }

    /// The system's generator.
    ///
    /// # Errors
    ///
    /// The system has none.
    pub fn system() -> std::io::Result<Self> {
        std::fs::File::open("/dev/urandom").map(Self::System)
    }

    fn bits(&mut self, count: u32) -> std::io::Result<u64> {
        match self {
            Self::Seeded(twister) if count <= 32 => Ok(u64::from(twister.word() >> (32 - count))),
            Self::Seeded(twister) => {
                let low = u64::from(twister.word());
                Ok(low | u64::from(twister.word() >> (64 - count)) << 32)
            }
            Self::System(file) => {
                let mut bytes = [0; 8];
                file.read_exact(&mut bytes)?;
                Ok(u64::from_ne_bytes(bytes) >> (64 - count))
            }
        }
    }

    /// A number from 0 to `limit` - 1; 0 for a limit of 0.
    ///
    /// # Errors
    ///
    /// The system gives no bytes.
    pub fn below(&mut self, limit: u64) -> std::io::Result<u64> {
        if limit == 0 {
            return Ok(0);
        }
        let count = u64::BITS - limit.leading_zeros();
        loop {
            let number = self.bits(count)?;
            if number < limit {
                return Ok(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // python3 -c "import random; r = random.Random('x'); print([r._randbelow(62) for _ in range(8)])"
    #[test]
    fn a_seed_gives_what_it_gives_in_python() {
        let mut random = Random::of_text("x");
        let got: Vec<u64> = (0..8).map(|_| random.below(62).unwrap()).collect();
        assert_eq!(got, PYTHON_TEXT);
        let mut random = Random::of_number(42);
        let got: Vec<u64> = (0..8).map(|_| random.below(100).unwrap()).collect();
        assert_eq!(got, PYTHON_NUMBER);
    }

    const PYTHON_TEXT: [u64; 8] = [40, 20, 38, 38, 30, 4, 48, 58];
    const PYTHON_NUMBER: [u64; 8] = [81, 14, 3, 94, 35, 31, 28, 17];

    #[test]
    fn the_system_stays_below_the_limit() {
        let mut random = Random::system().unwrap();
        assert!((0..200).all(|_| random.below(3).unwrap() < 3));
    }
}
