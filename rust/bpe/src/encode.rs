//! Documents to token ids. Takes a pattern and merges, gives ids; text is never a special token.
//!
//! The rule for a span: if it is a token as a whole, that id (of two with the same bytes, the lower).
//! Else its bytes are ids, and of all neighbouring pairs that merge, the one that makes the lowest id
//! is merged, the leftmost first, until none merges.
//!
//! tiktoken's rule looks at the joined bytes of two neighbours instead of the pair. Both give the same
//! ids if each merge is the last step of encoding its own bytes with the merges before it, as learned
//! merges are: neighbours whose joined bytes are token n were made by merges below n within those
//! bytes alone, so they are the pair that merge n names.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::thread;

use hashbrown::HashTable;
use rustc_hash::FxHashMap;

use crate::split::Stuck;
use crate::{Documents, Error, Merge, Splitter, Vocabulary, hash64};

/// From this many bytes on a heap finds the next merge: shorter spans are faster scanned.
const LONG_SPAN: usize = 100;

/// "These two do not merge", greater than every id.
const NO_MERGE: u32 = u32::MAX;

/// An integer type that can hold token ids.
pub trait TokenId: Copy + Send {
    /// How many different ids it can hold.
    const LIMIT: usize;
    /// The id in this width. Only called with ids below the limit.
    fn narrow(id: u32) -> Self;
}

impl TokenId for u16 {
    const LIMIT: usize = 1 << 16;

    #[expect(clippy::cast_possible_truncation, reason = "the encoder compares with LIMIT first")]
    fn narrow(id: u32) -> Self {
        id as Self
    }
}

impl TokenId for u32 {
    const LIMIT: usize = 1 << 32;

    fn narrow(id: u32) -> Self {
        id
    }
}

/// Turns documents into ids.
#[derive(Debug)]
pub struct Encoder {
    splitter: Splitter,
    vocabulary: Vocabulary,
    whole: HashTable<u32>,
    bytes: Vec<u32>,
    merges: FxHashMap<Merge, u32>,
}

impl Encoder {
    /// Builds the tables for `merges`: merge k makes id 256 + k of ids that exist before it.
    pub fn new(splitter: Splitter, merges: &[Merge]) -> Result<Self, Error> {
        let vocabulary = Vocabulary::new(merges)?;
        let mut encoder = Self {
            splitter,
            whole: whole_spans(&vocabulary),
            vocabulary,
            bytes: vec![NO_MERGE; 1 << 16],
            merges: FxHashMap::default(),
        };
        for (&pair, id) in merges.iter().zip(256..) {
            let slot = match pair {
                (left @ 0..256, right @ 0..256) => &mut encoder.bytes[(left << 8 | right) as usize],
                _ => encoder.merges.entry(pair).or_insert(NO_MERGE),
            };
            if *slot != NO_MERGE {
                let (merge, first) = (id as usize - 256, *slot as usize - 256);
                return Err(Error::RepeatedMerge { merge, first });
            }
            *slot = id;
        }
        Ok(encoder)
    }

    /// What each id stands for.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The ids of one document.
    pub fn encode(&self, document: &[u8]) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::new();
        let mut worker = Worker::new(self);
        worker.encode(document, &mut ids).map_err(|stuck| stuck.in_document(0))?;
        Ok(ids)
    }

    /// The ids of all documents back to back, and n + 1 offsets.
    ///
    /// Each of `threads` encodes a block of neighbouring documents; the result is the same for any
    /// number of threads.
    pub fn encode_batch<I: TokenId>(
        &self,
        documents: Documents<'_>,
        threads: usize,
    ) -> Result<(Vec<I>, Vec<i64>), Error> {
        if self.vocabulary.len() > I::LIMIT {
            return Err(Error::TooManyTokens { number: self.vocabulary.len(), limit: I::LIMIT });
        }
        let encoded: Vec<(Vec<I>, Vec<usize>)> = thread::scope(|scope| {
            let encode =
                |block: Range<usize>| move || Worker::new(self).encode_block(documents, block);
            let mut blocks = documents.blocks(threads).into_iter();
            let first = blocks.next().map(&encode);
            let others: Vec<_> = blocks.map(|block| scope.spawn(encode(block))).collect();
            let mut encoded: Vec<_> = first.map(|encode| encode()).into_iter().collect();
            encoded
                .extend(others.into_iter().map(|other| other.join().expect("encoding panicked")));
            encoded.into_iter().collect::<Result<_, _>>()
        })?;
        Ok(join(encoded))
    }
}

/// Joins the ids of neighbouring blocks, and turns lengths into offsets.
fn join<I: TokenId>(blocks: Vec<(Vec<I>, Vec<usize>)>) -> (Vec<I>, Vec<i64>) {
    let mut offsets = vec![0];
    let mut end = 0;
    for length in blocks.iter().flat_map(|(_, lengths)| lengths) {
        end += i64::try_from(*length).expect("memory is below 2**63 bytes");
        offsets.push(end);
    }
    let mut blocks = blocks.into_iter().map(|(ids, _)| ids);
    let mut ids = blocks.next().unwrap_or_default();
    blocks.for_each(|block| ids.extend_from_slice(&block));
    (ids, offsets)
}

fn whole_spans(vocabulary: &Vocabulary) -> HashTable<u32> {
    let mut table: HashTable<u32> = HashTable::with_capacity(vocabulary.len());
    let bytes = |id: u32| vocabulary.get(id).unwrap_or_default();
    for id in (0..).take(vocabulary.len()) {
        let same = |other: &u32| bytes(*other) == bytes(id);
        table.entry(hash64(bytes(id)), same, |other| hash64(bytes(*other))).or_insert(id);
    }
    table
}

/// One thread's part of an encoder: what it shares, and memory that it uses again for each span.
#[derive(Debug)]
struct Worker<'e> {
    encoder: &'e Encoder,
    splitter: Splitter,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    ids: Vec<u32>,
    merged: Vec<u32>,
}

impl<'e> Worker<'e> {
    fn new(encoder: &'e Encoder) -> Self {
        Self { encoder, splitter: encoder.splitter.clone(), scratch: Scratch::default() }
    }

    fn encode_block<I: TokenId>(
        &mut self,
        documents: Documents<'_>,
        block: Range<usize>,
    ) -> Result<(Vec<I>, Vec<usize>), Error> {
        let mut ids = Vec::with_capacity(documents.num_bytes(&block) / 4);
        let mut lengths = Vec::with_capacity(block.len());
        for document in block {
            let before = ids.len();
            self.encode(documents.get(document), &mut ids)
                .map_err(|stuck| stuck.in_document(document))?;
            lengths.push(ids.len() - before);
        }
        Ok((ids, lengths))
    }

    fn encode<I: TokenId>(&mut self, document: &[u8], ids: &mut Vec<I>) -> Result<(), Stuck> {
        let Self { encoder, splitter, scratch } = self;
        splitter.visit(document, |span, _| encoder.encode_span(span, scratch, ids))
    }
}

impl Encoder {
    fn encode_span<I: TokenId>(&self, span: &[u8], scratch: &mut Scratch, out: &mut Vec<I>) {
        if let Some(id) = self.whole_span(span) {
            out.push(I::narrow(id));
            return;
        }
        scratch.ids.clear();
        scratch.ids.extend(span.iter().map(|&byte| u32::from(byte)));
        if span.len() < LONG_SPAN {
            self.merge_by_scan(&mut scratch.ids, &mut scratch.merged);
        } else {
            self.merge_by_heap(&mut scratch.ids);
        }
        out.extend(scratch.ids.iter().map(|&id| I::narrow(id)));
    }

    fn whole_span(&self, span: &[u8]) -> Option<u32> {
        if let &[byte] = span {
            return Some(u32::from(byte));
        }
        self.whole.find(hash64(span), |&id| self.vocabulary.get(id) == Some(span)).copied()
    }

    #[inline]
    fn merged(&self, left: u32, right: u32) -> u32 {
        if left < 256 && right < 256 {
            return self.bytes[(left << 8 | right) as usize];
        }
        self.merges.get(&(left, right)).copied().unwrap_or(NO_MERGE)
    }

    /// Time: n for each merge. `merged[i]` is what ids i and i + 1 merge to.
    fn merge_by_scan(&self, ids: &mut Vec<u32>, merged: &mut Vec<u32>) {
        merged.clear();
        merged.extend(ids.windows(2).map(|pair| self.merged(pair[0], pair[1])));
        while let Some((at, &id)) = merged.iter().enumerate().min_by_key(|&(_, id)| id) {
            if id == NO_MERGE {
                return;
            }
            ids[at] = id;
            ids.remove(at + 1);
            merged.remove(at);
            if at > 0 {
                merged[at - 1] = self.merged(ids[at - 1], id);
            }
            if at < merged.len() {
                merged[at] = self.merged(id, ids[at + 1]);
            }
        }
    }

    /// Time: n log n. The heap may hold pairs that are gone: what stands there now tells.
    fn merge_by_heap(&self, ids: &mut Vec<u32>) {
        let mut list = Linked::new(ids);
        let mut heap: BinaryHeap<Reverse<(u32, usize)>> = BinaryHeap::new();
        let pairs = ids.windows(2).map(|pair| self.merged(pair[0], pair[1]));
        heap.extend(pairs.zip(0..).filter(|&(id, _)| id != NO_MERGE).map(Reverse));
        while let Some(Reverse((id, at))) = heap.pop() {
            let merged = |(left, right)| self.merged(left, right);
            if list.pair(at).map(merged) != Some(id) {
                continue;
            }
            list.merge(at, id);
            for left in [list.before(at), Some(at)].into_iter().flatten() {
                let id = list.pair(left).map_or(NO_MERGE, merged);
                if id != NO_MERGE {
                    heap.push(Reverse((id, left)));
                }
            }
        }
        list.write(ids);
    }
}

/// Ids as a doubly linked list over their first positions.
struct Linked {
    nodes: Vec<Node>,
}

#[derive(Clone, Copy)]
struct Node {
    id: u32,
    before: usize,
    after: usize,
}

impl Linked {
    fn new(ids: &[u32]) -> Self {
        let node =
            |(at, &id): (usize, &u32)| Node { id, before: at.wrapping_sub(1), after: at + 1 };
        Self { nodes: ids.iter().enumerate().map(node).collect() }
    }

    /// The ids at `at` and after it, if both are there.
    fn pair(&self, at: usize) -> Option<(u32, u32)> {
        let node = self.nodes[at];
        let after = self.nodes.get(node.after)?;
        (node.id != NO_MERGE).then_some((node.id, after.id))
    }

    fn before(&self, at: usize) -> Option<usize> {
        let before = self.nodes[at].before;
        (before < self.nodes.len()).then_some(before)
    }

    /// Puts `id` in the place of the two ids at `at` and after it.
    fn merge(&mut self, at: usize, id: u32) {
        let gone = self.nodes[at].after;
        let after = self.nodes[gone].after;
        self.nodes[at].id = id;
        self.nodes[at].after = after;
        self.nodes[gone].id = NO_MERGE;
        if let Some(node) = self.nodes.get_mut(after) {
            node.before = at;
        }
    }

    fn write(&self, ids: &mut Vec<u32>) {
        ids.clear();
        ids.extend(self.nodes.iter().map(|node| node.id).filter(|&id| id != NO_MERGE));
    }
}
