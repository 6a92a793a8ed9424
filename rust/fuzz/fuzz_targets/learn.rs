//! Any documents: their counts equal those of the reference implementation, in one call and in two,
//! with any number of threads; and the merges learned from them, with any limits and counts, equal
//! those of recounting each time.

#![no_main]

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use nanotok_bpe::{Documents, Goal, SortedRun, SpanCounts, Stop, hash64, learn};
use nanotok_fuzz::patterns::{self, Case};
use nanotok_fuzz::{program::Program, reference};

/// With more bytes of distinct spans the reference implementation would take too long.
const MAX_BYTES: usize = 3000;

type Counts = BTreeMap<(u64, Vec<u8>), u64>;

fuzz_target!(|bytes: &[u8]| {
    let mut program = Program::new(bytes);
    let case = patterns::chosen(program.byte());
    let (threads, cut) = (program.byte(), program.byte());
    let [num_merges, least, longest, scale] = [(); 4].map(|()| program.byte());
    let documents = program.documents(&[]);
    let run = count(case, &documents, usize::from(cut), 1 + usize::from(threads) % 3);
    check_counts(&run, &expect(case, &documents));

    let goal = Goal {
        num_merges: usize::from(num_merges),
        min_pair_count: u64::from(least % 8),
        max_token_bytes: if longest < 128 { usize::MAX } else { usize::from(longest - 127) },
        threads: 1 + usize::from(threads) % 3,
    };
    if run.data.len() <= MAX_BYTES {
        check_merges(&run, goal, 1 << (scale % 40));
    }
});

/// Counts all documents in two calls.
fn count(case: &Case, documents: &[Vec<u8>], cut: usize, threads: usize) -> SortedRun {
    let mut counts = SpanCounts::new(case.splitters[0].clone());
    let (one, other) = documents.split_at(cut.min(documents.len()));
    for part in [one, other] {
        let mut offsets = vec![0];
        offsets.extend(part.iter().scan(0, |end, document| {
            *end += document.len();
            Some(i64::try_from(*end).expect("it is small"))
        }));
        let data = part.concat();
        let part = Documents::new(&data, &offsets).expect("a batch");
        counts.update(part, threads).expect("it is split");
    }
    let run = counts.sorted_run(threads);
    assert_eq!(counts.num_distinct(), run.counts.len());
    assert_eq!(counts.total(), run.counts.iter().sum::<u64>());
    run
}

fn expect(case: &Case, documents: &[Vec<u8>]) -> Counts {
    let mut counts = Counts::new();
    for (span, _) in documents.iter().flat_map(|document| reference::split(&case.regex, document)) {
        *counts.entry((hash64(span), span.to_vec())).or_default() += 1;
    }
    counts
}

fn spans(run: &SortedRun) -> impl Iterator<Item = &[u8]> {
    let index = |offset: i64| usize::try_from(offset).expect("an offset");
    run.offsets.windows(2).map(move |pair| &run.data[index(pair[0])..index(pair[1])])
}

fn check_counts(run: &SortedRun, expected: &Counts) {
    assert_eq!(run.counts.len(), expected.len());
    for (((span, &hash), &count), own) in spans(run).zip(&run.hashes).zip(&run.counts).zip(expected)
    {
        assert!(own == (&(hash, span.to_vec()), &count), "{span:?} {count} and not {own:?}");
    }
}

fn check_merges(run: &SortedRun, goal: Goal, scale: u64) {
    let counts: Vec<u64> = run.counts.iter().map(|count| count * scale).collect();
    let documents = Documents::new(&run.data, &run.offsets).expect("a batch");
    let learned = learn(documents, &counts, goal, |_| ControlFlow::Continue(()));
    let learned = learned.expect("counts are small");
    let mut twin = reference::Learner::new(spans(run).map(<[u8]>::to_vec).zip(counts).collect());
    let found = learned.merges.iter().zip(&learned.counts).zip(&learned.applied);
    for ((&pair, &count), &applied) in found {
        assert_eq!(Some((pair, count)), twin.best(goal.max_token_bytes));
        assert!(count >= goal.min_pair_count);
        assert_eq!(applied, twin.merge(pair));
    }
    let rest = twin.best(goal.max_token_bytes).map_or(0, |(_, count)| count);
    assert_eq!(
        learned.stop,
        match rest {
            _ if learned.merges.len() == goal.num_merges => Stop::Reached,
            0 => Stop::NoPairLeft,
            _ => Stop::BelowMinPairCount,
        }
    );
    assert!(learned.stop != Stop::BelowMinPairCount || rest < goal.min_pair_count);
}
