//! Documents that are composed: of texts, each encoded on its own, and of special tokens between them.
//! Holds what to encode and what each token is called; does not know why it was composed so.

/// What a part of a composed document becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stretch {
    /// The ids of the text `data[start..end]`.
    Text {
        /// Where it begins.
        start: usize,
        /// Where it ends.
        end: usize,
    },
    /// Copies of one id.
    Special {
        /// The id.
        id: u32,
        /// How often.
        count: u32,
    },
}

/// A part of a composed document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// What it becomes.
    pub stretch: Stretch,
    /// A byte that every token of it gets.
    pub label: u8,
    /// Whether to say where its tokens are.
    pub is_marked: bool,
}

/// Composed documents: all their texts back to back, and the parts of each document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Composition {
    /// The texts.
    pub data: Vec<u8>,
    /// The parts of all documents.
    pub parts: Vec<Part>,
    /// How many parts there are up to the end of each document.
    pub ends: Vec<usize>,
}
