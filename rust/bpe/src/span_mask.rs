//! The mask of spans of texts: which tokens of a text overlap one of some ranges of its bytes.

use std::ops::Range;

use nanotok_memory as memory;

use crate::decode::Decoder;
use crate::documents::{Documents, check_offsets};
use crate::error::Error;

/// The mask of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpanMask {
    /// 1 for each id that overlaps a span, else 0; 0 for all ids of unaligned texts.
    pub mask: Vec<u8>,
    /// The indexes of the texts that their ids do not decode to.
    pub unaligned: Vec<i64>,
}

/// A range of bytes of a text: the index of the text, start and end.
pub type TextSpan = [i64; 3];

impl Decoder {
    /// The mask of the ids of texts, of which row `n` of `offsets` are those of text `n`.
    ///
    /// An id overlaps a span if it ends after the start of the span and begins before its end, by
    /// the rule of `transformers`. The bytes of the ids of a text must be the text.
    ///
    /// # Errors
    ///
    /// Fails if offsets or spans are out of range or out of order, or at an unknown id.
    pub fn mask_of_spans<I: Copy + Into<u32>>(
        &self,
        ids: &[I],
        offsets: &[i64],
        texts: Documents<'_>,
        spans: &[TextSpan],
    ) -> Result<SpanMask, Error> {
        check_offsets(offsets, ids.len(), "ids")?;
        if offsets.len() != texts.len() + 1 {
            return Err(Error::NumberingLength { ids: offsets.len() - 1, tokens: texts.len() });
        }
        let first = index(offsets[0]);
        let mut own = SpanMask {
            mask: memory::filled(0, index(offsets[texts.len()]) - first),
            unaligned: Vec::new(),
        };
        let mut spans = spans.iter().peekable();
        for (number, row) in offsets.windows(2).enumerate() {
            let row = index(row[0])..index(row[1]);
            let mask = &mut own.mask[row.start - first..row.end - first];
            let mut ranges = Vec::new();
            while let Some(&[text, start, end]) = spans.peek()
                && index(*text) == number
            {
                memory::push(&mut ranges, index(*start)..index(*end));
                spans.next();
            }
            if !self.mark(&ids[row], texts.get(number), &ranges, mask)? {
                mask.fill(0);
                memory::push(&mut own.unaligned, offset(number));
            }
        }
        match spans.next() {
            Some(&[text, ..]) => Err(Error::SpanOfNoText { text }),
            None => Ok(own),
        }
    }

    /// Sets the mask of one text, unless its ids do not decode to it: then returns false.
    fn mark<I: Copy + Into<u32>>(
        &self,
        ids: &[I],
        text: &[u8],
        spans: &[Range<usize>],
        mask: &mut [u8],
    ) -> Result<bool, Error> {
        let (mut start, mut at) = (0, 0);
        for (id, flag) in ids.iter().zip(mask) {
            let id = (*id).into();
            let bytes = self.bytes(id).ok_or(Error::UnknownToken { id, row: None })?;
            let end = start + bytes.len();
            if text.get(start..end) != Some(bytes) {
                return Ok(false);
            }
            while spans.get(at).is_some_and(|span| span.end <= start) {
                at += 1;
            }
            let overlaps = |span: &Range<usize>| end > span.start && start < span.end;
            *flag = u8::from(spans.get(at).is_some_and(overlaps));
            start = end;
        }
        Ok(start == text.len())
    }
}

fn offset(index: usize) -> i64 {
    i64::try_from(index).expect("memory is below 2**63 bytes")
}

fn index(offset: i64) -> usize {
    usize::try_from(offset).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Vocabulary;

    fn decoder() -> Decoder {
        let merges = [(97, 98), (256, 99)];
        Decoder::new(&Vocabulary::new(&merges).unwrap(), &[(258, "<s>")]).unwrap()
    }

    fn mask(ids: &[u32], text: &str, spans: &[TextSpan]) -> SpanMask {
        let offsets = [0, i64::try_from(text.len()).unwrap()];
        let texts = Documents::new(text.as_bytes(), &offsets).unwrap();
        let rows = [0, i64::try_from(ids.len()).unwrap()];
        decoder().mask_of_spans(ids, &rows, texts, spans).unwrap()
    }

    #[test]
    fn ids_that_overlap_a_span_are_marked() {
        let ids = [258, 257, 256, 99];
        let of = |spans: &[TextSpan]| mask(&ids, "<s>abcabc", spans).mask;
        assert_eq!(of(&[]), [0, 0, 0, 0]);
        assert_eq!(of(&[[0, 3, 6]]), [0, 1, 0, 0]);
        assert_eq!(of(&[[0, 5, 7]]), [0, 1, 1, 0]);
        assert_eq!(of(&[[0, 0, 1], [0, 8, 9]]), [1, 0, 0, 1]);
        assert_eq!(of(&[[0, 4, 4]]), [0, 1, 0, 0]);
        assert_eq!(of(&[[0, 3, 3]]), [0, 0, 0, 0]);
    }

    #[test]
    fn texts_of_other_ids_are_unaligned() {
        for (ids, text) in [(&[97_u32, 98][..], "ac"), (&[97], "ab"), (&[97, 98], "a")] {
            let own = mask(ids, text, &[[0, 0, 2]]);
            assert_eq!((own.mask, own.unaligned), (vec![0; ids.len()], vec![0]), "{text}");
        }
    }

    #[test]
    fn spans_of_no_text_are_an_error() {
        let texts = Documents::new(b"a", &[0, 1]).unwrap();
        let of = |spans: &[TextSpan]| decoder().mask_of_spans(&[97_u32], &[0, 1], texts, spans);
        assert_eq!(of(&[[1, 0, 1]]), Err(Error::SpanOfNoText { text: 1 }));
        assert!(decoder().mask_of_spans(&[97_u32], &[0], texts, &[]).is_err());
        assert!(decoder().mask_of_spans(&[999_u32], &[0, 1], texts, &[]).is_err());
    }

    proptest! {
        #[test]
        fn the_mask_is_that_of_the_rule(
            ids in prop::collection::vec(97u32..259, 0..12),
            mut edges in prop::collection::vec(0i64..30, 0..6),
        ) {
            let decoder = decoder();
            let text = decoder.decode(&ids).unwrap();
            edges.sort_unstable();
            edges.dedup();
            let spans: Vec<_> = edges.chunks_exact(2).map(|pair| [0, pair[0], pair[1]]).collect();
            let offsets = [0, i64::try_from(text.len()).unwrap()];
            let texts = Documents::new(&text, &offsets).unwrap();
            let rows = [0, i64::try_from(ids.len()).unwrap()];
            let own = decoder.mask_of_spans(&ids, &rows, texts, &spans).unwrap();
            let mut start = 0;
            let expected = ids.iter().map(|&id| {
                let end = start + i64::try_from(decoder.decode(&[id]).unwrap().len()).unwrap();
                let overlaps = |&[_, from, to]: &TextSpan| end > from && start < to;
                let flag = u8::from(spans.iter().any(overlaps));
                start = end;
                flag
            });
            prop_assert_eq!(own.mask, expected.collect::<Vec<_>>());
            prop_assert!(own.unaligned.is_empty());
        }
    }
}
