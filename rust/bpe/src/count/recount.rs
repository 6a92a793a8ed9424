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

use crate::Splitter;
use crate::encode::{Encoder, Out, Worker};
use crate::split::Stuck;

/// Bytes of an id.
const ID_BYTES: usize = size_of::<u32>();

/// Number of items from which on they are counted.
const MAX_ITEMS: usize = 256;

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

/// Counts the items of spans.
#[derive(Debug)]
pub(crate) struct Recounter {
    recount: Recount,
    worker: Worker,
    out: Out<u32>,
    items: Items,
}

/// Items, back to back.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) data: Vec<u8>,
    /// The end of each item.
    pub(crate) ends: Vec<usize>,
}

impl Recounter {
    /// Counts the items of spans of `splitter`.
    pub(crate) fn new(recount: Recount, splitter: Splitter) -> Self {
        let worker = recount.encoder().worker(splitter);
        Self { recount, worker, out: Out::with_room(0), items: Items::default() }
    }

    /// Calls `count` with some items of the text `data[start..end]` until it got all, and returns
    /// the number of gaps.
    pub(crate) fn visit(
        &mut self,
        data: &[u8],
        place: (usize, usize),
        mut count: impl FnMut(&Items),
    ) -> Result<u64, Stuck> {
        let Self { recount, worker, out, items } = self;
        items.clear();
        out.truncate(0);
        let visit_span = |ids: &[u32]| {
            recount.add(ids, items);
            if items.ends.len() >= MAX_ITEMS {
                count(items);
                items.clear();
            }
        };
        let mut encoding = recount.encoder().by_span(worker, data, out, visit_span);
        let gaps = encoding.add(place)?;
        encoding.finish();
        count(items);
        Ok(gaps)
    }
}

impl Recount {
    fn encoder(&self) -> &Encoder {
        match self {
            Self::Pairs(encoder) | Self::Segments(encoder, _) => encoder,
        }
    }

    /// Appends the items of a span.
    fn add(&self, ids: &[u32], items: &mut Items) {
        match self {
            Self::Pairs(_) => ids.windows(2).for_each(|pair| items.push(pair)),
            Self::Segments(_, frequent) => ids
                .chunk_by(|&left, &right| frequent.contains(left, right))
                .filter(|segment| segment.len() > 1)
                .for_each(|segment| items.push(segment)),
        }
    }
}

impl Items {
    fn push(&mut self, ids: &[u32]) {
        memory::reserve(&mut self.data, ids.len() * ID_BYTES);
        self.data.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        memory::push(&mut self.ends, self.data.len());
    }

    fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
    }
}
