//! Merges a part of a span from left to right, in time linear in its length, instead of in the
//! order of the merges. Whole tokens are handled elsewhere.
//!
//! This is exact for any list of merges. Let E(s) be the ids that s merges to.
//!
//! 1. If E(s) is t1 ... tn, then each E(ti) is ti, and each E(ti ti+1) is ti ti+1: no merge crossed
//!    a remaining border, so the bytes between two borders merged independently of the rest.
//! 2. If tokens with these two properties are joined, E returns exactly these tokens. Consider the
//!    first merge that crosses a border, say into ti+1: until then all tokens merged independently,
//!    so ti and ti+1 are the same as without the others, and would have merged across the border
//!    there as well.
//!
//! So E(s) is the only sequence of reachable tokens in which all neighbors stay apart. To find it,
//! the longest token is tried first, then its shorter prefixes; if none fits, the previous token
//! must be another one. The same holds for every prefix of s: its sequence is unique, so a position
//! that was rejected once is never tried again. The idea is that of github/rust-gems.
//!
//! The time is linear, but if a token's shorter prefixes are tokens too, as in runs of one byte,
//! each position can take as many steps as there are lengths. After too many steps, another method
//! is used.

use nanotok_memory as memory;

use crate::Vocabulary;
use crate::encode::merge_table::MergeTable;
use crate::encode::prefixes::Prefixes;

/// No shorter token, as for a byte.
const NONE: u32 = u32::MAX;

/// Longer tokens would have to be searched at every byte, however rare they are.
const MAX_LENGTH: usize = 1 << 10;

/// Steps per byte above which other methods are faster; 2 are usual.
const MAX_STEPS: usize = 8;

/// Steps that are always allowed.
const FREE_STEPS: usize = 128;

/// Tables for merging a span from left to right.
#[derive(Debug)]
pub(crate) struct Backtrack {
    prefixes: Prefixes,
    /// Length of each token in bytes.
    lengths: Vec<u16>,
    /// The longest reachable token that is a prefix of each token; rarely used.
    shorter: Vec<u32>,
}

impl Backtrack {
    /// The tables, unless a token is too long or there are too many. Time: the bytes of all tokens.
    pub(crate) fn new(vocabulary: &Vocabulary, reachable: &[bool]) -> Option<Self> {
        let (bytes, offsets) = vocabulary.parts();
        if offsets.windows(2).any(|window| window[1] - window[0] > MAX_LENGTH) {
            return None;
        }
        let tokens: Vec<u32> = (256..).take(vocabulary.len() - 256).collect();
        let tokens: Vec<u32> = tokens.into_iter().filter(|&id| reachable[id as usize]).collect();
        let prefixes = Prefixes::new(vocabulary, &tokens)?;
        let shorter = |window: &[usize]| match &bytes[window[0]..window[1]] {
            [rest @ .., _] if !rest.is_empty() => prefixes.longest(rest),
            _ => NONE,
        };
        let shorter = offsets.windows(2).map(shorter).collect();
        let lengths = offsets.windows(2).map(|window| u16::try_from(window[1] - window[0]).ok());
        Some(Self { lengths: lengths.collect::<Option<_>>()?, shorter, prefixes })
    }

    /// Appends the ids of `part` to `ids` and returns true, or appends nothing if it takes too many
    /// steps. `left` is a buffer with one bit per byte.
    pub(crate) fn merge(
        &self,
        merges: &MergeTable,
        part: &[u8],
        ids: &mut Vec<u32>,
        left: &mut Vec<u64>,
    ) -> bool {
        let before = ids.len();
        let (mut steps, mut furthest) = (FREE_STEPS, 0);
        left.clear();
        memory::resize(left, part.len() / 64 + 1, 0);
        let (mut at, mut next) = (0, self.prefixes.longest(part));
        loop {
            let last = if at == 0 { None } else { ids.last().copied() };
            let found = self.first_that_fits(merges, last, (at, next), left, &mut steps);
            if let Some((token, end)) = found {
                ids.push(token);
                if end == part.len() {
                    return true;
                }
                (at, next) = (end, self.prefixes.longest(&part[end..]));
                steps += MAX_STEPS * end.saturating_sub(furthest);
                furthest = furthest.max(end);
            } else if steps == 0 {
                ids.truncate(before);
                return false;
            } else {
                left[at / 64] |= 1 << (at % 64);
                let last = ids.pop().expect("the start of a part is never left");
                (at, next) = (at - self.length(last), self.shorter[last as usize]);
            }
        }
    }

    /// The longest of `next`, which begins at `at`, and its shorter prefixes that can follow
    /// `last`, and its end; none if no `steps` are left.
    #[inline]
    fn first_that_fits(
        &self,
        merges: &MergeTable,
        last: Option<u32>,
        (at, mut next): (usize, u32),
        left: &[u64],
        steps: &mut usize,
    ) -> Option<(u32, usize)> {
        while next != NONE && *steps > 0 {
            *steps -= 1;
            let end = at + self.length(next);
            let was_left = left[end / 64] >> (end % 64) & 1 == 1;
            if !was_left && last.is_none_or(|last| merges.stay_apart(last, next, NONE)) {
                return Some((next, end));
            }
            next = self.shorter[next as usize];
        }
        None
    }

    #[inline]
    fn length(&self, token: u32) -> usize {
        usize::from(self.lengths[token as usize])
    }
}
