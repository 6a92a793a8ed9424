//! The ids of earlier spans of more than 31 bytes: a table that grows with new spans, up to a limit
//! at which it is cleared.

use hashbrown::HashTable;
use nanotok_memory as memory;

use crate::token_id::Packing;

/// Longer spans are rarely repeated. If spans of up to this length were not stored either, later calls
/// in many languages would take 1.4 to 2 times as long, and lines of dashes 10 to 20 times.
pub(crate) const MAX_LENGTH: usize = 255;

/// Bytes of an entry of the table if two of three slots are used.
const ENTRY_BYTES: usize = 24;

/// The position of a span and its ids in the buffer: the span's bytes, then its ids, little-endian.
#[derive(Debug, Clone, Copy)]
struct Entry {
    hash: u64,
    start: u32,
    span_bytes: u16,
    num_ids: u16,
}

/// Ids of long spans.
#[derive(Debug)]
pub(crate) struct LongMemo {
    entries: HashTable<Entry>,
    buffer: Vec<u8>,
    max_bytes: usize,
    packing: Packing,
}

impl LongMemo {
    /// A memo of about `max_bytes`.
    pub(crate) fn new(max_bytes: usize, packing: Packing) -> Self {
        let (entries, buffer) = (HashTable::new(), Vec::new());
        Self { entries, buffer, max_bytes: max_bytes.min(1 << 31), packing }
    }

    /// The ids of `span` with its hash, if they are stored.
    pub(crate) fn get(&self, span: &[u8], hash: u64) -> Option<impl ExactSizeIterator<Item = u32>> {
        let same = |entry: &Entry| entry.hash == hash && self.parts(*entry).0 == span;
        let entry = self.entries.find(hash, same)?;
        Some(self.packing.ids_of(self.parts(*entry).1))
    }

    /// Stores the ids of `span`, which must not be stored already.
    pub(crate) fn put(&mut self, span: &[u8], hash: u64, ids: &[u32]) {
        let num_bytes = span.len() + ids.len() * self.packing.id_bytes();
        if self.buffer.len() + num_bytes + ENTRY_BYTES * (self.entries.len() + 1) > self.max_bytes {
            self.entries.clear();
            self.buffer.clear();
            if num_bytes + ENTRY_BYTES > self.max_bytes {
                return;
            }
        }
        let start = self.buffer.len();
        let [Ok(span_bytes), Ok(num_ids)] = [span.len(), ids.len()].map(u16::try_from) else {
            return;
        };
        let Ok(start) = u32::try_from(start) else { return };
        let room = self.max_bytes.min(2 * self.buffer.len()).saturating_sub(self.buffer.len());
        if self.buffer.capacity() < self.buffer.len() + num_bytes {
            memory::reserve(&mut self.buffer, room.max(num_bytes));
        }
        self.buffer.extend_from_slice(span);
        for id in ids {
            self.buffer.extend_from_slice(&id.to_le_bytes()[..self.packing.id_bytes()]);
        }
        let entry = Entry { hash, start, span_bytes, num_ids };
        self.entries.insert_unique(hash, entry, |entry| entry.hash);
    }

    /// The bytes of a span and of its ids.
    fn parts(&self, entry: Entry) -> (&[u8], &[u8]) {
        let (span, rest) = self.buffer[entry.start as usize..].split_at(entry.span_bytes.into());
        (span, &rest[..self.packing.id_bytes() * usize::from(entry.num_ids)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash64;

    fn span(number: u32) -> Vec<u8> {
        format!("a span of more than thirty-one bytes: {number}").into_bytes()
    }

    #[test]
    fn stored_entries_are_found_until_everything_is_cleared() {
        for (packing, max_bytes) in [(Packing::Narrow, 1 << 16), (Packing::Wide, 1 << 22)] {
            let mut memo = LongMemo::new(max_bytes, packing);
            let mut remembered = 0;
            for number in 0..10_000_u32 {
                let new = span(number);
                assert!(memo.get(&new, hash64(&new)).is_none());
                memo.put(&new, hash64(&new), &[number, 7]);
                for known in [number, number / 2, number.saturating_sub(9)] {
                    let span = span(known);
                    let found = memo.get(&span, hash64(&span)).map(Iterator::collect);
                    assert!(found.is_none() || found == Some(vec![known, 7]));
                    remembered += usize::from(found.is_some());
                }
                assert!(memo.buffer.capacity() <= memo.max_bytes);
            }
            assert!(remembered > 18_000, "{remembered}");
            assert!(remembered == 30_000 || packing == Packing::Narrow, "{remembered}");
        }
    }

    #[test]
    fn a_span_with_the_hash_of_another_is_not_found() {
        let mut memo = LongMemo::new(1 << 10, Packing::Narrow);
        memo.put(b"one span of many bytes", 5, &[1]);
        assert!(memo.get(b"another of many bytes", 5).is_none());
    }

    #[test]
    fn without_capacity_nothing_is_stored() {
        let mut memo = LongMemo::new(0, Packing::Narrow);
        memo.put(b"one span of many bytes", 5, &[1]);
        assert!(memo.get(b"one span of many bytes", 5).is_none());
    }
}
