//! The ids of spans of over 15 bytes that were met. A cache of bounded size: of the spans that share a line
//! the four newest stay, and when the room for their bytes is full the oldest are overwritten. Does not know
//! how ids are found.

use crate::cpu::simd::prefetch;
use crate::hash64;
use crate::token_id::Packing;

/// Longer spans are seldom met again.
pub(crate) const MAX_LENGTH: usize = 255;

/// Places that a hash chooses from.
const LINE: usize = 4;

/// Bytes of the longest span and of as many ids of 32 bits.
const MAX_ENTRY: usize = 5 * MAX_LENGTH;

/// Where a span and its ids are in a buffer: the span's bytes, then its ids, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    hash: u64,
    start: u32,
    span_bytes: u16,
    num_ids: u16,
}

impl Place {
    /// The place in one number; never 0, as a span has ids.
    fn pack(self) -> u128 {
        u128::from(self.hash)
            | u128::from(self.start) << 64
            | u128::from(self.span_bytes) << 96
            | u128::from(self.num_ids) << 112
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "fields are cut out of the number")]
    fn unpack(packed: u128) -> Self {
        Self {
            hash: packed as u64,
            start: (packed >> 64) as u32,
            span_bytes: (packed >> 96) as u16,
            num_ids: (packed >> 112) as u16,
        }
    }

    /// The bytes of the ids after `span` in `buffer`, if that begins with it.
    #[inline]
    fn ids_of<'b>(self, buffer: &'b [u8], span: &[u8], packing: Packing) -> Option<&'b [u8]> {
        let (own, rest) = buffer.split_at_checked(usize::from(self.span_bytes))?;
        (own == span).then(|| rest.get(..packing.id_bytes() * usize::from(self.num_ids)))?
    }

    /// The place of `span` and its ids, which are a `MAX_ENTRY` at most, at `start`.
    #[expect(clippy::cast_possible_truncation, reason = "MAX_ENTRY fits 16 bits")]
    fn new(hash: u64, start: u32, span: &[u8], ids: &[u32]) -> Self {
        Self { hash, start, span_bytes: span.len() as u16, num_ids: ids.len() as u16 }
    }
}

/// Writes `span` and its ids to the front of `buffer`.
fn write_entry(buffer: &mut [u8], span: &[u8], ids: &[u32], packing: Packing) {
    let (own, rest) = buffer.split_at_mut(span.len());
    own.copy_from_slice(span);
    let bytes = packing.id_bytes();
    for (place, id) in rest.chunks_exact_mut(bytes).zip(ids) {
        place.copy_from_slice(&id.to_le_bytes()[..bytes]);
    }
}

/// Ids of long spans; forgetful.
#[derive(Debug)]
pub(crate) struct LongMemo {
    /// Lines of places, the newest first: one line of the CPU's caches each, where that is so aligned.
    places: Vec<u128>,
    /// Spans and ids in the order they came; at its end it goes on at the front.
    buffer: Vec<u8>,
    max_buffer: usize,
    /// Bytes ever written, those that were left empty at the end of the buffer included: `start` of a
    /// place counts them too.
    written: u32,
    packing: Packing,
}

impl LongMemo {
    /// A memo of about `num_bytes`, a quarter of it for places.
    pub(crate) fn new(num_bytes: usize, packing: Packing) -> Self {
        let places = 1 << (num_bytes / 64).max(LINE).ilog2();
        Self {
            places: vec![0; places],
            buffer: Vec::new(),
            max_buffer: (num_bytes / 4 * 3).clamp(2 * MAX_ENTRY, 1 << 30),
            written: 0,
            packing,
        }
    }

    /// The hash of a span that will be looked for soon, if it is not too long for that.
    #[inline(never)]
    #[expect(clippy::cast_possible_truncation, reason = "64 bits, or as good as any others")]
    pub(crate) fn ask(&self, span: &[u8]) -> usize {
        if span.len() > MAX_LENGTH {
            return 0;
        }
        let hash = hash64(span);
        prefetch(&self.places, self.line(hash));
        hash as usize
    }

    /// The bytes of the ids of `span`, if it is there.
    #[inline]
    pub(crate) fn get(&self, span: &[u8], hash: u64) -> Option<&[u8]> {
        let line = self.line(hash);
        let mut places = self.places[line..line + LINE].iter().map(|&place| Place::unpack(place));
        places.find_map(|place| self.ids_at(place, span, hash))
    }

    #[inline]
    fn ids_at(&self, place: Place, span: &[u8], hash: u64) -> Option<&[u8]> {
        if place.hash != hash || place.num_ids == 0 {
            return None;
        }
        let overwritten = (self.written - place.start) as usize > self.max_buffer;
        let start = place.start as usize % self.max_buffer;
        if overwritten { None } else { place.ids_of(self.buffer.get(start..)?, span, self.packing) }
    }

    /// Remembers the ids of `span`, which is not there.
    #[expect(clippy::cast_possible_truncation, reason = "MAX_ENTRY fits 32 bits")]
    pub(crate) fn put(&mut self, span: &[u8], hash: u64, ids: &[u32]) {
        let num_bytes = span.len() + ids.len() * self.packing.id_bytes();
        if num_bytes > MAX_ENTRY {
            return;
        }
        let start = self.start_of(num_bytes);
        let place = Place::new(hash, start, span, ids);
        let at = start as usize % self.max_buffer;
        if self.buffer.len() < at + num_bytes {
            self.buffer.resize(at + num_bytes, 0);
        }
        write_entry(&mut self.buffer[at..], span, ids, self.packing);
        self.written = start + num_bytes as u32;
        let line = self.line(hash);
        self.places.copy_within(line..line + LINE - 1, line + 1);
        self.places[line] = place.pack();
    }

    /// Where the next entry goes: no entry goes past the end of the buffer. After 4 GB all is forgotten, so
    /// that an old place is never taken for a new one.
    fn start_of(&mut self, num_bytes: usize) -> u32 {
        let at = self.written as usize % self.max_buffer;
        let skipped = if at + num_bytes > self.max_buffer { self.max_buffer - at } else { 0 };
        let start = self.written as usize + skipped;
        match u32::try_from(start) {
            Ok(start) if start < u32::MAX - (1 << 16) => start,
            _ => {
                self.places.fill(0);
                0
            }
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are as good as any")]
    fn line(&self, hash: u64) -> usize {
        LINE * (hash as usize & (self.places.len() / LINE - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(number: u32) -> Vec<u8> {
        format!("a span of more than 15 bytes: {number}").into_bytes()
    }

    #[test]
    fn what_is_put_is_there_or_forgotten_and_room_is_bounded() {
        for packing in [Packing::Narrow, Packing::Wide] {
            let mut memo = LongMemo::new(0, packing);
            let mut remembered = 0;
            for number in 0..10_000_u32 {
                let new = span(number);
                assert_eq!(memo.get(&new, hash64(&new)), None);
                memo.put(&new, hash64(&new), &[number, 7]);
                for known in [number, number / 2, number.saturating_sub(9)] {
                    let span = span(known);
                    let found = memo.get(&span, hash64(&span)).map(|ids| packing.ids_of(ids));
                    let found: Option<Vec<u32>> = found.map(Iterator::collect);
                    assert!(found.is_none() || found == Some(vec![known, 7]));
                    remembered += usize::from(found.is_some());
                }
                assert!(memo.buffer.len() <= memo.max_buffer);
            }
            assert!(remembered > 10_000, "{remembered}");
        }
    }

    #[test]
    fn a_span_with_the_hash_of_another_is_not_that_one() {
        let mut memo = LongMemo::new(0, Packing::Narrow);
        memo.put(b"one span of many bytes", 5, &[1]);
        assert_eq!(memo.get(b"another of many bytes", 5), None);
    }

    #[test]
    fn old_places_are_not_taken_for_new_ones_after_4_gb() {
        let mut memo = LongMemo::new(0, Packing::Narrow);
        memo.put(b"one span of many bytes", 5, &[1]);
        memo.written = u32::MAX - (1 << 15);
        memo.put(b"another of many bytes", 9, &[2, 3]);
        assert_eq!(memo.get(b"one span of many bytes", 5), None);
        assert_eq!(memo.get(b"another of many bytes", 9), Some([2, 0, 3, 0].as_slice()));
        assert!(memo.written < 100);
    }
}
