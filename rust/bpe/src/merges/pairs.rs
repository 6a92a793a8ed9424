//! Pairs of neighbours: how often each occurs, where its places are, and which is the best. Takes counts,
//! keeps them in order. Knows neither spans nor when to stop.
//!
//! Only pairs that occur at least a certain number of times are held. The count of a pair never rises once
//! the younger of its ids has been made, so the best pair is among those held, as long as one of them still
//! occurs that often. Most pairs are rare and never merged, and this way they cost nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use rustc_hash::FxHashMap;

use crate::Merge;
use crate::merges::rows::{Row, Rows};

/// The pair to merge next, taken out of the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Best {
    pub(super) pair: Merge,
    pub(super) count: u64,
    pub(super) row: Row,
}

/// A pair and how often it occurs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) pair: Merge,
    /// Times in the text.
    pub(super) count: u64,
    /// Places.
    pub(super) number: u32,
}

/// All pairs that occur often enough.
#[derive(Debug)]
pub(super) struct Pairs {
    /// Where each pair is among `held`.
    index: FxHashMap<Merge, u32>,
    held: Vec<Held>,
    /// Those of `held` that are not in use.
    free: Vec<u32>,
    /// May hold counts that are too high, since those of pairs fall; never too low ones.
    heap: BinaryHeap<(u64, Reverse<Merge>)>,
    /// Pairs that occur less often are not held.
    least: u64,
    /// Bytes of each id.
    lengths: Vec<usize>,
    max_token_bytes: usize,
}

/// A pair, its exact count, or 0 if this is not in use, and its places.
#[derive(Debug, Clone, Copy)]
struct Held {
    pair: Merge,
    count: u64,
    row: Row,
}

impl Pairs {
    /// Holds none, and none that becomes longer than this.
    pub(super) fn new(max_token_bytes: usize) -> Self {
        Self {
            index: FxHashMap::default(),
            held: Vec::new(),
            free: Vec::new(),
            heap: BinaryHeap::new(),
            least: 1,
            lengths: vec![1; 256],
            max_token_bytes,
        }
    }

    /// From now on pairs are held that occur so often; those held before are forgotten.
    pub(super) fn restart(&mut self, least: u64) {
        self.index = FxHashMap::default();
        self.held = Vec::new();
        self.free = Vec::new();
        self.heap = BinaryHeap::new();
        self.least = least;
    }

    pub(super) fn least(&self) -> u64 {
        self.least
    }

    /// The pair becomes the next id.
    pub(super) fn add_id(&mut self, pair: Merge) {
        self.lengths.push(self.joined_length(pair));
    }

    fn joined_length(&self, (left, right): Merge) -> usize {
        self.lengths[left as usize].saturating_add(self.lengths[right as usize])
    }

    /// Whether the pair may be merged at all.
    pub(super) fn may_merge(&self, pair: Merge) -> bool {
        self.joined_length(pair) <= self.max_token_bytes
    }

    /// Whether the pair is to be held.
    pub(super) fn is_wanted(&self, found: &Found) -> bool {
        found.count >= self.least && self.may_merge(found.pair)
    }

    pub(super) fn hold(&mut self, found: &Found, start: usize) {
        let Found { pair, count, number } = *found;
        let held = Held { pair, count, row: Row { start, number } };
        let place = if let Some(place) = self.free.pop() {
            self.held[place as usize] = held;
            place
        } else {
            self.held.push(held);
            u32::try_from(self.held.len() - 1).expect("no more pairs than places")
        };
        self.index.insert(pair, place);
        self.heap.push((count, Reverse(pair)));
    }

    /// Where the pair is held, if it is: pairs keep this while they are held.
    pub(super) fn place_of(&self, pair: Merge) -> Option<usize> {
        self.index.get(&pair).map(|&place| place as usize)
    }

    /// Where the places of each pair start, by where the pair is held.
    pub(super) fn starts(&self) -> Vec<usize> {
        self.held.iter().map(|held| held.row.start).collect()
    }

    /// Takes out the pair with the highest count, among equals the smallest.
    pub(super) fn pop_best(&mut self) -> Option<Best> {
        loop {
            let mut top = self.heap.peek_mut()?;
            let (count, Reverse(pair)) = *top;
            if count < self.least {
                return None;
            }
            let Some(&place) = self.index.get(&pair) else {
                PeekMut::pop(top);
                continue;
            };
            let held = self.held[place as usize];
            if held.count < count {
                top.0 = held.count;
            } else {
                PeekMut::pop(top);
                self.release(place);
                return Some(Best { pair, count, row: held.row });
            }
        }
    }

    /// The pair occurs so much less often, as `best` was merged.
    pub(super) fn reduce(&mut self, pair: Merge, count: u64, best: Merge) {
        if pair == best {
            return; // none is left of it in any case
        }
        let Some(&place) = self.index.get(&pair) else { return };
        let held = &mut self.held[place as usize];
        let left = held.count.checked_sub(count);
        held.count = left.expect("a pair is not merged away more often than it stands there");
        if held.count == 0 {
            self.release(place);
        }
    }

    fn release(&mut self, place: u32) {
        let held = &mut self.held[place as usize];
        held.count = 0;
        self.index.remove(&held.pair);
        self.free.push(place);
    }

    /// Moves the rows of all pairs, and `other`, together, without places that hold their pair no more, and
    /// without pairs that became too rare.
    pub(super) fn compact(
        &mut self,
        rows: &mut Rows,
        other: &mut Row,
        holds: impl Fn(Merge, u32, u32) -> bool,
    ) {
        for place in 0..self.held.len() {
            if (1..self.least).contains(&self.held[place].count) {
                self.release(u32::try_from(place).expect("no more pairs than places"));
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
