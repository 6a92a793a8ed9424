//! Pairs of neighbours: how often each occurs, where, and which is the best. The learner's
//! index. Takes symbols, keeps itself exact through every merge. Does not know when to stop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::mem;

use rustc_hash::FxHashMap;

use crate::symbols::{Changes, Symbols};
use crate::{Error, Merge};

/// The pair to merge next, taken out of the index.
#[derive(Debug)]
pub(crate) struct Best {
    pub(crate) pair: Merge,
    pub(crate) count: u64,
    places: Vec<u32>,
}

/// All pairs with a count above zero.
///
/// The heap may hold counts that are too high, since those of old pairs fall; never too low ones.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    index: FxHashMap<Merge, u32>,
    slots: Vec<Pair>,
    heap: BinaryHeap<Candidate>,
    born: Born,
    max_token_bytes: usize,
}

/// A pair's exact count, and every place where it stands (and some where it stood), ascending.
#[derive(Debug, Default)]
struct Pair {
    count: u64,
    places: Vec<u32>,
}

/// Ordered by count, then by the smaller pair.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    count: u64,
    pair: Reverse<Merge>,
    slot: u32,
}

/// Neighbours of the id that is being made: no hashing while spans are rewritten.
#[derive(Debug, Default)]
struct Born {
    left: Neighbours,
    right: Neighbours,
}

#[derive(Debug, Default)]
struct Neighbours {
    by_id: Vec<Pair>,
    touched: Vec<u32>,
}

impl Pairs {
    /// Counts the pairs of bytes.
    pub(crate) fn new(symbols: &Symbols, max_token_bytes: usize) -> Result<Self, Error> {
        let mut bytes = byte_pairs(symbols);
        for ((left, right), place, count) in symbols.byte_pairs() {
            let added = bytes[(left << 8 | right) as usize].add(place, count);
            added.ok_or(Error::PairCountOverflow { left, right })?;
        }
        let mut pairs = Self { max_token_bytes, ..Self::default() };
        for (pair, key) in bytes.into_iter().zip(0..) {
            pairs.insert((key >> 8, key & 0xff), pair, symbols);
        }
        (0..256).for_each(|_| pairs.born.add_id());
        Ok(pairs)
    }

    /// Takes out the pair with the highest count, among equals the smallest.
    pub(crate) fn pop_best(&mut self) -> Option<Best> {
        loop {
            let mut top = self.heap.peek_mut()?;
            let found = &mut self.slots[top.slot as usize];
            if found.count == 0 {
                PeekMut::pop(top);
            } else if found.count < top.count {
                top.count = found.count;
            } else {
                let Pair { count, places } = mem::take(found);
                let Reverse(pair) = PeekMut::pop(top).pair;
                self.index.remove(&pair);
                return Some(Best { pair, count, places });
            }
        }
    }

    /// Replaces the best pair by `new` wherever it stands, and tells how often that is in the text.
    pub(crate) fn merge(&mut self, symbols: &mut Symbols, best: &Best, new: u32) -> u64 {
        let (a, b) = best.pair;
        self.born.add_id();
        let applied = symbols.merge(best.pair, &best.places, &mut self.born);
        // Where (a, b) follows (a, b), the first is told that (n, a) was born, the second that it
        // became (n, n).
        let again = self.born.left.by_id[new as usize].count;
        for (y, mut pair) in self.born.right.take() {
            self.reduce((b, y), pair.count, best.pair);
            if y == a {
                pair.take_away(again);
            }
            self.insert((new, y), pair, symbols);
        }
        for (x, pair) in self.born.left.take() {
            if x != new {
                self.reduce((x, a), pair.count, best.pair);
            }
            self.insert((x, new), pair, symbols);
        }
        applied
    }

    fn insert(&mut self, key: Merge, pair: Pair, symbols: &Symbols) {
        let bytes = symbols.length(key.0) + symbols.length(key.1);
        if pair.count == 0 || bytes > self.max_token_bytes {
            return;
        }
        let slot = u32::try_from(self.slots.len()).expect("fewer pairs than memory for 2**32");
        self.heap.push(Candidate { count: pair.count, pair: Reverse(key), slot });
        self.index.insert(key, slot);
        self.slots.push(pair);
    }

    fn reduce(&mut self, key: Merge, count: u64, best: Merge) {
        if key == best {
            return; // none is left of it in any case
        }
        let Some(&slot) = self.index.get(&key) else { return };
        let pair = &mut self.slots[slot as usize];
        pair.take_away(count);
        if pair.count == 0 {
            pair.places = Vec::new();
            self.index.remove(&key);
        }
    }
}

/// A pair for each two bytes, with room for all its places and no more: together they are as large as
/// the text itself.
fn byte_pairs(symbols: &Symbols) -> Vec<Pair> {
    let mut numbers = vec![0; 1 << 16];
    for ((left, right), _, _) in symbols.byte_pairs() {
        numbers[(left << 8 | right) as usize] += 1;
    }
    let pair = |number| Pair { count: 0, places: Vec::with_capacity(number) };
    numbers.into_iter().map(pair).collect()
}

impl Pair {
    fn add(&mut self, place: u32, count: u64) -> Option<()> {
        self.count = self.count.checked_add(count)?;
        self.places.push(place);
        Some(())
    }

    fn take_away(&mut self, count: u64) {
        let left = self.count.checked_sub(count);
        self.count = left.expect("a pair is not merged away more often than it stands there");
    }
}

impl Born {
    fn add_id(&mut self) {
        self.left.by_id.push(Pair::default());
        self.right.by_id.push(Pair::default());
    }
}

impl Changes for Born {
    fn left(&mut self, x: u32, place: u32, count: u64) {
        self.left.add(x, place, count);
    }

    fn right(&mut self, y: u32, place: u32, count: u64) {
        self.right.add(y, place, count);
    }
}

impl Neighbours {
    fn add(&mut self, id: u32, place: u32, count: u64) {
        let pair = &mut self.by_id[id as usize];
        if pair.count == 0 {
            self.touched.push(id);
        }
        pair.add(place, count)
            .expect("a pair of the new id is no more frequent than what it is made of");
    }

    fn take(&mut self) -> Vec<(u32, Pair)> {
        let touched = mem::take(&mut self.touched);
        touched.into_iter().map(|id| (id, mem::take(&mut self.by_id[id as usize]))).collect()
    }
}
