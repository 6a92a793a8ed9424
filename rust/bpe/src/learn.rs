//! The learner: spans and their counts to merges.
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

use crate::learn::learner::Learner;
use crate::learn::rewrite::Id;
use crate::learn::symbols::Symbols;
pub use crate::learn::text::{Measured, Text};
use crate::{Documents, Error};

mod around;
mod array;
mod byte_pairs;
mod counts_at;
mod learner;
mod pairs;
mod queue;
mod rank;
mod rewrite;
mod rows;
mod search;
mod symbols;
mod text;

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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stop {
    /// There are as many merges as were asked for.
    Reached,
    /// No pair is left to merge, or only such as would be too long.
    #[default]
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
            if let Ok(byte) = u8::try_from(id) {
                bytes.push(byte);
            } else {
                let (left, right) = self.merges[id as usize - 256];
                rest.extend([right, left]);
            }
        }
        bytes
    }
}

/// After so many places, progress is reported.
const MAX_WORK: usize = 1 << 22;

/// Learns merges from spans and their counts.
///
/// Spans that come in batches, and are not all in memory, are learned from by [`Measured`] and [`Text`].
/// A span may come more than once: its counts add. `progress` is called about a hundred times, more often
/// where there is much to do, and may stop the work.
///
/// Time: linear in the bytes of distinct spans, times the merges a byte takes part in (about 6 in text),
/// and never quadratic in a long span. Memory: 7 to 9 bytes per byte of distinct spans, of which there may
/// be 2^32; 2 more for over 65,000 merges; and up to 20 in all where merging continues until most pairs
/// that are left occur once.
///
/// # Errors
///
/// More counts than spans or fewer, too many bytes, a pair's count past `u64::MAX`, or a stop.
pub fn learn(
    spans: Documents<'_>,
    counts: &[u64],
    goal: Goal,
    progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Learned, Error> {
    let mut measured = Measured::default();
    measured.add(spans, counts)?;
    let mut text = measured.text(goal)?;
    text.add(spans, counts)?;
    text.learn(progress)
}

/// Learns from symbols; pairs of lower counts than `first_least` says are looked at later.
fn learn_in<I: Id>(
    symbols: Symbols<I>,
    goal: Goal,
    first_least: impl Fn(u128, usize) -> u64,
    mut progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Learned, Error> {
    let floor = goal.min_pair_count.max(1);
    let least = first_least(symbols.total(), goal.num_merges).max(floor);
    let mut learner = Learner::new(symbols, least, goal.max_token_bytes, goal.threads)?;
    let mut found = Learned::default();
    let mut work = 0;
    let step = (goal.num_merges / 100).max(1);
    loop {
        let done = found.merges.len();
        if done.is_multiple_of(step) || work >= MAX_WORK || done == goal.num_merges {
            found.tell(goal, &mut progress)?;
            work = 0;
        }
        if done == goal.num_merges {
            found.stop = Stop::Reached;
            return Ok(found);
        }
        let Some(best) = learner.pop_best(goal.num_merges - done, floor) else { break };
        let new = u32::try_from(256 + done).expect("fewer merges than slots");
        found.merges.push(best.pair);
        found.counts.push(best.count);
        found.applied.push(learner.merge(&best, new));
        work += best.row.number as usize;
    }
    found.tell(goal, &mut progress)?;
    let is_rare = floor > 1 && learner.has_pairs();
    found.stop = if is_rare { Stop::BelowMinPairCount } else { Stop::NoPairLeft };
    Ok(found)
}

impl Learned {
    fn tell(
        &self,
        goal: Goal,
        progress: &mut impl FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let now = Progress { merges: &self.merges, counts: &self.counts, total: goal.num_merges };
        if progress(now).is_break() { Err(Error::Stopped) } else { Ok(()) }
    }
}

/// How often a pair of a text of so many bytes occurs at least that is looked at in the first place: the
/// last merges' pairs occur 2 to 6 times as often in real text. If this is too much, learning continues
/// with less.
fn first_least(num_bytes: u128, num_merges: usize) -> u64 {
    u64::try_from(num_bytes.div_ceil(128 * num_merges.max(1) as u128)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
