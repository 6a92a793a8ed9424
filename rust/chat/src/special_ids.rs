//! The ids of special tokens by name, and those that documents need.

use std::collections::BTreeMap;

use crate::declined::Declined;

/// Special tokens: their names and ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecialIds {
    ids: BTreeMap<String, u32>,
}

impl SpecialIds {
    /// Special tokens with these names and ids; of a duplicate name the last id is used.
    pub fn new(pairs: impl IntoIterator<Item = (String, u32)>) -> Self {
        Self { ids: pairs.into_iter().collect() }
    }

    /// The id of a special token, if it exists.
    pub fn get(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }
}

/// A special token that every dialect can use.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Special {
    Bos,
    UserStart,
    UserEnd,
    AssistantStart,
    AssistantEnd,
    PythonStart,
    PythonEnd,
    OutputStart,
    OutputEnd,
}

/// The names, in the order of [`Special`].
const NAMES: [&str; 9] = [
    "<|bos|>",
    "<|user_start|>",
    "<|user_end|>",
    "<|assistant_start|>",
    "<|assistant_end|>",
    "<|python_start|>",
    "<|python_end|>",
    "<|output_start|>",
    "<|output_end|>",
];

/// The special tokens that a dialect can use, looked up once for a batch; `None`: the token does
/// not exist.
#[derive(Debug)]
pub(crate) struct Tokens {
    special: [Option<u32>; 9],
    image: Option<u32>,
    grounding: Vec<Option<u32>>,
}

impl Tokens {
    /// The tokens of `ids`, or without ids, tokens that all exist and have id 0.
    pub(crate) fn new(ids: Option<&SpecialIds>, image: Option<&str>, grounding: &[String]) -> Self {
        let id = |name: &str| ids.map_or(Some(0), |ids| ids.get(name));
        Self {
            special: NAMES.map(id),
            image: image.and_then(id),
            grounding: grounding.iter().map(|name| id(name)).collect(),
        }
    }

    pub(crate) fn special(&self, special: Special) -> Result<u32, Declined> {
        self.special[special as usize].ok_or(Declined)
    }

    pub(crate) fn image(&self) -> Result<u32, Declined> {
        self.image.ok_or(Declined)
    }

    /// The id of the grounding token with this index in the settings.
    pub(crate) fn grounding(&self, position: usize) -> Result<u32, Declined> {
        self.grounding[position].ok_or(Declined)
    }

    /// The highest id plus one.
    pub(crate) fn num_ids(&self) -> usize {
        let all = self.special.iter().chain([&self.image]).chain(&self.grounding);
        all.flatten().map(|&id| id as usize + 1).max().unwrap_or(0)
    }
}
