//! Spans as sequences of ids in which pairs are merged: the learner's text. Takes spans and counts, tells
//! where pairs stand.
//!
//! Spans lie back to back, one slot a byte, with an edge between them. A token of several slots keeps them,
//! and its id stands in the first and the last. So nothing moves while pairs are merged, neighbours are one
//! slot away, and a pair is known by its place: the slot where its right id begins.
//!
//! The two slots at a place hold the ids that meet there; once they are merged, they keep what was merged
//! there or become part of the new id. Since no pair is merged twice, one look at the two slots tells whether
//! a place that was once noted for a pair still holds it.

use std::ops::Range;

use crate::Merge;
use crate::cpu::simd::prefetch;
use crate::learn::array::Array;
use crate::learn::counts_at::Counts;
use crate::learn::rewrite::Id;

/// So many places before it is looked at, a place is asked for from memory.
pub(super) const AHEAD: usize = 24;

/// All spans of two or more ids.
#[derive(Debug)]
pub(super) struct Symbols<I> {
    pub(super) slots: Array<I>,
    /// Stands between two spans: a number that is no id.
    pub(super) edge: u32,
    /// Slots of each id.
    pub(super) widths: Vec<u32>,
    pub(super) counts: Counts,
}

impl<I: Id> Symbols<I> {
    /// Room for the spans of each count, an edge after each: counts, which fall, and their slots.
    pub(super) fn new(sizes: &[(u64, usize)], edge: u32) -> Self {
        let mut places = Counts::default();
        let mut end = 1;
        for &(count, slots) in sizes.iter().filter(|(_, slots)| *slots > 0) {
            places.begin(as_place(end), count);
            end += slots;
        }
        places.finish(as_place(end));
        let mut slots = Array::new(end);
        slots.set_len(end);
        slots[0] = I::narrow(edge);
        Self { slots, edge, widths: vec![1; 256], counts: places }
    }

    /// Every pair in these places, with its place and the count of its span; all ids take one slot.
    pub(super) fn pairs(&self, places: Range<u32>) -> impl Iterator<Item = (Merge, u32, u64)> {
        let edge = I::narrow(self.edge);
        let mut counts = self.counts.cursor();
        let slots = &self.slots[places.start as usize - 1..places.end as usize];
        let pairs = slots.windows(2).zip(places).filter(move |(pair, _)| !pair.contains(&edge));
        pairs.map(move |(pair, place)| ((pair[0].into(), pair[1].into()), place, counts.get(place)))
    }

    /// All places.
    pub(super) fn places(&self) -> Range<u32> {
        1..as_place(self.slots.len())
    }

    /// Bytes of all spans and their edges, as often as the spans occur; before anything is merged.
    pub(super) fn total(&self) -> u128 {
        self.counts.total()
    }

    /// Whether `pair` stands at `place`.
    #[inline]
    pub(super) fn holds(&self, pair: Merge, place: u32) -> bool {
        let at = place as usize;
        (self.slots[at - 1].into(), self.slots[at].into()) == pair
    }

    /// Prefetches a place from memory.
    #[inline]
    pub(super) fn prefetch(&self, place: u32) {
        prefetch(&self.slots, place as usize);
    }

    /// Assigns one slot to each id, and omits spans of one id.
    pub(super) fn compact(&mut self) {
        let old = std::mem::take(&mut self.counts);
        let mut cursor = old.cursor();
        let (mut from, mut to) = (1, 1);
        while from < self.slots.len() {
            let (begin, count) = (to, cursor.get(as_place(from)));
            loop {
                let id = self.slots[from].into();
                self.slots[to] = self.slots[from];
                to += 1;
                if id == self.edge {
                    break;
                }
                from += self.widths[id as usize] as usize;
            }
            from += 1;
            if to - begin <= 2 {
                to = begin; // one id and its edge
            } else {
                self.counts.begin(as_place(begin), count);
            }
        }
        self.counts.finish(as_place(to));
        self.slots.set_len(to);
        self.slots = self.slots.moved(to);
        self.widths.fill(1);
    }
}

pub(super) fn as_place(slot: usize) -> u32 {
    u32::try_from(slot).expect("the number of slots was checked")
}
