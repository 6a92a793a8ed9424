//! Pairs of neighbors with their counts and places, and the best of them.
//!
//! Only pairs of at least a certain rank are held; a rank is a count and, among very many pairs
//! with the same count, a pair. The count of a pair never increases after the younger of its ids
//! has been made, so the best pair is held as long as one held pair has at least that rank. Most
//! pairs are rare and never merged; they are not stored.

use std::cmp::Reverse;
use std::hash::BuildHasher;
use std::mem;

use hashbrown::HashTable;
use nanotok_memory as memory;
use rustc_hash::FxBuildHasher;

use crate::Merge;
use crate::learn::queue::Queue;
use crate::learn::rank::{Found, Rank, lowest, rank};
use crate::learn::rows::{Row, Rows};
use crate::learn::rules::Rules;

/// The next pair to merge, removed from the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Best {
    pub(super) pair: Merge,
    pub(super) count: u64,
    pub(super) row: Row,
}

/// All pairs that occur often enough.
#[derive(Debug)]
pub(super) struct Pairs {
    /// The index of each pair in `held`.
    index: HashTable<u32>,
    held: Vec<Held>,
    /// Unused elements of `held`.
    free: Vec<u32>,
    /// Can contain counts that are too high, since counts decrease, and removed pairs; never counts
    /// that are too low.
    queue: Queue,
    /// Pairs of lower rank are not held.
    last: Rank,
    rules: Rules,
}

/// A pair, its exact count, or 0 if the element is unused, and its places.
#[derive(Debug, Clone, Copy)]
struct Held {
    pair: Merge,
    count: u64,
    row: Row,
}

impl Held {
    fn rank(&self) -> Rank {
        rank(self.pair, self.count)
    }
}

impl Pairs {
    /// Holds no pairs.
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            index: HashTable::new(),
            held: Vec::new(),
            free: Vec::new(),
            queue: Queue::default(),
            last: lowest(u64::MAX),
            rules,
        }
    }

    /// Removes all pairs.
    pub(super) fn clear(&mut self) {
        self.index = HashTable::new();
        self.held = Vec::new();
        self.free = Vec::new();
        self.queue = Queue::default();
    }

    /// Holds those of `found` with at least this rank, with their places back to back, and sets the
    /// rank for later pairs. No pair was held before. Returns the number of all places.
    pub(super) fn begin(
        &mut self,
        last: Rank,
        found: impl Iterator<Item = Found> + Clone,
    ) -> usize {
        self.last = last;
        let wanted = found.filter(|found| self.is_wanted(found));
        let number = wanted.clone().count();
        let mut held = memory::with_capacity(number);
        let mut start = 0;
        for Found { pair, count, number } in wanted {
            held.push(Held { pair, count, row: Row { start, number } });
            start += number as usize;
        }
        self.hold_all(held);
        start
    }

    /// Holds only these pairs.
    fn hold_all(&mut self, held: Vec<Held>) {
        self.clear();
        let reserved = self.index.try_reserve(held.len(), |_| unreachable!("the index is empty"));
        if reserved.is_err() {
            memory::fail::<u64>(held.len());
        }
        self.queue = Queue::new(held.iter().map(|held| (held.pair, held.count)));
        self.held = held;
        for place in 0..as_place(self.held.len()) {
            self.insert(place);
        }
    }

    /// If more than twice `most` pairs are held, keeps only the `most` best ones.
    pub(super) fn limit(&mut self, most: usize) {
        if self.held.len() - self.free.len() <= 2 * most {
            return;
        }
        let mut held = mem::take(&mut self.held);
        held.retain(|held| held.count > 0);
        held.select_nth_unstable_by_key(most - 1, |held| Reverse(held.rank()));
        self.last = held[most - 1].rank();
        held.truncate(most);
        held.shrink_to_fit();
        self.hold_all(held);
    }

    /// Pairs of lower rank are not held.
    pub(super) fn last(&self) -> Rank {
        self.last
    }

    /// The rules for new tokens.
    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Adds the id that a pair becomes.
    pub(super) fn add_id(&mut self, pair: Merge) {
        self.rules.add(pair);
    }

    /// Whether the pair can be merged at all.
    pub(super) fn may_merge(&self, pair: Merge) -> bool {
        self.rules.may_merge(pair)
    }

    /// Whether the pair should be held.
    pub(super) fn is_wanted(&self, found: &Found) -> bool {
        found.rank() >= self.last && self.may_merge(found.pair)
    }

    /// Holds one more pair, whose places begin at `start`.
    pub(super) fn hold(&mut self, found: &Found, start: usize) {
        let Found { pair, count, number } = *found;
        let held = Held { pair, count, row: Row { start, number } };
        let place = if let Some(place) = self.free.pop() {
            self.held[place as usize] = held;
            place
        } else {
            memory::push(&mut self.held, held);
            as_place(self.held.len() - 1)
        };
        self.insert(place);
        self.queue.push(pair, count);
    }

    fn insert(&mut self, place: u32) {
        let hash = |&place: &u32| hash(self.held[place as usize].pair);
        self.index.insert_unique(hash(&place), place, hash);
    }

    /// The index of a held pair, which is constant while the pair is held.
    #[inline]
    pub(super) fn place_of(&self, pair: Merge) -> Option<usize> {
        let is_it = |&place: &u32| self.held[place as usize].pair == pair;
        self.index.find(hash(pair), is_it).map(|&place| place as usize)
    }

    /// Each pair with the start of its places, in the order of indexes.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Merge, usize)> {
        self.held.iter().map(|held| (held.pair, held.row.start))
    }

    /// Removes and returns the pair with the highest count, of equal counts the smallest.
    pub(super) fn pop_best(&mut self) -> Option<Best> {
        loop {
            let (pair, count) = self.queue.pop(self.last)?;
            let Some(place) = self.place_of(pair) else { continue };
            let held = self.held[place];
            if held.count == count {
                self.release(place);
                return Some(Best { pair, count, row: held.row });
            }
            self.queue.push(pair, held.count);
        }
    }

    /// Reduces the count of a pair, since `best` was merged.
    pub(super) fn reduce(&mut self, pair: Merge, count: u64, best: Merge) {
        if pair == best {
            return; // none is left of it in any case
        }
        let Some(place) = self.place_of(pair) else { return };
        let held = &mut self.held[place];
        let left = held.count.checked_sub(count);
        held.count = left.expect("a pair is removed at most as often as it occurs");
        if held.count == 0 {
            self.release(place);
        }
    }

    fn release(&mut self, place: usize) {
        let number = as_place(place);
        let found = self.index.find_entry(hash(self.held[place].pair), |&other| other == number);
        found.expect("what is held is in the index").remove();
        self.held[place].count = 0;
        memory::push(&mut self.free, number);
    }

    /// Moves the rows of all pairs, and `other`, together, without places that no longer hold their
    /// pair, and without pairs that became too rare.
    pub(super) fn compact(
        &mut self,
        rows: &mut Rows,
        other: &mut Row,
        holds: impl Fn(Merge, u32, u32) -> bool,
    ) {
        for place in 0..self.held.len() {
            let held = &self.held[place];
            if held.count > 0 && held.rank() < self.last {
                self.release(place);
            }
        }
        let in_use = self.held.iter_mut().filter(|held| held.count > 0);
        let mut all: Vec<_> = in_use.map(|held| (&mut held.row, Some(held.pair))).collect();
        all.push((other, None));
        all.sort_unstable_by_key(|(row, _)| row.start);
        let (all, pairs): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        rows.compact(all.into_iter(), |number, place, later| {
            pairs[number].is_none_or(|pair| holds(pair, place, later))
        });
    }
}

fn hash((left, right): Merge) -> u64 {
    FxBuildHasher.hash_one(u64::from(left) << 32 | u64::from(right))
}

fn as_place(number: usize) -> u32 {
    u32::try_from(number).expect("no more pairs than places of pairs")
}
