//! A table from pairs of ids to the id that they merge to.
//!
//! An id is greater than the ids of its parts. Therefore merging "the lowest first, the leftmost of
//! equal ones" is the same as applying the merges in their order, each from left to right, once.

#![expect(
    clippy::inline_always,
    reason = "kernels use the instructions of a level only if inlined"
)]

use std::hint::select_unpredictable;

use nanotok_memory as memory;
use rustc_hash::FxHashMap;

use crate::cpu::simd::prefetch;
use crate::{Error, Merge};

/// "These two do not merge", greater than every id.
pub(crate) const NO_MERGE: u32 = u32::MAX;

/// An id that is in no pair, if all ids are below it.
pub(crate) const NO_ID: u32 = (1 << ID_BITS) - 1;

/// Ids by their pair, and pairs by their id.
#[derive(Debug)]
pub(crate) struct MergeTable {
    of_bytes: Vec<u32>,
    others: Others,
    parts: Vec<Merge>,
}

/// Pairs with at least one id that is not a byte.
#[derive(Debug)]
enum Others {
    Packed(Packed),
    /// For ids that do not fit the other table.
    Wide(FxHashMap<Merge, u32>),
}

impl MergeTable {
    /// Merge k makes id 256 + k.
    ///
    /// # Errors
    ///
    /// Fails if a pair is merged twice.
    pub(crate) fn new(merges: &[Merge]) -> Result<Self, Error> {
        let mut of_bytes = vec![NO_MERGE; 1 << 16];
        let mut others = Others::for_merges(merges.len());
        for (&pair, id) in merges.iter().zip(256..) {
            let known = if let (left @ 0..256, right @ 0..256) = pair {
                let known = &mut of_bytes[(left << 8 | right) as usize];
                std::mem::replace(known, (*known).min(id))
            } else {
                others.insert(pair, id)
            };
            if known != NO_MERGE {
                let (merge, first) = (id as usize - 256, known as usize - 256);
                return Err(Error::RepeatedMerge { merge, first });
            }
        }
        Ok(Self { of_bytes, others, parts: memory::copied(merges) })
    }

    /// The id that two ids merge to, or `NO_MERGE`.
    #[inline]
    pub(crate) fn get(&self, left: u32, right: u32) -> u32 {
        if left < 256 && right < 256 {
            return self.of_bytes[(left << 8 | right) as usize];
        }
        match &self.others {
            Others::Packed(packed) => packed.get(left, right),
            Others::Wide(map) => map.get(&(left, right)).copied().unwrap_or(NO_MERGE),
        }
    }

    /// Writes to `merged` what all adjacent pairs of `ids` merge to.
    pub(crate) fn of_pairs(&self, ids: &[u32], merged: &mut Vec<u32>) {
        merged.clear();
        memory::reserve(merged, ids.len());
        merged.extend(ids.windows(2).map(|pair| self.get(pair[0], pair[1])));
    }

    /// The id that two ids merge to, of which at least one is not a byte, or `NO_MERGE`.
    #[inline(always)]
    pub(crate) fn of_new(&self, left: u32, right: u32) -> u32 {
        match &self.others {
            Others::Packed(packed) => packed.get(left, right),
            Others::Wide(map) => map.get(&(left, right)).copied().unwrap_or(NO_MERGE),
        }
    }

    /// Whether no merge below `limit` joins the end of `left` and the start of `right` when their
    /// bytes are merged side by side. Both must be the result of merging their own bytes.
    ///
    /// The merges are undone in reverse order: the later of the two ids is replaced by its part
    /// that touches the other one. Of two equal ids the right one was made later. A merge across
    /// the border would have come before the undone one, or, if that is to the right, could have
    /// been the same merge.
    ///
    /// Time: the depth of the two ids.
    #[inline]
    pub(crate) fn stay_apart(&self, mut left: u32, mut right: u32, mut limit: u32) -> bool {
        loop {
            if self.get(left, right) < limit {
                return false;
            }
            let later = left.max(right);
            if later < 256 {
                return true;
            }
            // Without a branch, since it would be unpredictable.
            let (first, second) = self.parts[later as usize - 256];
            let is_left = left > right;
            limit = select_unpredictable(is_left, left, right.wrapping_add(1));
            right = select_unpredictable(is_left, right, first);
            left = select_unpredictable(is_left, second, left);
        }
    }

    /// Whether each id is the result of merging its own bytes: its parts are, and stay apart until
    /// it is made.
    pub(crate) fn reachable(&self) -> Vec<bool> {
        let mut reachable = memory::with_capacity(256 + self.parts.len());
        reachable.resize(256, true);
        for (&(left, right), id) in self.parts.iter().zip(256..) {
            let parts = reachable[left as usize] && reachable[right as usize];
            reachable.push(parts && self.stay_apart(left, right, id));
        }
        reachable
    }
}

impl Others {
    fn for_merges(number: usize) -> Self {
        if number + 256 <= 1 << ID_BITS {
            Self::Packed(Packed::for_merges(number))
        } else {
            memory::check_room::<[u32; 4]>(2 * number);
            Self::Wide(FxHashMap::default())
        }
    }

    /// Inserts a pair, and returns its previous id.
    fn insert(&mut self, pair: Merge, id: u32) -> u32 {
        match self {
            Self::Packed(packed) => packed.insert(pair, id),
            Self::Wide(map) => map.insert(pair, id).unwrap_or(NO_MERGE),
        }
    }
}

/// Three ids fit 64 bits.
const ID_BITS: u32 = 21;

/// A pair and its id in eight bytes, in a table that is at most half full and fits the cache of a
/// core. Most pairs do not merge, which one bit per hash decides faster.
#[derive(Debug)]
pub(crate) struct Packed {
    slots: Vec<u64>,
    maybe: Vec<u64>,
}

/// No pair; the highest bits of a pair are zero.
const EMPTY: u64 = u64::MAX;

impl Packed {
    /// An empty table with room for `number` pairs of ids below `NO_ID`.
    pub(crate) fn for_merges(number: usize) -> Self {
        let places = (number * 2).next_power_of_two().max(64);
        Self { slots: memory::filled(EMPTY, places), maybe: memory::zeros(places / 8) }
    }

    /// The id of a pair, or `NO_MERGE`.
    #[inline]
    pub(crate) fn get(&self, left: u32, right: u32) -> u32 {
        let (key, hash) = key_of(left, right);
        if !self.is_marked(hash) {
            return NO_MERGE;
        }
        let found = self.slots[self.find(key, hash)];
        if found == EMPTY { NO_MERGE } else { id_of(found) }
    }

    /// Whether the pair may be in the table: true for all that are, and for few others. Prefetches
    /// its slot.
    #[inline]
    pub(crate) fn may_have(&self, left: u32, right: u32) -> bool {
        let (_, hash) = key_of(left, right);
        prefetch(&self.slots, self.home(hash));
        self.is_marked(hash)
    }

    /// Inserts a pair, and returns its previous id.
    pub(crate) fn insert(&mut self, (left, right): Merge, id: u32) -> u32 {
        let (key, hash) = key_of(left, right);
        let (word, bit) = self.bit(hash);
        self.maybe[word] |= bit;
        let place = self.find(key, hash);
        let found = std::mem::replace(&mut self.slots[place], key << ID_BITS | u64::from(id));
        if found == EMPTY { NO_MERGE } else { id_of(found) }
    }

    /// The slot of `key`, or the slot where it belongs.
    #[inline]
    fn find(&self, key: u64, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut place = self.home(hash);
        while self.slots[place] != EMPTY && self.slots[place] >> ID_BITS != key {
            place = (place + 1) & mask;
        }
        place
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.slots.len() - 1)
    }

    /// Whether a pair with this hash may be in the table.
    #[inline]
    fn is_marked(&self, hash: u64) -> bool {
        let (word, bit) = self.bit(hash);
        self.maybe[word] & bit != 0
    }

    #[inline]
    fn bit(&self, hash: u64) -> (usize, u64) {
        ((hash >> 38) as usize & (self.maybe.len() - 1), 1 << (hash >> 32 & 63))
    }
}

#[inline]
fn key_of(left: u32, right: u32) -> (u64, u64) {
    let key = u64::from(left) << ID_BITS | u64::from(right);
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (key, hash ^ hash >> 29)
}

#[inline]
fn id_of(slot: u64) -> u32 {
    (slot & ((1 << ID_BITS) - 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found_in_either_table() {
        let merges: Vec<Merge> = (0..2000).map(|id| (id % 900 * (id % 2), id)).collect();
        let table = MergeTable::new(&merges).unwrap();
        let mut wide = Others::Wide(FxHashMap::default());
        for (&pair, id) in merges.iter().zip(256..) {
            assert_eq!(wide.insert(pair, id), NO_MERGE);
            assert_eq!(table.get(pair.0, pair.1), id);
            assert_eq!(table.get(pair.1 + 3000, pair.0), NO_MERGE);
        }
        assert_eq!(wide.insert(merges[700], 5), 956);
    }
}
