//! The ids of special tokens by their names. Does not know which of them are needed.

use std::collections::BTreeMap;

/// Special tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecialIds {
    ids: BTreeMap<String, u32>,
}

impl SpecialIds {
    /// Special tokens of these names and ids; of one name the last id counts.
    pub fn new(pairs: impl IntoIterator<Item = (String, u32)>) -> Self {
        Self { ids: pairs.into_iter().collect() }
    }

    /// The id of a special token, if there is one of that name.
    pub fn get(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }
}
