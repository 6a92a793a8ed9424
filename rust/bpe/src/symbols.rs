//! Spans as sequences of ids in which pairs are merged: the learner's text. Takes spans and counts,
//! tells which neighbours changed. Does not know which pair is best.
//!
//! Spans lie back to back, one slot a byte, with an edge between them. A token of several bytes keeps
//! its slots, and its id stands in the first and the last of them. So nothing ever moves, neighbours
//! are one slot away, and a pair is known by its place: the slot where its right id begins.
//!
//! The two slots at a place hold the ids that meet there; once they are merged, they keep what was
//! merged there or become part of the new id. Since no pair is merged twice, one look at the two slots
//! tells whether a place that was once noted for a pair still holds it.

use std::cmp::Reverse;

use crate::{Documents, Error, Merge};

/// Stands between two spans.
const EDGE: u32 = u32::MAX;

/// All spans of two or more bytes.
#[derive(Debug)]
pub(crate) struct Symbols {
    slots: Vec<u32>,
    /// Number of slots of each id.
    lengths: Vec<u32>,
    /// Spans are sorted by their counts: where each count begins, and the count.
    counts: Vec<(u32, u64)>,
}

/// Is told what merging a pair (a, b) to n did to the neighbours.
pub(crate) trait Changes {
    /// (`x`, a) became (`x`, n) at `place`, in a span that occurs `count` times.
    fn left(&mut self, x: u32, place: u32, count: u64);
    /// (b, `y`) became (n, `y`) at `place`, in a span that occurs `count` times.
    fn right(&mut self, y: u32, place: u32, count: u64);
}

impl Symbols {
    pub(crate) fn new(spans: Documents<'_>, counts: &[u64]) -> Result<Self, Error> {
        if counts.len() != spans.len() {
            let (spans, length) = (spans.len(), counts.len());
            return Err(Error::LengthsDiffer { spans, what: "counts", length });
        }
        let with_pairs = |&index: &usize| spans.get(index).len() > 1 && counts[index] > 0;
        let mut order: Vec<usize> = (0..spans.len()).filter(with_pairs).collect();
        order.sort_by_key(|&index| Reverse(counts[index]));
        let slots = order.iter().map(|&index| spans.get(index).len() + 1).sum::<usize>() + 1;
        if u32::try_from(slots).is_err() {
            return Err(Error::TooManySpans { bytes: slots });
        }
        let mut symbols =
            Self { slots: Vec::with_capacity(slots), lengths: vec![1; 256], counts: Vec::new() };
        symbols.slots.push(EDGE);
        for index in order {
            symbols.push(spans.get(index), counts[index]);
        }
        Ok(symbols)
    }

    fn push(&mut self, span: &[u8], count: u64) {
        if self.counts.last().is_none_or(|&(_, last)| last != count) {
            self.counts.push((as_place(self.slots.len()), count));
        }
        self.slots.extend(span.iter().map(|&byte| u32::from(byte)));
        self.slots.push(EDGE);
    }

    /// Every pair of bytes with its place and the count of its span, by place.
    pub(crate) fn byte_pairs(&self) -> impl Iterator<Item = (Merge, u32, u64)> {
        let mut counts = CountAt::new(&self.counts);
        let pairs = self.slots.windows(2).zip(1..).filter(|(pair, _)| !pair.contains(&EDGE));
        pairs.map(move |(pair, place)| ((pair[0], pair[1]), place, counts.get(place)))
    }

    /// Replaces `pair` by the new id at those of `places`, ascending, where it still stands, and tells
    /// how often that is in the text.
    pub(crate) fn merge(&mut self, pair: Merge, places: &[u32], changes: &mut impl Changes) -> u64 {
        let mut applied = 0;
        let new = as_place(self.lengths.len());
        let (left, right) = (self.length(pair.0), self.length(pair.1));
        self.lengths.push(as_place(left + right));
        let mut counts = CountAt::new(&self.counts);
        for &place in places {
            let at = place as usize;
            if (self.slots[at - 1], self.slots[at]) != pair {
                continue;
            }
            let (start, end) = (at - left, at + right);
            self.slots[start] = new;
            self.slots[end - 1] = new;
            let count = counts.get(place);
            applied += count;
            if self.slots[start - 1] != EDGE {
                changes.left(self.slots[start - 1], as_place(start), count);
            }
            if self.slots[end] != EDGE {
                changes.right(self.slots[end], as_place(end), count);
            }
        }
        applied
    }

    pub(crate) fn length(&self, id: u32) -> usize {
        self.lengths[id as usize] as usize
    }
}

fn as_place(slot: usize) -> u32 {
    u32::try_from(slot).expect("the number of slots was checked")
}

/// Finds the counts of ascending places.
struct CountAt<'s> {
    later: &'s [(u32, u64)],
    count: u64,
}

impl<'s> CountAt<'s> {
    fn new(counts: &'s [(u32, u64)]) -> Self {
        Self { later: counts, count: 0 }
    }

    #[inline]
    fn get(&mut self, place: u32) -> u64 {
        if self.later.first().is_some_and(|&(start, _)| start <= place) {
            let passed = self.later.partition_point(|&(start, _)| start <= place);
            self.count = self.later[passed - 1].1;
            self.later = &self.later[passed..];
        }
        self.count
    }
}
