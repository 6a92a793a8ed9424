//! Renders batches of documents to ids, in threads that end with the call: each block of documents
//! is composed, then encoded.

use std::ops::Range;

use nanotok_bpe::{
    Composition, Documents, Encoded, Encoder, Error, Needles, Part, Stretch, TokenId, in_threads,
};
use nanotok_memory as memory;

use crate::{Composed, Dialect, SpecialIds, UnusedText};

/// The ids of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered<I> {
    /// The ids of all documents back to back.
    pub ids: Vec<I>,
    /// The label of each id: the number of its role, with its mask as the lowest bit.
    pub labels: Vec<u8>,
    /// n + 1 positions in the ids: the start of each document, and the end of the last.
    pub offsets: Vec<i64>,
    /// The indexes of the declined documents, which have no ids.
    pub declined: Vec<i64>,
    /// Images: the index of the document, and start and end of its tokens in the document's ids.
    pub images: Vec<[i64; 3]>,
    /// For each document: bytes of its texts, and number of names of special tokens in them.
    pub sizes: Vec<[i64; 2]>,
    /// Text that is not rendered.
    pub unused: UnusedText,
}

/// Adjacent documents that were encoded.
struct Block<I> {
    /// The index of the first document.
    start: usize,
    encoded: Encoded<I>,
    declined: Vec<usize>,
    sizes: Vec<[i64; 2]>,
    unused: UnusedText,
}

impl Dialect {
    /// The ids of all well-formed documents.
    ///
    /// Each of `threads` threads renders a block of adjacent documents; the result is the same for
    /// any number of threads. `needles` are the names of special tokens.
    ///
    /// # Errors
    ///
    /// Fails if ids of the vocabulary, or of special tokens that the dialect can use, do not fit
    /// `I`, or if a text cannot be split; the error has the index of the document in the batch and
    /// the offset in the text.
    pub fn render<I: TokenId>(
        &self,
        encoder: &Encoder,
        ids: &SpecialIds,
        needles: &Needles,
        documents: Documents<'_>,
        threads: usize,
    ) -> Result<Rendered<I>, Error> {
        let number = encoder.num_ids().max(self.tokens(Some(ids)).num_ids());
        if number > I::LIMIT {
            return Err(Error::TooManyTokens { number, limit: I::LIMIT });
        }
        let render = |block| self.render_block(encoder, ids, needles, documents, block);
        let blocks = in_threads(documents.blocks(threads), render);
        let mut rendered = Rendered { offsets: vec![0], ..Rendered::default() };
        for block in blocks {
            rendered.append(block?);
        }
        Ok(rendered)
    }

    fn render_block<I: TokenId>(
        &self,
        encoder: &Encoder,
        ids: &SpecialIds,
        needles: &Needles,
        documents: Documents<'_>,
        range: Range<usize>,
    ) -> Result<Block<I>, Error> {
        let start = range.start;
        let Composed { composition, declined, unused } = self.compose(documents, range, Some(ids));
        let sizes = sizes(&composition, needles);
        let block = encoder.encode_composed(&composition);
        let block = block.map_err(|error| error.after_documents(start))?;
        Ok(Block { start, encoded: block, declined, sizes, unused })
    }
}

impl<I: TokenId> Rendered<I> {
    fn append(&mut self, block: Block<I>) {
        let Block { start, encoded, declined, sizes, unused } = block;
        let mut end = self.ids.len();
        for length in encoded.lengths {
            end += length;
            memory::push(&mut self.offsets, number(end));
        }
        for mark in encoded.marks {
            memory::push(
                &mut self.images,
                [start + mark.document, mark.start, mark.end].map(number),
            );
        }
        append(&mut self.ids, encoded.ids);
        append(&mut self.labels, encoded.labels);
        memory::reserve(&mut self.declined, declined.len());
        self.declined.extend(declined.into_iter().map(number));
        memory::append(&mut self.sizes, &sizes);
        self.unused.append(&unused);
    }
}

/// Appends `more` to `all`; the first block is moved instead of copied.
fn append<T: Copy>(all: &mut Vec<T>, more: Vec<T>) {
    if all.is_empty() {
        *all = more;
    } else {
        memory::append(all, &more);
    }
}

/// For each document: bytes of its texts, and number of needles in them.
fn sizes(composition: &Composition, needles: &Needles) -> Vec<[i64; 2]> {
    // Texts are back to back: if all of them together contain no needle, no text does.
    let are_there = needles.count(&composition.data) > 0;
    let mut first = 0;
    memory::collected(composition.ends.iter().map(|&end| {
        let parts = &composition.parts[first..end];
        first = end;
        parts.iter().filter_map(|part| text_of(composition, part)).fold([0, 0], |sizes, text| {
            let seen = if are_there { needles.count(text) } else { 0 };
            let seen = i64::try_from(seen).expect("memory is below 2**63 bytes");
            [sizes[0] + number(text.len()), sizes[1] + seen]
        })
    }))
}

fn text_of<'c>(composition: &'c Composition, part: &Part) -> Option<&'c [u8]> {
    match part.stretch {
        Stretch::Text { start, end } => Some(&composition.data[start..end]),
        Stretch::Special { .. } => None,
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).expect("memory is below 2**63 bytes")
}

#[cfg(test)]
mod tests {
    use nanotok_bpe::{GapRule, GaveUp, Merge, Splitter};
    use proptest::prelude::*;

    use super::*;
    use crate::Kind;
    use crate::testing::{NAMES, settings};
    use crate::testing::{batch, dialect, documents_of_any_dialect, every_dialect};

    const MERGE: Merge = (97, 98);
    const FIRST: u32 = 300;

    fn encoder(pattern: &str) -> Encoder {
        let splitter = Splitter::new(pattern, GapRule::Refuse).unwrap();
        Encoder::new(splitter, &[MERGE]).unwrap()
    }

    fn special_ids(first: u32) -> SpecialIds {
        SpecialIds::new((first..).zip(NAMES).map(|(id, name)| (name.to_owned(), id)))
    }

    fn render<I: TokenId>(
        dialect: &Dialect,
        documents: &[impl AsRef<[u8]>],
        threads: usize,
    ) -> Result<Rendered<I>, Error> {
        let (data, offsets) = batch(documents);
        let documents = Documents::new(&data, &offsets).unwrap();
        let needles = Needles::new(&NAMES).unwrap();
        dialect.render(&encoder(r"\w+|\W+"), &special_ids(FIRST), &needles, documents, threads)
    }

    #[test]
    fn a_batch_has_ids_labels_images_and_sizes() {
        let dialect = dialect(settings(Kind::Vision, "prompt-response"));
        let documents = [
            r#"{"prompt": "<image>ab", "response": "<|bos|>", "image_token_counts": [2]}"#,
            "bad",
            r#"{"prompt": "é", "response": "<image><|bos|>"}"#,
            r#"{"prompt": "a<image><image>", "response": ""}"#,
        ];
        let rendered: Rendered<u16> = render(&dialect, &documents, 1).unwrap();
        let [bos, end, image] = [0, 4, 9].map(|number| 300 + number);
        assert_eq!(rendered.ids[..5], [bos, image, image, 256, u16::from(b'<')]);
        assert_eq!(rendered.labels[..5], [0, 10, 10, 3, 5]);
        assert_eq!(rendered.offsets, [0, 12, 12, 30, 35]);
        assert_eq!(rendered.ids[30..], [bos, u16::from(b'a'), image, image, end]);
        assert_eq!(rendered.declined, [1]);
        assert_eq!(rendered.images, [[0, 1, 3], [3, 2, 3], [3, 3, 4]]);
        assert_eq!(rendered.sizes, [[9, 1], [0, 0], [16, 2], [1, 0]]);
    }

    #[test]
    fn a_text_that_cannot_be_split_is_named_by_its_position_in_the_batch() {
        let dialect = dialect(settings(Kind::Vision, "text"));
        let (data, offsets) = batch(&[r#"{"text": "aa"}"#, r#"{"text": "a<image>ab"}"#]);
        let documents = Documents::new(&data, &offsets).unwrap();
        let needles = Needles::new(&NAMES).unwrap();
        for threads in [1, 2] {
            let rendered: Result<Rendered<u32>, _> =
                dialect.render(&encoder("a"), &special_ids(FIRST), &needles, documents, threads);
            let expected = Error::Split { document: 1, offset: 1, reason: GaveUp::Gap };
            assert_eq!(rendered, Err(expected));
        }
    }

    #[test]
    fn ids_fit_the_width_or_are_refused() {
        let dialect = dialect(settings(Kind::Chat, "gsm8k"));
        let (data, offsets) = batch(&["x"]);
        let documents = Documents::new(&data, &offsets).unwrap();
        let needles = Needles::new(&NAMES).unwrap();
        let render = |first| {
            let ids = special_ids(first);
            dialect.render::<u16>(&encoder("a"), &ids, &needles, documents, 1).map(|it| it.declined)
        };
        assert_eq!(render(65536 - 9), Ok(vec![0])); // the other special tokens are of no use here
        assert_eq!(render(65537 - 9), Err(Error::TooManyTokens { number: 65537, limit: 65536 }));
    }

    #[test]
    fn an_empty_batch_has_one_offset() {
        for settings in every_dialect() {
            let rendered: Rendered<u32> = render(&dialect(settings), &[""; 0], 3).unwrap();
            assert_eq!(rendered, Rendered { offsets: vec![0], ..Rendered::default() });
        }
    }

    proptest! {
        #[test]
        fn any_number_of_threads_renders_the_same(
            (settings, documents) in documents_of_any_dialect(), threads in 2usize..6,
        ) {
            let dialect = dialect(settings);
            let rendered = render::<u32>(&dialect, &documents, 1).unwrap();
            prop_assert_eq!(rendered.offsets.len(), documents.len() + 1);
            prop_assert_eq!(rendered.ids.len(), rendered.labels.len());
            prop_assert_eq!(rendered.sizes.len(), documents.len());
            prop_assert_eq!(&rendered, &render(&dialect, &documents, threads).unwrap());
        }
    }
}
