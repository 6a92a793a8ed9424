//! Sums of sorted runs, which are added one hash range after the other, each run with a weight.
//! Every span is stored once with its weighted count.

use crate::count::run_merge::{Repeats, Rows, merge};
use crate::error::RunProblem;
use crate::{Error, RunView, SortedRun, hash64};

/// Totals of the text of the sums, without weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanTotals {
    /// Occurrences of spans.
    pub spans: u128,
    /// Bytes of these occurrences.
    pub bytes: u128,
    /// Number of different spans.
    pub distinct: u64,
}

impl SpanTotals {
    #[inline]
    fn add(&mut self, span: &[u8], count: u64) {
        self.spans += u128::from(count);
        self.bytes += u128::from(count) * span.len() as u128;
        self.distinct += 1;
    }
}

/// The sums so far. The arrays grow in place, so that the memory is about their size.
#[derive(Debug, Clone)]
pub struct RunSums {
    run: SortedRun,
    keeps_hashes: bool,
    min_count: u64,
    all: SpanTotals,
    dropped: SpanTotals,
}

impl RunSums {
    /// Spans with a lower sum than `min_count`, before weights, are dropped; without hashes a span
    /// takes 8 bytes less.
    pub fn new(min_count: u64, keeps_hashes: bool) -> Self {
        let (all, dropped) = (SpanTotals::default(), SpanTotals::default());
        Self { run: SortedRun::with_capacity(0, 0), keeps_hashes, min_count, all, dropped }
    }

    /// Adds runs, each with the factor of its counts. Their spans must follow those of all earlier
    /// calls. Every hash is compared with that of its span, once for all rows of the span.
    ///
    /// # Errors
    ///
    /// Fails if the rows of a run are out of order or contain a span twice, if a hash is wrong or a
    /// count is 0, or if a plain or weighted sum exceeds `u64::MAX`. The sums cannot be used
    /// afterwards.
    pub fn add(&mut self, runs: &[RunView<'_>], weights: &[u64]) -> Result<(), Error> {
        self.add_hashed(runs, weights, hash64)
    }

    fn add_hashed(
        &mut self,
        runs: &[RunView<'_>],
        weights: &[u64],
        hash: impl Fn(&[u8]) -> u64,
    ) -> Result<(), Error> {
        if weights.len() != runs.len() {
            let (spans, length) = (runs.len(), weights.len());
            return Err(Error::LengthsDiffer { spans, what: "weights", length });
        }
        merge(runs, Repeats::Refused, |rows| {
            if hash(rows.span) != rows.hash {
                return Err(wrong_hash(rows));
            }
            let (plain, weighted) = sums(rows, weights)?;
            self.all.add(rows.span, plain);
            if plain < self.min_count {
                self.dropped.add(rows.span, plain);
            } else if self.keeps_hashes {
                self.run.push(rows.hash, rows.span, weighted);
            } else {
                self.run.push_span(rows.span, weighted);
            }
            Ok(())
        })
    }

    /// Totals of all runs.
    pub fn all(&self) -> SpanTotals {
        self.all
    }

    /// Totals of the dropped spans.
    pub fn dropped(&self) -> SpanTotals {
        self.dropped
    }

    /// The kept spans and their weighted counts, in order; without hashes if none were kept.
    #[must_use]
    pub fn into_run(mut self) -> SortedRun {
        self.run.shrink();
        self.run
    }
}

/// The plain and the weighted count.
#[inline]
fn sums(rows: Rows<'_, '_>, weights: &[u64]) -> Result<(u64, u64), Error> {
    let (mut plain, mut weighted) = (0_u64, 0_u64);
    for (run, count) in rows.counts() {
        let both = count.checked_mul(weights[run]).and_then(|count| weighted.checked_add(count));
        let Some((sum, both)) = plain.checked_add(count).zip(both) else {
            return Err(overflow(rows.span));
        };
        if count == 0 {
            return Err(no_count(run, rows.span));
        }
        (plain, weighted) = (sum, both);
    }
    Ok((plain, weighted))
}

/// The sum of sorted runs: one row per span, its counts added.
///
/// Time: n log w for n rows and windows of w rows, a few thousand. Memory: the result.
///
/// # Errors
///
/// Fails if a run is not sorted, or if a count exceeds `u64::MAX`. A run can contain a span several
/// times, and hashes are not compared.
pub fn merge_runs(runs: &[RunView<'_>]) -> Result<SortedRun, Error> {
    let largest = runs.iter().max_by_key(|run| run.spans().len());
    let (spans, bytes) = largest
        .map_or((0, 0), |run| (run.spans().len(), run.spans().num_bytes(&(0..run.spans().len()))));
    let mut merged = SortedRun::with_capacity(spans, bytes);
    merge(runs, Repeats::Allowed, |rows| {
        let sum = rows.counts().try_fold(0_u64, |sum, (_, count)| sum.checked_add(count));
        merged.push(rows.hash, rows.span, sum.ok_or_else(|| overflow(rows.span))?);
        Ok(())
    })?;
    Ok(merged)
}

#[cold]
fn overflow(span: &[u8]) -> Error {
    Error::SpanSumOverflow { span: span.to_vec() }
}

#[cold]
fn wrong_hash(rows: Rows<'_, '_>) -> Error {
    let run = rows.counts().next().map_or(0, |(run, _)| run);
    Error::Run { run, problem: RunProblem::Hash { span: rows.span.to_vec() } }
}

#[cold]
fn no_count(run: usize, span: &[u8]) -> Error {
    Error::Run { run, problem: RunProblem::NoCount { span: span.to_vec() } }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use proptest::prelude::*;

    use super::*;

    type Counts = BTreeMap<(u64, Vec<u8>), u64>;

    /// The plain and the weighted count of each span.
    type Sums = HashMap<(u64, Vec<u8>), (u64, u64)>;

    fn run_of(rows: &Counts) -> SortedRun {
        let mut run = SortedRun::with_capacity(rows.len(), 0);
        for ((hash, span), &count) in rows {
            run.push(*hash, span, count);
        }
        run
    }

    /// A span that begins with its hash.
    fn span(hash: u64, text: &str) -> Vec<u8> {
        [&hash.to_le_bytes(), text.as_bytes()].concat()
    }

    /// The hash of these tests, which lets them choose spans of equal hashes.
    fn begin(span: &[u8]) -> u64 {
        u64::from_le_bytes(*span.first_chunk().unwrap())
    }

    fn run(rows: &[(u64, &str, u64)]) -> SortedRun {
        let mut run = SortedRun::with_capacity(rows.len(), 0);
        for &(hash, text, count) in rows {
            run.push(hash, &span(hash, text), count);
        }
        run
    }

    fn added(runs: &[SortedRun]) -> Result<SortedRun, Error> {
        let views: Vec<_> = runs.iter().map(|run| run.view().unwrap()).collect();
        let mut sums = RunSums::new(1, true);
        sums.add_hashed(&views, &vec![1; views.len()], begin).map(|()| sums.into_run())
    }

    fn check(runs: &[SortedRun], expected: Result<&[(u64, &str, u64)], Error>) {
        let views: Vec<_> = runs.iter().map(|run| run.view().unwrap()).collect();
        assert_eq!(merge_runs(&views), expected.map(run));
        assert_eq!(added(runs), merge_runs(&views));
    }

    fn out_of_order(run: usize, row: usize) -> Error {
        Error::Run { run, problem: RunProblem::OutOfOrder { row } }
    }

    #[test]
    fn runs_are_summed_in_order() {
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
    fn spans_with_the_same_hash_stay_separate() {
        check(
            &[run(&[(1, "a", 1), (1, "b", 1)]), run(&[(1, "ab", 1), (1, "b", 1)])],
            Ok(&[(1, "a", 1), (1, "ab", 1), (1, "b", 2)]),
        );
    }

    #[test]
    fn a_span_twice_in_one_run_is_merged_but_no_row_of_a_sum() {
        let twice = run(&[(1, "a", 1), (1, "a", 2), (2, "b", 1)]);
        let merged = merge_runs(&[twice.view().unwrap()]).unwrap();
        assert_eq!(merged, run(&[(1, "a", 3), (2, "b", 1)]));
        assert_eq!(added(&[run(&[]), twice]), Err(out_of_order(1, 1)));
    }

    #[test]
    fn a_run_out_of_order_is_an_error() {
        check(&[run(&[]), run(&[(2, "a", 1), (1, "b", 1)])], Err(out_of_order(1, 1)));
        check(&[run(&[(1, "b", 1), (1, "a", 1)])], Err(out_of_order(0, 1)));
        let mut many: Vec<_> = (0..9000).map(|hash| (hash << 50, "a", 1)).collect();
        many.swap(7000, 7001);
        check(&[run(&[]), run(&many)], Err(out_of_order(1, 7001)));
    }

    #[test]
    fn a_wrong_hash_or_a_count_of_0_is_an_error_that_names_the_run_and_the_span() {
        let right = run(&[(1, "a", 1), (2, "b", 1), (2, "c", 1)]);
        let problem = |wrong: SortedRun| match added(&[right.clone(), wrong]) {
            Err(Error::Run { run: 1, problem }) => problem,
            other => panic!("{other:?}"),
        };
        for row in [0, 2] {
            let mut wrong = right.clone();
            wrong.data[9 * row] ^= 4;
            let span = wrong.data[9 * row..][..9].to_vec();
            assert_eq!(problem(wrong), RunProblem::Hash { span });
        }
        let mut wrong = right.clone();
        wrong.hashes[2] += 1;
        assert_eq!(problem(wrong), RunProblem::Hash { span: span(2, "c") });
        let wrong = run(&[(1, "a", 1), (2, "b", 0)]);
        assert_eq!(problem(wrong), RunProblem::NoCount { span: span(2, "b") });
    }

    #[test]
    fn hashes_are_those_of_the_project() {
        let mut run = SortedRun::with_capacity(1, 0);
        run.push(hash64(b"a"), b"a", 1);
        let mut sums = RunSums::new(1, true);
        assert_eq!(sums.add(&[run.view().unwrap()], &[1]), Ok(()));
        run.data[0] = b'b';
        let problem = RunProblem::Hash { span: b"b".to_vec() };
        assert_eq!(sums.add(&[run.view().unwrap()], &[1]), Err(Error::Run { run: 0, problem }));
    }

    #[test]
    fn a_sum_over_64_bits_is_an_error_that_names_the_span() {
        let half = 1 << 63;
        let overflow = || Error::SpanSumOverflow { span: span(1, "a") };
        check(&[run(&[(1, "a", half)]), run(&[(1, "a", half - 1)])], Ok(&[(1, "a", u64::MAX)]));
        check(&[run(&[(1, "a", half)]), run(&[(1, "a", half)])], Err(overflow()));
        let halves = run(&[(1, "a", half), (2, "b", 1)]);
        let added = RunSums::new(1, false).add_hashed(&[halves.view().unwrap()], &[2], begin);
        assert_eq!(added, Err(overflow()));
    }

    #[test]
    fn each_run_requires_a_weight() {
        let added = RunSums::new(1, false).add(&[], &[2]);
        assert_eq!(added, Err(Error::LengthsDiffer { spans: 0, what: "weights", length: 1 }));
    }

    /// Few hashes, so that spans share them; counts sometimes overflow.
    fn counts() -> impl Strategy<Value = Counts> {
        let hash = prop_oneof![0u64..3, Just(u64::MAX), any::<u64>()];
        let row = (hash, "[ab]{0,2}").prop_map(|(hash, text)| (hash, span(hash, &text)));
        let count = prop_oneof![9 => 1u64..9, 1 => (u64::MAX / 8)..(u64::MAX / 4)];
        prop::collection::btree_map(row, count, 0..12)
    }

    /// The sums of plain maps; `None` on overflow.
    fn plain_sums(parts: &[(Counts, u64)]) -> Option<Sums> {
        let mut sums = Sums::new();
        for (counts, weight) in parts {
            for (span, count) in counts {
                let (plain, weighted) = sums.entry(span.clone()).or_insert((0u64, 0u64));
                *plain = plain.checked_add(*count)?;
                *weighted = weighted.checked_add(count.checked_mul(*weight)?)?;
            }
        }
        Some(sums)
    }

    fn totals<'a>(spans: impl Iterator<Item = (&'a [u8], u64)>) -> SpanTotals {
        let mut totals = SpanTotals::default();
        spans.for_each(|(span, count)| totals.add(span, count));
        totals
    }

    proptest! {
        #[test]
        fn sums_equal_maps(parts in prop::collection::vec((counts(), 1u64..5), 0..6),
                                  min_count in 1u64..9, keeps_hashes: bool) {
            let runs: Vec<_> = parts.iter().map(|(counts, _)| run_of(counts)).collect();
            let views: Vec<_> = runs.iter().map(|run| run.view().unwrap()).collect();
            let weights: Vec<_> = parts.iter().map(|part| part.1).collect();
            let mut sums = RunSums::new(min_count, keeps_hashes);
            let added = sums.add_hashed(&views, &weights, begin);
            let Some(expected) = plain_sums(&parts) else {
                let refused = matches!(added, Err(Error::SpanSumOverflow { .. }));
                prop_assert!(refused);
                return Ok(());
            };
            prop_assert_eq!(added, Ok(()));
            let all = expected.iter().map(|((_, span), (plain, _))| (&span[..], *plain));
            prop_assert_eq!(sums.all(), totals(all.clone()));
            prop_assert_eq!(sums.dropped(), totals(all.filter(|(_, plain)| *plain < min_count)));
            let kept = expected.iter().filter(|(_, (plain, _))| *plain >= min_count);
            let mut kept = run_of(&kept.map(|(span, (_, sum))| (span.clone(), *sum)).collect());
            if !keeps_hashes {
                kept.hashes.clear();
            }
            prop_assert_eq!(sums.into_run(), kept);
        }

        #[test]
        fn consecutive_ranges_join_to_the_whole(parts in prop::collection::vec(counts(), 0..5),
                                                    cut: u64) {
            let views = |part: &[SortedRun]| merge_runs(
                &part.iter().map(|run| run.view().unwrap()).collect::<Vec<_>>());
            let whole = views(&parts.iter().map(run_of).collect::<Vec<_>>());
            let mut sums = RunSums::new(1, true);
            let added = [true, false].iter().try_for_each(|&low| {
                let own: Vec<_> = parts.iter().map(|part| run_of(&part.iter()
                    .filter(|((hash, _), _)| (*hash < cut) == low)
                    .map(|(span, count)| (span.clone(), *count)).collect())).collect();
                let views: Vec<_> = own.iter().map(|run| run.view().unwrap()).collect();
                sums.add_hashed(&views, &vec![1; views.len()], begin)
            });
            prop_assert_eq!(added.map(|()| sums.into_run()), whole);
        }

        #[test]
        fn many_windows_form_one_run(hashes in prop::collection::vec(any::<u64>(), 0..20_000),
                                    runs in 1usize..9) {
            let mut parts = vec![Counts::new(); runs];
            for (number, &hash) in hashes.iter().enumerate() {
                *parts[number % runs].entry((hash >> (hash % 64), vec![7])).or_insert(0) += 1;
            }
            let whole = parts.iter().flatten().fold(Counts::new(), |mut sums, (span, count)| {
                *sums.entry(span.clone()).or_insert(0) += count;
                sums
            });
            let parts: Vec<_> = parts.iter().map(run_of).collect();
            let views: Vec<_> = parts.iter().map(|run| run.view().unwrap()).collect();
            prop_assert_eq!(merge_runs(&views).unwrap(), run_of(&whole));
        }
    }
}
