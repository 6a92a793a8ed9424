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
//! with n are all born in this one step, together with all the spans they occur in.
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
/// text). Memory: 20 bytes per span and about 12 per byte of distinct spans.
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
