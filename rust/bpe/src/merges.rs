//! The learner: spans and their counts to merges. Knows neither documents nor patterns.
//!
//! The rule, which is total, so that nothing but spans and counts decides the result: merge the pair
//! of neighbours with the highest count, among equals the one with the smallest (left id, right id);
//! replace it in every span from left to right; repeat until no pair is left or enough are merged.
//! A pair's count is the sum over all spans of count times positions, overlaps included: (a, a)
//! occurs four times in "aaaaa".
//!
//! Why counts are updated and never recounted: merging (a, b) to n changes only pairs (x, a), (x, n),
//! (b, y) and (n, y), at the places where (a, b) stood. Pairs of older ids therefore only fall; pairs
//! with n are all born in this one step, together with all the places where they stand.
//!
//! Why no two merges make the same bytes: the neighbours (a, b) were left over when all earlier
//! merges had been applied to their bytes; so an earlier token of those bytes would have been made
//! there, and (a, b) would not stand there.

use std::ops::ControlFlow;

use crate::pairs::Pairs;
use crate::symbols::Symbols;
use crate::{Documents, Error};

/// Two neighbouring ids that become one.
pub type Merge = (u32, u32);

/// What [`learn`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Learned {
    /// Merge k makes id 256 + k.
    pub merges: Vec<Merge>,
    /// How often each pair occurred when it was merged.
    pub counts: Vec<u64>,
}

/// Learns at most `num_merges` merges from spans and their counts; fewer when no pair is left.
///
/// A span may come more than once: its counts add. `progress(done, total)` is called about a hundred
/// times and may stop the work.
///
/// Time: linear in the bytes of distinct spans, times the merges a byte takes part in (about 6 in
/// text), and never quadratic in a long span. Memory: about 16 bytes per byte of distinct spans, of
/// which there may be 2^32.
///
/// # Errors
///
/// More counts than spans or fewer, too many bytes, a pair's count past `u64::MAX`, or a stop.
pub fn learn(
    spans: Documents<'_>,
    counts: &[u64],
    num_merges: usize,
    mut progress: impl FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Learned, Error> {
    let mut symbols = Symbols::new(spans, counts)?;
    let mut pairs = Pairs::new(&symbols)?;
    let mut learned = Learned::default();
    let step = (num_merges / 100).max(1);
    while learned.merges.len() < num_merges {
        let done = learned.merges.len();
        if done.is_multiple_of(step) && progress(done, num_merges).is_break() {
            return Err(Error::Stopped);
        }
        let Some(best) = pairs.pop_best() else { break };
        let new = u32::try_from(256 + done).map_err(|_| Error::TooManyMerges { number: done })?;
        learned.merges.push(best.pair);
        learned.counts.push(best.count);
        pairs.merge(&mut symbols, &best, new);
    }
    match progress(learned.merges.len(), num_merges) {
        ControlFlow::Continue(()) => Ok(learned),
        ControlFlow::Break(()) => Err(Error::Stopped),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Vocabulary, naive};

    type Rows = Vec<(Merge, u64)>;

    fn learn_rows(spans: &[(Vec<u8>, u64)], num_merges: usize) -> Result<Rows, Error> {
        let mut offsets = vec![0];
        for (span, _) in spans {
            offsets.push(offsets[offsets.len() - 1] + i64::try_from(span.len()).unwrap());
        }
        let data: Vec<u8> = spans.iter().flat_map(|(span, _)| span.clone()).collect();
        let counts: Vec<u64> = spans.iter().map(|&(_, count)| count).collect();
        let documents = Documents::new(&data, &offsets)?;
        let learned = learn(documents, &counts, num_merges, |_, _| ControlFlow::Continue(()))?;
        Ok(learned.merges.into_iter().zip(learned.counts).collect())
    }

    fn check(spans: &[(&str, u64)], num_merges: usize, expected: &Result<Rows, Error>) {
        let spans: Vec<_> = spans.iter().map(|&(span, n)| (span.as_bytes().to_vec(), n)).collect();
        assert_eq!(&learn_rows(&spans, num_merges), expected, "{spans:?}");
    }

    #[test]
    fn the_highest_count_wins_then_the_smallest_pair() {
        check(&[("ab", 1), ("cd", 2)], 9, &Ok(vec![((99, 100), 2), ((97, 98), 1)]));
        check(&[("cd", 2), ("ab", 2)], 1, &Ok(vec![((97, 98), 2)]));
        check(&[("ba", 2), ("ab", 1), ("ab", 1)], 1, &Ok(vec![((97, 98), 2)]));
    }

    #[test]
    fn overlapping_pairs_count_and_merge_from_the_left() {
        check(&[("aaa", 5)], 9, &Ok(vec![((97, 97), 10), ((256, 97), 5)]));
        check(&[("aaaaa", 1)], 9, &Ok(vec![((97, 97), 4), ((256, 97), 1), ((256, 257), 1)]));
        check(&[("abab", 1)], 9, &Ok(vec![((97, 98), 2), ((256, 256), 1)]));
    }

    #[test]
    fn learning_stops_when_no_pair_is_left() {
        check(&[], 9, &Ok(vec![]));
        check(&[("a", 5), ("", 5), ("ab", 0)], 9, &Ok(vec![]));
        check(&[("ab", 1)], 0, &Ok(vec![]));
    }

    #[test]
    fn a_pair_count_past_64_bits_is_an_error() {
        let half = 1 << 63;
        check(&[("ab", half), ("ab", half - 1)], 1, &Ok(vec![((97, 98), u64::MAX)]));
        let overflow = Err(Error::PairCountOverflow { left: 97, right: 98 });
        check(&[("ab", half), ("abc", half)], 1, &overflow);
        check(&[("abab", half)], 1, &overflow);
    }

    #[test]
    fn high_counts_stay_exact() {
        check(
            &[("aab", u64::MAX / 2), ("ab", 1)],
            2,
            &Ok(vec![((97, 98), u64::MAX / 2 + 1), ((97, 256), u64::MAX / 2)]),
        );
    }

    #[test]
    fn progress_is_told_and_can_stop_the_work() {
        let documents = Documents::new(b"abcdef", &[0, 6]).unwrap();
        let mut seen = Vec::new();
        let result = learn(documents, &[1], 3, |done, total| {
            seen.push((done, total));
            if done == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((result, seen), (Err(Error::Stopped), vec![(0, 3), (1, 3), (2, 3)]));
    }

    #[test]
    fn counts_must_fit_the_spans() {
        let documents = Documents::new(b"ab", &[0, 2]).unwrap();
        let error = learn(documents, &[1, 2], 1, |_, _| ControlFlow::Continue(())).unwrap_err();
        assert_eq!(error, Error::LengthsDiffer { spans: 1, what: "counts", length: 2 });
    }

    fn spans() -> impl Strategy<Value = Vec<(Vec<u8>, u64)>> {
        (1u8..=6).prop_flat_map(|letters| {
            let run = (0..letters, 1usize..20).prop_map(|(letter, times)| vec![letter; times]);
            let span = prop::collection::vec(run, 0..8).prop_map(|runs| runs.concat());
            prop::collection::vec((span, 0u64..4), 0..12)
        })
    }

    proptest! {
        #[test]
        fn merges_are_those_of_recounting_each_time(spans in spans(), num_merges in 0usize..60) {
            let learned = learn_rows(&spans, num_merges).unwrap();
            prop_assert_eq!(&learned, &naive::learn(&spans, num_merges));
            let merges: Vec<Merge> = learned.into_iter().map(|(pair, _)| pair).collect();
            prop_assert_eq!(Vocabulary::new(&merges).unwrap().duplicates(), []);
        }
    }
}
