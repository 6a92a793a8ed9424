//! Ids of a part of a span from left to right, in time linear in its length, instead of in the order
//! of the merges. Takes merges and their vocabulary once, then bytes. Knows nothing of whole tokens.
//!
//! Why this is exact, for any list of merges. Let E(s) be the ids that s merges to.
//!
//! 1. If E(s) is t1 ... tn, then each E(ti) is ti, and each E(ti ti+1) is ti ti+1: no merge crossed the
//!    borders of what is left, so what lies between two borders merged as if alone.
//! 2. If tokens with these two properties are joined, E gives just them. For take the first merge that
//!    crosses a border, say into ti+1: until then all merged as if alone, so ti and ti+1 look as they
//!    do without the others, and would have merged across there as well.
//!
//! So E(s) is the only sequence of reachable tokens of which all neighbours stay apart. To find it, the
//! longest token is tried first, then its shorter prefixes; where none fits, the token before must
//! be another. The same holds for the start of s up to any place: it has one sequence only, so a place
//! that was left once is never tried again. The idea is that of github/rust-gems.
//!
//! The time is linear, but where a token's shorter prefixes are tokens too, as in runs of one byte, each
//! place may take as many steps as there are lengths. Too many steps, and it is for another to merge.

use crate::Vocabulary;
use crate::encode::merge_table::MergeTable;
use crate::encode::prefixes::Prefixes;

/// No shorter token: a byte has none.
const NONE: u32 = u32::MAX;

/// Longer tokens would have to be looked for at every byte, however seldom they are there.
const MAX_LENGTH: usize = 1 << 10;

/// Steps for each byte so far, above which other ways are quicker; 2 are usual.
const MAX_STEPS: usize = 8;

/// Steps that are always allowed.
const FREE_STEPS: usize = 128;

/// Tables for going through a span from left to right.
#[derive(Debug)]
pub(crate) struct Backtrack {
    prefixes: Prefixes,
    /// Bytes of each token.
    lengths: Vec<u16>,
    /// The longest reachable token that is a prefix of each; seldom asked for.
    shorter: Vec<u32>,
}

impl Backtrack {
    /// The tables, unless a token is too long or they are too many. Time: the bytes of all tokens.
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

    /// Adds to `ids` what the bytes of `part` merge to, or nothing and says so: that takes too many steps.
    /// `left` is memory: a bit for each byte.
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
        left.resize(part.len() / 64 + 1, 0);
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

    /// Of `next`, which begins at `at`, and its shorter prefixes the longest that can follow `last`, and its
    /// end; none if there are no `steps` left.
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
