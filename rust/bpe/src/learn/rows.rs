//! The places of pairs: rows back to back in one array.

use std::mem;

use crate::learn::array::Array;

/// The places of one pair, in increasing order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) start: usize,
    pub(super) number: u32,
}

impl Row {
    pub(super) fn end(self) -> usize {
        self.start + self.number as usize
    }
}

/// Spare capacity is one place per this number of places, so that rows are rarely moved.
const SPARE: usize = if cfg!(test) { 100 } else { 2 };

/// All rows.
#[derive(Debug, Default)]
pub(super) struct Rows {
    places: Array<u32>,
}

impl Rows {
    /// Removes all rows; returns room for `number` places, and reserves more.
    pub(super) fn begin(&mut self, number: usize) -> &mut [u32] {
        drop(mem::take(&mut self.places));
        self.places = Array::new(number + number / SPARE);
        self.places.set_len(number);
        &mut self.places
    }

    pub(super) fn get(&self, row: Row) -> &[u32] {
        &self.places[row.start..row.end()]
    }

    /// Whether `number` places can be added without moving rows.
    pub(super) fn has_room(&self, number: usize) -> bool {
        number <= self.places.room() - self.places.len()
    }

    /// Reserves room for `number` more places, and half of the initial spare capacity.
    pub(super) fn reserve(&mut self, number: usize) {
        let room = self.places.len() + number + self.places.len() / (2 * SPARE);
        if room > self.places.room() {
            self.places = self.places.moved(room);
        }
    }

    /// Adds `number` places; returns their start.
    pub(super) fn add(&mut self, number: usize) -> usize {
        let start = self.places.len();
        self.places.set_len(start + number);
        start
    }

    /// The places from `first` up to `second`, and those from `second` on.
    pub(super) fn split(&mut self, first: usize, second: usize) -> (&mut [u32], &mut [u32]) {
        let (before, after) = self.places.split_at_mut(second);
        (&mut before[first..], after)
    }

    /// Moves rows, in the order of their starts, to the front, keeping only the places for which
    /// `keep` returns true. Its arguments are the number of the row, the place, and a place that
    /// will follow soon.
    pub(super) fn compact<'r>(
        &mut self,
        rows: impl Iterator<Item = &'r mut Row>,
        keep: impl Fn(usize, u32, u32) -> bool,
    ) {
        const AHEAD: usize = 24;
        let mut to = 0;
        for (number, row) in rows.enumerate() {
            let start = to;
            for from in row.start..row.end() {
                let place = self.places[from];
                let later = self.places.get(from + AHEAD).map_or(place, |&later| later);
                self.places[to] = place;
                to += usize::from(keep(number, place, later));
            }
            *row = Row { start, number: u32::try_from(to - start).expect("no more than before") };
        }
        self.places.set_len(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_moved_to_the_front_without_unused_ones() {
        let mut rows = Rows::default();
        rows.begin(6).copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        let mut kept = [Row { start: 1, number: 2 }, Row { start: 4, number: 2 }];
        rows.compact(kept.iter_mut(), |row, place, _| (row, place) != (0, 2));
        assert_eq!(kept, [Row { start: 0, number: 1 }, Row { start: 1, number: 2 }]);
        assert_eq!((rows.get(kept[0]), rows.get(kept[1])), (&[3][..], &[5, 6][..]));
        assert!(rows.has_room(3) && !rows.has_room(4));
    }
}
