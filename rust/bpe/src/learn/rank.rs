//! Counted pairs, and their order.

use std::cmp::Reverse;

use crate::Merge;

/// The order of merging: by count, of equal counts the smaller pair.
pub(super) type Rank = (u64, Reverse<Merge>);

/// The rank of a pair.
pub(super) fn rank(pair: Merge, count: u64) -> Rank {
    (count, Reverse(pair))
}

/// The lowest rank of this count.
pub(super) fn lowest(count: u64) -> Rank {
    rank((u32::MAX, u32::MAX), count)
}

/// A pair with its occurrences.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) pair: Merge,
    /// Occurrences in the text.
    pub(super) count: u64,
    /// Number of places.
    pub(super) number: u32,
}

impl Found {
    pub(super) fn rank(&self) -> Rank {
        rank(self.pair, self.count)
    }
}
