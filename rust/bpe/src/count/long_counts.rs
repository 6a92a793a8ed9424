//! Counts of spans of more than 15 bytes: their bytes back to back, and a growing table of their
//! positions. No span is ever removed. Arithmetic is modulo 2^64: the caller ensures that no count
//! overflows, and that hashes match the bytes.

use nanotok_memory as memory;

use crate::cpu::simd::prefetch;
use crate::zeros::Zeros;

/// A span's hash64, its start, its length (0: no entry) and its count.
type Entry = [u64; 4];

const HASH: usize = 0;
const START: usize = 1;
const LENGTH: usize = 2;
const COUNT: usize = 3;

const ENTRY_BYTES: usize = size_of::<Entry>();

/// Entries of the smallest table; tables below `FAST_ENTRIES` grow faster.
const MIN_ENTRIES: usize = 1 << 5;
const FAST_ENTRIES: usize = 1 << 14;

/// Counts of long spans.
#[derive(Debug)]
pub(crate) struct LongCounts {
    entries: Zeros,
    mask: usize,
    used: usize,
    bytes: Vec<u8>,
}

impl LongCounts {
    pub(crate) fn new() -> Self {
        Self::of_entries(MIN_ENTRIES, Vec::new())
    }

    fn of_entries(entries: usize, bytes: Vec<u8>) -> Self {
        let mask = entries - 1;
        Self { entries: Zeros::new(entries * ENTRY_BYTES), mask, used: 0, bytes }
    }

    /// Number of spans that were ever added.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Prefetches the entry of a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(&self.entries, self.place(hash) * ENTRY_BYTES);
    }

    /// Prefetches the bytes of the first entry of a hash.
    #[inline]
    pub(crate) fn prefetch_bytes(&self, hash: u64) {
        let entry = &self.entries()[self.place(hash)];
        if entry[HASH] == hash {
            self.prefetch_at(as_index(entry[START]));
        }
    }

    /// Adds `count` to that of `span`.
    pub(crate) fn add(&mut self, span: &[u8], hash: u64, count: u64) {
        let at = self.find(span, hash);
        if self.entries()[at][LENGTH] == 0 {
            return self.insert(at, span, hash, count);
        }
        let own = &mut self.entries_mut()[at][COUNT];
        *own = own.wrapping_add(count);
    }

    /// The count of `span`.
    pub(crate) fn get(&self, span: &[u8], hash: u64) -> u64 {
        self.entries()[self.find(span, hash)][COUNT]
    }

    /// The entry of `span`, or the empty entry where it belongs.
    #[inline]
    fn find(&self, span: &[u8], hash: u64) -> usize {
        let entries = self.entries();
        let mut at = self.place(hash);
        loop {
            let entry = &entries[at];
            if entry[LENGTH] == 0 || entry[HASH] == hash && self.bytes_of(entry) == span {
                return at;
            }
            at = (at + 1) & self.mask;
        }
    }

    #[inline(never)]
    fn insert(&mut self, at: usize, span: &[u8], hash: u64, count: u64) {
        let start = self.bytes.len() as u64;
        memory::append(&mut self.bytes, span);
        self.entries_mut()[at] = [hash, start, span.len() as u64, count];
        self.used += 1;
        if self.used > self.mask / 8 * 5 {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let entries = self.mask + 1;
        let bytes = std::mem::take(&mut self.bytes);
        let mut larger =
            Self::of_entries(entries * if entries < FAST_ENTRIES { 8 } else { 2 }, bytes);
        for entry in self.all() {
            let mut at = larger.place(entry[HASH]);
            while larger.entries()[at][LENGTH] != 0 {
                at = (at + 1) & larger.mask;
            }
            larger.entries_mut()[at] = *entry;
        }
        larger.used = self.used;
        *self = larger;
    }

    /// All spans that were ever added: start, length, hash64, and count, which can be 0.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u64, u64, u64, u64)> {
        self.all().map(|entry| (entry[START], entry[LENGTH], entry[HASH], entry[COUNT]))
    }

    /// The same with the bytes of the spans.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (&[u8], u64, u64)> {
        self.all().map(|entry| (self.bytes_of(entry), entry[HASH], entry[COUNT]))
    }

    /// The span of this length that begins at `start`.
    #[inline]
    pub(crate) fn bytes_at(&self, start: usize, length: usize) -> &[u8] {
        &self.bytes[start..start + length]
    }

    /// Prefetches the bytes that begin at `start`.
    #[inline]
    pub(crate) fn prefetch_at(&self, start: usize) {
        prefetch(&self.bytes, start);
    }

    fn all(&self) -> impl Iterator<Item = &Entry> {
        self.entries().iter().filter(|entry| entry[LENGTH] != 0)
    }

    #[inline]
    fn bytes_of(&self, entry: &Entry) -> &[u8] {
        self.bytes_at(as_index(entry[START]), as_index(entry[LENGTH]))
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        as_index(hash & self.mask as u64)
    }

    #[inline]
    fn entries(&self) -> &[Entry] {
        bytemuck::cast_slice(&self.entries)
    }

    #[inline]
    fn entries_mut(&mut self) -> &mut [Entry] {
        bytemuck::cast_slice_mut(&mut self.entries)
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it was an index")]
fn as_index(number: u64) -> usize {
    number as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Many spans with few hashes: only their bytes distinguish them.
        #[test]
        fn counts_equal_a_map(numbers in prop::collection::vec(0u64..500, 0..1000),
                                     hashes in 1u64..500) {
            let mut counts = LongCounts::new();
            let mut map = BTreeMap::new();
            for (&number, count) in numbers.iter().zip([1, 3, u64::MAX].into_iter().cycle()) {
                let span = format!("a span of over 15 bytes: {number}").into_bytes();
                let hash = number % hashes;
                counts.prefetch(hash);
                counts.prefetch_bytes(hash);
                counts.add(&span, hash, count);
                let own: &mut u64 = map.entry((hash, span)).or_default();
                *own = own.wrapping_add(count);
            }
            for ((hash, span), &count) in &map {
                prop_assert_eq!(counts.get(span, *hash), count);
            }
            prop_assert_eq!(counts.get(b"absent", 0), 0);
            let all = counts.spans().zip(counts.places());
            let found: BTreeMap<(u64, Vec<u8>), u64> = all.map(|((span, hash, count), place)| {
                assert_eq!((place.1, place.2, place.3), (span.len() as u64, hash, count));
                ((hash, span.to_vec()), count)
            }).collect();
            prop_assert_eq!(counts.spans().count(), map.len());
            prop_assert_eq!(found, map);
        }
    }
}
