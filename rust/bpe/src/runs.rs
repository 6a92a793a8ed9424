//! Counts as sorted runs: what a count file holds. Takes runs sorted by (hash64, span), gives their sum
//! as such a run. Knows neither patterns nor files.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::short::Short;
use crate::{Documents, Error};

/// Spans with their counts, sorted by (hash64, span): four arrays, as they lie on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SortedRun {
    /// The hash64 of each span.
    pub hashes: Vec<u64>,
    /// The bytes of all spans back to back.
    pub data: Vec<u8>,
    /// Where each span starts in `data`, and where the last one ends.
    pub offsets: Vec<i64>,
    /// The count of each span.
    pub counts: Vec<u64>,
}

impl SortedRun {
    pub(crate) fn with_capacity(spans: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(spans + 1);
        offsets.push(0);
        let (hashes, counts) = (Vec::with_capacity(spans), Vec::with_capacity(spans));
        Self { hashes, data: Vec::with_capacity(bytes), offsets, counts }
    }

    #[inline]
    pub(crate) fn push(&mut self, hash: u64, span: &[u8], count: u64) {
        self.hashes.push(hash);
        self.data.extend_from_slice(span);
        self.offsets.push(i64::try_from(self.data.len()).expect("memory is below 2**63 bytes"));
        self.counts.push(count);
    }

    /// The same for a short span: all 16 bytes are copied, as a copy of a length that is not known
    /// beforehand is a call.
    #[inline]
    pub(crate) fn push_short(&mut self, hash: u64, span: Short, count: u64) {
        let (bytes, length) = span.bytes();
        let end = self.data.len() + length;
        self.data.extend_from_slice(&bytes);
        self.data.truncate(end);
        self.push(hash, &[], count);
    }

    /// Appends a run that comes after this one.
    pub(crate) fn append(&mut self, other: &Self) {
        let base = self.offsets.last().copied().unwrap_or(0);
        self.hashes.extend_from_slice(&other.hashes);
        self.data.extend_from_slice(&other.data);
        self.offsets.extend(other.offsets[1..].iter().map(|offset| base + offset));
        self.counts.extend_from_slice(&other.counts);
    }

    /// The borrowed form, which [`merge_runs`] takes.
    ///
    /// # Errors
    ///
    /// Arrays that do not fit together.
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
    /// Checks that there are as many hashes and counts as spans; the order is checked while merging.
    ///
    /// # Errors
    ///
    /// Arrays that differ in length.
    pub fn new(hashes: &'a [u64], spans: Documents<'a>, counts: &'a [u64]) -> Result<Self, Error> {
        for (what, length) in [("hashes", hashes.len()), ("counts", counts.len())] {
            if length != spans.len() {
                return Err(Error::LengthsDiffer { spans: spans.len(), what, length });
            }
        }
        Ok(Self { hashes, spans, counts })
    }

    fn key(&self, row: usize) -> Option<(u64, &'a [u8])> {
        (row < self.hashes.len()).then(|| (self.hashes[row], self.spans.get(row)))
    }
}

/// The sum of sorted runs: one row per span, its counts added.
///
/// Time: n log k for n rows in k runs. Memory: the result.
///
/// # Errors
///
/// A run that is not sorted, or a count past `u64::MAX`.
pub fn merge_runs(runs: &[RunView<'_>]) -> Result<SortedRun, Error> {
    let largest = runs.iter().max_by_key(|run| run.hashes.len());
    let (rows, bytes) = largest
        .map_or((0, 0), |run| (run.hashes.len(), run.spans.num_bytes(&(0..run.spans.len()))));
    let mut merged = SortedRun::with_capacity(rows, bytes);
    let mut heads: BinaryHeap<_> = runs
        .iter()
        .enumerate()
        .filter_map(|(number, run)| run.key(0).map(|key| Reverse((key, number, 0))))
        .collect();
    let mut last = None;
    while let Some(mut head) = heads.peek_mut() {
        let Reverse((key, number, row)) = *head;
        let run = &runs[number];
        if last == Some(key) {
            add_to_last(&mut merged.counts, run.counts[row])?;
        } else {
            merged.push(key.0, key.1, run.counts[row]);
            last = Some(key);
        }
        match run.key(row + 1) {
            Some(next) if next < key => {
                return Err(Error::RunUnsorted { run: number, row: row + 1 });
            }
            Some(next) => *head = Reverse((next, number, row + 1)),
            None => drop(std::collections::binary_heap::PeekMut::pop(head)),
        }
    }
    Ok(merged)
}

fn add_to_last(counts: &mut [u64], count: u64) -> Result<(), Error> {
    let last = counts.last_mut().expect("a row was pushed before");
    *last = last.checked_add(count).ok_or(Error::SpanCountOverflow)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rows: &[(u64, &str, u64)]) -> SortedRun {
        let mut run = SortedRun::with_capacity(rows.len(), 0);
        for &(hash, span, count) in rows {
            run.push(hash, span.as_bytes(), count);
        }
        run
    }

    fn check(runs: &[SortedRun], expected: Result<&[(u64, &str, u64)], Error>) {
        let views: Vec<_> = runs.iter().map(|run| run.view().unwrap()).collect();
        assert_eq!(merge_runs(&views), expected.map(run));
    }

    #[test]
    fn runs_are_added_up_in_order() {
        check(&[], Ok(&[]));
        check(&[run(&[]), run(&[])], Ok(&[]));
        check(
            &[
                run(&[(1, "x", 2), (3, "a", 1)]),
                run(&[(1, "y", 1), (3, "a", 5)]),
                run(&[(0, "", 7)]),
            ],
            Ok(&[(0, "", 7), (1, "x", 2), (1, "y", 1), (3, "a", 6)]),
        );
    }

    #[test]
    fn spans_with_the_same_hash_stay_apart() {
        check(
            &[run(&[(1, "a", 1), (1, "b", 1)]), run(&[(1, "ab", 1), (1, "b", 1)])],
            Ok(&[(1, "a", 1), (1, "ab", 1), (1, "b", 2)]),
        );
    }

    #[test]
    fn a_run_out_of_order_is_an_error() {
        check(
            &[run(&[]), run(&[(2, "a", 1), (1, "b", 1)])],
            Err(Error::RunUnsorted { run: 1, row: 1 }),
        );
        check(&[run(&[(1, "b", 1), (1, "a", 1)])], Err(Error::RunUnsorted { run: 0, row: 1 }));
    }

    #[test]
    fn a_sum_past_64_bits_is_an_error() {
        let half = 1 << 63;
        check(&[run(&[(1, "a", half)]), run(&[(1, "a", half - 1)])], Ok(&[(1, "a", u64::MAX)]));
        check(&[run(&[(1, "a", half)]), run(&[(1, "a", half)])], Err(Error::SpanCountOverflow));
    }

    #[test]
    fn arrays_of_different_lengths_are_an_error() {
        let spans = Documents::new(b"ab", &[0, 1, 2]).unwrap();
        let error = RunView::new(&[1, 2], spans, &[1]).unwrap_err();
        assert_eq!(error, Error::LengthsDiffer { spans: 2, what: "counts", length: 1 });
    }
}
