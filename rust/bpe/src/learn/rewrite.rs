//! Rewriting: replaces a pair by an id at all of its places, and collects the starts of the id and
//! its neighbors. Large work is divided among threads.

use bytemuck::Pod;
use nanotok_memory as memory;

use crate::Merge;
use crate::cpu::simd::prefetch;
use crate::learn::around::Around;
use crate::learn::counts_at::Counts;
use crate::learn::symbols::{AHEAD, Symbols, as_place};
use crate::threads::in_threads;
use crate::token_id::TokenId;

/// Places that are rewritten before their neighbors are visited, so that these are still in the
/// cache.
const BLOCK: usize = if cfg!(test) { 3 } else { 1024 };

/// Below this number of places per thread, starting threads does not pay.
pub(super) const MIN_SHARE: usize = if cfg!(test) { 2 } else { 1 << 13 };

/// An id as stored in a slot.
pub(super) trait Id: TokenId + Eq + Into<u32> + Pod + Sync {}

impl Id for u16 {}
impl Id for u32 {}

/// A pair and the id that it becomes.
#[derive(Debug, Clone, Copy)]
struct Rewrite<'c, I> {
    pair: (I, I),
    new: I,
    /// Slots of the pair's ids.
    widths: (u32, u32),
    edge: I,
    counts: &'c Counts,
}

/// The start of a new id, and its neighbors on both sides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begin<I> {
    pub(super) place: u32,
    pub(super) left: I,
    pub(super) right: I,
}

/// Consecutive spans, and some of their places.
#[derive(Debug)]
struct Part<'s, I> {
    slots: &'s mut [I],
    /// Number of slots before these.
    before: u32,
    places: &'s [u32],
}

impl<I: Id> Symbols<I> {
    /// Replaces `pair` by `new` at those of `places`, in increasing order, that still hold it.
    /// Returns the starts of the new id, and adds its neighbors to the first of `around`, which
    /// has one value per thread.
    pub(super) fn merge(
        &mut self,
        pair: Merge,
        new: u32,
        places: &[u32],
        begins: &mut Vec<Begin<I>>,
        around: &mut [Around],
    ) {
        let widths = (self.widths[pair.0 as usize], self.widths[pair.1 as usize]);
        self.widths.push(widths.0 + widths.1);
        let rewrite = Rewrite {
            pair: (I::narrow(pair.0), I::narrow(pair.1)),
            new: I::narrow(new),
            widths,
            edge: I::narrow(self.edge),
            counts: &self.counts,
        };
        begins.clear();
        let whole = Part { slots: &mut self.slots, before: 0, places };
        if around.len().min(places.len() / MIN_SHARE) < 2 {
            rewrite.run(whole, begins, &mut around[0]);
        } else {
            rewrite.share(whole.cut(around.len(), rewrite.edge), begins, around);
        }
    }
}

impl<I: Id> Rewrite<'_, I> {
    /// Processes each part in its own thread.
    fn share(self, parts: Vec<Part<'_, I>>, begins: &mut Vec<Begin<I>>, around: &mut [Around]) {
        let found = in_threads(parts.into_iter().zip(around.iter_mut()), |(part, around)| {
            let mut begins = Vec::new();
            self.run(part, &mut begins, around);
            begins
        });
        for own in &found {
            memory::append(begins, own);
        }
        if let [first, others @ ..] = around {
            for other in others {
                first.absorb(other);
            }
        }
    }

    fn run(self, part: Part<'_, I>, begins: &mut Vec<Begin<I>>, around: &mut Around) {
        let Part { slots, before, places } = part;
        let mut counted = 0;
        for start in (0..places.len()).step_by(BLOCK) {
            let end = (start + BLOCK).min(places.len());
            self.replace(slots, before, (start, end), places, begins);
            // The neighbor after the last one can change with the next block.
            let known = begins.len() - usize::from(end < places.len() && begins.len() > counted);
            self.count_around(slots, before, &mut begins[counted..known], around);
            counted = known;
        }
    }

    /// Replaces the pair at some of the places that hold it.
    #[inline(never)]
    fn replace(
        &self,
        slots: &mut [I],
        before: u32,
        (start, end): (usize, usize),
        places: &[u32],
        begins: &mut Vec<Begin<I>>,
    ) {
        let (left, right) = self.widths;
        memory::reserve(begins, end - start);
        for number in start..end {
            if let Some(&next) = places.get(number + AHEAD) {
                prefetch(slots, (next - before) as usize);
            }
            let place = places[number] - before;
            let at = place as usize;
            if at > 0 && slots[at - 1] == self.pair.0 && slots[at] == self.pair.1 {
                slots[(place - left) as usize] = self.new;
                slots[(place + right) as usize - 1] = self.new;
                let place = place - left + before;
                begins.push(Begin { place, left: self.edge, right: self.edge });
            }
        }
    }

    /// Adds the neighbors of the new id.
    #[inline(never)]
    fn count_around(&self, slots: &[I], before: u32, begins: &mut [Begin<I>], around: &mut Around) {
        let width = self.widths.0 + self.widths.1;
        let mut counts = self.counts.cursor();
        for begin in begins {
            let count = counts.get(begin.place);
            let at = (begin.place - before) as usize;
            begin.left = if at == 0 { self.edge } else { slots[at - 1] };
            begin.right = slots[at + width as usize];
            around.applied += count;
            around.left.add(begin.left.into(), count);
            around.right.add(begin.right.into(), count);
        }
    }
}

impl<I: Id> Part<'_, I> {
    /// At most `number` parts with about the same number of places; spans are not divided.
    fn cut(self, number: usize, edge: I) -> Vec<Self> {
        let mut parts = Vec::with_capacity(number);
        let mut rest = self;
        for parts_left in (2..=number).rev() {
            let Some((first, places)) = rest.cut_at(rest.places.len() / parts_left, edge) else {
                break;
            };
            let Part { slots, before, places: all } = rest;
            let (own, others) = slots.split_at_mut(first);
            let (own_places, other_places) = all.split_at(places);
            parts.push(Part { slots: own, before, places: own_places });
            rest = Part { slots: others, before: before + as_place(first), places: other_places };
        }
        parts.push(rest);
        parts
    }

    /// The slots and places before the first end of a span after the place with index `number`.
    fn cut_at(&self, number: usize, edge: I) -> Option<(usize, usize)> {
        (number.max(1)..self.places.len()).find_map(|number| {
            let (from, to) =
                (self.places[number - 1] - self.before, self.places[number] - self.before);
            let between = &self.slots[from as usize..to as usize];
            let last = between.iter().rposition(|&id| id == edge)?;
            Some((from as usize + last + 1, number))
        })
    }
}
