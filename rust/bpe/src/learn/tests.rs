//! Compares the learner with the reference implementation, and tests its rules one by one.

use proptest::prelude::*;

use super::pairs::Pairs;
use super::rank::{Found, lowest};
use super::rules::Rules;
use super::text::Filling;
use super::*;
use crate::{Vocabulary, reference};

type Rows = Vec<(Merge, u64)>;

fn joined(spans: &[(Vec<u8>, u64)]) -> (Vec<u8>, Vec<i64>, Vec<u64>) {
    let mut offsets = vec![0];
    for (span, _) in spans {
        offsets.push(offsets[offsets.len() - 1] + i64::try_from(span.len()).unwrap());
    }
    let data = spans.iter().flat_map(|(span, _)| span.clone()).collect();
    (data, offsets, spans.iter().map(|&(_, count)| count).collect())
}

fn learn_from(spans: &[(Vec<u8>, u64)], goal: Goal) -> Result<Learned, Error> {
    let (data, offsets, counts) = joined(spans);
    learn(Documents::new(&data, &offsets)?, &counts, goal, |_| ControlFlow::Continue(()))
}

fn learn_at_least<I: Id>(spans: &[(Vec<u8>, u64)], goal: Goal, least: u64) -> Learned {
    let (data, offsets, counts) = joined(spans);
    let documents = Documents::new(&data, &offsets).unwrap();
    let mut measured = Measured::default();
    measured.add(documents, &counts).unwrap();
    let mut filling = Filling::<I>::new(&measured.sizes(), 256, 256 + 60);
    filling.add(documents, &counts).unwrap();
    let rules = Rules::of_bytes(goal.max_token_bytes);
    let go_on = |_: Progress<'_>| ControlFlow::Continue(());
    learn_in(filling.finish().unwrap(), goal, rules, |_, _| least, go_on).unwrap()
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
fn overlapping_pairs_are_counted_and_merged_from_the_left() {
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
fn a_pair_count_over_64_bits_is_an_error() {
    let half = 1 << 63;
    check(&[("ab", half), ("ab", half - 1)], 1, &Ok(vec![((97, 98), u64::MAX)]));
    let overflow = Err(Error::PairCountOverflow { left: 97, right: 98 });
    check(&[("ab", half), ("abc", half)], 1, &overflow);
    check(&[("abab", half)], 1, &overflow);
    let spans = [("zyzy", half), ("abab", half), ("the rest of a text that is shared", 1)];
    let spans = spans.map(|(span, count)| (span.as_bytes().to_vec(), count));
    for threads in 1..6 {
        let learned = learn_from(&spans, Goal { threads, ..Goal::merges(9) });
        assert_eq!(learned, Err(Error::PairCountOverflow { left: 97, right: 98 }));
    }
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
fn progress_is_reported_and_can_stop_learning() {
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
fn the_last_merge_is_reported_between_percents() {
    let bytes: Vec<u8> = (0..=255).cycle().take(500).collect();
    let (documents, mut seen) = (Documents::new(&bytes, &[0, 500]).unwrap(), Vec::new());
    let learned = learn(documents, &[1], Goal::merges(203), |progress| {
        seen.push(progress.merges.len());
        ControlFlow::Continue(())
    });
    assert_eq!(learned.unwrap().merges.len(), 203);
    assert_eq!(seen[seen.len() - 3..], [200, 202, 203]);
}

#[test]
fn the_reason_for_the_end_is_reported() {
    let stop = |spans: &[(Vec<u8>, u64)], goal| learn_from(spans, goal).unwrap().stop;
    let spans = [(b"abc".to_vec(), 5), (b"xy".to_vec(), 3)];
    let goal = Goal::merges(3);
    assert_eq!(stop(&spans, goal), Stop::Reached);
    assert_eq!(stop(&spans, Goal { num_merges: 4, ..goal }), Stop::NoPairLeft);
    assert_eq!(stop(&spans, Goal { min_pair_count: 4, ..goal }), Stop::BelowMinPairCount);
    assert_eq!(stop(&spans, Goal { max_token_bytes: 2, ..goal }), Stop::NoPairLeft);
}

#[test]
fn the_number_of_merges_of_a_pair_is_reported() {
    let learned = learn_from(&[(b"aaaa".to_vec(), 5)], Goal::merges(9)).unwrap();
    assert_eq!((learned.counts, learned.applied), (vec![15, 5], vec![10, 5]));
}

#[test]
fn counts_must_match_the_spans() {
    let documents = Documents::new(b"ab", &[0, 2]).unwrap();
    let error =
        learn(documents, &[1, 2], Goal::merges(1), |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error, Error::LengthsDiffer { spans: 1, what: "counts", length: 2 });
}

#[test]
fn only_the_best_pairs_are_kept_if_there_are_too_many() {
    let found = |count| Found { pair: (0, 9), count, number: 1 };
    let mut pairs = Pairs::new(Rules::of_bytes(usize::MAX));
    pairs.begin(lowest(1), [].into_iter());
    for count in 1..=7 {
        let pair = (0, 10 + u32::try_from(count).unwrap());
        pairs.hold(&Found { pair, ..found(count) }, 0);
    }
    pairs.limit(4);
    assert_eq!(pairs.last(), lowest(1));
    pairs.limit(3);
    assert!(pairs.is_wanted(&found(5)) && !pairs.is_wanted(&found(4)));
    let counts: Vec<u64> = std::iter::from_fn(|| pairs.pop_best()).map(|best| best.count).collect();
    assert_eq!(counts, [7, 6, 5]);
}

fn spans_of_letters() -> impl Strategy<Value = Vec<(Vec<u8>, u64)>> {
    (1u8..=6).prop_flat_map(|letters| {
        let run = (0..letters, 1usize..20).prop_map(|(letter, times)| vec![letter; times]);
        let span = prop::collection::vec(run, 0..8).prop_map(|runs| runs.concat());
        prop::collection::vec((span, 0u64..4), 0..12)
    })
}

fn goal() -> impl Strategy<Value = Goal> {
    let max_token_bytes = prop_oneof![4 => Just(usize::MAX), 1 => 1..9_usize];
    (0usize..60, 1u64..4, max_token_bytes, 1usize..4).prop_map(
        |(num_merges, min_pair_count, max_token_bytes, threads)| Goal {
            num_merges,
            min_pair_count,
            max_token_bytes,
            threads,
        },
    )
}

/// Learns from spans of the ids of a base with these tokens.
fn continue_from(
    tokens: &[Vec<u8>],
    spans: &[(Vec<u32>, u64)],
    superwords: Option<Superwords<'_>>,
    goal: Goal,
) -> Result<Learned, Error> {
    let with_offsets = |lengths: &mut dyn Iterator<Item = usize>| {
        let ends = lengths.scan(0, |end, length| {
            *end += i64::try_from(length).unwrap();
            Some(*end)
        });
        std::iter::once(0).chain(ends).collect::<Vec<i64>>()
    };
    let (data, ids) = (tokens.concat(), spans.iter().flat_map(|(ids, _)| ids.clone()));
    let offsets = with_offsets(&mut tokens.iter().map(Vec::len));
    let (ids, ends) =
        (ids.collect::<Vec<_>>(), with_offsets(&mut spans.iter().map(|it| it.0.len())));
    let counts: Vec<u64> = spans.iter().map(|&(_, count)| count).collect();
    let base = Base { tokens: Documents::new(&data, &offsets)?, superwords };
    let spans = Documents::of_ids(&ids, &ends)?;
    let mut measured = Measured::default();
    measured.add(spans, &counts)?;
    let mut text = measured.text(goal, Some(base))?;
    text.add(spans, &counts)?;
    text.learn(|progress| {
        if let Some((pair, _)) = progress.last() {
            assert!(!progress.spelling(pair).is_empty());
        }
        ControlFlow::Continue(())
    })
}

#[test]
fn ids_of_a_base_are_checked() {
    let tokens = [b"a".to_vec(), b"b".to_vec()];
    let learned = continue_from(&tokens, &[(vec![0, 1], 3)], None, Goal::merges(5)).unwrap();
    assert_eq!((learned.merges, learned.stop), (vec![(0, 1)], Stop::NoPairLeft));
    let unknown = continue_from(&tokens, &[(vec![0, 2], 3)], None, Goal::merges(1));
    assert_eq!(unknown, Err(Error::UnknownBaseId { id: 2, number: 2 }));
    let many = [(vec![0, 1], u64::MAX), (vec![0, 1, 0], 1)];
    let overflow = Err(Error::PairCountOverflow { left: 0, right: 1 });
    assert_eq!(continue_from(&tokens, &many, None, Goal::merges(1)), overflow);
}

#[test]
fn a_token_of_the_base_is_not_made_again() {
    let tokens = [&b"a"[..], b"b", b"", b"ab"].map(<[u8]>::to_vec);
    let learned = continue_from(&tokens, &[(vec![0, 1, 0], 9)], None, Goal::merges(5)).unwrap();
    assert_eq!(learned.merges, [(1, 0), (0, 4)]);
}

proptest! {
    #[test]
    fn continuing_makes_the_other_merges(
        spans in spans_of_letters(), goal in goal(), percent in 0..=100_usize,
    ) {
        let learned = learn_from(&spans, goal)?;
        let first = learned.merges.len() * percent / 100;
        let vocabulary = Vocabulary::new(&learned.merges[..first])?;
        let tokens: Vec<Vec<u8>> =
            (0..).map_while(|id| vocabulary.get(id).map(<[u8]>::to_vec)).collect();
        let encoded: Vec<_> = spans
            .iter()
            .map(|(span, count)| (reference::encode_span(&learned.merges[..first], span), *count))
            .collect();
        let goal = Goal { num_merges: goal.num_merges - first, ..goal };
        let rest = continue_from(&tokens, &encoded, None, goal)?;
        prop_assert_eq!(&rest.merges, &learned.merges[first..]);
        prop_assert_eq!(&rest.counts, &learned.counts[first..]);
        prop_assert_eq!(&rest.applied, &learned.applied[first..]);
        prop_assert_eq!(rest.stop, learned.stop);
    }

    #[test]
    fn continuing_equals_recounting_each_time(
        spans in prop::collection::vec((prop::collection::vec(0u32..9, 0..12), 0u64..4), 0..12),
        goal in goal(),
        max_words in 1usize..5,
        forbidden in prop::sample::select(vec!["", " ", "b ", "aba"]),
        has_superwords in any::<bool>(),
    ) {
        let tokens = [&b"a"[..], b"b", b"ab", b"bab", b"", b"aa", b"ba", b" ", b" a"];
        let tokens = tokens.map(<[u8]>::to_vec);
        let spans: Vec<_> = spans
            .into_iter()
            .map(|(ids, count)| (ids.into_iter().filter(|&id| id != 4).collect(), count))
            .collect();
        let superwords = has_superwords.then_some(Superwords {
            max_words,
            forbidden: forbidden.as_bytes(),
        });
        let learned = continue_from(&tokens, &spans, superwords, goal)?;
        prop_assert_eq!(learned, reference::learn_on(spans, &tokens, superwords, goal));
    }

    #[test]
    fn merges_equal_recounting_each_time(spans in spans_of_letters(), goal in goal()) {
        let learned = learn_from(&spans, goal).unwrap();
        prop_assert_eq!(&learned, &reference::learn(&spans, goal));
        prop_assert_eq!(Vocabulary::new(&learned.merges).unwrap().duplicates(), []);
    }

    #[test]
    fn batches_are_learned_as_one(
        spans in spans_of_letters(),
        goal in goal(),
        sizes in (1usize..9, 1usize..9),
    ) {
        let mut measured = Measured::default();
        for batch in spans.chunks(sizes.0) {
            let (data, offsets, counts) = joined(batch);
            measured.add(Documents::new(&data, &offsets)?, &counts)?;
        }
        let mut text = measured.text(goal, None)?;
        for batch in spans.chunks(sizes.1) {
            let (data, offsets, counts) = joined(batch);
            text.add(Documents::new(&data, &offsets)?, &counts)?;
        }
        let learned = text.learn(|_| ControlFlow::Continue(()))?;
        prop_assert_eq!(&learned, &reference::learn(&spans, goal));
    }

    #[test]
    fn the_order_of_processing_changes_nothing(
        spans in spans_of_letters(),
        goal in goal(),
        least in 1u64..200,
    ) {
        let expected = reference::learn(&spans, goal);
        prop_assert_eq!(&learn_at_least::<u16>(&spans, goal, least), &expected);
        prop_assert_eq!(&learn_at_least::<u32>(&spans, goal, least), &expected);
    }
}
