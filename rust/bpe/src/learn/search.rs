//! Counts all pairs of a text again to find the best ones, with a part of the pairs in memory at a
//! time.

use std::cmp::Reverse;
use std::hash::BuildHasher;

use nanotok_memory as memory;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::learn::rank::{Found, Rank, lowest};
use crate::learn::rewrite::Id;
use crate::learn::symbols::Symbols;
use crate::{Error, Merge};

/// A search through symbols whose ids take one slot each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search<'s, I> {
    pub(super) symbols: &'s Symbols<I>,
    /// Approximate number of pairs that are counted at a time; text has far fewer pairs than
    /// places.
    pub(super) room: usize,
}

impl<I: Id> Search<'_, I> {
    /// The best `most` pairs that can be merged and occur at least `floor` times, in any order, and
    /// the lowest rank of which all pairs are included.
    ///
    /// # Errors
    ///
    /// Fails if the count of a pair exceeds `u64::MAX`.
    pub(super) fn best(
        &self,
        most: usize,
        floor: u64,
        may_merge: impl Fn(Merge) -> bool,
    ) -> Result<(Vec<Found>, Rank), Error> {
        let parts = self.symbols.places().len().div_ceil(self.room).max(1);
        let mut last = lowest(floor);
        let mut best: Vec<Found> = Vec::new();
        for part in 0..parts {
            let found = self.count(|pair| parts == 1 || part_of(pair, parts) == part)?;
            let is_good = |found: &Found| found.rank() >= last && may_merge(found.pair);
            best.extend(found.into_iter().filter(is_good));
            if best.len() > most {
                best.select_nth_unstable_by_key(most - 1, |found| Reverse(found.rank()));
                best.truncate(most);
                last = best[most - 1].rank();
            }
        }
        Ok((best, last))
    }

    /// The counts of the pairs of a part.
    fn count(&self, belongs: impl Fn(Merge) -> bool) -> Result<Vec<Found>, Error> {
        let mut index: FxHashMap<Merge, u32> = FxHashMap::default();
        let mut all: Vec<Found> = Vec::new();
        let pairs = self.symbols.pairs(self.symbols.places());
        for (pair, _, count) in pairs.filter(|&(pair, _, _)| belongs(pair)) {
            let next = u32::try_from(all.len()).expect("no more pairs than places");
            memory::room_for_one(&mut index);
            let number = *index.entry(pair).or_insert(next);
            if number == next {
                memory::push(&mut all, Found { pair, count: 0, number: 0 });
            }
            let found = &mut all[number as usize];
            let (left, right) = pair;
            let overflow = Error::PairCountOverflow { left, right };
            found.count = found.count.checked_add(count).ok_or(overflow)?;
            found.number += 1;
        }
        Ok(all)
    }
}

/// Uses other bits than the hash table of the pairs.
fn part_of(pair: Merge, parts: usize) -> usize {
    let bits = FxBuildHasher.hash_one(pair) >> 24 & 0xffff;
    (usize::try_from(bits).expect("16 bits") * parts) >> 16
}
