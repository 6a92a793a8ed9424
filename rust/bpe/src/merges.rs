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

/// What is to be learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goal {
    /// So many merges at most.
    pub num_merges: usize,
    /// A pair that occurs less often is not merged; pairs that do not occur never are.
    pub min_pair_count: u64,
    /// A pair of more bytes is not merged.
    pub max_token_bytes: usize,
    /// So many threads at most; the result does not depend on it.
    pub threads: usize,
}

impl Goal {
    /// Merges until so many are made or no pair is left.
    pub fn merges(num_merges: usize) -> Self {
        Self { num_merges, min_pair_count: 1, max_token_bytes: usize::MAX, threads: 1 }
    }
}

/// What [`learn`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// Merge k makes id 256 + k.
    pub merges: Vec<Merge>,
    /// How often each pair occurred when it was merged, overlaps included.
    pub counts: Vec<u64>,
    /// How often it was merged: by so much the number of tokens fell. Less than its count if the pair
    /// is an id twice.
    pub applied: Vec<u64>,
    /// Why there are no more.
    pub stop: Stop,
}

/// Why learning ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// There are as many merges as were asked for.
    Reached,
    /// No pair is left to merge, or only such as would be too long.
    NoPairLeft,
    /// The pairs that are left occur less often than asked for.
    BelowMinPairCount,
}

/// How far the learner is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'l> {
    /// All merges so far.
    pub merges: &'l [Merge],
    /// How often each pair occurred when it was merged.
    pub counts: &'l [u64],
    /// So many are asked for.
    pub total: usize,
}

impl Progress<'_> {
    /// The last merge and how often its pair occurred; none before the first.
    pub fn last(&self) -> Option<(Merge, u64)> {
        Some((*self.merges.last()?, *self.counts.last()?))
    }

    /// The bytes of the token that a pair becomes.
    pub fn spelling(&self, pair: Merge) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = vec![pair.1, pair.0];
        while let Some(id) = rest.pop() {
            match u8::try_from(id) {
                Ok(byte) => bytes.push(byte),
                Err(_) => {
                    let (left, right) = self.merges[id as usize - 256];
                    rest.extend([right, left]);
                }
            }
        }
        bytes
    }
}

/// Learns merges from spans and their counts.
///
/// A span may come more than once: its counts add. `progress` is called about a hundred times and may
/// stop the work.
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
    goal: Goal,
    mut progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Learned, Error> {
    let mut symbols = Symbols::new(spans, counts)?;
    let mut pairs = Pairs::new(&symbols, goal.max_token_bytes)?;
    let (mut merges, mut counts, mut applied) = (Vec::new(), Vec::new(), Vec::new());
    let mut tell = |merges: &[Merge], counts: &[u64]| {
        let told = progress(Progress { merges, counts, total: goal.num_merges });
        if told.is_break() { Err(Error::Stopped) } else { Ok(()) }
    };
    let step = (goal.num_merges / 100).max(1);
    let stop = loop {
        let done = merges.len();
        if done == goal.num_merges {
            break Stop::Reached;
        }
        if done.is_multiple_of(step) {
            tell(&merges, &counts)?;
        }
        let Some(best) = pairs.pop_best() else { break Stop::NoPairLeft };
        if best.count < goal.min_pair_count {
            break Stop::BelowMinPairCount;
        }
        let new = u32::try_from(256 + done).map_err(|_| Error::TooManyMerges { number: done })?;
        merges.push(best.pair);
        counts.push(best.count);
        applied.push(pairs.merge(&mut symbols, &best, new));
    };
    tell(&merges, &counts)?;
    Ok(Learned { merges, counts, applied, stop })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Vocabulary, naive};

    type Rows = Vec<(Merge, u64)>;

    fn learn_from(spans: &[(Vec<u8>, u64)], goal: Goal) -> Result<Learned, Error> {
        let mut offsets = vec![0];
        for (span, _) in spans {
            offsets.push(offsets[offsets.len() - 1] + i64::try_from(span.len()).unwrap());
        }
        let data: Vec<u8> = spans.iter().flat_map(|(span, _)| span.clone()).collect();
        let counts: Vec<u64> = spans.iter().map(|&(_, count)| count).collect();
        let documents = Documents::new(&data, &offsets)?;
        learn(documents, &counts, goal, |_| ControlFlow::Continue(()))
    }

    fn check(spans: &[(&str, u64)], num_merges: usize, expected: &Result<Rows, Error>) {
        let spans: Vec<_> = spans.iter().map(|&(span, n)| (span.as_bytes().to_vec(), n)).collect();
        let learned = learn_from(&spans, Goal::merges(num_merges));
        let rows = learned.map(|learned| learned.merges.into_iter().zip(learned.counts).collect());
        assert_eq!(&rows, expected, "{spans:?}");
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
        let (mut seen, mut spelled) = (Vec::new(), Vec::new());
        let result = learn(documents, &[1], Goal::merges(3), |progress| {
            let spelling = progress.last().map(|(pair, _)| progress.spelling(pair));
            spelled.extend(spelling);
            seen.push((progress.merges.len(), progress.total));
            if seen.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((result, seen), (Err(Error::Stopped), vec![(0, 3), (1, 3), (2, 3)]));
        assert_eq!(spelled, [b"ab".to_vec(), b"cd".to_vec()]);
    }

    #[test]
    fn it_is_told_why_learning_ended() {
        let stop = |spans: &[(Vec<u8>, u64)], goal| learn_from(spans, goal).unwrap().stop;
        let spans = [(b"abc".to_vec(), 5), (b"xy".to_vec(), 3)];
        let goal = Goal::merges(3);
        assert_eq!(stop(&spans, goal), Stop::Reached);
        assert_eq!(stop(&spans, Goal { num_merges: 4, ..goal }), Stop::NoPairLeft);
        assert_eq!(stop(&spans, Goal { min_pair_count: 4, ..goal }), Stop::BelowMinPairCount);
        assert_eq!(stop(&spans, Goal { max_token_bytes: 2, ..goal }), Stop::NoPairLeft);
    }

    #[test]
    fn it_is_told_how_often_a_pair_was_merged() {
        let learned = learn_from(&[(b"aaaa".to_vec(), 5)], Goal::merges(9)).unwrap();
        assert_eq!((learned.counts, learned.applied), (vec![15, 5], vec![10, 5]));
    }

    #[test]
    fn counts_must_fit_the_spans() {
        let documents = Documents::new(b"ab", &[0, 2]).unwrap();
        let error =
            learn(documents, &[1, 2], Goal::merges(1), |_| ControlFlow::Continue(())).unwrap_err();
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
        fn merges_are_those_of_recounting_each_time(spans in spans(), goal in goal()) {
            let learned = learn_from(&spans, goal).unwrap();
            prop_assert_eq!(&learned, &naive::learn(&spans, goal));
            prop_assert_eq!(Vocabulary::new(&learned.merges).unwrap().duplicates(), []);
        }
    }

    fn goal() -> impl Strategy<Value = Goal> {
        let max_token_bytes = prop_oneof![4 => Just(usize::MAX), 1 => 1..9_usize];
        (0usize..60, 1u64..4, max_token_bytes).prop_map(
            |(num_merges, min_pair_count, max_token_bytes)| Goal {
                num_merges,
                min_pair_count,
                max_token_bytes,
                threads: 1,
            },
        )
    }
}
