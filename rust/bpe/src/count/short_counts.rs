//! Counts of short spans: a growing table with two spans per cache line. No span is ever removed.
//! Arithmetic is modulo 2^64: the caller ensures that no count overflows. Longer spans are
//! elsewhere.

use crate::cpu::simd::prefetch;
use crate::hash64;
use crate::short::Short;
use crate::zeros::Zeros;

/// Two spans in halves, followed by their counts and their hashes.
type Line = [u64; 8];

const COUNTS: usize = 4;
const HASHES: usize = 6;

/// Spans per line.
const WIDTH: usize = 2;

const LINE_BYTES: usize = size_of::<Line>();

/// Lines of the smallest table; tables below `FAST_LINES` grow faster.
const MIN_LINES: usize = 1 << 8;
const FAST_LINES: usize = 1 << 14;

/// Counts of short spans.
#[derive(Debug)]
pub(crate) struct ShortCounts {
    lines: Zeros,
    mask: usize,
    used: usize,
}

impl ShortCounts {
    pub(crate) fn new() -> Self {
        Self::of_lines(MIN_LINES)
    }

    fn of_lines(lines: usize) -> Self {
        Self { lines: Zeros::new(lines * LINE_BYTES), mask: lines - 1, used: 0 }
    }

    /// Reserves room for new spans; places change.
    #[inline]
    pub(crate) fn reserve(&mut self, spans: usize) {
        while self.used + spans > (self.mask + 1) * WIDTH / 4 * 3 {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let lines = self.mask + 1;
        let mut larger = Self::of_lines(lines * if lines < FAST_LINES { 8 } else { 2 });
        for (span, hash, count) in self.all() {
            larger.add_elsewhere(larger.place(span), span, Some(hash), count);
        }
        *self = larger;
    }

    /// Number of spans that were ever added.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// The line in which `span` is searched first.
    #[inline]
    pub(crate) fn place(&self, span: Short) -> usize {
        span.mixed() & self.mask
    }

    /// Prefetches a line.
    #[inline]
    pub(crate) fn prefetch(&self, place: usize) {
        prefetch(&self.lines, place * LINE_BYTES);
    }

    /// Adds `count` to that of each span, given its line; there must be room for all spans.
    #[inline(never)]
    pub(crate) fn add_all(&mut self, spans: &[Short], places: &[usize], count: u64) {
        let mut done = 0;
        loop {
            done += add_known(self.lines_mut(), &spans[done..], &places[done..], count);
            let (Some(&span), Some(&place)) = (spans.get(done), places.get(done)) else { return };
            self.add_elsewhere(place, span, None, count);
            done += 1;
        }
    }

    /// Adds to the count of a span that is new or not in its own line.
    #[inline(never)]
    fn add_elsewhere(&mut self, mut place: usize, span: Short, hash: Option<u64>, count: u64) {
        let halves = span.halves();
        let mask = self.mask;
        let lines = self.lines_mut();
        loop {
            let line = &mut lines[place];
            for at in 0..WIDTH {
                let own = [line[2 * at], line[2 * at + 1]];
                if own == halves {
                    line[COUNTS + at] = line[COUNTS + at].wrapping_add(count);
                    return;
                }
                if own[1] == 0 {
                    (line[2 * at], line[2 * at + 1]) = (halves[0], halves[1]);
                    line[COUNTS + at] = count;
                    line[HASHES + at] = hash.unwrap_or_else(|| hash_of(span));
                    self.used += 1;
                    return;
                }
            }
            place = (place + 1) & mask;
        }
    }

    /// The count of `span`.
    pub(crate) fn get(&self, span: Short) -> u64 {
        let halves = span.halves();
        let lines = self.lines();
        let mut place = self.place(span);
        loop {
            let line = &lines[place];
            for at in 0..WIDTH {
                let own = [line[2 * at], line[2 * at + 1]];
                if own == halves || own[1] == 0 {
                    return line[COUNTS + at];
                }
            }
            place = (place + 1) & self.mask;
        }
    }

    /// All spans that were ever added with hash64 and count, which can be 0.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Short, u64, u64)> {
        let slots = self.lines().iter().flat_map(|line| (0..WIDTH).map(move |at| (line, at)));
        let used = slots.filter(|(line, at)| line[2 * at + 1] != 0);
        used.map(|(line, at)| {
            let span = Short::of_halves([line[2 * at], line[2 * at + 1]]);
            (span, line[HASHES + at], line[COUNTS + at])
        })
    }

    fn lines(&self) -> &[Line] {
        bytemuck::cast_slice(&self.lines)
    }

    fn lines_mut(&mut self) -> &mut [Line] {
        bytemuck::cast_slice_mut(&mut self.lines)
    }
}

/// Adds `count` to that of each span up to the first that is not in its own line; returns their
/// number.
#[inline]
fn add_known(lines: &mut [Line], spans: &[Short], places: &[usize], count: u64) -> usize {
    for (done, (span, &place)) in spans.iter().zip(places).enumerate() {
        let [low, high] = span.halves();
        let line = &mut lines[place];
        let first = (line[0] ^ low) | (line[1] ^ high) == 0;
        let second = (line[2] ^ low) | (line[3] ^ high) == 0;
        if !(first | second) {
            return done;
        }
        // Without a branch, which would be unpredictable.
        let own = &mut line[COUNTS + usize::from(second)];
        *own = own.wrapping_add(count);
    }
    spans.len()
}

fn hash_of(span: Short) -> u64 {
    let (bytes, length) = span.bytes();
    hash64(&bytes[..length])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn add(counts: &mut ShortCounts, spans: &[Short], count: u64) {
        counts.reserve(spans.len());
        let places: Vec<usize> = spans.iter().map(|&span| counts.place(span)).collect();
        counts.add_all(spans, &places, count);
    }

    proptest! {
        #[test]
        fn counts_equal_a_map(numbers in prop::collection::vec(0u32..3000, 0..3000)) {
            let texts: Vec<String> = numbers.iter().map(|number| format!("{}", number * 77)).collect();
            let mut counts = ShortCounts::new();
            let mut map = BTreeMap::new();
            for (chunk, count) in texts.chunks(200).zip([1, 3, u64::MAX].into_iter().cycle()) {
                let spans: Vec<Short> =
                    chunk.iter().map(|text| Short::new(text.as_bytes()).unwrap()).collect();
                add(&mut counts, &spans, count);
                for text in chunk {
                    let own = map.entry((text.clone().into_bytes(), hash64(text.as_bytes())));
                    let own: &mut u64 = own.or_default();
                    *own = own.wrapping_add(count);
                }
            }
            let found: BTreeMap<(Vec<u8>, u64), u64> = counts.all().map(|(span, hash, count)| {
                let (bytes, length) = span.bytes();
                ((bytes[..length].to_vec(), hash), count)
            }).collect();
            prop_assert_eq!(counts.all().count(), map.len());
            for ((text, _), &count) in &map {
                prop_assert_eq!(counts.get(Short::new(text).unwrap()), count);
            }
            prop_assert_eq!(counts.get(Short::new(b"absent").unwrap()), 0);
            prop_assert_eq!(found, map);
        }
    }
}
