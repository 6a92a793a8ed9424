//! The ids of one span.
//!
//! The rule: a span that is a token as a whole is that id (of two with the same bytes, the lower
//! one). Otherwise its bytes are ids, and of all adjacent pairs that merge, the one that makes the
//! lowest id is merged, the leftmost first, until none merges.
//!
//! tiktoken uses the joined bytes of two neighbors instead of the pair. Both return the same ids
//! if each merge is the last step of encoding its own bytes with the merges before it, as for
//! learned merges: neighbors whose joined bytes are token n were made by merges below n, within
//! those bytes alone, so they are the pair of merge n.
//!
//! Whole tokens, which no merge makes, follow the merges: a span is one of them only as a whole. If
//! all tokens of the merges are reachable, that is, each is the result of merging its own bytes,
//! only the whole tokens are looked up, since merging finds the others.
//!
//! In this module ids are internal ids, of which the first 256 are the bytes. If a vocabulary has
//! other ids, they are renamed at the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use hashbrown::HashTable;
use nanotok_memory as memory;

use crate::cpu::Level;
use crate::cpu::simd::Cpu;
use crate::encode::Tokens;
use crate::encode::backtrack::Backtrack;
use crate::encode::characters::Characters;
use crate::encode::chunks::{CHUNK, merge_in_chunks};
use crate::encode::cuts::Cuts;
use crate::encode::early::Early;
use crate::encode::few::{self, merge_few};
use crate::encode::linked::Linked;
use crate::encode::merge_table::{MergeTable, NO_MERGE};
use crate::encode::space_runs::SpaceRuns;
use crate::encode::sweep::{is_poor, merge_by_sweeps};
use crate::numbering::Numbering;
use crate::{ByteOrder, Error, Merge, Vocabulary, hash64};

/// From this number of bytes on a heap finds the next merge, if merging from left to right is not
/// possible. By scanning alone, 1 MB of two letters takes more than 100 times as long.
pub(crate) const LONG_PART: usize = 64;

/// The tables for the ids of spans.
#[derive(Debug)]
pub(crate) struct SpanIds {
    vocabulary: Vocabulary,
    /// The tokens that a span is compared with; none if merging finds all of them.
    whole: HashTable<u32>,
    merges: MergeTable,
    characters: Characters,
    early: Option<Early>,
    backtrack: Option<Backtrack>,
    cuts: Cuts,
    cpu: Cpu,
    /// The maximum number of ids with which merging by `few` begins; 0 if there are too many ids.
    most_few: usize,
    numbering: Option<Numbering>,
    space_runs: Option<SpaceRuns>,
}

/// Buffers that are reused for each span.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    ids: Vec<u32>,
    room: Room,
}

/// Buffers of merging besides the ids.
#[derive(Debug, Default)]
struct Room {
    part: Vec<u32>,
    merged: Vec<u32>,
    left: Vec<u64>,
}

impl SpanIds {
    pub(crate) fn new(tokens: Tokens<'_>) -> Result<Self, Error> {
        let mut vocabulary = Vocabulary::new(tokens.merges)?;
        let merges = MergeTable::new(tokens.merges)?;
        let early = tokens.priorities.map(|it| Early::new(tokens.merges, it, &vocabulary));
        let early = early.transpose()?.flatten();
        let mut reachable = merges.reachable();
        let mut finds_merged = reachable.iter().all(|&it| it);
        if let Some(early) = &early {
            finds_merged = early.correct(&merges, &vocabulary, &mut reachable);
        }
        let backtrack = Backtrack::new(&vocabulary, &reachable);
        let characters = Characters::new(&vocabulary, &reachable);
        let cuts = Cuts::new(&vocabulary);
        let cpu = Cpu::new(Level::in_use()?);
        let most_few = few::most_ids(vocabulary.len());
        let num_merged = vocabulary.len();
        if let Some(whole) = tokens.whole {
            vocabulary.append(whole)?;
            check_whole(&vocabulary, num_merged)?;
        }
        let compared =
            if finds_merged { num_merged..vocabulary.len() } else { 0..vocabulary.len() };
        let whole = whole_spans(&vocabulary, compared);
        let numbering = tokens.numbering.map(|ids| Numbering::new(ids, vocabulary.len()));
        let numbering = numbering.transpose()?;
        let space_runs = tokens.space_runs.map(SpaceRuns::new);
        Ok(Self {
            vocabulary,
            whole,
            merges,
            characters,
            early,
            backtrack,
            cuts,
            cpu,
            most_few,
            numbering,
            space_runs,
        })
    }

    /// The same for merges of ids of which 0 to 255 are the bytes in the order `order`, whose
    /// tokens are numbered in the same way.
    pub(crate) fn ordered(merges: &[Merge], order: &ByteOrder) -> Result<Self, Error> {
        let own = Self::new(Tokens::merges(&order.of_bytes(merges)))?;
        let numbering = Some(Numbering::ordered(order, own.vocabulary.len()));
        Ok(Self { numbering, ..own })
    }

    /// The highest id plus one.
    pub(crate) fn num_ids(&self) -> usize {
        let numbering = self.numbering.as_ref();
        let num_ids = numbering.map_or(self.vocabulary.len(), Numbering::num_ids);
        num_ids.max(self.space_runs.as_ref().map_or(0, SpaceRuns::num_ids))
    }

    /// The bytes of all tokens in the order of their ids, and their n + 1 offsets.
    pub(crate) fn token_bytes(&self) -> (Vec<u8>, Vec<usize>) {
        let in_order = || memory::collected(0..self.vocabulary.len());
        let order = self.numbering.as_ref().map_or_else(in_order, Numbering::by_id);
        self.vocabulary.in_order(&order)
    }

    /// The bytes of each internal id.
    pub(crate) fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The CPU level in use.
    pub(crate) fn cpu(&self) -> Cpu {
        self.cpu
    }

    /// Whether the ids of a span are those of its parts between cuts.
    pub(crate) fn has_cuts(&self) -> bool {
        self.whole.is_empty() && self.space_runs.is_none()
    }

    /// Whether two adjacent bytes of a span can be cut apart.
    #[inline]
    pub(crate) fn may_cut(&self, first: u8, second: u8) -> bool {
        self.cuts.may_cut(first, second)
    }

    /// Whether the ids are those of merging alone, in the order of the merges.
    pub(crate) fn is_plain(&self) -> bool {
        self.has_cuts() && self.early.is_none() && self.numbering.is_none()
    }

    /// The ids of `span`, which must not be empty.
    pub(crate) fn encode<'s>(&self, span: &[u8], scratch: &'s mut Scratch) -> &'s [u32] {
        scratch.ids.clear();
        let whole = if self.whole.is_empty() { None } else { self.whole_span(span) };
        if let Some(id) = whole {
            scratch.ids.push(id);
        } else if let Some(early) = self.early.as_ref().filter(|it| it.occurs_in(span)) {
            early.merge(&self.merges, span, &mut scratch.ids);
        } else {
            let tables = (&self.merges, &self.characters);
            if !merge_few(self.cpu, tables, self.most_few, span, &mut scratch.ids) {
                self.merge_long(span, &mut scratch.ids, &mut scratch.room);
            }
        }
        if let Some(numbering) = &self.numbering {
            numbering.rename(&mut scratch.ids, &self.vocabulary);
        }
        if let Some(runs) = &self.space_runs {
            runs.join(&mut scratch.ids);
        }
        &scratch.ids
    }

    /// Appends the ids of any bytes, in chunks if there are many.
    fn merge_long(&self, bytes: &[u8], ids: &mut Vec<u32>, room: &mut Room) {
        let merge = |bytes: &[u8], ids: &mut Vec<u32>| self.merge_chunk(bytes, ids, room);
        let length = |id| self.vocabulary.get(id).map_or(0, <[u8]>::len);
        if !merge_in_chunks(bytes, CHUNK, ids, merge, length) {
            self.merge_chunk(bytes, ids, room);
        }
    }

    /// Appends the ids of a chunk from left to right, or in another way if that takes too many
    /// steps.
    fn merge_chunk(&self, bytes: &[u8], ids: &mut Vec<u32>, room: &mut Room) {
        memory::reserve(ids, bytes.len());
        let poor = bytes.len() >= LONG_PART && is_poor(bytes);
        let backtrack = self.backtrack.as_ref().filter(|_| !poor);
        if !backtrack.is_some_and(|it| it.merge(&self.merges, bytes, ids, &mut room.left)) {
            self.merge_any(bytes, ids, room);
        }
    }

    /// Appends the ids of any bytes by passes, then by scanning or by the heap.
    fn merge_any(&self, bytes: &[u8], ids: &mut Vec<u32>, room: &mut Room) {
        let Room { part, merged, .. } = room;
        part.clear();
        memory::reserve(part, bytes.len());
        part.extend(bytes.iter().map(|&byte| u32::from(byte)));
        self.merges.of_pairs(part, merged);
        self.merge_ids(part, merged);
        memory::append(ids, part);
    }

    /// Merges `ids`; `merged[i]` is the id that ids i and i + 1 merge to.
    pub(crate) fn merge_ids(&self, ids: &mut Vec<u32>, merged: &mut Vec<u32>) {
        merge_by_sweeps(&self.merges, ids, merged, LONG_PART);
        if ids.len() < LONG_PART {
            merge_by_scan(ids, merged, |left, right| self.merges.get(left, right));
        } else {
            self.merge_by_heap(ids, merged);
        }
    }

    fn whole_span(&self, span: &[u8]) -> Option<u32> {
        if let &[byte] = span {
            return Some(u32::from(byte));
        }
        self.whole.find(hash64(span), |&id| self.vocabulary.get(id) == Some(span)).copied()
    }

    /// Time: n log n. The heap can contain outdated pairs, which are compared with the current ids.
    /// A merge and its position are one number.
    fn merge_by_heap(&self, ids: &mut Vec<u32>, merged: &[u32]) {
        let id_of = |(left, right)| self.merges.get(left, right);
        let entry = |id: u32, at: u32| Reverse(u64::from(id) << 32 | u64::from(at));
        let mut list = Linked::new(ids);
        let mergeable = merged.iter().copied().zip(0..).filter(|&(id, _)| id != NO_MERGE);
        let mut heap: Vec<Reverse<u64>> = memory::with_capacity(ids.len());
        heap.extend(mergeable.map(|(id, at)| entry(id, at)));
        let mut heap = BinaryHeap::from(heap);
        while let Some(Reverse(first)) = heap.pop() {
            #[expect(clippy::cast_possible_truncation, reason = "halves of a number")]
            let (id, at) = ((first >> 32) as u32, first as u32);
            if list.pair(at).map(id_of) != Some(id) {
                continue;
            }
            list.merge(at, id);
            for left in [list.before(at), Some(at)].into_iter().flatten() {
                let id = list.pair(left).map_or(NO_MERGE, id_of);
                if id != NO_MERGE {
                    heap.push(entry(id, left));
                }
            }
        }
        ids.clear();
        ids.extend(list.ids());
    }
}

/// Merges ids in time n for each merge. `merged[i]` is the id that ids i and i + 1 merge to, and
/// `merge` returns it for others.
#[inline]
pub(crate) fn merge_by_scan(
    ids: &mut Vec<u32>,
    merged: &mut Vec<u32>,
    merge: impl Fn(u32, u32) -> u32,
) {
    while let Some((at, &id)) = merged.iter().enumerate().min_by_key(|&(_, id)| id) {
        if id == NO_MERGE {
            return;
        }
        ids[at] = id;
        ids.remove(at + 1);
        merged.remove(at);
        if at > 0 {
            merged[at - 1] = merge(ids[at - 1], id);
        }
        if at < merged.len() {
            merged[at] = merge(id, ids[at + 1]);
        }
    }
}

/// A table of the tokens `ids` by their bytes; of two with the same bytes, the lower one.
fn whole_spans(vocabulary: &Vocabulary, ids: Range<usize>) -> HashTable<u32> {
    memory::check_room::<u64>(ids.len());
    let mut table: HashTable<u32> = HashTable::with_capacity(ids.len());
    let bytes = |id: u32| vocabulary.get(id).unwrap_or_default();
    for id in (0..).take(ids.end).skip(ids.start) {
        let same = |other: &u32| bytes(*other) == bytes(id);
        table.entry(hash64(bytes(id)), same, |other| hash64(bytes(*other))).or_insert(id);
    }
    table
}

/// Checks that tokens from `first` on repeat no other one.
fn check_whole(vocabulary: &Vocabulary, first: usize) -> Result<(), Error> {
    let twice = vocabulary.duplicates().into_iter().find(|&(_, id)| id as usize >= first);
    twice.map_or(Ok(()), |(first, id)| {
        let bytes = vocabulary.get(id).unwrap_or_default().to_vec();
        Err(Error::RepeatedToken { token: id as usize, first: first as usize, bytes })
    })
}

#[cfg(test)]
mod tests;
