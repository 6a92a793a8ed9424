//! Encoding of composed documents: errors, and the comparison with `encode` of each text.

use proptest::prelude::*;

use super::*;
use crate::split::GapRule;
use crate::{GaveUp, Merge, Splitter};

const PATTERNS: [&str; 2] =
    [r"\p{L}+|\s+", r" ?\p{L}+| ?\p{N}{1,2}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"];
const MERGES: [Merge; 6] = [(97, 98), (256, 256), (32, 32), (97, 97), (49, 50), (257, 99)];

fn encoder(pattern: &str, gaps: GapRule) -> Encoder {
    Encoder::new(Splitter::new(pattern, gaps).unwrap(), &MERGES).unwrap()
}

fn text(start: usize, end: usize) -> Part {
    Part { stretch: Stretch::Text { start, end }, label: 5, is_marked: false }
}

fn special(id: u32, count: u32) -> Part {
    Part { stretch: Stretch::Special { id, count }, label: 10, is_marked: true }
}

fn composition(data: &[u8], parts: &[Part], ends: &[usize]) -> Composition {
    Composition { data: data.to_vec(), parts: parts.to_vec(), ends: ends.to_vec() }
}

fn encode(composition: &Composition) -> Result<Encoded<u16>, Error> {
    encoder(PATTERNS[0], GapRule::Refuse).encode_composed(composition)
}

#[test]
fn texts_are_encoded_separately_between_special_tokens() {
    let parts = [special(400, 2), text(0, 2), text(2, 4), special(401, 0), text(4, 4), text(1, 4)];
    let found = encode(&composition(b"abab", &parts, &[1, 1, 6])).unwrap();
    assert_eq!(found.ids, [400, 400, 256, 256, 98, 256]);
    assert_eq!(found.labels, [10, 10, 5, 5, 5, 5]);
    assert_eq!(found.lengths, [2, 0, 4]);
    let mark = |document, start, end| Mark { document, start, end };
    assert_eq!(found.marks, [mark(0, 0, 2), mark(2, 2, 2)]);
}

#[test]
fn an_empty_composition_has_no_ids() {
    assert_eq!(encode(&Composition::default()), Ok(Encoded::default()));
}

#[test]
fn an_error_names_the_document_and_the_byte_in_the_text() {
    let parts = [text(0, 2), special(400, 1), text(1, 4), text(3, 5)];
    let reason = GaveUp::Gap;
    let expected = Error::Split { document: 1, offset: 2, reason };
    assert_eq!(encode(&composition(b"ab !!", &parts, &[1, 4])), Err(expected));
}

#[test]
fn an_encoder_can_be_used_after_an_error() {
    let encoder = encoder(PATTERNS[0], GapRule::Refuse);
    let wrong = composition(&[&[b'a'; 9_000], b"!".as_slice()].concat(), &[text(0, 9_001)], &[1]);
    let right = composition(b"abab c", &[text(0, 6)], &[1]);
    let expected = encoder.encode_composed::<u16>(&right).unwrap();
    assert!(encoder.encode_composed::<u16>(&wrong).is_err());
    assert_eq!(encoder.encode_composed(&right), Ok(expected));
}

#[test]
fn ids_that_do_not_fit_are_refused() {
    let fits = composition(b"", &[special(65_535, 1)], &[1]);
    assert_eq!(encode(&fits).unwrap().ids, [65_535]);
    let parts = [special(65_536, 1)];
    let error = Error::TooManyTokens { number: 65_537, limit: 65_536 };
    assert_eq!(encode(&composition(b"", &parts, &[1])), Err(error));
    let wide = encoder(PATTERNS[0], GapRule::Refuse).encode_composed::<u32>(&composition(
        b"",
        &[special(u32::MAX, 1)],
        &[1],
    ));
    assert_eq!(wide.unwrap().ids, [u32::MAX]);
}

#[test]
fn inconsistent_compositions_are_refused() {
    let check = |parts: &[Part], ends: &[usize], expected: Error| {
        assert_eq!(encode(&composition(b"abc", parts, ends)), Err(expected));
    };
    let parts = [text(0, 3), text(3, 3)];
    check(&parts, &[1, 0], Error::PartsEnd { document: 1, end: 0, before: 1, number: 2 });
    check(&parts, &[3], Error::PartsEnd { document: 0, end: 3, before: 0, number: 2 });
    check(&parts, &[1], Error::PartsLeft { before: 1, number: 2 });
    check(&parts, &[], Error::PartsLeft { before: 0, number: 2 });
    let outside = |start, end| Error::TextOutOfRange { document: 0, start, end, length: 3 };
    check(&[text(2, 1)], &[1], outside(2, 1));
    check(&[text(0, 4)], &[1], outside(0, 4));
    check(&[text(4, usize::MAX)], &[1], outside(4, usize::MAX));
}

/// A part with its own text.
type Piece = (Result<Vec<u8>, (u32, u32)>, u8, bool);

fn pieces() -> impl Strategy<Value = Vec<Vec<Piece>>> {
    let bytes = prop::collection::vec(prop::sample::select(b"abc 1!\n\xc3\xa9".as_slice()), 0..20);
    let text = (bytes, 0_usize..80).prop_map(|(text, times)| Ok(text.repeat(times / 8)));
    let special = (256_u32..300, 0_u32..4).prop_map(Err);
    let piece = (prop_oneof![3 => text, 1 => special], 0_u8..12, any::<bool>());
    prop::collection::vec(prop::collection::vec(piece, 0..12), 0..8)
}

fn composed(documents: &[Vec<Piece>], gap: &[u8]) -> Composition {
    let mut composition = Composition::default();
    for document in documents {
        for (piece, label, is_marked) in document {
            composition.data.extend_from_slice(gap);
            let start = composition.data.len();
            let stretch = match piece {
                Ok(text) => {
                    composition.data.extend_from_slice(text);
                    Stretch::Text { start, end: composition.data.len() }
                }
                &Err((id, count)) => Stretch::Special { id, count },
            };
            composition.parts.push(Part { stretch, label: *label, is_marked: *is_marked });
        }
        composition.ends.push(composition.parts.len());
    }
    composition
}

/// The reference implementation: `encode` of each text, one after the other.
fn plain(encoder: &Encoder, documents: &[Vec<Piece>]) -> Encoded<u32> {
    let mut all = Encoded::default();
    for (number, document) in documents.iter().enumerate() {
        let begin = all.ids.len();
        for (piece, label, is_marked) in document {
            let ids = match piece {
                Ok(text) => encoder.encode(text).unwrap(),
                &Err((id, count)) => vec![id; count as usize],
            };
            let start = all.ids.len() - begin;
            if *is_marked {
                all.marks.push(Mark { document: number, start, end: start + ids.len() });
            }
            all.labels.extend(ids.iter().map(|_| *label));
            all.ids.extend(ids);
        }
        all.lengths.push(all.ids.len() - begin);
    }
    all
}

proptest! {
    #[test]
    fn composed_documents_equal_their_texts_encoded_one_by_one(
        documents in pieces(),
        gap in prop::collection::vec(prop::sample::select(b"ab \xff".as_slice()), 0..3),
        pattern in prop::sample::select(PATTERNS.as_slice()),
    ) {
        let encoder = encoder(pattern, GapRule::Spans);
        let expected = plain(&encoder, &documents);
        let composition = composed(&documents, &gap);
        let wide = encoder.encode_composed::<u32>(&composition).unwrap();
        prop_assert_eq!(&wide, &expected);
        let narrow = encoder.encode_composed::<u16>(&composition).unwrap();
        prop_assert_eq!(narrow.ids.into_iter().map(u32::from).collect::<Vec<_>>(), expected.ids);
        prop_assert_eq!(narrow.labels, expected.labels);
    }
}
