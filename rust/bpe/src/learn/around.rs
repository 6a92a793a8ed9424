//! The neighbors of the id that is being made, in dense arrays, so that rewriting spans needs no
//! hashing. Neighbors and counts are added up.

use nanotok_memory as memory;

/// The neighbors on both sides.
#[derive(Debug)]
pub(super) struct Around {
    pub(super) left: Side,
    pub(super) right: Side,
    /// Number of occurrences of the id in the text.
    pub(super) applied: u64,
}

/// The ids on one side.
#[derive(Debug)]
pub(super) struct Side {
    by_id: Vec<Neighbor>,
    /// The ids that occur there.
    touched: Vec<u32>,
}

/// The occurrences of an id on one side.
#[derive(Debug, Clone, Copy)]
struct Neighbor {
    /// Occurrences in the text.
    count: u64,
    /// Number of places.
    number: u32,
    /// The row for its next place, or `NO_ROW`.
    row: u32,
}

const NO_ROW: u32 = u32::MAX;
const NOBODY: Neighbor = Neighbor { count: 0, number: 0, row: NO_ROW };

impl Around {
    pub(super) fn new(num_ids: usize) -> Self {
        Self { left: Side::new(num_ids), right: Side::new(num_ids), applied: 0 }
    }

    /// Adds the result of another thread.
    pub(super) fn absorb(&mut self, other: &mut Self) {
        self.applied += std::mem::take(&mut other.applied);
        self.left.absorb(&mut other.left);
        self.right.absorb(&mut other.right);
    }

    pub(super) fn clear(&mut self) {
        self.applied = 0;
        self.left.clear();
        self.right.clear();
    }
}

impl Side {
    fn new(num_ids: usize) -> Self {
        Self { by_id: memory::filled(NOBODY, num_ids), touched: Vec::new() }
    }

    /// Records `id` at one more place, in a span of this count.
    #[inline]
    pub(super) fn add(&mut self, id: u32, count: u64) {
        let own = &mut self.by_id[id as usize];
        if own.number == 0 {
            self.touched.push(id);
        }
        // No overflow: a neighbor occurs at most as often as the merged pair, whose count is a
        // u64.
        own.count += count;
        own.number += 1;
    }

    fn absorb(&mut self, other: &mut Self) {
        for &id in &other.touched {
            let found = other.by_id[id as usize];
            let own = &mut self.by_id[id as usize];
            if own.number == 0 {
                self.touched.push(id);
            }
            own.count += found.count;
            own.number += found.number;
        }
        other.clear();
    }

    pub(super) fn num_touched(&self) -> usize {
        self.touched.len()
    }

    /// The neighbor with index `order`: its id, its occurrences and its number of places.
    pub(super) fn touched(&self, order: usize) -> (u32, u64, u32) {
        let id = self.touched[order];
        let Neighbor { count, number, .. } = self.by_id[id as usize];
        (id, count, number)
    }

    /// Requests the places of `id`, stored from `row` on.
    pub(super) fn want(&mut self, id: u32, row: u32) {
        self.by_id[id as usize].row = row;
    }

    /// Records a place of `id` in `rows` if requested.
    #[inline]
    pub(super) fn record_places(&mut self, id: u32, place: u32, rows: &mut [u32]) {
        let row = &mut self.by_id[id as usize].row;
        if *row != NO_ROW {
            rows[*row as usize] = place;
            *row += 1;
        }
    }

    fn clear(&mut self) {
        for id in self.touched.drain(..) {
            self.by_id[id as usize] = NOBODY;
        }
    }
}
