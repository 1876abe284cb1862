//! Sizes as inventories write them: `20`, `"20"`, `20G`, `2T`, `512M`.

/// A unit, by the factor in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// MiB, the unit of memory.
    Mib,
    /// GiB, the unit of disks.
    Gib,
}

impl Unit {
    fn mib(self) -> u64 {
        match self {
            Self::Mib => 1,
            Self::Gib => 1024,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mib => "MiB",
            Self::Gib => "GiB",
        }
    }
}

/// Parses a size; a bare number is in `unit`, the answer is in `unit` too. Suffixes are binary, as Proxmox reads them
/// (qemu-server: `disk-size`). `None` where it is no size, or no whole number of the unit.
pub(super) fn parse(text: &str, unit: Unit) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if digits == 0 {
        return None;
    }
    let number: u64 = text[..digits].parse().ok()?;
    let factor = match text[digits..].trim_start() {
        "" => unit.mib(),
        "M" | "MB" | "MiB" => 1,
        "G" | "GB" | "GiB" => 1024,
        "T" | "TB" | "TiB" => 1024 * 1024,
        _ => return None,
    };
    let mib = number.checked_mul(factor)?;
    mib.is_multiple_of(unit.mib()).then(|| mib / unit.mib())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        let table = [
            ("20", Unit::Gib, Some(20)),
            ("20G", Unit::Gib, Some(20)),
            (" 20 GiB", Unit::Gib, Some(20)),
            ("2T", Unit::Gib, Some(2048)),
            ("20480M", Unit::Gib, Some(20)),
            ("20481M", Unit::Gib, None),
            ("2048", Unit::Mib, Some(2048)),
            ("2G", Unit::Mib, Some(2048)),
            ("3.5G", Unit::Gib, None),
            ("-1", Unit::Gib, None),
            ("", Unit::Gib, None),
            ("20 apples", Unit::Gib, None),
            ("99999999999999999999", Unit::Gib, None),
        ];
        for (text, unit, want) in table {
            assert_eq!(parse(text, unit), want, "{text:?}");
        }
    }
}
