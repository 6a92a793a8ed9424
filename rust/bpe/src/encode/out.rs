//! A buffer of ids that is written in steps of a fixed size.

use nanotok_memory as memory;

use crate::cpu::simd::advise_large_pages;
use crate::token_id::{Packing, TokenId, UNPACKED};

/// Ids that can be written beyond the length.
const ROOM: usize = 2 * UNPACKED;

/// Ids, with room after them.
#[derive(Debug)]
pub(crate) struct Out<I> {
    ids: Vec<I>,
    length: usize,
}

impl<I: TokenId> Out<I> {
    /// A buffer with room for about `number` ids; memory that is never written takes no physical
    /// pages.
    pub(crate) fn with_room(number: usize) -> Self {
        let ids = memory::zeros(number.saturating_add(ROOM));
        advise_large_pages(&ids);
        Self { ids, length: 0 }
    }

    /// The number of ids.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Reserves room for `number` more ids.
    pub(crate) fn reserve(&mut self, number: usize) {
        let wanted = (self.length + ROOM).saturating_add(number);
        if wanted > self.ids.len() {
            let number = wanted.max(self.ids.len() / 2 * 3);
            memory::resize(&mut self.ids, number, I::default());
        }
    }

    /// Appends packed ids; there must be room.
    #[inline]
    pub(crate) fn push_packed<const K: usize>(&mut self, packing: Packing, packed: [u128; K]) {
        for (number, word) in packed.into_iter().enumerate() {
            let at = self.length + number * packing.lanes();
            if let Some(room) = self.ids.get_mut(at..).and_then(|ids| ids.first_chunk_mut()) {
                packing.unpack(word, room);
            }
        }
        self.length += packing.number(packed[K - 1]);
    }

    /// The room after the ids, for writing.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [I] {
        &mut self.ids[self.length..]
    }

    /// Adds `number` written ids to the length.
    #[inline]
    pub(crate) fn advance(&mut self, number: usize) {
        self.length += number;
    }

    /// The ids from `start` on.
    pub(crate) fn since(&mut self, start: usize) -> &mut [I] {
        &mut self.ids[start..self.length]
    }

    /// Removes all ids except the first `number`.
    pub(crate) fn truncate(&mut self, number: usize) {
        self.length = self.length.min(number);
    }

    /// Appends `ids`.
    pub(crate) fn push_all(&mut self, ids: impl ExactSizeIterator<Item = u32>) {
        self.reserve(ids.len());
        let end = self.length + ids.len();
        for (place, id) in self.ids[self.length..end].iter_mut().zip(ids) {
            *place = I::narrow(id);
        }
        self.length = end;
    }

    /// Appends copies of `id`.
    pub(crate) fn push_copies(&mut self, id: u32, number: usize) {
        self.reserve(number);
        let end = self.length + number;
        self.ids[self.length..end].fill(I::narrow(id));
        self.length = end;
    }

    /// The ids; unused memory is freed.
    pub(crate) fn finish(mut self) -> Vec<I> {
        self.ids.truncate(self.length);
        self.ids.shrink_to_fit();
        self.ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_appended_and_capacity_grows() {
        let mut out = Out::<u16>::with_room(0);
        let mut expected = Vec::new();
        for number in 1..500_u32 {
            let ids: Vec<u32> = (0..=number % 9).map(|lane| number + lane).collect();
            out.reserve(ids.len());
            match (Packing::Narrow.pack::<1>(&ids), Packing::Narrow.pack::<2>(&ids)) {
                (Some(packed), _) if number % 3 == 0 => out.push_packed(Packing::Narrow, packed),
                (_, Some(packed)) if number % 3 == 1 => out.push_packed(Packing::Narrow, packed),
                _ => out.push_all(ids.iter().copied()),
            }
            expected.extend(ids.into_iter().map(u16::narrow));
            assert_eq!(out.len(), expected.len());
        }
        assert_eq!(out.finish(), expected);
    }
}
