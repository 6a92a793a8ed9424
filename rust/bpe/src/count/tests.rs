//! Counting: examples, errors, and the comparison with the reference implementation.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::reference::SUPERWORDS;
use crate::split::GapRule;
use crate::{Encoder, Merge, hash64, merge_runs, reference};

const PATTERN: &str = r"\p{L}+|\s+";

fn empty() -> SpanCounts {
    SpanCounts::new(Splitter::new(PATTERN, GapRule::Spans).unwrap())
}

fn update(counts: &mut SpanCounts, documents: &[Vec<u8>], threads: usize) -> Result<(), Error> {
    let mut offsets = vec![0];
    for document in documents {
        offsets.push(offsets[offsets.len() - 1] + i64::try_from(document.len()).unwrap());
    }
    counts.update(Documents::new(&documents.concat(), &offsets)?, threads)
}

fn counted(documents: &[Vec<u8>], threads: usize) -> SpanCounts {
    let mut counts = empty();
    update(&mut counts, documents, threads).unwrap();
    counts
}

fn rows(run: &SortedRun) -> Vec<(u64, Vec<u8>, u64)> {
    let spans = Documents::new(&run.data, &run.offsets).unwrap();
    let row = |i: usize| (run.hashes[i], spans.get(i).to_vec(), run.counts[i]);
    (0..spans.len()).map(row).collect()
}

#[test]
fn spans_gaps_and_invalid_bytes_are_counted() {
    let counts = counted(&[b"ab 12 ab\xff\xff!".to_vec(), b"".to_vec()], 1);
    assert_eq!((counts.total(), counts.num_gaps(), counts.num_distinct()), (8, 2, 5));
}

#[test]
fn an_error_leaves_the_counts_unchanged() {
    let mut counts = SpanCounts::new(Splitter::new(PATTERN, GapRule::Refuse).unwrap());
    update(&mut counts, &[b"a b".to_vec()], 1).unwrap();
    let before = counts.sorted_run(1);
    for threads in 1..4 {
        let documents = [b"a".to_vec(), b"c !".to_vec(), b"d".to_vec(), b"!".to_vec()];
        let error = update(&mut counts, &documents, threads).unwrap_err();
        let reason = crate::GaveUp::Gap;
        assert_eq!(error, Error::Split { document: 1, offset: 2, reason });
    }
    assert_eq!((counts.sorted_run(1), counts.total()), (before, 3));
}

#[test]
fn counts_over_64_bits_are_an_error_and_count_nothing() {
    let mut counts = counted(&[b"ab".to_vec()], 1);
    add(&mut counts, &[(b"ab", u64::MAX - 3), (b"c", 1)]);
    let before = counts.sorted_run(1);
    assert_eq!(counts.total(), u64::MAX - 1);
    for threads in 1..3 {
        let error = update(&mut counts, &[b"ab".to_vec(), b"c! new".to_vec()], threads);
        assert_eq!(error, Err(Error::SpanCountOverflow));
        assert_eq!((counts.sorted_run(1), counts.num_distinct()), (before.clone(), 2));
        assert_eq!((counts.total(), counts.num_gaps()), (u64::MAX - 1, 0));
    }
    update(&mut counts, &[b"c".to_vec()], 2).unwrap();
    assert_eq!(counts.total(), u64::MAX);
}

/// Adds counts of spans.
fn add(counts: &mut SpanCounts, rows: &[(&[u8], u64)]) {
    counts.make_counters(1);
    for &(span, count) in rows {
        counts.counters[0].table.add(span, hash64(span), count);
        counts.total = counts.total_with(count).unwrap();
    }
}

fn documents() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let letters = prop::sample::select(b"aab  \n1\xff\xc3\xa9".as_slice());
    let short = prop::collection::vec(letters, 0..30);
    let repeated = (short, 1usize..2000).prop_map(|(text, times)| text.repeat(times / 10 + 1));
    prop::collection::vec(repeated, 0..8)
}

proptest! {
    #[test]
    fn counts_equal_the_reference(documents in documents(), threads in 1usize..5) {
        let counts = counted(&documents, threads);
        let run = counts.sorted_run(1);
        prop_assert_eq!(rows(&run), reference::count(PATTERN, &documents));
        prop_assert_eq!(counts.total(), run.counts.iter().sum::<u64>());
        prop_assert_eq!(counts.num_distinct(), run.counts.len());
        for threads in 2..6 {
            prop_assert_eq!(&counts.sorted_run(threads), &run);
        }
    }

    #[test]
    fn a_failed_call_counts_nothing(batches in prop::collection::vec((documents(), 1usize..4), 0..6)) {
        let mut counts = SpanCounts::new(Splitter::new(PATTERN, GapRule::Refuse).unwrap());
        let mut good = Vec::new();
        for (documents, threads) in batches {
            // The pattern does not match digits and invalid bytes; only the digits are gaps.
            let has_gap = documents.iter().any(|document| document.contains(&b'1'));
            prop_assert_eq!(update(&mut counts, &documents, threads).is_err(), has_gap);
            if !has_gap {
                good.extend(documents);
            }
            let run = counts.sorted_run(2);
            prop_assert_eq!(&rows(&run), &reference::count(PATTERN, &good));
            prop_assert_eq!(counts.num_distinct(), run.counts.len());
            prop_assert_eq!(counts.total(), run.counts.iter().sum::<u64>());
            prop_assert_eq!(counts.num_gaps(), 0);
        }
    }

    #[test]
    fn merged_runs_equal_the_count_of_everything(documents in documents(), cut in 0usize..8) {
        let (one, other) = documents.split_at(cut.min(documents.len()));
        let runs = [counted(one, 1).sorted_run(1), counted(other, 1).sorted_run(1)];
        let merged = merge_runs(&[runs[0].view().unwrap(), runs[1].view().unwrap()]).unwrap();
        prop_assert_eq!(&merged, &counted(&documents, 1).sorted_run(1));
        let mut batches = empty();
        update(&mut batches, one, 1).unwrap();
        update(&mut batches, other, 2).unwrap();
        prop_assert_eq!(batches.sorted_run(1), merged);
    }
}

/// Runs of words that begin in one window of the encoder and end in the next.
#[test]
fn pairs_of_a_long_text_are_those_of_its_lines() {
    let splitter = Splitter::new(SUPERWORDS, GapRule::Spans).unwrap();
    let encoder = Arc::new(Encoder::new(splitter.clone(), &[(97, 98)]).unwrap());
    let lines: Vec<Vec<u8>> =
        (0..500).map(|at| [b" ab", b" ba"][at % 2].repeat(1 + at % 8)).collect();
    let lines: Vec<Vec<u8>> = lines.into_iter().map(|line| [&line[..], b"\n"].concat()).collect();
    let counted = |documents: &[Vec<u8>]| {
        let recount = Recount::Pairs(encoder.clone());
        let mut counts = SpanCounts::new(splitter.clone()).with_recount(recount);
        update(&mut counts, documents, 1).unwrap();
        counts.sorted_run(1)
    };
    assert_eq!(counted(&[lines.concat()]), counted(&lines));
}

/// The items of spans, in plain code.
fn recounted(spans: &[Vec<u32>], frequent: Option<&[Merge]>) -> Vec<Vec<u32>> {
    let Some(frequent) = frequent else {
        return spans.iter().flat_map(|ids| ids.windows(2).map(<[u32]>::to_vec)).collect();
    };
    let mut segments: Vec<Vec<u32>> = Vec::new();
    for ids in spans {
        let mut last = None;
        for &id in ids {
            match segments
                .last_mut()
                .filter(|_| last.is_some_and(|it| frequent.contains(&(it, id))))
            {
                Some(segment) => segment.push(id),
                None => segments.push(vec![id]),
            }
            last = Some(id);
        }
    }
    segments.retain(|segment| segment.len() > 1);
    segments
}

proptest! {
    #[test]
    fn pairs_and_segments_are_counted_as_in_plain_code(
        documents in prop::collection::vec("[ab \n\u{e9}]{0,20}", 0..6),
        pattern in prop::sample::select(vec![r"[ab]+| +|.", SUPERWORDS]),
        frequent in prop::option::of(prop::collection::vec((95u32..100, 95u32..100), 0..9)),
        threads in 1usize..4,
    ) {
        let merges = [(97, 97), (32, 97), (256, 98)];
        let documents: Vec<Vec<u8>> = documents.into_iter().map(String::into_bytes).collect();
        let splitter = Splitter::new(pattern, GapRule::Spans)?;
        let encoder = Arc::new(Encoder::new(splitter.clone(), &merges)?);
        let regex = fancy_regex::Regex::new(pattern).unwrap();
        let spans: Vec<_> = documents
            .iter()
            .flat_map(|document| reference::split(&regex, document))
            .map(|(span, _)| reference::encode_span(&merges, &span))
            .collect();
        let recount = match &frequent {
            None => Recount::Pairs(encoder),
            Some(pairs) => {
                let numbers: Vec<u64> =
                    pairs.iter().map(|&(left, right)| u64::from(right) << 32 | u64::from(left)).collect();
                Recount::Segments(encoder, Arc::new(FrequentPairs::new(&numbers)))
            }
        };
        let mut counts = SpanCounts::new(splitter).with_recount(recount);
        update(&mut counts, &documents, threads)?;
        let mut expected: std::collections::BTreeMap<Vec<u8>, u64> = std::collections::BTreeMap::new();
        for ids in recounted(&spans, frequent.as_deref()) {
            *expected.entry(ids.iter().flat_map(|id| id.to_le_bytes()).collect()).or_default() += 1;
        }
        let mut found: Vec<_> =
            rows(&counts.sorted_run(1)).into_iter().map(|(_, span, count)| (span, count)).collect();
        found.sort();
        prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    }
}
