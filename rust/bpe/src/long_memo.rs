//! The ids of spans of over 15 bytes that were met. A cache of bounded size: the newest span of a place
//! stays, and when the room for their bytes is full all are forgotten. Does not know how ids are found.

use crate::hash64;
use crate::token_id::Packing;

/// Longer spans are seldom met again.
pub(crate) const MAX_LENGTH: usize = 255;

/// Where a span and its ids are in a buffer: the span's bytes, then its ids, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) hash: u64,
    pub(crate) start: u32,
    pub(crate) span_bytes: u16,
    pub(crate) num_ids: u16,
}

impl Place {
    /// The place in one number; never 0, as a span has ids.
    pub(crate) fn pack(self) -> u128 {
        u128::from(self.hash)
            | u128::from(self.start) << 64
            | u128::from(self.span_bytes) << 96
            | u128::from(self.num_ids) << 112
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "fields are cut out of the number")]
    pub(crate) fn unpack(packed: u128) -> Self {
        Self {
            hash: packed as u64,
            start: (packed >> 64) as u32,
            span_bytes: (packed >> 96) as u16,
            num_ids: (packed >> 112) as u16,
        }
    }

    /// The bytes of the ids in `buffer`, if this is the place of `span`.
    #[inline]
    pub(crate) fn ids_of<'b>(
        self,
        buffer: &'b [u8],
        span: &[u8],
        packing: Packing,
    ) -> Option<&'b [u8]> {
        let rest = buffer.get(self.start as usize..)?;
        let (own, rest) = rest.split_at_checked(usize::from(self.span_bytes))?;
        (own == span).then(|| rest.get(..packing.id_bytes() * usize::from(self.num_ids)))?
    }

    /// Appends `span` and its ids to `buffer` and gives their place, if the fields have room for it.
    pub(crate) fn append(
        buffer: &mut Vec<u8>,
        span: &[u8],
        ids: &[u32],
        packing: Packing,
    ) -> Option<Self> {
        let place = Self {
            hash: hash64(span),
            start: u32::try_from(buffer.len()).ok()?,
            span_bytes: u16::try_from(span.len()).ok()?,
            num_ids: u16::try_from(ids.len()).ok()?,
        };
        buffer.extend_from_slice(span);
        for id in ids {
            buffer.extend_from_slice(&id.to_le_bytes()[..packing.id_bytes()]);
        }
        Some(place)
    }
}

/// Ids of long spans; forgetful.
#[derive(Debug)]
pub(crate) struct LongMemo {
    places: Vec<u128>,
    buffer: Vec<u8>,
    max_buffer: usize,
    packing: Packing,
}

impl LongMemo {
    /// A memo of at most `num_bytes`: a third of it for places, the rest for the spans and their ids.
    pub(crate) fn new(num_bytes: usize, packing: Packing) -> Self {
        let number = 1 << (num_bytes / 48).max(1).ilog2();
        Self {
            places: vec![0; number],
            buffer: Vec::new(),
            max_buffer: num_bytes - num_bytes / 3,
            packing,
        }
    }

    /// The bytes of the ids of `span`, if it is there.
    #[inline]
    pub(crate) fn get(&self, span: &[u8], hash: u64) -> Option<&[u8]> {
        let place = Place::unpack(self.places[self.index(hash)]);
        if place.hash != hash || place.num_ids == 0 {
            return None;
        }
        place.ids_of(&self.buffer, span, self.packing)
    }

    /// Remembers the ids of `span`.
    pub(crate) fn put(&mut self, span: &[u8], hash: u64, ids: &[u32]) {
        let num_bytes = span.len() + ids.len() * self.packing.id_bytes();
        if self.buffer.len() + num_bytes > self.max_buffer {
            self.places.fill(0);
            self.buffer.clear();
        }
        if num_bytes > self.max_buffer {
            return;
        }
        let index = self.index(hash);
        if let Some(place) = Place::append(&mut self.buffer, span, ids, self.packing) {
            self.places[index] = place.pack();
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are as good as any")]
    fn index(&self, hash: u64) -> usize {
        hash as usize & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_there_or_forgotten_and_room_is_bounded() {
        for packing in [Packing::Narrow, Packing::Wide] {
            let mut memo = LongMemo::new(1 << 12, packing);
            for number in 0..1000_u32 {
                let span = format!("a span of more than 15 bytes: {number}");
                let hash = hash64(span.as_bytes());
                assert_eq!(memo.get(span.as_bytes(), hash), None);
                memo.put(span.as_bytes(), hash, &[number, 7]);
                let ids = memo.get(span.as_bytes(), hash).unwrap();
                assert_eq!(ids.len(), 2 * packing.id_bytes());
                assert_eq!(ids[..2], number.to_le_bytes()[..2]);
                assert!(memo.buffer.len() <= memo.max_buffer);
            }
        }
    }

    #[test]
    fn a_span_with_the_hash_of_another_is_not_that_one() {
        let mut memo = LongMemo::new(1 << 12, Packing::Narrow);
        memo.put(b"one span of many bytes", 5, &[1]);
        assert_eq!(memo.get(b"another of many bytes", 5), None);
    }
}
