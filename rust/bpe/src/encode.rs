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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::split::GapRule;
    use crate::{GaveUp, naive};

    const PATTERN: &str = r"\p{L}+|\s+";
    const MERGES: [Merge; 6] = [(97, 98), (256, 256), (32, 32), (97, 97), (49, 50), (257, 99)];

    fn encoder(gaps: GapRule) -> Encoder {
        Encoder::new(Splitter::new(PATTERN, gaps).unwrap(), &MERGES).unwrap()
    }

    fn batch(documents: &[Vec<u8>], threads: usize) -> Result<(Vec<u16>, Vec<i64>), Error> {
        let mut offsets = vec![0];
        for document in documents {
            offsets.push(offsets[offsets.len() - 1] + i64::try_from(document.len()).unwrap());
        }
        let data = documents.concat();
        encoder(GapRule::Refuse).encode_batch(Documents::new(&data, &offsets)?, threads)
    }

    fn check(document: &[u8], expected: &[u32]) {
        assert_eq!(encoder(GapRule::Spans).encode(document).unwrap(), expected, "{document:?}");
    }

    #[test]
    fn spans_are_encoded_one_by_one() {
        check(b"", &[]);
        check(b"ab  abababc", &[256, 258, 257, 256, 99]);
        check(b"ababc", &[261]);
        check(b"a12!\xffb", &[97, 260, 33, 255, 98]);
    }

    #[test]
    fn an_error_names_the_first_document_that_cannot_be_split() {
        let documents = [b"ab".to_vec(), b"a !".to_vec(), b"!".to_vec(), b"a".to_vec()];
        for threads in 1..5 {
            let reason = GaveUp::Gap;
            let expected = Error::Split { document: 1, offset: 2, reason };
            assert_eq!(batch(&documents, threads), Err(expected));
        }
    }

    #[test]
    fn ids_that_do_not_fit_are_refused() {
        let merges: Vec<Merge> = (0..256).flat_map(|a| (0..256).map(move |b| (a, b))).collect();
        let fits = |number: usize| {
            let splitter = Splitter::new(PATTERN, GapRule::Spans).unwrap();
            let encoder = Encoder::new(splitter, &merges[..number]).unwrap();
            encoder.encode_batch::<u16>(Documents::new(b"", &[0]).unwrap(), 1)
        };
        assert_eq!(fits(65_536 - 256), Ok((vec![], vec![0])));
        let error = Error::TooManyTokens { number: 65_537, limit: 65_536 };
        assert_eq!(fits(65_537 - 256), Err(error));
    }

    proptest! {
        #[test]
        fn batches_are_the_plain_twins_ids_for_any_number_of_threads(
            documents in prop::collection::vec(
                (prop::collection::vec(prop::sample::select(b"abc \xff".as_slice()), 0..40), 0usize..900)
                    .prop_map(|(text, times)| text.repeat(times / 4)),
                0..6,
            ),
        ) {
            let regex = fancy_regex::Regex::new(PATTERN).unwrap();
            let (mut ids, mut offsets) = (Vec::new(), vec![0]);
            let mut seen = std::collections::HashMap::new();
            for document in &documents {
                for span in naive::split(&regex, document) {
                    let new = || naive::encode_span(&MERGES, &span);
                    ids.extend_from_slice(seen.entry(span.clone()).or_insert_with(new));
                }
                offsets.push(i64::try_from(ids.len()).unwrap());
            }
            let ids: Vec<u16> = ids.into_iter().map(|id| u16::try_from(id).unwrap()).collect();
            for threads in 1..5 {
                let (found, found_offsets) = batch(&documents, threads).unwrap();
                prop_assert!(found == ids);
                prop_assert_eq!(&found_offsets, &offsets);
            }
        }
    }
}
