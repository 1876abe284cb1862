//! The values of settings, and where they were found.

use std::fmt;
use std::str::FromStr;

use crate::diagnose::Place;

/// Where a setting was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An option of the command line.
    CommandLine,
    /// The environment variable of this name.
    Environment(&'static str),
    /// A settings file.
    File(Place),
    /// The inventory's `vms_state_dir`.
    Inventory(Place),
    /// Nowhere: the default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("the command line"),
            Self::Environment(name) => write!(f, "the environment ({name})"),
            Self::File(place) => place.fmt(f),
            Self::Inventory(place) => write!(f, "the inventory ({place})"),
            Self::Default => f.write_str("the default"),
        }
    }
}

/// A value and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it was found.
    pub origin: Origin,
}

/// How many hosts at once, 1 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forks(pub(super) u16);

impl Forks {
    /// The number.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl FromStr for Forks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number @ 1..=1000) => Ok(Self(number)),
            _ => Err(format!("{text:?} is no whole number from 1 to 1000")),
        }
    }
}

/// How many of something at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub(super) Option<u16>);

impl Limit {
    /// As many as there are.
    pub const UNLIMITED: Self = Self(None);

    /// The number of permits for a semaphore: 65535 stands for no limit, more hosts are never at work.
    pub fn permits(self) -> usize {
        usize::from(self.0.unwrap_or(u16::MAX))
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "unlimited" => Ok(Self::UNLIMITED),
            Ok(number @ 1..) => Ok(Self(Some(number))),
            _ => Err(format!("{text:?} is neither a whole number from 1 nor `unlimited`")),
        }
    }
}

/// What becomes of a mapping that the inventory defines at two levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashBehaviour {
    /// The stronger level's stands alone.
    Replace,
    /// The keys of both are put together.
    Merge,
}

impl FromStr for HashBehaviour {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "replace" => Ok(Self::Replace),
            "merge" => Ok(Self::Merge),
            _ => Err(format!("{text:?} is neither `replace` nor `merge`")),
        }
    }
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch(pub bool);

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(Self(true)),
            "false" | "no" | "off" | "0" => Ok(Self(false)),
            _ => Err(format!("{text:?} is neither `true` nor `false`")),
        }
    }
}

/// What is written to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

impl FromStr for OutputFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "human" => Ok(Self::Human),
            "json" => Ok(Self::Json),
            _ => Err(format!("{text:?} is neither `human` nor `json`")),
        }
    }
}

/// How log lines are written to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("{text:?} is neither `text` nor `json`")),
        }
    }
}
