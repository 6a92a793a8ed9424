//! Documents to token ids: the splitter's spans, each by its ids. Takes a pattern and merges once, then
//! documents. Text is never a special token here: there are none.

use std::ops::Range;
use std::sync::Mutex;
use std::thread;

use crate::encode::out::Out;
use crate::encode::span_ids::SpanIds;
use crate::encode::worker::Worker;
use crate::threads::in_threads;
use crate::token_id::{Packing, TokenId};
use crate::{ByteOrder, Documents, Error, Merge, Splitter, Vocabulary};

mod backtrack;
mod chunks;
mod composed;
mod cuts;
mod few;
mod linked;
mod long_memo;
mod merge_table;
mod out;
mod prefixes;
mod ranks;
mod span_ids;
mod span_memo;
mod sweep;
mod window;
mod worker;

pub use composed::{Composition, Encoded, Mark, Part, Stretch};
pub use ranks::merges_of_tokens;

/// Bytes in which a thread remembers spans at most, unless told otherwise. It begins with 2 MiB, and doubles
/// them while spans are new; while a table doubles, the old one is there too.
pub const CACHE_BYTES: usize = 32 << 20;

/// Turns documents into ids. Can be shared between threads.
#[derive(Debug)]
pub struct Encoder {
    splitter: Splitter,
    span_ids: SpanIds,
    cache_bytes: usize,
    /// Those that no call is using, with what they remember. Never waited for: who finds it locked makes
    /// a worker or drops one, so that a process that forked at the wrong time goes on.
    idle: Mutex<Vec<Worker>>,
}

impl Encoder {
    /// Builds the tables for `merges`: merge k makes id 256 + k of two ids that exist before it.
    ///
    /// # Errors
    ///
    /// A merge that names a later id, a pair that is merged twice, or tokens of over 1 GiB in all.
    pub fn new(splitter: Splitter, merges: &[Merge]) -> Result<Self, Error> {
        Ok(Self::with_span_ids(splitter, SpanIds::new(merges)?))
    }

    /// The same for ids of which 0 to 255 are the bytes in the order `order`; `merges` name ids so, too.
    ///
    /// # Errors
    ///
    /// As `new`.
    pub fn ordered(splitter: Splitter, merges: &[Merge], order: ByteOrder) -> Result<Self, Error> {
        Ok(Self::with_span_ids(splitter, SpanIds::ordered(merges, order)?))
    }

    fn with_span_ids(splitter: Splitter, span_ids: SpanIds) -> Self {
        Self { splitter, span_ids, cache_bytes: CACHE_BYTES, idle: Mutex::default() }
    }

    /// Remembers spans in up to `bytes` a thread instead of [`CACHE_BYTES`].
    #[must_use]
    pub fn with_cache_bytes(self, bytes: usize) -> Self {
        Self { cache_bytes: bytes, ..self }
    }

    /// What each id stands for.
    pub fn vocabulary(&self) -> &Vocabulary {
        self.span_ids.vocabulary()
    }

    /// The ids of one document.
    ///
    /// # Errors
    ///
    /// A document that cannot be split; it is called document 0.
    pub fn encode(&self, document: &[u8]) -> Result<Vec<u32>, Error> {
        let offsets = [0, i64::try_from(document.len()).unwrap_or(i64::MAX)];
        let documents = Documents::new(document, &offsets)?;
        let (ids, _) = self.encode_block(documents, Frame::default(), 0..1)?;
        Ok(ids)
    }

    /// The ids of all documents back to back, each in its frame, and n + 1 offsets.
    ///
    /// Each of `threads` encodes a block of neighbouring documents; the result is the same for any
    /// number of threads. Memory beside the result: up to [`CACHE_BYTES`] a thread, of which those of as
    /// many threads as there are cores are kept for the next call.
    ///
    /// # Errors
    ///
    /// Ids that do not fit `I`, or a document that cannot be split.
    pub fn encode_batch<I: TokenId>(
        &self,
        documents: Documents<'_>,
        frame: Frame<'_>,
        threads: usize,
    ) -> Result<(Vec<I>, Vec<i64>), Error> {
        let number = self.vocabulary().len().max(frame.num_ids());
        if number > I::LIMIT {
            return Err(Error::TooManyTokens { number, limit: I::LIMIT });
        }
        let encode = |block| self.encode_block(documents, frame, block);
        let blocks = in_threads(documents.blocks(threads), encode);
        Ok(join(blocks.into_iter().collect::<Result<_, _>>()?))
    }

    fn encode_block<I: TokenId>(
        &self,
        documents: Documents<'_>,
        frame: Frame<'_>,
        block: Range<usize>,
    ) -> Result<Block<I>, Error> {
        let mut worker = self.take_worker();
        let mut out = Out::with_room(documents.num_bytes(&block) / 5 * 2);
        let mut lengths = Vec::with_capacity(block.len());
        for document in block {
            let begin = out.len();
            out.push_all(frame.before.iter().copied());
            let place = (documents.start(document), documents.start(document + 1));
            worker
                .encode(&self.span_ids, documents.data(), place, &mut out)
                .map_err(|stuck| stuck.in_document(document))?;
            out.push_all(frame.after.iter().copied());
            lengths.push(out.len() - begin);
        }
        self.put_back(worker);
        Ok((out.finish(), lengths))
    }

    fn take_worker(&self) -> Worker {
        let idle = self.idle.try_lock().ok().and_then(|mut idle| idle.pop());
        idle.unwrap_or_else(|| {
            let packing = Packing::of(self.vocabulary().len());
            Worker::new(self.splitter.clone(), packing, self.cache_bytes)
        })
    }

    fn put_back(&self, worker: Worker) {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        if let Ok(mut idle) = self.idle.try_lock()
            && idle.len() < cores
        {
            idle.push(worker);
        }
    }
}

/// Ids, of special tokens, that are put around the ids of every document.
#[derive(Debug, Clone, Copy, Default)]
pub struct Frame<'a> {
    /// Before each document.
    pub before: &'a [u32],
    /// After each document.
    pub after: &'a [u32],
}

impl Frame<'_> {
    /// The highest id and one.
    fn num_ids(self) -> usize {
        self.before.iter().chain(self.after).map(|&id| id as usize + 1).max().unwrap_or(0)
    }
}

/// The ids of a block, and how many there are of each document.
type Block<I> = (Vec<I>, Vec<usize>);

fn join<I: TokenId>(blocks: Vec<Block<I>>) -> (Vec<I>, Vec<i64>) {
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

#[cfg(test)]
mod tests;
