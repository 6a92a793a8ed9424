//! Batches of documents to ids, in threads that end with the call: a block of documents is composed, then
//! encoded. Knows no shape of any document.

use std::ops::Range;

use nanotok_bpe::{
    Composition, Documents, Encoded, Encoder, Error, Needles, Part, Stretch, TokenId, in_threads,
};

use crate::{Dialect, SpecialIds};

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

/// Neighbouring documents, encoded.
struct Block<I> {
    /// The number of the first.
    start: usize,
    encoded: Encoded<I>,
    declined: Vec<usize>,
    sizes: Vec<[i64; 2]>,
}

impl Dialect {
    /// The ids of all documents that are well formed.
    ///
    /// Each of `threads` renders a block of neighbouring documents; the result is the same for any
    /// number of threads. `needles`: what special tokens look like as text.
    ///
    /// # Errors
    ///
    /// Ids, of the vocabulary or of special tokens that the dialect may use, that do not fit `I`; or a
    /// text that cannot be split: the document is its number in the batch, the offset the one in the text.
    pub fn render<I: TokenId>(
        &self,
        encoder: &Encoder,
        ids: &SpecialIds,
        needles: &Needles,
        documents: Documents<'_>,
        threads: usize,
    ) -> Result<Rendered<I>, Error> {
        let number = encoder.vocabulary().len().max(self.tokens(Some(ids)).num_ids());
        if number > I::LIMIT {
            return Err(Error::TooManyTokens { number, limit: I::LIMIT });
        }
        let render = |block| self.render_block(encoder, ids, needles, documents, block);
        let blocks = in_threads(documents.blocks(threads), render);
        let mut rendered = Rendered { offsets: vec![0], ..empty() };
        for block in blocks {
            rendered.append(block?);
        }
        Ok(rendered)
    }

    fn render_block<I: TokenId>(
        &self,
        encoder: &Encoder,
        ids: &SpecialIds,
        needles: &Needles,
        documents: Documents<'_>,
        range: Range<usize>,
    ) -> Result<Block<I>, Error> {
        let start = range.start;
        let composed = self.compose(documents, range, Some(ids));
        let in_batch = |error| match error {
            Error::Split { document, offset, reason } => {
                Error::Split { document: start + document, offset, reason }
            }
            other => other,
        };
        let sizes = sizes(&composed.composition, needles);
        let block = encoder.encode_composed(&composed.composition).map_err(in_batch)?;
        Ok(Block { start, encoded: block, declined: composed.declined, sizes })
    }
}

impl<I: TokenId> Rendered<I> {
    fn append(&mut self, block: Block<I>) {
        let Block { start, encoded, declined, sizes } = block;
        let mut end = self.ids.len();
        for length in encoded.lengths {
            end += length;
            self.offsets.push(number(end));
        }
        for mark in encoded.marks {
            self.images.push([start + mark.document, mark.start, mark.end].map(number));
        }
        append(&mut self.ids, encoded.ids);
        append(&mut self.labels, encoded.labels);
        self.declined.extend(declined.into_iter().map(number));
        self.sizes.extend(sizes);
    }
}

fn empty<I>() -> Rendered<I> {
    Rendered {
        ids: Vec::new(),
        labels: Vec::new(),
        offsets: Vec::new(),
        declined: Vec::new(),
        images: Vec::new(),
        sizes: Vec::new(),
    }
}

/// Puts `more` behind `all`; nothing is copied for the first block.
fn append<T: Copy>(all: &mut Vec<T>, more: Vec<T>) {
    if all.is_empty() {
        *all = more;
    } else {
        all.extend_from_slice(&more);
    }
}

/// For each document: bytes of its texts, and occurrences of needles in them.
fn sizes(composition: &Composition, needles: &Needles) -> Vec<[i64; 2]> {
    let mut first = 0;
    let ends = composition.ends.iter();
    ends.map(|&end| {
        let parts = &composition.parts[first..end];
        first = end;
        parts.iter().filter_map(|part| text_of(composition, part)).fold([0, 0], |sizes, text| {
            let seen = i64::try_from(needles.count(text)).expect("memory is below 2**63 bytes");
            [sizes[0] + number(text.len()), sizes[1] + seen]
        })
    })
    .collect()
}

fn text_of<'c>(composition: &'c Composition, part: &Part) -> Option<&'c [u8]> {
    match part.stretch {
        Stretch::Text { start, end } => Some(&composition.data[start..end]),
        Stretch::Special { .. } => None,
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).expect("memory is below 2**63 bytes")
}
