//! The pairs of bytes with which learning begins, counted without hashing. All symbols are single
//! bytes.

use std::ops::Range;

use crate::learn::pairs::Pairs;
use crate::learn::rank::Found;
use crate::learn::rewrite::Id;
use crate::learn::symbols::Symbols;
use crate::threads::in_threads;
use crate::{Error, Merge};

/// Number of pairs of two bytes.
const NUM_PAIRS: usize = 1 << 16;

/// Below this number of slots per thread, starting threads does not pay.
const MIN_SHARE: usize = if cfg!(test) { 8 } else { 1 << 17 };

/// Occurrences and number of places of each pair of bytes.
#[derive(Debug)]
pub(super) struct BytePairs {
    counts: Vec<u64>,
    numbers: Vec<u32>,
    /// The smallest pair whose count overflows.
    overflow: Option<usize>,
}

/// A pair whose places are requested, and their position; those of the next pair follow.
type Wanted = (Merge, usize);

impl BytePairs {
    /// Counts all pairs.
    pub(super) fn new<I: Id>(symbols: &Symbols<I>, threads: usize) -> Result<Self, Error> {
        let all = symbols.places();
        let threads = threads.min(all.len() / MIN_SHARE).max(1);
        let found = in_threads(ranges(all, threads), |part| Self::count(symbols, part));
        let mut sum = Self::none();
        for part in &found {
            sum.absorb(part);
        }
        match sum.overflow.map(pair_of) {
            Some((left, right)) => Err(Error::PairCountOverflow { left, right }),
            None => Ok(sum),
        }
    }

    fn none() -> Self {
        Self { counts: vec![0; NUM_PAIRS], numbers: vec![0; NUM_PAIRS], overflow: None }
    }

    fn count<I: Id>(symbols: &Symbols<I>, part: Range<u32>) -> Self {
        let mut found = Self::none();
        symbols.pairs(part).for_each(|(pair, _, count)| found.add(key_of(pair), count, 1));
        found
    }

    #[inline]
    fn add(&mut self, key: usize, count: u64, number: u32) {
        let (sum, over) = self.counts[key].overflowing_add(count);
        if over {
            self.overflow = Some(self.overflow.map_or(key, |other| other.min(key)));
        }
        self.counts[key] = sum;
        self.numbers[key] += number;
    }

    fn absorb(&mut self, other: &Self) {
        for (key, (&count, &number)) in other.counts.iter().zip(&other.numbers).enumerate() {
            self.add(key, count, number);
        }
        self.overflow = self.overflow.into_iter().chain(other.overflow).min();
    }

    /// The pairs that occur, in increasing order, with their counts and numbers of places.
    pub(super) fn iter(&self) -> impl Iterator<Item = Found> + Clone {
        let found = self.counts.iter().zip(&self.numbers).enumerate();
        let found = found.filter(|(_, (_, number))| **number > 0);
        found.map(|(key, (&count, &number))| Found { pair: pair_of(key), count, number })
    }
}

/// Records the places of all held pairs, in the order in which they were added.
pub(super) fn record_places<I: Id>(
    symbols: &Symbols<I>,
    pairs: &Pairs,
    rows: &mut [u32],
    threads: usize,
) {
    let wanted: Vec<Wanted> = pairs.rows().collect();
    let threads = threads.min(rows.len() / MIN_SHARE).max(1);
    let share = rows.len().div_ceil(threads);
    let (mut rest, mut wanted, mut before) = (rows, &wanted[..], 0);
    let mut parts = Vec::new();
    while !wanted.is_empty() {
        let number = wanted.partition_point(|&(_, start)| start < before + share).max(1);
        let end = wanted.get(number).map_or(before + rest.len(), |&(_, start)| start);
        let (own, others) = rest.split_at_mut(end - before);
        parts.push((&wanted[..number], before, own));
        (rest, wanted, before) = (others, &wanted[number..], end);
    }
    in_threads(parts, |(wanted, before, rows)| note_in(symbols, wanted, before, rows));
}

/// Records places in the part of the rows that begins at `before`.
fn note_in<I: Id>(symbols: &Symbols<I>, wanted: &[Wanted], before: usize, rows: &mut [u32]) {
    const UNWANTED: usize = usize::MAX;
    let mut next = vec![UNWANTED; NUM_PAIRS];
    for &(pair, start) in wanted {
        next[key_of(pair)] = start - before;
    }
    let edge = I::narrow(symbols.edge);
    for (pair, place) in symbols.slots.windows(2).zip(1..) {
        if pair[0] == edge || pair[1] == edge {
            continue;
        }
        let next = &mut next[key_of((pair[0].into(), pair[1].into()))];
        if *next != UNWANTED {
            rows[*next] = place;
            *next += 1;
        }
    }
}

fn key_of((left, right): Merge) -> usize {
    (left << 8 | right) as usize
}

fn pair_of(key: usize) -> Merge {
    let [left, right, ..] = key.to_le_bytes().map(u32::from);
    (right, left)
}

/// Adjacent parts of about equal lengths.
fn ranges(all: Range<u32>, number: usize) -> Vec<Range<u32>> {
    let share = all.len().div_ceil(number).max(1);
    let starts = all.clone().step_by(share);
    let share = u32::try_from(share).expect("no more than all of them");
    starts.map(|start| start..all.end.min(start.saturating_add(share))).collect()
}
