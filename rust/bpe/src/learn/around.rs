//! What stands around the id that is being made: dense arrays, so that nothing is hashed while spans are
//! rewritten. Takes neighbours and counts, adds them up.

/// The neighbours on both sides.
#[derive(Debug)]
pub(super) struct Around {
    pub(super) left: Side,
    pub(super) right: Side,
    /// How often the id was made in the text.
    pub(super) applied: u64,
}

/// The ids on one side.
#[derive(Debug)]
pub(super) struct Side {
    by_id: Vec<Neighbour>,
    /// Those that stand there.
    touched: Vec<u32>,
}

/// How often an id stands there.
#[derive(Debug, Clone, Copy)]
struct Neighbour {
    /// Times in the text.
    count: u64,
    /// Places.
    number: u32,
    /// Where the next of its places goes, or `NO_ROW`.
    row: u32,
}

const NO_ROW: u32 = u32::MAX;
const NOBODY: Neighbour = Neighbour { count: 0, number: 0, row: NO_ROW };

impl Around {
    pub(super) fn new(num_ids: usize) -> Self {
        Self { left: Side::new(num_ids), right: Side::new(num_ids), applied: 0 }
    }

    /// Adds what another thread found.
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
        Self { by_id: vec![NOBODY; num_ids], touched: Vec::new() }
    }

    /// `id` stands at one more place, in a span of this count.
    #[inline]
    pub(super) fn add(&mut self, id: u32, count: u64) {
        let own = &mut self.by_id[id as usize];
        if own.number == 0 {
            self.touched.push(id);
        }
        // A neighbour stands there no more often than the pair that is merged, whose count is a u64.
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

    /// The neighbour that came as number `order`: how often it stands there, and at how many places.
    pub(super) fn touched(&self, order: usize) -> (u32, u64, u32) {
        let id = self.touched[order];
        let Neighbour { count, number, .. } = self.by_id[id as usize];
        (id, count, number)
    }

    /// The places of `id` are wanted, from `row` on.
    pub(super) fn want(&mut self, id: u32, row: u32) {
        self.by_id[id as usize].row = row;
    }

    /// Notes a place of `id` in `rows` if it is wanted.
    #[inline]
    pub(super) fn note(&mut self, id: u32, place: u32, rows: &mut [u32]) {
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
