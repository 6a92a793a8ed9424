//! Counting for tokens of several words: of spans as ids of a tokenizer, pairs of neighbors, or the
//! segments between pairs that are rare.
//!
//! Learning tokens of several words from segments is exact for every merge whose count is at least
//! the number of occurrences from which on a pair is frequent. The bytes of a token have one sequence
//! of ids, so each occurrence of a later pair (x, y) has the same pair of neighbors at its boundary,
//! the last id of x and the first id of y, and that pair occurs at least as often. No occurrence of a
//! frequent pair is lost by cutting elsewhere.

use std::sync::Arc;

use nanotok_memory as memory;
use rustc_hash::FxHashSet;

use crate::encode::{Encoder, Scratch};

/// Bytes of an id.
const ID_BYTES: usize = size_of::<u32>();

/// What is counted of spans.
#[derive(Debug, Clone)]
pub enum Recount {
    /// Every pair of adjacent ids of a span, as eight bytes: both ids, the lowest byte first.
    Pairs(Arc<Encoder>),
    /// The ids of a span between pairs that are not in the set, two or more of them, with four bytes
    /// each, the lowest first.
    Segments(Arc<Encoder>, Arc<FrequentPairs>),
}

/// Pairs of ids.
#[derive(Debug, Default)]
pub struct FrequentPairs(FxHashSet<u64>);

impl FrequentPairs {
    /// A set of pairs, of which each number has the left id in its lower half.
    pub fn new(pairs: &[u64]) -> Self {
        let mut set = FxHashSet::default();
        if set.try_reserve(pairs.len()).is_err() {
            memory::fail::<u64>(pairs.len());
        }
        set.extend(pairs);
        Self(set)
    }

    fn contains(&self, left: u32, right: u32) -> bool {
        self.0.contains(&(u64::from(right) << 32 | u64::from(left)))
    }
}

/// The items of spans, back to back, until they are counted.
#[derive(Debug)]
pub(crate) struct Items {
    recount: Recount,
    scratch: Scratch,
    pub(crate) data: Vec<u8>,
    /// The end of each item.
    pub(crate) ends: Vec<usize>,
}

impl Items {
    pub(crate) fn new(recount: Recount) -> Self {
        Self { recount, scratch: Scratch::default(), data: Vec::new(), ends: Vec::new() }
    }

    /// Appends the items of a span, which must not be empty.
    pub(crate) fn add(&mut self, span: &[u8]) {
        let Self { recount, scratch, data, ends } = self;
        let mut push = |ids: &[u32]| {
            memory::reserve(data, ids.len() * ID_BYTES);
            data.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
            memory::push(ends, data.len());
        };
        match recount {
            Recount::Pairs(encoder) => {
                encoder.span(span, scratch).windows(2).for_each(push);
            }
            Recount::Segments(encoder, frequent) => {
                let segments = encoder
                    .span(span, scratch)
                    .chunk_by(|&left, &right| frequent.contains(left, right));
                segments.filter(|ids| ids.len() > 1).for_each(&mut push);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
    }
}
