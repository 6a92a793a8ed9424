//! Which two ids merge, and to what. Takes merges, answers for pairs. Knows neither bytes nor spans.
//!
//! An id is above the ids it is made of. So to merge "the lowest first, the leftmost of equals" is to
//! take the merges in their order, each from left to right, once.

use rustc_hash::FxHashMap;

use crate::{Error, Merge};

/// "These two do not merge", greater than every id.
pub(crate) const NO_MERGE: u32 = u32::MAX;

/// Ids by the pair they are made of, and the other way round.
#[derive(Debug)]
pub(crate) struct MergeTable {
    of_bytes: Vec<u32>,
    others: FxHashMap<Merge, u32>,
    /// A bit for each hash of a pair in `others`: most pairs do not merge, and this says so sooner.
    maybe: Vec<u64>,
    parts: Vec<Merge>,
}

impl MergeTable {
    /// Merge k makes id 256 + k.
    ///
    /// # Errors
    ///
    /// A pair that is merged twice.
    pub(crate) fn new(merges: &[Merge]) -> Result<Self, Error> {
        let mut table = Self {
            of_bytes: vec![NO_MERGE; 1 << 16],
            others: FxHashMap::default(),
            maybe: vec![0; (merges.len() / 4).next_power_of_two().max(2)],
            parts: merges.to_vec(),
        };
        for (&pair, id) in merges.iter().zip(256..) {
            let slot = if let (left @ 0..256, right @ 0..256) = pair {
                &mut table.of_bytes[(left << 8 | right) as usize]
            } else {
                let (word, bit) = place(pair, table.maybe.len());
                table.maybe[word] |= bit;
                table.others.entry(pair).or_insert(NO_MERGE)
            };
            if *slot != NO_MERGE {
                let (merge, first) = (id as usize - 256, *slot as usize - 256);
                return Err(Error::RepeatedMerge { merge, first });
            }
            *slot = id;
        }
        Ok(table)
    }

    /// What the two merge to, or `NO_MERGE`.
    #[inline]
    pub(crate) fn get(&self, left: u32, right: u32) -> u32 {
        if left < 256 && right < 256 {
            return self.of_bytes[(left << 8 | right) as usize];
        }
        let (word, bit) = place((left, right), self.maybe.len());
        if self.maybe[word] & bit == 0 {
            return NO_MERGE;
        }
        self.others.get(&(left, right)).copied().unwrap_or(NO_MERGE)
    }

    /// Whether no merge below `limit` takes the end of `left` together with the start of `right`,
    /// when their bytes are merged side by side. Both must be what their own bytes merge to.
    ///
    /// Goes back in time: to where the later of the two was made, which frees the part of it that
    /// touches the other. Of two equal ids the right one was made later. A merge across would have
    /// come before the one undone, or, if that lies to the right, could have been the same merge.
    ///
    /// Time: the depth of the two.
    #[inline]
    pub(crate) fn stay_apart(&self, mut left: u32, mut right: u32, mut limit: u32) -> bool {
        loop {
            if self.get(left, right) < limit {
                return false;
            }
            if left.max(right) < 256 {
                return true;
            }
            if left > right {
                limit = left;
                left = self.parts[left as usize - 256].1;
            } else {
                limit = right + 1;
                right = self.parts[right as usize - 256].0;
            }
        }
    }

    /// Whether each id is what its own bytes merge to: its parts are, and stay apart until it is made.
    pub(crate) fn reachable(&self) -> Vec<bool> {
        let mut reachable = vec![true; 256];
        for (&(left, right), id) in self.parts.iter().zip(256..) {
            let parts = reachable[left as usize] && reachable[right as usize];
            reachable.push(parts && self.stay_apart(left, right, id));
        }
        reachable
    }
}

/// Word and bit of a pair. There are at least 16 bits a merge.
#[expect(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
#[inline]
fn place((left, right): Merge, num_words: usize) -> (usize, u64) {
    let key = u64::from(left) << 32 | u64::from(right);
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ hash >> 32) as usize;
    (hash >> 6 & (num_words - 1), 1 << (hash & 63))
}
