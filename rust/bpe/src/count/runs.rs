//! Counts as sorted runs, the content of a count file, owned and borrowed.

use std::ops::Range;

use nanotok_memory as memory;

use crate::cpu::simd::prefetch;
use crate::short::Short;
use crate::{Documents, Error};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Spans with their counts, sorted by (hash64, span), as four arrays like those on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SortedRun {
    /// The hash64 of each span.
    pub hashes: Vec<u64>,
    /// The bytes of all spans back to back.
    pub data: Vec<u8>,
    /// The start of each span in `data`, and the end of the last.
    pub offsets: Vec<i64>,
    /// The count of each span.
    pub counts: Vec<u64>,
}

impl SortedRun {
    pub(crate) fn with_capacity(spans: usize, bytes: usize) -> Self {
        let mut offsets = memory::with_capacity(spans + 1);
        offsets.push(0);
        let (hashes, counts) = (memory::with_capacity(spans), memory::with_capacity(spans));
        Self { hashes, data: memory::with_capacity(bytes), offsets, counts }
    }

    #[inline]
    pub(crate) fn push(&mut self, hash: u64, span: &[u8], count: u64) {
        memory::push(&mut self.hashes, hash);
        self.push_span(span, count);
    }

    /// The same for a run without hashes.
    #[inline]
    pub(crate) fn push_span(&mut self, span: &[u8], count: u64) {
        memory::append(&mut self.data, span);
        let end = i64::try_from(self.data.len()).expect("memory is below 2**63 bytes");
        memory::push(&mut self.offsets, end);
        memory::push(&mut self.counts, count);
    }

    /// Frees unused memory.
    pub(crate) fn shrink(&mut self) {
        self.hashes.shrink_to_fit();
        self.data.shrink_to_fit();
        self.offsets.shrink_to_fit();
        self.counts.shrink_to_fit();
    }

    /// The same for a short span: all 16 bytes are copied, since a copy of variable length is a
    /// function call.
    #[inline]
    pub(crate) fn push_short(&mut self, hash: u64, span: Short, count: u64) {
        let (bytes, length) = span.bytes();
        let end = self.data.len() + length;
        memory::append(&mut self.data, &bytes);
        self.data.truncate(end);
        self.push(hash, &[], count);
    }

    /// Appends a run whose spans follow those of this one.
    pub(crate) fn append(&mut self, other: &Self) {
        let base = self.offsets.last().copied().unwrap_or(0);
        memory::append(&mut self.hashes, &other.hashes);
        memory::append(&mut self.data, &other.data);
        memory::reserve(&mut self.offsets, other.offsets.len());
        self.offsets.extend(other.offsets[1..].iter().map(|offset| base + offset));
        memory::append(&mut self.counts, &other.counts);
    }

    /// The borrowed form, the argument of [`crate::merge_runs`].
    ///
    /// # Errors
    ///
    /// Fails if the arrays do not match.
    pub fn view(&self) -> Result<RunView<'_>, Error> {
        RunView::new(&self.hashes, Documents::new(&self.data, &self.offsets)?, &self.counts)
    }
}

/// A borrowed sorted run.
#[derive(Debug, Clone, Copy)]
pub struct RunView<'a> {
    hashes: &'a [u64],
    spans: Documents<'a>,
    counts: &'a [u64],
}

impl<'a> RunView<'a> {
    /// Checks that the numbers of hashes, counts and spans are equal; merging checks the order.
    ///
    /// # Errors
    ///
    /// Fails if the arrays differ in length.
    pub fn new(hashes: &'a [u64], spans: Documents<'a>, counts: &'a [u64]) -> Result<Self, Error> {
        for (what, length) in [("hashes", hashes.len()), ("counts", counts.len())] {
            if length != spans.len() {
                return Err(Error::LengthsDiffer { spans: spans.len(), what, length });
            }
        }
        Ok(Self { hashes, spans, counts })
    }

    /// Whether all rows are greater than those of `other`; true if one of them has none.
    pub fn follows(&self, other: &Self) -> bool {
        match (self.hashes.len(), other.hashes.len().checked_sub(1)) {
            (1.., Some(last)) => self.row(0) > other.row(last),
            _ => true,
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The values by which rows are sorted.
    pub(crate) fn row(&self, number: usize) -> (u64, &'a [u8]) {
        (self.hashes[number], self.spans.get(number))
    }

    /// Prefetches the counts of rows, and the positions of their spans.
    pub(crate) fn prefetch_places(self, rows: Range<usize>) {
        prefetch_all(self.counts, rows.clone());
        prefetch_all(self.spans.offsets(), rows);
    }

    /// Prefetches the bytes of the spans of rows.
    pub(crate) fn prefetch_spans(self, rows: Range<usize>) {
        prefetch_all(self.spans.data(), self.spans.start(rows.start)..self.spans.start(rows.end));
    }

    #[inline]
    pub(crate) fn hashes(self) -> &'a [u64] {
        self.hashes
    }

    #[inline]
    pub(crate) fn spans(self) -> Documents<'a> {
        self.spans
    }

    #[inline]
    pub(crate) fn counts(self) -> &'a [u64] {
        self.counts
    }
}

/// Prefetches the cache lines of a range, its end included.
fn prefetch_all<T>(slice: &[T], range: Range<usize>) {
    let end = range.end;
    range.step_by(LINE / size_of::<T>()).for_each(|index| prefetch(slice, index));
    prefetch(slice, end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_different_lengths_are_an_error() {
        let spans = Documents::new(b"ab", &[0, 1, 2]).unwrap();
        let error = RunView::new(&[1, 2], spans, &[1]).unwrap_err();
        assert_eq!(error, Error::LengthsDiffer { spans: 2, what: "counts", length: 1 });
    }

    #[test]
    fn a_run_follows_another_if_all_its_rows_are_greater() {
        fn run<'a>(hashes: &'a [u64], offsets: &'a [i64]) -> RunView<'a> {
            let spans = Documents::new(b"abb", offsets).unwrap();
            RunView::new(hashes, spans, &[1, 1][..hashes.len()]).unwrap()
        }
        let (first, none) = (run(&[1, 2], &[0, 1, 2]), run(&[], &[0]));
        for (hash, begin, end, expected) in
            [(3, 0, 1, true), (2, 0, 1, false), (2, 1, 2, false), (2, 1, 3, true)]
        {
            assert_eq!(run(&[hash], &[begin, end]).follows(&first), expected, "{hash} {begin}");
        }
        assert!(first.follows(&none) && none.follows(&first) && none.is_empty());
    }
}
