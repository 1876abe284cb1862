//! Names and ids of Proxmox, each a type of its own, checked where it comes in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that is no valid id, with the rule that it breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no valid {kind}: {rule}")]
pub struct InvalidId {
    /// What it was to be.
    pub kind: &'static str,
    /// The text.
    pub text: String,
    /// The rule.
    pub rule: &'static str,
}

/// A VM's number, 100 to 999999999 (qemu-server: the schema of `vmid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct VmId(u32);

impl VmId {
    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for VmId {
    type Error = InvalidId;

    fn try_from(number: u32) -> Result<Self, InvalidId> {
        if (100..=999_999_999).contains(&number) {
            Ok(Self(number))
        } else {
            Err(InvalidId {
                kind: "VM id",
                text: number.to_string(),
                rule: "it lies between 100 and 999999999",
            })
        }
    }
}

impl From<VmId> for u32 {
    fn from(id: VmId) -> Self {
        id.0
    }
}

impl fmt::Display for VmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for VmId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        text.parse::<u32>()
            .map_err(|_| InvalidId {
                kind: "VM id",
                text: text.to_owned(),
                rule: "it is a whole number",
            })?
            .try_into()
    }
}

/// Defines a checked text type.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $rule:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(InvalidId { kind: $kind, text: text.to_owned(), rule: $rule })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// Whether `text` is letters, digits and inner dashes.
fn is_label(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

name!(
    /// A node's name (pve-common: format `pve-node`).
    NodeName,
    "node name",
    "letters, digits and inner dashes",
    is_label
);

name!(
    /// A storage's id (pve-storage: format `pve-storage-id`).
    StorageName,
    "storage name",
    "a letter, then letters, digits, dots, dashes and underscores, with a letter or digit at the end",
    |text| {
        text.len() >= 2
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
    }
);

/// A unicast MAC address, upper case with colons, as Proxmox writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(String);

impl Mac {
    /// The text, `BC:24:11:00:00:01`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Mac {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let err = |rule| InvalidId {
            kind: "MAC address",
            text: text.to_owned(),
            rule,
        };
        let parts: Vec<&str> = text.split([':', '-']).collect();
        if parts.len() != 6
            || parts
                .iter()
                .any(|p| p.len() != 2 || !p.bytes().all(|b| b.is_ascii_hexdigit()))
        {
            return Err(err("six pairs of hexadecimal digits"));
        }
        let first = u8::from_str_radix(parts[0], 16).map_err(|_| err("six pairs of hexadecimal digits"))?;
        if first & 1 == 1 {
            return Err(err(
                "the first byte must be even: a multicast address cannot be a card's own",
            ));
        }
        Ok(Self(parts.join(":").to_ascii_uppercase()))
    }
}

impl TryFrom<String> for Mac {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        mac.0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A task's id: `UPID:node:pid:pstart:starttime:type:id:user:` (pve-common: PVE::UPID).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Upid {
    text: String,
    node: NodeName,
}

impl Upid {
    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The node that runs the task: the one to ask about it.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// The task's type, `qmclone`.
    pub fn kind(&self) -> &str {
        self.field(5)
    }

    /// The task's id field: for `qmclone` the *source* VM.
    pub fn id(&self) -> &str {
        self.field(6)
    }

    /// When the task started, in seconds since the epoch on the node's clock.
    pub fn start_time(&self) -> u64 {
        u64::from_str_radix(self.field(4), 16).unwrap_or(0)
    }

    fn field(&self, index: usize) -> &str {
        self.text.split(':').nth(index).unwrap_or("")
    }
}

impl FromStr for Upid {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let err = || InvalidId {
            kind: "UPID",
            text: text.to_owned(),
            rule: "UPID:node:pid:pstart:start:type:id:user:",
        };
        let fields: Vec<&str> = text.split(':').collect();
        let hex = |s: &str, len: std::ops::RangeInclusive<usize>| {
            len.contains(&s.len()) && s.bytes().all(|b| b.is_ascii_hexdigit())
        };
        let [tag, node, pid, pstart, start, kind, _, user, last] = fields[..] else {
            return Err(err());
        };
        let ok = tag == "UPID"
            && hex(pid, 8..=8)
            && hex(pstart, 8..=9)
            && hex(start, 8..=8)
            && !kind.is_empty()
            && !user.is_empty()
            && last.is_empty();
        if !ok {
            return Err(err());
        }
        Ok(Self {
            text: text.to_owned(),
            node: node.parse().map_err(|_| err())?,
        })
    }
}

impl TryFrom<String> for Upid {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<Upid> for String {
    fn from(upid: Upid) -> Self {
        upid.text
    }
}

impl fmt::Display for Upid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_upid_tells_its_node_type_and_source() {
        let upid: Upid = "UPID:pve1:000018D9:0004D0B7:6B0DD8D7:qmclone:9000:root@pam!oracle:"
            .parse()
            .unwrap();
        assert_eq!(upid.node().as_str(), "pve1");
        assert_eq!((upid.kind(), upid.id()), ("qmclone", "9000"));
        assert!("UPID:pve1:qmclone:9000:".parse::<Upid>().is_err());
    }

    #[test]
    fn a_mac_is_unicast_and_upper_case() {
        assert_eq!(
            "bc:24:11:0a:0b:0c".parse::<Mac>().unwrap().as_str(),
            "BC:24:11:0A:0B:0C"
        );
        assert!("01:00:5e:00:00:01".parse::<Mac>().is_err());
    }

    #[test]
    fn a_vmid_has_bounds() {
        assert!("99".parse::<VmId>().is_err());
        assert_eq!("100".parse::<VmId>().unwrap().get(), 100);
    }
}
