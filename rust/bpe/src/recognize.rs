//! Texts that spell special tokens: the names become ids, and the text between them is encoded
//! piece by piece, as by the `added_tokens` of `tokenizers` and `allowed_special` of `tiktoken`.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use nanotok_memory as memory;

use crate::documents::Documents;
use crate::encode::{Composition, Encoder, Frame, Part, Stretch, join};
use crate::error::Error;
use crate::special::check_needles;
use crate::threads::in_threads;
use crate::token_id::TokenId;

/// Finds the names of special tokens in texts.
///
/// Names of an earlier pass are found first; those of the next pass are searched for only in the
/// text between them. In a pass, matches are leftmost, and the longest at a position.
#[derive(Debug, Clone)]
pub struct Recognizer {
    passes: Vec<Pass>,
}

#[derive(Debug, Clone)]
struct Pass {
    searcher: AhoCorasick,
    /// The id of each name.
    ids: Vec<u32>,
}

impl Recognizer {
    /// Builds a searcher for the names of each pass, each with its id.
    ///
    /// # Errors
    ///
    /// Fails if a name is empty or too long, or if the names have too many bytes together.
    pub fn new<N: AsRef<[u8]>>(passes: &[Vec<(N, u32)>]) -> Result<Self, Error> {
        let passes = passes.iter().filter(|names| !names.is_empty()).map(|names| {
            let (names, ids): (Vec<_>, Vec<_>) =
                names.iter().map(|(name, id)| (name.as_ref(), *id)).unzip();
            check_needles(&names)?;
            let searcher = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(&names)
                .map_err(|error| Error::Needles { reason: error.to_string() })?;
            Ok(Pass { searcher, ids })
        });
        Ok(Self { passes: passes.collect::<Result<_, _>>()? })
    }

    /// The highest id of a special token plus one.
    fn num_ids(&self) -> usize {
        let ids = self.passes.iter().flat_map(|pass| &pass.ids);
        ids.map(|&id| id as usize + 1).max().unwrap_or(0)
    }

    /// The documents `range` as texts and special tokens.
    fn composition(
        &self,
        documents: Documents<'_>,
        range: Range<usize>,
        frame: Frame<'_>,
    ) -> Composition {
        let mut own = Composition::default();
        memory::reserve(&mut own.data, documents.num_bytes(&range));
        for document in range {
            frame.before.iter().for_each(|&id| special(&mut own, id));
            let start = own.data.len();
            memory::append(&mut own.data, documents.get(document));
            let end = own.data.len();
            self.cut(&mut own, start..end, 0);
            frame.after.iter().for_each(|&id| special(&mut own, id));
            let end = own.parts.len();
            memory::push(&mut own.ends, end);
        }
        own
    }

    /// Appends the parts of a text in which the passes before `pass` found nothing.
    fn cut(&self, own: &mut Composition, text: Range<usize>, pass: usize) {
        let Some(Pass { searcher, ids }) = self.passes.get(pass) else {
            if !text.is_empty() {
                part(own, Stretch::Text { start: text.start, end: text.end });
            }
            return;
        };
        let mut position = text.start;
        while let Some(found) = searcher.find(&own.data[position..text.end]) {
            let (start, end) = (position + found.start(), position + found.end());
            self.cut(own, position..start, pass + 1);
            special(own, ids[found.pattern().as_usize()]);
            position = end;
        }
        self.cut(own, position..text.end, pass + 1);
    }
}

fn special(own: &mut Composition, id: u32) {
    part(own, Stretch::Special { id, count: 1 });
}

fn part(own: &mut Composition, stretch: Stretch) {
    memory::push(&mut own.parts, Part { stretch, label: 0, is_marked: false });
}

impl Encoder {
    /// The ids of all documents as by [`Encoder::encode_batch`], with the special tokens that the
    /// documents spell.
    ///
    /// # Errors
    ///
    /// Fails if ids do not fit `I`, or if a text cannot be split; the offset of the error is that
    /// in the text between special tokens.
    pub fn encode_recognized<I: TokenId>(
        &self,
        recognizer: &Recognizer,
        documents: Documents<'_>,
        frame: Frame<'_>,
        threads: usize,
    ) -> Result<(Vec<I>, Vec<i64>), Error> {
        let number = self.num_ids().max(frame.num_ids()).max(recognizer.num_ids());
        if number > I::LIMIT {
            return Err(Error::TooManyTokens { number, limit: I::LIMIT });
        }
        let encode = |block: Range<usize>| {
            let first = block.start;
            let composition = recognizer.composition(documents, block, frame);
            let encoded = self.encode_composed::<I>(&composition);
            let encoded = encoded.map_err(|error| error.after_documents(first))?;
            Ok((encoded.ids, encoded.lengths))
        };
        let blocks = in_threads(documents.blocks(threads), encode);
        Ok(join(blocks.into_iter().collect::<Result<_, _>>()?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{GapRule, Splitter};

    fn encoder() -> Encoder {
        let splitter = Splitter::new(r" ?\w+|\W", GapRule::Refuse).unwrap();
        Encoder::new(splitter, &[(97, 98), (256, 99)]).unwrap()
    }

    fn encode(passes: &[Vec<(&str, u32)>], text: &str) -> Vec<u32> {
        let recognizer = Recognizer::new(passes).unwrap();
        let offsets = [0, i64::try_from(text.len()).unwrap()];
        let documents = Documents::new(text.as_bytes(), &offsets).unwrap();
        let frame = Frame { before: &[900], after: &[] };
        encoder().encode_recognized(&recognizer, documents, frame, 1).unwrap().0
    }

    #[test]
    fn names_become_ids_and_the_text_between_is_encoded_alone() {
        let passes = [vec![("<s>", 300)]];
        assert_eq!(encode(&passes, "ab<s>c"), [900, 256, 300, 99]);
        assert_eq!(encode(&passes, "<s><s>"), [900, 300, 300]);
        assert_eq!(encode(&passes, ""), [900]);
        assert_eq!(encode(&[], "abc"), [900, 257]);
    }

    #[test]
    fn the_longest_name_counts_and_earlier_passes_are_first() {
        let one = [vec![("<a", 300), ("<a>", 301)]];
        assert_eq!(encode(&one, "<a><ab"), [900, 301, 300, 98]);
        let two = [vec![("a>", 300)], vec![("<a>", 301), ("<", 302)]];
        assert_eq!(encode(&two, "<a>"), [900, 302, 300]);
    }

    /// Compares each name at each position.
    fn plain(names: &[(String, u32)], text: &str) -> Vec<u32> {
        let encoder = encoder();
        let (mut ids, mut waiting, mut at) = (Vec::new(), 0, 0);
        while at < text.len() {
            let found = names.iter().filter(|(name, _)| text[at..].starts_with(name.as_str()));
            let Some((name, id)) = found.max_by_key(|(name, _)| name.len()) else {
                at += 1;
                continue;
            };
            ids.extend(encoder.encode(&text.as_bytes()[waiting..at]).unwrap());
            ids.push(*id);
            at += name.len();
            waiting = at;
        }
        ids.extend(encoder.encode(&text.as_bytes()[waiting..]).unwrap());
        ids
    }

    proptest! {
        #[test]
        fn ids_equal_the_reference(
            names in prop::collection::btree_set("[ab<|]{1,3}", 1..4),
            texts in prop::collection::vec("[abc<| ]{0,20}", 0..5),
            threads in 1usize..4,
        ) {
            let names: Vec<_> = names.into_iter().zip(400..).collect();
            let recognizer = Recognizer::new(std::slice::from_ref(&names)).unwrap();
            let mut offsets = vec![0];
            offsets.extend(texts.iter().scan(0, |end, text| {
                *end += i64::try_from(text.len()).unwrap();
                Some(*end)
            }));
            let data = texts.concat();
            let documents = Documents::new(data.as_bytes(), &offsets).unwrap();
            let (ids, ends) = encoder()
                .encode_recognized::<u32>(&recognizer, documents, Frame::default(), threads)
                .unwrap();
            let expected: Vec<_> = texts.iter().map(|text| plain(&names, text)).collect();
            prop_assert_eq!(ids, expected.concat());
            let lengths = ends.windows(2).map(|pair| usize::try_from(pair[1] - pair[0]).unwrap());
            let expected = expected.iter().map(Vec::len);
            prop_assert_eq!(lengths.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
    }
}
