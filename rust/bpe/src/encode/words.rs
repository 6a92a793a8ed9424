//! Spans of several words: their words are encoded like the spans of an ordinary tokenizer, with its
//! cache, and then merged further.
//!
//! Runs of words hardly repeat, so a cache of whole spans does not help. Three facts make the result
//! the same as that of merging the bytes of the span:
//!
//! * A merge uses lower ids than its own, so the first merges are complete before any later one
//!   begins: merging with the first n merges, and then with the others, is the same for any n. Here n
//!   ends at the first token with a space after a word.
//! * A span can be cut between bytes that are adjacent in no token of the first n merges (`cuts`).
//!   These are nearly all ends of words.
//! * A later token consists of fixed ids of the first n merges: the leaves of its tree of merges. Two
//!   ids that are adjacent in the leaves of no token are never joined, so the ids of a span are cut
//!   there, and only the short sequences between are merged.

use nanotok_memory as memory;

use crate::encode::Tokens;
use crate::encode::merge_table::{NO_ID, NO_MERGE, Packed};
use crate::encode::out::Out;
use crate::encode::span_ids::{LONG_PART, SpanIds, merge_by_scan};
use crate::token_id::TokenId;
use crate::{Error, Merge, Vocabulary};

/// The two steps of an encoder for spans of several words.
#[derive(Debug)]
pub(crate) struct Words {
    /// The ids of words.
    pub(crate) first: SpanIds,
    /// The later merges. The pairs of ids of words are the adjacent leaves of all later tokens, with
    /// `NO_ID` if they do not merge by themselves.
    later: Packed,
}

/// Buffers of merging.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// For each two adjacent ids, whether the table may have them.
    may_join: Vec<bool>,
    ids: Vec<u32>,
    merged: Vec<u32>,
}

impl Words {
    /// The steps for `merges`, whose tokens are in `vocabulary`, if there is a second step and the
    /// ids are few enough.
    ///
    /// # Errors
    ///
    /// As for [`SpanIds::new`].
    pub(crate) fn new(vocabulary: &Vocabulary, merges: &[Merge]) -> Result<Option<Self>, Error> {
        let is_later = |&id: &u32| vocabulary.get(id).is_some_and(has_space_after_word);
        let Some(limit) = (256..).take(merges.len()).find(is_later) else { return Ok(None) };
        if 256 + merges.len() >= NO_ID as usize {
            return Ok(None);
        }
        let (first, later) = merges.split_at(limit as usize - 256);
        let first = SpanIds::new(Tokens::merges(first))?;
        Ok(Some(Self { first, later: table(later, limit) }))
    }

    /// Merges the ids of spans with the later merges of `all`. The ids of the first span begin at
    /// `start` of `out`, and those of each end at one of `ends`. Returns the end of the ids.
    pub(crate) fn merge<I: TokenId>(
        &self,
        all: &SpanIds,
        out: &mut Out<I>,
        start: usize,
        ends: &[usize],
        room: &mut Room,
    ) -> usize {
        let ids = out.since(start);
        room.may_join.clear();
        memory::reserve(&mut room.may_join, ids.len());
        // In a loop of its own, so that the next branches do not wait for the table.
        let pairs = ids.windows(2).map(|pair| (pair[0].widen(), pair[1].widen()));
        room.may_join.extend(pairs.map(|(left, right)| self.later.may_have(left, right)));
        let (mut begin, mut kept) = (0, 0);
        for end in ends.iter().map(|end| end - start) {
            kept += self.merge_span(all, &mut ids[..end], (begin, kept), room);
            begin = end;
        }
        ids.copy_within(begin.., kept);
        let length = out.len() - (begin - kept);
        out.truncate(length);
        start + kept
    }

    /// Merges the last ids of `ids`, those of a span, which begin at `begin`; the result begins at
    /// `kept`. Returns its length.
    #[inline]
    fn merge_span<I: TokenId>(
        &self,
        all: &SpanIds,
        ids: &mut [I],
        (begin, mut kept): (usize, usize),
        room: &mut Room,
    ) -> usize {
        let first = kept;
        for at in begin..ids.len() {
            let id = ids[at];
            let next = ids.get(at + 1).filter(|_| room.may_join[at]).copied();
            let joined = |next: I| self.later.get(id.widen(), next.widen());
            match next.map_or(NO_MERGE, joined) {
                NO_MERGE if room.ids.is_empty() => {
                    ids[kept] = id;
                    kept += 1;
                }
                NO_MERGE => kept += self.merge_joined(all, room, &mut ids[kept..]),
                pair => room.push(id.widen(), ids[at + 1].widen(), pair),
            }
        }
        kept - first
    }

    /// Merges the ids of `room`, writes them to the front of `span`, and returns their number.
    fn merge_joined<I: TokenId>(&self, all: &SpanIds, room: &mut Room, span: &mut [I]) -> usize {
        let Room { ids, merged, .. } = room;
        if ids.len() < LONG_PART {
            merge_by_scan(ids, merged, |left, right| match self.later.get(left, right) {
                NO_ID => NO_MERGE,
                id => id,
            });
        } else {
            all.merge_ids(ids, merged);
        }
        for (place, &id) in span.iter_mut().zip(&*ids) {
            *place = I::narrow(id);
        }
        let number = ids.len();
        ids.clear();
        merged.clear();
        number
    }
}

impl Room {
    /// Appends the id after `left`, which is the last one or begins the ids, and what they merge to.
    #[inline]
    fn push(&mut self, left: u32, right: u32, pair: u32) {
        if self.ids.is_empty() {
            memory::push(&mut self.ids, left);
        }
        memory::push(&mut self.ids, right);
        memory::push(&mut self.merged, if pair == NO_ID { NO_MERGE } else { pair });
    }
}

/// Whether a space follows a character that is not white space.
fn has_space_after_word(token: &[u8]) -> bool {
    let text = String::from_utf8_lossy(token);
    let mut pairs = text.chars().zip(text.chars().skip(1));
    pairs.any(|(before, one)| one == ' ' && !before.is_whitespace())
}

/// The table of `Words` for the merges of ids from `limit` on; ids below it are leaves.
fn table(later: &[Merge], limit: u32) -> Packed {
    let mut table = Packed::for_merges(2 * later.len());
    let mut ends: Vec<Merge> = memory::with_capacity(later.len());
    for (&(left, right), id) in later.iter().zip(limit..) {
        let ends_of = |id: u32| if id < limit { (id, id) } else { ends[(id - limit) as usize] };
        let ((first, left_end), (right_start, last)) = (ends_of(left), ends_of(right));
        if table.get(left_end, right_start) == NO_MERGE {
            table.insert((left_end, right_start), NO_ID);
        }
        table.insert((left, right), id);
        ends.push((first, last));
    }
    table
}

#[cfg(test)]
mod tests;
