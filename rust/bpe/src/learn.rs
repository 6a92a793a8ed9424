//! The learner: learns merges from spans and their counts.
//!
//! The rule is a total order, so that the result depends only on spans and counts: merge the pair
//! of neighbors with the highest count, of equal counts the one with the smallest (left id, right
//! id); replace it in every span from left to right; repeat until no pair is left or the requested
//! number is reached. The count of a pair is the sum over all spans of count times number of
//! positions, overlapping ones included: (a, a) occurs four times in "aaaaa".
//!
//! Counts can be updated instead of recounted: merging (a, b) to n changes only pairs (x, a), (x,
//! n), (b, y) and (n, y), at the places of (a, b). Counts of pairs of older ids therefore only
//! decrease, and all pairs with n and their places are created in this step.
//!
//! No two merges make the same bytes: the neighbors (a, b) remained after all earlier merges had
//! been applied to their bytes; an earlier token of the same bytes would have been made there, and
//! (a, b) would not be there.
//!
//! Learning can continue a tokenizer: spans are sequences of its ids, and new ids follow its own.
//! Encoding a span with all merges is encoding it with those of the base and then applying the new
//! ones in their order, since no merge of the base uses a new id. So continuing the first merges of
//! a tokenizer on the same counts returns its other merges. A pair whose bytes are a token of the
//! base, which the base makes only of whole spans, is never merged.
//!
//! * `text`: spans and counts to the learner's text; `symbols`: the text, as sequences of ids;
//!   `counts_at`: the count of the span at each place.
//! * `learner`: the state, and the step from one merge to the next.
//! * `rules`: which pairs can be merged.
//! * `byte_pairs`: the pairs of the first step, if it begins with bytes; `pairs`: all pairs with their counts and `rows` of
//!   places; `rank` and `queue`: their order; `search`: the best pairs, recounted if the others
//!   were dropped to save memory.
//! * `rewrite`: replaces a pair in the text; `around`: the neighbors of the new id.
//! * `array`: large arrays of numbers.

use std::ops::ControlFlow;

use nanotok_memory as memory;

use crate::learn::learner::Learner;
use crate::learn::rewrite::Id;
use crate::learn::rules::Rules;
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
mod rules;
mod search;
mod symbols;
mod text;

/// Two adjacent ids that become one.
pub type Merge = (u32, u32);

/// The goal and the limits of learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goal {
    /// The maximum number of merges.
    pub num_merges: usize,
    /// A pair with a lower count is not merged; pairs that do not occur never are.
    pub min_pair_count: u64,
    /// The longest token in bytes.
    pub max_token_bytes: usize,
    /// The maximum number of threads; the result does not depend on it.
    pub threads: usize,
}

impl Goal {
    /// A goal with a number of merges and no other limit.
    pub fn merges(num_merges: usize) -> Self {
        Self { num_merges, min_pair_count: 1, max_token_bytes: usize::MAX, threads: 1 }
    }
}

/// The tokenizer that learning continues.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// The bytes of each id; no bytes for an id that no text has.
    pub tokens: Documents<'a>,
    /// The limits of tokens of several words, if spans contain several words.
    pub superwords: Option<Superwords<'a>>,
}

/// The limits of tokens of several words.
#[derive(Debug, Clone, Copy)]
pub struct Superwords<'a> {
    /// The maximum number of words of a token: of parts between spaces that are not empty.
    pub max_words: usize,
    /// Bytes that no new token contains; none if empty.
    pub forbidden: &'a [u8],
}

/// The result of [`learn`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Learned {
    /// Merge k makes id 256 + k, or the number of ids of the base + k.
    pub merges: Vec<Merge>,
    /// The count of each pair when it was merged, overlapping occurrences included.
    pub counts: Vec<u64>,
    /// The number of applications of each merge, by which the number of tokens decreased. It is
    /// lower than the count if a pair has the same id twice.
    pub applied: Vec<u64>,
    /// The reason why learning ended.
    pub stop: Stop,
}

/// Why learning ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stop {
    /// The requested number of merges is reached.
    Reached,
    /// No pair is left, or only pairs that are too long.
    #[default]
    NoPairLeft,
    /// The counts of all remaining pairs are below the minimum.
    BelowMinPairCount,
}

/// The progress of the learner.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'l> {
    /// All merges so far.
    pub merges: &'l [Merge],
    /// The count of each pair when it was merged.
    pub counts: &'l [u64],
    /// The requested number of merges.
    pub total: usize,
    rules: &'l Rules,
}

impl Progress<'_> {
    /// The last merge and the count of its pair; none before the first.
    pub fn last(&self) -> Option<(Merge, u64)> {
        Some((*self.merges.last()?, *self.counts.last()?))
    }

    /// The bytes of the token of a pair.
    pub fn spelling(&self, pair: Merge) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = vec![pair.1, pair.0];
        while let Some(id) = rest.pop() {
            if let Some(token) = self.rules.spelled(id) {
                bytes.extend(token);
            } else {
                let (left, right) = self.merges[id as usize - 256];
                rest.extend([right, left]);
            }
        }
        bytes
    }
}

/// Places after which progress is reported.
const MAX_WORK: usize = 1 << 22;

/// Learns merges from spans and their counts.
///
/// For batches of spans that are not all in memory, see [`Measured`] and [`Text`]. A span can occur
/// several times; its counts are added. `progress` is called about a hundred times, more often for
/// expensive merges, and can stop the call.
///
/// Time: the bytes of distinct spans times the merges per byte (about 6 in text), and never
/// quadratic in a long span. Memory: 7 to 9 bytes per byte of distinct spans, of which there can be
/// 2^32; 2 more for over 65,000 merges; and up to 20 in total if merging continues until most
/// remaining pairs occur once.
///
/// # Errors
///
/// Fails if the numbers of spans and counts differ, if there are too many bytes, if the count of a
/// pair exceeds `u64::MAX`, or if `progress` stops it.
pub fn learn(
    spans: Documents<'_>,
    counts: &[u64],
    goal: Goal,
    progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Learned, Error> {
    let mut measured = Measured::default();
    measured.add(spans, counts)?;
    let mut text = measured.text(goal, None)?;
    text.add(spans, counts)?;
    text.learn(progress)
}

/// Learns from symbols; pairs with counts below `first_least` are processed later.
fn learn_in<I: Id>(
    symbols: Symbols<I>,
    goal: Goal,
    rules: Rules,
    first_least: impl Fn(u128, usize) -> u64,
    mut progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Learned, Error> {
    let floor = goal.min_pair_count.max(1);
    let least = first_least(symbols.total(), goal.num_merges).max(floor);
    let first_id = rules.num_ids();
    let mut learner = Learner::new(symbols, least, rules, goal.threads)?;
    let mut found = Learned::default();
    let mut work = 0;
    let step = (goal.num_merges / 100).max(1);
    loop {
        let done = found.merges.len();
        if done.is_multiple_of(step) || work >= MAX_WORK || done == goal.num_merges {
            found.tell(goal, learner.rules(), &mut progress)?;
            work = 0;
        }
        if done == goal.num_merges {
            found.stop = Stop::Reached;
            return Ok(found);
        }
        let Some(best) = learner.pop_best(goal.num_merges - done, floor)? else { break };
        let new = u32::try_from(first_id + done).expect("fewer merges than slots");
        memory::push(&mut found.merges, best.pair);
        memory::push(&mut found.counts, best.count);
        memory::push(&mut found.applied, learner.merge(&best, new));
        work += best.row.number as usize;
    }
    found.tell(goal, learner.rules(), &mut progress)?;
    let is_rare = floor > 1 && learner.has_pairs();
    found.stop = if is_rare { Stop::BelowMinPairCount } else { Stop::NoPairLeft };
    Ok(found)
}

impl Learned {
    fn tell(
        &self,
        goal: Goal,
        rules: &Rules,
        progress: &mut impl FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let Self { merges, counts, .. } = self;
        let now = Progress { merges, counts, total: goal.num_merges, rules };
        if progress(now).is_break() { Err(Error::Stopped) } else { Ok(()) }
    }
}

/// The initial minimum count of pairs in a text of `num_bytes` bytes: the pairs of the last merges
/// occur 2 to 6 times as often in real text. If this is too high, learning continues with a lower
/// value.
fn first_least(num_bytes: u128, num_merges: usize) -> u64 {
    u64::try_from(num_bytes.div_ceil(128 * num_merges.max(1) as u128)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
