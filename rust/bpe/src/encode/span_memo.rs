//! The packed ids of earlier spans: a table that grows with new spans, up to a limit. Below the
//! limit no span is removed; at the limit a new span replaces another one.
//!
//! A key has `K` words, and so has a value. A line of the table contains two words of keys and two
//! of values: two spans with keys of one word, or one span with a key of two. A span is in the line
//! that its hash selects or, if that line is full, in one of the next `MAX_STEPS` lines; a search
//! ends at the first line with a free slot.

use crate::cpu::simd::prefetch;
use crate::zeros::Zeros;

/// One cache line: keys, then values.
pub(crate) type Line = [u128; 4];

/// Words of keys in a line.
const KEYS: usize = 2;

/// Bytes of an empty table, unless its limit is lower.
const FIRST_BYTES: usize = 1 << 20;

/// Lines after its own in which a span can be: bounds the time of a search for all spans.
const MAX_STEPS: usize = 8;

/// Values by the keys of spans. The last word of a key is never 0.
#[derive(Debug)]
pub(crate) struct SpanMemo<const K: usize> {
    bytes: Zeros,
    /// The number of lines, a power of two, minus one.
    mask: usize,
    /// The number of stored spans.
    used: usize,
    max_lines: usize,
    /// The number of spans that replaced another one.
    replaced: usize,
}

impl<const K: usize> SpanMemo<K> {
    /// Spans per line.
    const SLOTS: usize = KEYS / K;

    /// A memo of at most `max_bytes`, but at least one line.
    pub(crate) fn new(max_bytes: usize) -> Self {
        let max_lines = 1 << (max_bytes / size_of::<Line>()).max(1).ilog2();
        Self::with_lines(max_lines.min(FIRST_BYTES / size_of::<Line>()), max_lines)
    }

    fn with_lines(lines: usize, max_lines: usize) -> Self {
        let bytes = Zeros::new(lines * size_of::<Line>());
        Self { bytes, mask: lines - 1, used: 0, max_lines, replaced: 0 }
    }

    /// The lines; their number is a power of two.
    #[inline]
    pub(crate) fn lines(&self) -> &[Line] {
        bytemuck::cast_slice(&self.bytes)
    }

    /// The line of a span with this hash, which changes when the table grows.
    #[inline]
    pub(crate) fn home(&self, hash: usize) -> usize {
        hash & self.mask
    }

    /// Prefetches the line `home`.
    #[inline]
    pub(crate) fn prefetch(&self, home: usize) {
        prefetch(self.lines(), home);
    }

    /// The value of `key`, if it is stored.
    pub(crate) fn get(&self, home: usize, key: [u128; K]) -> Option<[u128; K]> {
        let lines = self.lines();
        for step in 0..=MAX_STEPS {
            let line = &lines[(home + step) & self.mask];
            if let Some(value) = value_in(line, key) {
                return Some(value);
            }
            if free_slot::<K>(line).is_some() {
                return None;
            }
        }
        None
    }

    /// Stores `key`, which must not be stored already, if necessary in place of another one.
    pub(crate) fn put(&mut self, home: usize, key: [u128; K], value: [u128; K]) {
        let is_full = self.used >= self.limit();
        let mask = self.mask;
        let lines: &mut [Line] = bytemuck::cast_slice_mut(&mut self.bytes);
        let places = (0..=MAX_STEPS).map(|step| (home + step) & mask);
        let free =
            places.filter(|_| !is_full).find_map(|at| Some((at, free_slot::<K>(&lines[at])?)));
        let (at, slot) = free.unwrap_or((home, self.replaced % Self::SLOTS));
        self.used += usize::from(free.is_some());
        self.replaced += usize::from(free.is_none());
        lines[at][slot * K..][..K].copy_from_slice(&key);
        lines[at][KEYS + slot * K..][..K].copy_from_slice(&value);
    }

    /// Doubles the table if it is well filled and can grow. `hash` is the argument of `home`.
    #[inline]
    pub(crate) fn make_room(&mut self, hash: impl Fn([u128; K]) -> usize) {
        if self.used * 8 >= self.slots() * 5 && self.mask + 1 < self.max_lines {
            self.grow(hash);
        }
    }

    #[cold]
    fn grow(&mut self, hash: impl Fn([u128; K]) -> usize) {
        let mut larger = Self::with_lines(2 * (self.mask + 1), self.max_lines);
        for line in self.lines() {
            for slot in 0..Self::SLOTS {
                let (key, value) = (words(line, slot * K), words(line, KEYS + slot * K));
                if key[K - 1] != 0 {
                    larger.put(larger.home(hash(key)), key, value);
                }
            }
        }
        *self = larger;
    }

    fn slots(&self) -> usize {
        Self::SLOTS * (self.mask + 1)
    }

    /// The maximum number of spans: there is always a free slot, except in a table of one line.
    fn limit(&self) -> usize {
        self.slots() / 4 * 3
    }
}

/// The value of `key` in `line`.
#[inline]
fn value_in<const K: usize>(line: &Line, key: [u128; K]) -> Option<[u128; K]> {
    let mut slots = (0..KEYS).step_by(K);
    slots.find_map(|at| (words(line, at) == key).then(|| words(line, KEYS + at)))
}

#[inline]
fn free_slot<const K: usize>(line: &Line) -> Option<usize> {
    (0..KEYS / K).find(|slot| line[slot * K + K - 1] == 0)
}

#[inline]
fn words<const K: usize>(line: &Line, at: usize) -> [u128; K] {
    std::array::from_fn(|word| line[at + word])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hash<const K: usize>(key: [u128; K]) -> usize {
        usize::try_from(key.iter().sum::<u128>() % 1_000_003).unwrap() * 7919
    }

    /// Looks up each of `numbers`, and stores it if it is missing; returns the number of hits.
    fn meet<const K: usize>(memo: &mut SpanMemo<K>, numbers: &[u32]) -> usize {
        let mut known = 0;
        for &number in numbers {
            memo.make_room(hash);
            let key = std::array::from_fn(|word| u128::from(number) + 1 + word as u128);
            let home = memo.home(hash(key));
            match memo.get(home, key) {
                Some(value) => {
                    assert_eq!(value, key.map(|word| word * 3));
                    known += 1;
                }
                None => memo.put(home, key, key.map(|word| word * 3)),
            }
            assert_eq!(memo.get(home, key), Some(key.map(|word| word * 3)));
            assert!(memo.bytes.len() <= memo.max_lines * size_of::<Line>());
        }
        known
    }

    #[test]
    fn nothing_is_evicted_below_the_limit() {
        let numbers: Vec<u32> = (0..100_000).collect();
        let mut short = SpanMemo::<1>::new(8 << 20);
        assert_eq!(short.bytes.len(), FIRST_BYTES);
        assert_eq!([meet(&mut short, &numbers), meet(&mut short, &numbers)], [0, 100_000]);
        let mut middle = SpanMemo::<2>::new(16 << 20);
        assert_eq!([meet(&mut middle, &numbers), meet(&mut middle, &numbers)], [0, 100_000]);
    }

    #[test]
    fn at_the_limit_some_entries_are_kept() {
        let numbers: Vec<u32> = (0..60_000).collect();
        let mut memo = SpanMemo::<1>::new(1 << 20);
        assert_eq!(meet(&mut memo, &numbers), 0);
        let known = meet(&mut memo, &numbers);
        assert!((5_000..40_000).contains(&known), "{known}");
    }

    proptest! {
        #[test]
        fn a_value_belongs_to_its_key_for_any_hash(
            numbers in prop::collection::vec(0u32..200, 1..500), bytes in 0usize..4096,
        ) {
            let mut memo = SpanMemo::<1>::new(bytes);
            for number in numbers {
                let key = [u128::from(number) + 1];
                match memo.get(memo.home(5), key) {
                    Some(value) => prop_assert_eq!(value, [key[0] * 3]),
                    None => memo.put(memo.home(5), key, [key[0] * 3]),
                }
            }
        }
    }
}
