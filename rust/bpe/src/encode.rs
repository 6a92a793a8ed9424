//! Encodes documents to token ids: the ids of each span of the splitter. Special tokens do not
//! exist here: all text is text.
//!
//! # How a document becomes ids
//!
//! Normalizers change a document if the tokenizer has any, and the splitter finds its spans. The ids
//! of the document are the ids of its spans, one after the other, and those of a span depend on its
//! bytes alone. The rule for a span is that of byte-pair encoding: of all adjacent pairs that merge,
//! the one that makes the lowest id is merged, the leftmost first, until none merges. Everything
//! here returns the ids of this rule in less time. There are two ways to save time: the ids of a
//! span that occurred before are stored, and a new span is merged by the method that is the fastest
//! for it.
//!
//! A `worker` encodes in one thread. It collects up to 320 spans in a window, of one document or of
//! several short ones. One loop over the window (`window`) computes a key of each span of up to 15
//! bytes and prefetches the cache line that its ids would be in. A second loop copies the ids of
//! known spans to the output (`out`). It stops at a span that is not in this line, which is then
//! encoded alone, and continues after it. Apart from this stop, neither loop has a branch that
//! depends on the text, since the CPU could not predict it.
//!
//! Spans of several words hardly repeat. Their words are encoded as the spans of an ordinary
//! tokenizer, and then merged further (`words`; `cuts` are the ends of most words).
//!
//! # Which method merges a new span
//!
//! `span_ids` tries the methods in this order. Each returns the ids of the rule for the spans that it
//! takes, and leaves the others to the next one.
//!
//! 1. A span that is a token as a whole is looked up, if there are tokens that merging does not find.
//! 2. `early`: spans with the bytes of a merge whose priority is lower than that of a merge which
//!    makes one of its parts; Llama 3 has 90 of these. All other methods merge in the order of ids,
//!    in which such merges are wrong, so these spans are merged by priorities, with a heap.
//! 3. `few`: spans with which merging begins with at most 16 ids, or 32 in a vocabulary of more than
//!    65,536. The rule itself: vector instructions find the lowest pair. `characters` lets it begin
//!    with a whole character in place of its bytes if no earlier merge can cross the character's
//!    borders.
//! 4. `chunks`: spans of more than 64 KiB. Overlapping chunks are merged by the next methods, and
//!    joined where both have the same id at the same position.
//! 5. `backtrack`: from left to right, the longest token first. The ids of a span are the only
//!    sequence of tokens in which no two neighbors would have merged across their border, so any way
//!    to find such a sequence is right. This method is not tried for long spans of up to four
//!    different bytes, and ends after eight steps a byte.
//! 6. `sweep`: one merge after the other, each in a pass over the span. An id is higher than those of
//!    its parts, so no pass makes work for an earlier one. Ends when two passes have merged little.
//! 7. What is left is merged by the rule, which is right after any number of complete passes: fewer
//!    than 64 ids by a scan for the lowest pair, more by a heap over a list (`linked`), in time
//!    n log n.
//!
//! In models of the family of Llama 2, `space_runs` then joins the spaces that are left.
//!
//! # Memory
//!
//! All threads share the tables. For m merges and n tokens:
//!
//! | table | bytes |
//! |---|---|
//! | `merge_table`: what a pair of ids merges to, and the pair of each id | 26 to 44 m + 256 KiB |
//! | `backtrack` with `prefixes`, a tree of tokens | 6 n + 13 to 26 for a node, at most one for two bytes of a token, + 256 KiB |
//! | `characters` | 384 KiB |
//! | the bytes of the tokens | 8 n + their sum |
//! | `cuts` | 8 KiB |
//!
//! Each thread has a cache of at most [`CACHE_BYTES`], which begins with 2 MiB and grows with new
//! spans. Up to half of it is `span_memo` for spans of up to 15 bytes, 32 bytes each; a quarter is
//! the same for spans of 16 to 31 bytes, and for shorter ones whose ids do not fit 16 bytes, 64 bytes
//! each. A quarter is `long_memo`, for spans of up to 255 bytes: their bytes, their ids, and 24 bytes.
//! Longer spans are not stored. Merging a long span takes 4 bytes for each of its ids, and the
//! working memory of the methods for one chunk.
//!
//! # Where to begin
//!
//! `reference::encode_span` is the rule in plain code, with which tests compare every method.
//! [`Encoder::encode`] leads to `Encoding::add` in `worker`, `Memory::encode_window` there, and
//! `SpanIds::encode`. Each method states at the head of its module why it is exact. Beside this way:
//!
//! * `ranks` and `listed`: merges from the vocabulary of another tool, or from a list of pairs;
//!   `merging`: the order in which a rule joins some bytes.
//! * `composed`: documents of texts and special tokens.

use std::ops::Range;
use std::sync::{Mutex, OnceLock};
use std::thread;

use nanotok_memory as memory;

use crate::documents::blocks;
pub(crate) use crate::encode::out::Out;
use crate::encode::span_ids::{Scratch, SpanIds};
use crate::encode::words::Words;
pub(crate) use crate::encode::worker::Worker;
use crate::encode::worker::{Encoding, Progress};
use crate::normalize::Normalizers;
use crate::threads::in_threads;
use crate::token_id::{Packing, TokenId};
use crate::{ByteOrder, Documents, Error, Merge, Normalizer, Splitter, Vocabulary};

mod backtrack;
mod characters;
mod chunks;
mod composed;
mod cuts;
mod early;
mod few;
mod linked;
mod listed;
mod long_memo;
mod merge_table;
mod merging;
mod out;
mod prefixes;
mod ranks;
mod space_runs;
mod span_ids;
mod span_memo;
mod sweep;
mod window;
mod words;
mod worker;

pub use composed::{Composition, Encoded, Mark, Part, Stretch};
pub use listed::merges_of_pairs;
pub use ranks::{Ranked, merges_of_ranks, merges_of_tokens};

/// Default limit of a thread's cache of spans in bytes. The cache begins with 2 MiB and doubles
/// with new spans; while a table doubles, the old one exists too.
pub const CACHE_BYTES: usize = 128 << 20;

/// Encodes documents to ids. Can be shared between threads.
#[derive(Debug)]
pub struct Encoder {
    splitter: Splitter,
    span_ids: SpanIds,
    words: Option<Words>,
    normalizers: Normalizers,
    cache_bytes: usize,
    /// Workers that no call uses, with their caches. The lock is never waited for: a call that
    /// finds it locked creates or drops a worker, so that a process that forked while it was held
    /// continues.
    idle: Mutex<Vec<Worker>>,
}

impl Encoder {
    /// Builds the tables for `merges`: merge k makes id 256 + k of two lower ids.
    ///
    /// # Errors
    ///
    /// Fails if a merge uses a later id, if a pair is merged twice, if there are too many merges,
    /// if one token or all tokens together have too many bytes, or if `NANOTOK_CPU` names an
    /// unavailable CPU level.
    pub fn new(splitter: Splitter, merges: &[Merge]) -> Result<Self, Error> {
        Self::of_tokens(splitter, Tokens::merges(merges))
    }

    /// The same for any [`Tokens`].
    ///
    /// # Errors
    ///
    /// As for `new`; and if priorities are not as [`Tokens`] describes them, if a whole token is empty or repeats another token, or if the numbering
    /// has another length, an id of 2**31 or more, or an id twice.
    pub fn of_tokens(splitter: Splitter, tokens: Tokens<'_>) -> Result<Self, Error> {
        Self::with_span_ids(splitter, SpanIds::new(tokens)?, tokens.merges)
    }

    /// The same for ids of which 0 to 255 are the bytes in the order `order`; `merges` use the same
    /// ids.
    ///
    /// # Errors
    ///
    /// As for `new`.
    pub fn ordered(splitter: Splitter, merges: &[Merge], order: &ByteOrder) -> Result<Self, Error> {
        Self::with_span_ids(splitter, SpanIds::ordered(merges, order)?, merges)
    }

    fn with_span_ids(
        splitter: Splitter,
        span_ids: SpanIds,
        merges: &[Merge],
    ) -> Result<Self, Error> {
        let has_words = splitter.superwords().is_some() && span_ids.is_plain();
        let words = has_words.then(|| Words::new(span_ids.vocabulary(), merges)).transpose()?;
        Ok(Self {
            splitter,
            span_ids,
            words: words.flatten(),
            normalizers: Normalizers::default(),
            cache_bytes: CACHE_BYTES,
            idle: Mutex::default(),
        })
    }

    /// Limits the cache of each thread to `bytes` instead of [`CACHE_BYTES`].
    #[must_use]
    pub fn with_cache_bytes(self, bytes: usize) -> Self {
        Self { cache_bytes: bytes, ..self }
    }

    /// Changes every document, and every text of a composed one, by `normalizers` before it is split.
    /// Positions in errors are those in the changed text.
    ///
    /// # Errors
    ///
    /// Fails if a normalizer replaces an empty text, or if the compiler's tables for lower case are
    /// not those of Unicode 17.
    pub fn with_normalizers(self, normalizers: Vec<Normalizer>) -> Result<Self, Error> {
        Ok(Self { normalizers: Normalizers::new(normalizers)?, ..self })
    }

    /// The bytes of each internal id: bytes, merges, whole tokens.
    pub fn vocabulary(&self) -> &Vocabulary {
        self.span_ids.vocabulary()
    }

    /// The bytes of all tokens in the order of their ids, and their n + 1 offsets.
    pub fn token_bytes(&self) -> (Vec<u8>, Vec<usize>) {
        self.span_ids.token_bytes()
    }

    /// The highest id plus one.
    pub fn num_ids(&self) -> usize {
        self.span_ids.num_ids()
    }

    /// The ids of one document.
    ///
    /// # Errors
    ///
    /// Fails if the document cannot be split; the error names document 0.
    pub fn encode(&self, document: &[u8]) -> Result<Vec<u32>, Error> {
        let length = document.len();
        let (ids, _) =
            self.encode_block(length, 0..1, |_| (document, (0, length)), Frame::default())?;
        Ok(ids)
    }

    /// The ids of all documents back to back, each with the ids of `Frame`, and n + 1 offsets.
    ///
    /// Each of `threads` threads encodes a block of adjacent documents; the result is the same for
    /// any number of threads. Memory besides the result: up to [`CACHE_BYTES`] per thread, and a
    /// quarter more while a table doubles; the caches of as many threads as cores are kept for the
    /// next call.
    ///
    /// # Errors
    ///
    /// Fails if ids do not fit `I`, or if a document cannot be split.
    pub fn encode_batch<I: TokenId>(
        &self,
        documents: Documents<'_>,
        frame: Frame<'_>,
        threads: usize,
    ) -> Result<(Vec<I>, Vec<i64>), Error> {
        let place = |number| (documents.start(number), documents.start(number + 1));
        let document = |number| (documents.data(), place(number));
        self.encode_all(documents.offsets(), document, frame, threads)
    }

    /// The same for documents at any addresses in memory.
    ///
    /// # Errors
    ///
    /// As for `encode_batch`.
    pub fn encode_slices<I: TokenId>(
        &self,
        documents: &[&[u8]],
        frame: Frame<'_>,
        threads: usize,
    ) -> Result<(Vec<I>, Vec<i64>), Error> {
        let document = |number: usize| (documents[number], (0, documents[number].len()));
        let offsets = offsets(documents.len(), documents.iter().map(|one| one.len()));
        self.encode_all(&offsets, document, frame, threads)
    }

    /// A worker for the spans of another splitter.
    pub(crate) fn worker(&self, splitter: Splitter) -> Worker {
        let packing = Packing::of(self.num_ids());
        Worker::new(splitter, self.span_ids.cpu(), packing, self.cache_bytes)
    }

    /// An encoding of texts of `data` with a worker of this encoder, one after the other. `visit` is
    /// called with the ids of each span; `out` must be empty.
    pub(crate) fn by_span<'w>(
        &'w self,
        worker: &'w mut Worker,
        data: &'w [u8],
        out: &'w mut Out<u32>,
        mut visit: impl FnMut(&[u32]) + 'w,
    ) -> Encoding<'w, u32, impl FnMut(&mut Out<u32>, Progress<'_>) + 'w> {
        let progress = move |out: &mut Out<u32>, Progress { span_ends, .. }: Progress<'_>| {
            let (ids, mut start) = (out.since(0), 0);
            for &end in span_ends {
                visit(&ids[std::mem::replace(&mut start, end)..end]);
            }
            ids.copy_within(start.., 0);
            out.truncate(out.len() - start);
        };
        worker.encoding(&self.span_ids, data, out, true, progress)
    }

    /// The ids of spans, which are not split, back to back, and n + 1 offsets. The result is the same
    /// for any number of threads.
    pub fn encode_spans(&self, spans: Documents<'_>, threads: usize) -> (Vec<u32>, Vec<i64>) {
        let encode = |block: Range<usize>| {
            let (mut ids, mut lengths) = (Vec::new(), memory::with_capacity(block.len()));
            let mut scratch = Scratch::default();
            for span in block.map(|number| spans.get(number)) {
                let found = match span {
                    [] => &[],
                    span => self.span_ids.encode(span, &mut scratch),
                };
                memory::append(&mut ids, found);
                lengths.push(found.len());
            }
            (ids, lengths)
        };
        join(in_threads(spans.blocks(threads), encode))
    }

    /// The ids of all documents; `document` returns the bytes that contain a document, and its
    /// range. The documents before it have the number of bytes in `offsets`.
    fn encode_all<'a, I: TokenId>(
        &self,
        offsets: &[i64],
        document: impl Fn(usize) -> (&'a [u8], (usize, usize)) + Sync,
        frame: Frame<'_>,
        threads: usize,
    ) -> Result<(Vec<I>, Vec<i64>), Error> {
        let number = self.num_ids().max(frame.num_ids());
        if number > I::LIMIT {
            return Err(Error::TooManyTokens { number, limit: I::LIMIT });
        }
        let encode = |block: Range<usize>| {
            let bytes = offsets[block.end] - offsets[block.start];
            self.encode_block(usize::try_from(bytes).unwrap_or(0), block, &document, frame)
        };
        // A block whose thread got no memory is encoded here, when the other threads have ended.
        let attempt = |block: Range<usize>| (block.clone(), memory::caught(|| encode(block)));
        let encoded = in_threads(blocks(offsets, threads), attempt).into_iter();
        let encoded = encoded.map(|(block, result)| result.unwrap_or_else(|_| encode(block)));
        Ok(join(encoded.collect::<Result<_, _>>()?))
    }

    fn encode_block<'a, I: TokenId>(
        &self,
        num_bytes: usize,
        block: Range<usize>,
        document: impl Fn(usize) -> (&'a [u8], (usize, usize)),
        frame: Frame<'_>,
    ) -> Result<Block<I>, Error> {
        let mut worker = self.take_worker();
        let framed = block.len().saturating_mul(frame.before.len() + frame.after.len());
        let mut out = Out::with_room((num_bytes / 5 * 2).saturating_add(framed));
        let mut lengths = memory::with_capacity(block.len());
        for number in block {
            let begin = out.len();
            out.push_all(frame.before.iter().copied());
            let (data, (start, end)) = document(number);
            let changed = self.normalizers.changed(&data[start..end]);
            let (data, place) = match &changed {
                Some(document) => (&document[..], (0, document.len())),
                None => (data, (start, end)),
            };
            let mut encoding = self.encoding(&mut worker, data, &mut out, |_| {});
            encoding.add(place).map_err(|stuck| stuck.in_document(number))?;
            encoding.finish();
            out.push_all(frame.after.iter().copied());
            lengths.push(out.len() - begin);
        }
        self.put_back(worker);
        Ok((out.finish(), lengths))
    }

    /// An encoding of texts of `data`, one after the other; `after_text` is called when the ids of
    /// a text were appended to `out`, and can append more.
    fn encoding<'w, I: TokenId, A: FnMut(&mut Out<I>)>(
        &'w self,
        worker: &'w mut Worker,
        data: &'w [u8],
        out: &'w mut Out<I>,
        mut after_text: A,
    ) -> Encoding<'w, I, impl FnMut(&mut Out<I>, Progress<'_>) + use<'w, I, A>> {
        let (mut start, mut room) = (out.len(), words::Room::default());
        let progress =
            move |out: &mut Out<I>, Progress { span_ends, is_text_end }: Progress<'_>| {
                if let Some(words) = &self.words {
                    start = words.merge(&self.span_ids, out, start, span_ends, &mut room);
                }
                if is_text_end {
                    after_text(out);
                    start = out.len();
                }
            };
        let words = self.words.as_ref();
        let span_ids = words.map_or(&self.span_ids, |words| &words.first);
        worker.encoding(span_ids, data, out, words.is_some(), progress)
    }

    fn take_worker(&self) -> Worker {
        let idle = self.idle.try_lock().ok().and_then(|mut idle| idle.pop());
        idle.unwrap_or_else(|| self.worker(self.splitter.clone()))
    }

    fn put_back(&self, worker: Worker) {
        // Cached, since the system call takes longer than encoding a word.
        static CORES: OnceLock<usize> = OnceLock::new();
        let cores = *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from));
        if let Ok(mut idle) = self.idle.try_lock()
            && idle.len() < cores
        {
            idle.push(worker);
        }
    }
}

/// The tokens of an encoder, with internal ids: 0 to 255 are the bytes, 256 + k is the token of
/// merge k, and whole tokens follow.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tokens<'a> {
    /// Pairs of internal ids; merge k uses those below 256 + k.
    pub merges: &'a [Merge],
    /// The priority of each merge, all different, if they are not in the order of the merges: the
    /// lowest comes first. The highest priority of all merges that make a token must not decrease
    /// from merge to merge.
    pub priorities: Option<&'a [u32]>,
    /// Tokens that no merge makes: a span is one of them only as a whole.
    pub whole: Option<Documents<'a>>,
    /// The id of each internal id, if they differ.
    pub numbering: Option<&'a [u32]>,
    /// The id of a run of n spaces at index n, 2**32 - 1 if it is no token. The spaces at the start
    /// of a span that are left when it is merged are joined to these tokens, the leftmost pair
    /// first.
    pub space_runs: Option<&'a [u32]>,
}

impl<'a> Tokens<'a> {
    /// Bytes and merges, with their internal ids.
    pub fn merges(merges: &'a [Merge]) -> Self {
        Self { merges, ..Self::default() }
    }
}

/// Ids of special tokens that surround the ids of every document.
#[derive(Debug, Clone, Copy, Default)]
pub struct Frame<'a> {
    /// Before each document.
    pub before: &'a [u32],
    /// After each document.
    pub after: &'a [u32],
}

impl Frame<'_> {
    /// The highest id plus one.
    pub(crate) fn num_ids(self) -> usize {
        self.before.iter().chain(self.after).map(|&id| id as usize + 1).max().unwrap_or(0)
    }
}

/// The ids of a block, and the number of ids of each document.
type Block<I> = (Vec<I>, Vec<usize>);

pub(crate) fn join<I: TokenId>(blocks: Vec<Block<I>>) -> (Vec<I>, Vec<i64>) {
    let number = blocks.iter().map(|(_, lengths)| lengths.len()).sum();
    let lengths = blocks.iter().flat_map(|(_, lengths)| lengths.iter().copied());
    let offsets = offsets(number, lengths);
    let mut blocks = blocks.into_iter().map(|(ids, _)| ids);
    let mut ids = blocks.next().unwrap_or_default();
    blocks.for_each(|block| memory::append(&mut ids, &block));
    (ids, offsets)
}

/// The offsets of items of these lengths.
fn offsets(number: usize, lengths: impl Iterator<Item = usize>) -> Vec<i64> {
    let mut offsets = memory::with_capacity(number + 1);
    let mut end = 0;
    offsets.push(end);
    offsets.extend(lengths.map(|length| {
        end += i64::try_from(length).expect("memory is below 2**63 bytes");
        end
    }));
    offsets
}

#[cfg(test)]
mod tests;
