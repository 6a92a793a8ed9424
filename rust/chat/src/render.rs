//! Batches of documents to compositions and to ids, in threads that end with the call. Knows no shape of
//! any document.

use std::ops::Range;

use crate::{Dialect, SpecialIds};
use nanotok_bpe::{Composition, Documents};

/// Documents that were composed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Composed {
    /// The documents; those that were declined have no parts.
    pub composition: Composition,
    /// The numbers, in the batch, of those that were declined.
    pub declined: Vec<usize>,
}

/// The ids of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered<I> {
    /// The ids of all documents back to back.
    pub ids: Vec<I>,
    /// What each id is: the number of its role, and its mask as the lowest bit.
    pub labels: Vec<u8>,
    /// n + 1 positions in the ids: where each document begins, and where the last ends.
    pub offsets: Vec<i64>,
    /// The numbers of the documents that were declined; they have no ids.
    pub declined: Vec<i64>,
    /// Images: the number of the document, and where its tokens begin and end in the document's ids.
    pub images: Vec<[i64; 3]>,
    /// For each document: bytes of its texts, and occurrences of special-token text in them.
    pub sizes: Vec<[i64; 2]>,
}

impl Dialect {
    /// Composes the documents `range`. `ids`: `None` if only the texts are wanted; special tokens then
    /// have id 0 and need not exist.
    pub fn compose(
        &self,
        _documents: Documents<'_>,
        range: Range<usize>,
        _ids: Option<&SpecialIds>,
    ) -> Composed {
        let composition = Composition { ends: vec![0; range.len()], ..Composition::default() };
        Composed { composition, declined: range.collect() }
    }
}
