//! Sizes as Proxmox writes them: `20G`, `3584M`, `528K` (pve-common: format `disk-size`).

use std::fmt;
use std::str::FromStr;

use super::ids::InvalidId;

/// Units, largest first, with their power of two.
const UNITS: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];

/// A number of bytes.
///
/// Text: a decimal number, which may have a fraction, and one of `K M G T`, all binary; no unit is bytes. A fraction of a
/// byte is cut off, as Proxmox does. It prints as the largest unit that divides it: `20G`, `3584M`, `1T`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u64);

impl Size {
    /// A size in bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A size in GiB; one that 64 bits cannot hold is the largest size.
    pub const fn gib(gib: u64) -> Self {
        Self(gib.saturating_mul(1 << 30))
    }

    /// The bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Proxmox prints nothing at all as `0T`; `0` reads the same and does not startle.
        let unit = UNITS
            .iter()
            .find(|(_, power)| self.0 != 0 && self.0.is_multiple_of(1 << power));
        match unit {
            Some((letter, power)) => write!(f, "{}{letter}", self.0 >> power),
            None => self.0.fmt(f),
        }
    }
}

impl FromStr for Size {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let err = |rule| InvalidId {
            kind: "size",
            text: text.to_owned(),
            rule,
        };
        let unit = UNITS.iter().find(|(letter, _)| text.ends_with(*letter));
        let (number, power) = match unit {
            Some((letter, power)) => (text.trim_end_matches(*letter), *power),
            None => (text, 0),
        };
        // `GG` must not pass as one `G`.
        if number.len() + usize::from(unit.is_some()) != text.len() {
            return Err(err("a number and at most one of K, M, G and T"));
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        if !is_number(whole) || !is_number(fraction) {
            return Err(err("a number and at most one of K, M, G and T"));
        }
        let too_large = || err("less than 16 EiB");
        let whole: u64 = whole.parse().map_err(|_| too_large())?;
        let whole = u128::from(whole) << power;
        // Twenty digits are finer than a byte of a TiB, and 10^20 * 2^40 fits 128 bits.
        let fraction = &fraction[..fraction.len().min(20)];
        let scale = 10u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
        let part = fraction.parse::<u128>().map_err(|_| too_large())?;
        let bytes = whole + (part << power) / scale;
        u64::try_from(bytes).map(Self).map_err(|_| too_large())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_read_as_bytes_and_print_the_largest_exact_unit() {
        let cases = [
            ("20G", 20 << 30, "20G"),
            ("3584M", 3584 << 20, "3584M"),
            ("4M", 4 << 20, "4M"),
            ("4096K", 4 << 20, "4M"),
            ("528K", 528 << 10, "528K"),
            ("0.5T", 512 << 30, "512G"),
            ("1024G", 1 << 40, "1T"),
            ("2.5G", 2560 << 20, "2560M"),
            ("1073741825", 1_073_741_825, "1073741825"),
            ("0", 0, "0"),
            ("0T", 0, "0"),
            ("0.1K", 102, "102"),
        ];
        for (text, bytes, printed) in cases {
            let size: Size = text.parse().unwrap();
            assert_eq!((size.bytes(), size.to_string().as_str()), (bytes, printed), "{text}");
        }
        assert_eq!(Size::gib(32).to_string(), "32G");
        assert_eq!(Size::gib(u64::MAX).bytes(), u64::MAX);
    }

    #[test]
    fn what_proxmox_refuses_is_refused() {
        for text in [
            "",
            "G",
            "-1G",
            "+1G",
            "20 G",
            "20g",
            "20GB",
            "20GG",
            "1.G",
            ".5G",
            "1.2.3G",
            "1e3",
            "20000000T",
            "٣G",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text:?} was taken");
        }
    }

    proptest! {
        #[test]
        fn every_size_survives_printing(bytes: u64) {
            prop_assert_eq!(Size::new(bytes).to_string().parse::<Size>(), Ok(Size::new(bytes)));
        }

        #[test]
        fn no_text_panics(text in "[0-9.KMGT]{0,50}|\\PC*") {
            let _ = text.parse::<Size>();
        }
    }
}
