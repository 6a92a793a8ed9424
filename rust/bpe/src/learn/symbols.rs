//! Spans as sequences of ids in which pairs are merged: the text of the learner.
//!
//! Spans are stored back to back, one slot per byte or id, with an edge between them. A token of several
//! slots keeps all of them, with its id in the first and the last slot. Therefore nothing moves
//! while pairs are merged, neighbors are one slot apart, and a pair is identified by its place:
//! the slot where its right id begins.
//!
//! The two slots at a place hold the adjacent ids; after a merge, they keep the merged ids or
//! become part of the new id. Since no pair is merged twice, reading the two slots is sufficient to
//! decide whether a place that was recorded for a pair still holds it.

use std::ops::Range;

use nanotok_memory as memory;

use crate::Merge;
use crate::cpu::simd::prefetch;
use crate::learn::array::Array;
use crate::learn::counts_at::Counts;
use crate::learn::rewrite::Id;

/// Number of places by which a place is prefetched before it is visited.
pub(super) const AHEAD: usize = 24;

/// All spans of two or more ids.
#[derive(Debug)]
pub(super) struct Symbols<I> {
    pub(super) slots: Array<I>,
    /// The value between two spans, which is not an id.
    pub(super) edge: u32,
    /// Slots of each id.
    pub(super) widths: Vec<u32>,
    pub(super) counts: Counts,
}

impl<I: Id> Symbols<I> {
    /// Reserves slots for the spans of each count, with an edge after each; counts are decreasing.
    /// Spans have ids below `num_ids`.
    pub(super) fn new(sizes: &[(u64, usize)], num_ids: usize, edge: u32) -> Self {
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
        Self { slots, edge, widths: memory::filled(1, num_ids), counts: places }
    }

    /// Every pair in these places, with its place and the count of its span; each id takes one
    /// slot.
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

    /// The sum over all spans of their bytes and edges times their counts; before any merge.
    pub(super) fn total(&self) -> u128 {
        self.counts.total()
    }

    /// Whether `place` holds `pair`.
    #[inline]
    pub(super) fn holds(&self, pair: Merge, place: u32) -> bool {
        let at = place as usize;
        (self.slots[at - 1].into(), self.slots[at].into()) == pair
    }

    /// Prefetches a place.
    #[inline]
    pub(super) fn prefetch(&self, place: u32) {
        prefetch(&self.slots, place as usize);
    }

    /// Assigns one slot to each id, and removes spans of one id.
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
