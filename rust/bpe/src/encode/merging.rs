//! The order in which a rule merges some bytes: the pair of the lowest rank first, the leftmost of
//! equal ones. Plain and in time n log n, for deriving merges from other vocabularies.
//!
//! Such derivations use this fact. Consider the moment at which two neighbors x and y are merged in
//! any text. Until then no merge has crossed the start of x or the end of y, so those within x and
//! y depended on the bytes of x and y alone, and were the same, in the same order, as if there were
//! no other bytes: the first of all pairs is also the first of those within x and y. Therefore x
//! and y are ever merged if and only if this is the last step of merging the bytes of both on their
//! own.
//!
//! The last merge can have a lower rank than one before it, which made a part of it: then its rank
//! says nothing about the order. The *effective* rank of a token is the highest rank of all merges
//! that make it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nanotok_memory as memory;

use crate::Merge;
use crate::encode::linked::Linked;

/// What merging some bytes leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Merged {
    /// The remaining symbols.
    pub(super) symbols: Vec<u32>,
    /// The last merge.
    last: Option<Step>,
}

/// A merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// Its rank.
    pub(super) rank: u32,
    /// The symbols that were merged.
    pub(super) parts: Merge,
}

impl Merged {
    /// The last merge, if it made one symbol of all bytes.
    pub(super) fn whole(&self) -> Option<Step> {
        self.last.filter(|_| self.symbols.len() == 1)
    }
}

/// Merges `symbols`, fewer than 2**32 - 1. `known` returns for a position and the pair that begins
/// there its rank and the symbol that it becomes, if it merges.
pub(super) fn merge(symbols: &[u32], known: impl Fn(usize, Merge) -> Option<(u32, u32)>) -> Merged {
    let mut linked = Linked::new(symbols);
    let at_pair = |linked: &Linked, at: u32| known(at as usize, linked.pair(at)?);
    let pairs = symbols.windows(2).enumerate();
    let mut heap: BinaryHeap<Reverse<(u32, u32, u32)>> = pairs
        .zip(0..)
        .filter_map(|((place, pair), at)| {
            let (rank, symbol) = known(place, (pair[0], pair[1]))?;
            Some(Reverse((rank, at, symbol)))
        })
        .collect();
    let mut last = None;
    while let Some(Reverse((rank, at, symbol))) = heap.pop() {
        // A pair in the heap can be outdated.
        if at_pair(&linked, at) != Some((rank, symbol)) {
            continue;
        }
        let Some(parts) = linked.pair(at) else { continue };
        last = Some(Step { rank, parts });
        linked.merge(at, symbol);
        for left in [linked.before(at), Some(at)].into_iter().flatten() {
            if let Some((rank, symbol)) = at_pair(&linked, left) {
                heap.push(Reverse((rank, left, symbol)));
            }
        }
    }
    Merged { symbols: linked.ids().collect(), last }
}

/// A merge that a rule applies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Applied {
    /// Its rank, and the symbols of its parts.
    pub(super) step: Step,
    /// The symbol that it makes.
    pub(super) symbol: u32,
    /// The number of its bytes.
    pub(super) length: usize,
}

/// The merges in the order of their effective ranks, and of equal ones in that of their lengths, so
/// that parts precede; and the rank of each. `internal` has the internal id of each symbol that is a
/// byte, and gets those of the others.
pub(super) fn in_order(mut applied: Vec<Applied>, internal: &mut [u32]) -> (Vec<Merge>, Vec<u32>) {
    let mut effective: Vec<u32> = memory::filled(0, internal.len());
    applied.sort_unstable_by_key(|it| it.length);
    for Applied { step: Step { rank, parts: (left, right) }, symbol, .. } in &applied {
        let parts = effective[*left as usize].max(effective[*right as usize]);
        effective[*symbol as usize] = parts.max(*rank);
    }
    applied.sort_unstable_by_key(|it| (effective[it.symbol as usize], it.length));
    let (mut merges, mut ranks) =
        (memory::with_capacity(applied.len()), memory::with_capacity(applied.len()));
    for (Applied { step, symbol, .. }, id) in applied.iter().zip(256..) {
        let (left, right) = step.parts;
        merges.push((internal[left as usize], internal[right as usize]));
        ranks.push(step.rank);
        internal[*symbol as usize] = id;
    }
    (merges, ranks)
}
