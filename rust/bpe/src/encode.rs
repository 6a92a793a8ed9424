//! Documents to token ids: the splitter's spans, each by its ids. Takes a pattern and merges once, then
//! documents. Text is never a special token here: there are none.

use std::ops::Range;

use crate::blocks::in_blocks;
use crate::cache::Cache;
use crate::short::Short;
use crate::span_ids::{Scratch, SpanIds};
use crate::split::Stuck;
use crate::{Documents, Error, Merge, Splitter, Vocabulary};

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

/// Turns documents into ids. Can be shared between threads.
#[derive(Debug)]
pub struct Encoder {
    splitter: Splitter,
    span_ids: SpanIds,
}

impl Encoder {
    /// Builds the tables for `merges`: merge k makes id 256 + k of two ids that exist before it.
    ///
    /// # Errors
    ///
    /// A merge that names a later id, a pair that is merged twice, or tokens of over 1 GiB in all.
    pub fn new(splitter: Splitter, merges: &[Merge]) -> Result<Self, Error> {
        Ok(Self { splitter, span_ids: SpanIds::new(merges)? })
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
        let mut ids = Vec::with_capacity(document.len() / 3);
        let mut worker = Worker::new(self, self.splitter.clone(), document.len());
        worker.encode(document, &mut ids).map_err(|stuck| stuck.in_document(0))?;
        Ok(ids)
    }

    /// The ids of all documents back to back, and n + 1 offsets.
    ///
    /// Each of `threads` encodes a block of neighbouring documents; the result is the same for any
    /// number of threads. Memory beside the result: 2 MiB a thread.
    ///
    /// # Errors
    ///
    /// Ids that do not fit `I`, or a document that cannot be split.
    pub fn encode_batch<I: TokenId>(
        &self,
        documents: Documents<'_>,
        threads: usize,
    ) -> Result<(Vec<I>, Vec<i64>), Error> {
        let number = self.vocabulary().len();
        if number > I::LIMIT {
            return Err(Error::TooManyTokens { number, limit: I::LIMIT });
        }
        let encoded = in_blocks(documents, threads, |block| {
            let num_bytes = documents.num_bytes(&block);
            Worker::new(self, self.splitter.clone(), num_bytes).encode_block(documents, block)
        })?;
        Ok(join(encoded))
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

/// One thread's part: what it shares, and memory of its own.
#[derive(Debug)]
struct Worker<'e> {
    splitter: Splitter,
    spans: Spans<'e>,
}

#[derive(Debug)]
struct Spans<'e> {
    ids: &'e SpanIds,
    cache: Cache<FewIds>,
    scratch: Scratch,
}

/// Up to three ids. Spans of more are merged anew each time.
#[derive(Debug, Clone, Copy, Default)]
struct FewIds {
    number: u32,
    ids: [u32; 3],
}

impl<'e> Worker<'e> {
    fn new(encoder: &'e Encoder, splitter: Splitter, num_bytes: usize) -> Self {
        let cache = Cache::for_bytes(num_bytes);
        Self {
            splitter,
            spans: Spans { ids: &encoder.span_ids, cache, scratch: Scratch::default() },
        }
    }

    fn encode_block<I: TokenId>(
        &mut self,
        documents: Documents<'_>,
        block: Range<usize>,
    ) -> Result<Block<I>, Error> {
        let mut ids = Vec::with_capacity(documents.num_bytes(&block) / 3);
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
        let Self { splitter, spans } = self;
        splitter.visit(document, |span, _| spans.encode(span, ids))
    }
}

impl Spans<'_> {
    #[inline]
    fn encode<I: TokenId>(&mut self, span: &[u8], out: &mut Vec<I>) {
        let short = Short::new(span);
        match short.and_then(|short| self.cache.get_mut(short)) {
            Some(few) if few.number == 1 => out.push(I::narrow(few.ids[0])),
            Some(few) => out.extend(few.ids().iter().map(|&id| I::narrow(id))),
            None => self.encode_new(span, short, out),
        }
    }

    #[inline(never)]
    fn encode_new<I: TokenId>(&mut self, span: &[u8], short: Option<Short>, out: &mut Vec<I>) {
        let ids = self.ids.encode(span, &mut self.scratch);
        if let (Some(short), Some(few)) = (short, FewIds::new(ids)) {
            self.cache.put(short, few);
        }
        out.extend(ids.iter().map(|&id| I::narrow(id)));
    }
}

impl FewIds {
    fn new(from: &[u32]) -> Option<Self> {
        let mut ids = [0; 3];
        ids.get_mut(..from.len())?.copy_from_slice(from);
        Some(Self { number: u32::try_from(from.len()).ok()?, ids })
    }

    fn ids(&self) -> &[u32] {
        &self.ids[..self.number as usize]
    }
}

#[cfg(test)]
mod tests;
