//! Property strings: `virtio=BC:24:11:0A:0B:0C,bridge=vmbr0`, the values of most keys of a VM's configuration.
//!
//! Pairs `key=value`, parted by commas; one key of each format, its default key, may stand without its name
//! (pve-common: `PVE::JSONSchema::parse_property_string`). A value holds no comma and is not blank, and may hold `=`.

use std::fmt;

use indexmap::IndexMap;

/// A text that is no property string.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    /// A key occurs twice.
    #[error("{key:?} is given twice")]
    Duplicate {
        /// The key.
        key: String,
    },
    /// A piece has no key and the format has no default key, or its key or value is blank.
    #[error("{piece:?} is no `key=value`")]
    NoPair {
        /// The piece between two commas.
        piece: String,
    },
}

/// Pairs in the order in which they were written or added. Two are equal if they hold the same pairs in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(IndexMap<String, String>);

impl Properties {
    /// No pairs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads `text`; a piece without `=` is the value of `default_key`. Blank pieces are passed over, as Proxmox does.
    pub fn parse(text: &str, default_key: Option<&str>) -> Result<Self, PropertyError> {
        let mut pairs = IndexMap::new();
        for piece in text.split(',').filter(|piece| !piece.trim().is_empty()) {
            let no_pair = || PropertyError::NoPair {
                piece: piece.to_owned(),
            };
            let (key, value) = match (piece.split_once('='), default_key) {
                (Some((key, value)), _) if !key.trim().is_empty() && !value.trim().is_empty() => (key, value),
                (None, Some(default)) => (default, piece),
                (Some(_), _) | (None, None) => return Err(no_pair()),
            };
            if pairs.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(PropertyError::Duplicate { key: key.to_owned() });
            }
        }
        Ok(Self(pairs))
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The value of `key` as a yes or no; `None` if it is absent or neither.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).and_then(boolean)
    }

    /// Sets `key`, in its place if it is there and at the end if not. The value must be one that [`is_value`] takes.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.0.insert(key.into(), value.into());
    }

    /// Takes `key` out; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<String> {
        self.0.shift_remove(key)
    }

    /// The pairs, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Properties {
    /// Every pair as `key=value`, in order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, value)) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

impl FromIterator<(String, String)> for Properties {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(pairs: T) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// Whether `text` can be a value inside a property string.
pub fn is_value(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains([',', '\n', '\r'])
}

/// Yes or no as Proxmox reads it inside property strings (pve-common: `PVE::JSONSchema::parse_boolean`).
pub fn boolean(text: &str) -> Option<bool> {
    let is = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is(["1", "on", "yes", "true"]) {
        Some(true)
    } else if is(["0", "off", "no", "false"]) {
        Some(false)
    } else {
        None
    }
}

/// `text` with yes and no in one form, to compare two values.
pub(super) fn canonical(text: &str) -> &str {
    match boolean(text) {
        Some(true) => "1",
        Some(false) => "0",
        None => text,
    }
}

/// The words of a list, which `;`, `,`, NUL and white space part (pve-common: `split_list`).
pub(super) fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(|c: char| matches!(c, ';' | ',' | '\0') || c.is_whitespace())
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str, default: Option<&str>) -> Vec<(String, String)> {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Properties::parse(text, default).unwrap().iter().map(owned).collect()
    }

    fn owned(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn the_default_key_may_go_without_its_name_anywhere() {
        assert_eq!(
            pairs("local-lvm:vm-100-disk-0,size=20G", Some("file")),
            owned(&[("file", "local-lvm:vm-100-disk-0"), ("size", "20G")])
        );
        assert_eq!(
            pairs("media=cdrom,none", Some("file")),
            owned(&[("media", "cdrom"), ("file", "none")])
        );
        assert_eq!(pairs("", Some("file")), owned(&[]));
        assert_eq!(pairs("a=1,,b=2,", None), owned(&[("a", "1"), ("b", "2")]));
        assert_eq!(pairs("serial=Zm9vYg==", None), owned(&[("serial", "Zm9vYg==")]));
    }

    #[test]
    fn doubtful_texts_are_refused() {
        let duplicate = |key: &str| Err(PropertyError::Duplicate { key: key.to_owned() });
        let no_pair = |piece: &str| {
            Err(PropertyError::NoPair {
                piece: piece.to_owned(),
            })
        };
        assert_eq!(Properties::parse("size=1G,size=2G", None), duplicate("size"));
        assert_eq!(Properties::parse("none,file=x", Some("file")), duplicate("file"));
        assert_eq!(Properties::parse("none,cdrom", Some("file")), duplicate("file"));
        assert_eq!(Properties::parse("none", None), no_pair("none"));
        assert_eq!(Properties::parse("a=", None), no_pair("a="));
        assert_eq!(Properties::parse("=1", Some("a")), no_pair("=1"));
    }

    #[test]
    fn setting_keeps_the_place_and_removing_keeps_the_order() {
        let mut properties = Properties::parse("a=1,b=2,c=3", None).unwrap();
        properties.set("b", "9");
        properties.set("d", "4");
        assert_eq!(properties.to_string(), "a=1,b=9,c=3,d=4");
        assert_eq!(properties.remove("a"), Some("1".to_owned()));
        assert_eq!(properties.remove("a"), None);
        assert_eq!(properties.to_string(), "b=9,c=3,d=4");
    }

    #[test]
    fn yes_and_no_have_four_spellings_each() {
        for text in ["1", "on", "YES", "true"] {
            assert_eq!(boolean(text), Some(true), "{text}");
        }
        for text in ["0", "off", "no", "False"] {
            assert_eq!(boolean(text), Some(false), "{text}");
        }
        for text in ["", "2", "enabled"] {
            assert_eq!(boolean(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn printing_round_trips(text in "([a-c]=[^,]{1,4},?){0,4}|\\PC*") {
            if let Ok(properties) = Properties::parse(&text, Some("file")) {
                let printed = properties.to_string();
                let again = Properties::parse(&printed, None).unwrap();
                prop_assert_eq!(again.to_string(), printed);
                prop_assert_eq!(again, properties);
            }
        }
    }
}
