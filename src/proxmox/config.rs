//! Stand-in until the real grammar is merged.

use indexmap::IndexMap;

/// A VM's configuration, key by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmConfig {
    entries: IndexMap<String, String>,
}

impl VmConfig {
    /// Reads the answer of `GET config`.
    ///
    /// # Errors
    ///
    /// When the answer is no object of plain values.
    pub fn from_json(value: serde_json::Value) -> Result<Self, String> {
        let serde_json::Value::Object(map) = value else {
            return Err("not an object".to_owned());
        };
        let entries = map
            .into_iter()
            .map(|(key, value)| match value {
                serde_json::Value::String(text) => (key, text),
                other => (key, other.to_string()),
            })
            .collect();
        Ok(Self { entries })
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(String::as_str)
    }
}
