//! Encoding of documents: examples, errors, and the comparison with the reference implementation
//! for any number of threads.

use proptest::prelude::*;

use super::*;
use crate::split::GapRule;
use crate::{GaveUp, reference};

const PATTERN: &str = r"\p{L}+|\s+";
const MERGES: [Merge; 6] = [(97, 98), (256, 256), (32, 32), (97, 97), (49, 50), (257, 99)];

fn encoder(gaps: GapRule) -> Encoder {
    Encoder::new(Splitter::new(PATTERN, gaps).unwrap(), &MERGES).unwrap()
}

/// With a tiny cache, which is cleared again and again.
#[test]
fn the_size_of_the_cache_changes_nothing() {
    let numbers = (0..20_000_u32).map(|number| number.wrapping_mul(2_654_435_761) % 5000);
    let words = numbers.map(|number| format!("{number:b} {number:019b}"));
    let text = words.collect::<Vec<_>>().join(" ").replace('1', "a").replace('0', "b").into_bytes();
    let end = i64::try_from(text.len()).unwrap();
    let offsets = [0, end];
    let documents = Documents::new(&text, &offsets).unwrap();
    let encode = |bytes: usize| {
        let encoder = encoder(GapRule::Spans).with_cache_bytes(bytes);
        let first = encoder.encode_batch::<u16>(documents, Frame::default(), 1).unwrap();
        assert_eq!(encoder.encode_batch::<u16>(documents, Frame::default(), 1).unwrap(), first);
        first
    };
    let expected = encode(CACHE_BYTES);
    for bytes in [0, 1 << 10, 1 << 14, 1 << 20] {
        assert!(encode(bytes) == expected, "{bytes}");
    }
}

fn batch(
    documents: &[Vec<u8>],
    frame: Frame<'_>,
    threads: usize,
) -> Result<(Vec<u16>, Vec<i64>), Error> {
    let mut offsets = vec![0];
    for document in documents {
        offsets.push(offsets[offsets.len() - 1] + i64::try_from(document.len()).unwrap());
    }
    let data = documents.concat();
    let slices: Vec<&[u8]> = documents.iter().map(Vec::as_slice).collect();
    let encoder = encoder(GapRule::Refuse);
    let result = encoder.encode_batch(Documents::new(&data, &offsets)?, frame, threads);
    assert_eq!(encoder.encode_slices(&slices, frame, threads).as_ref().ok(), result.as_ref().ok());
    result
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
        assert_eq!(batch(&documents, Frame::default(), threads), Err(expected));
    }
}

#[test]
fn ids_that_do_not_fit_are_refused() {
    let merges: Vec<Merge> = (0..256).flat_map(|a| (0..256).map(move |b| (a, b))).collect();
    let fits = |number: usize| {
        let splitter = Splitter::new(PATTERN, GapRule::Spans).unwrap();
        let encoder = Encoder::new(splitter, &merges[..number]).unwrap();
        encoder.encode_batch::<u16>(Documents::new(b"", &[0]).unwrap(), Frame::default(), 1)
    };
    assert_eq!(fits(65_536 - 256), Ok((vec![], vec![0])));
    let error = Error::TooManyTokens { number: 65_537, limit: 65_536 };
    assert_eq!(fits(65_537 - 256), Err(error));
}

#[test]
fn ids_of_a_frame_that_do_not_fit_are_refused() {
    let documents = [b"ab".to_vec()];
    for (before, after) in [([65_536], [0]), ([0], [65_536])] {
        let error = Error::TooManyTokens { number: 65_537, limit: 65_536 };
        assert_eq!(batch(&documents, Frame { before: &before, after: &after }, 1), Err(error));
    }
}

proptest! {
    #[test]
    fn batches_equal_the_reference_for_any_frame_and_number_of_threads(
        documents in prop::collection::vec(
            (prop::collection::vec(prop::sample::select(b"abc \xff".as_slice()), 0..40), 0usize..900)
                .prop_map(|(text, times)| text.repeat(times / 4)),
            0..6,
        ),
        before in prop::collection::vec(0..65_536_u32, 0..3),
        after in prop::collection::vec(0..65_536_u32, 0..3),
    ) {
        let regex = fancy_regex::Regex::new(PATTERN).unwrap();
        let (mut ids, mut offsets) = (Vec::new(), vec![0]);
        let mut seen = std::collections::HashMap::new();
        for document in &documents {
            ids.extend_from_slice(&before);
            for (span, _) in reference::split(&regex, document) {
                let new = || reference::encode_span(&MERGES, &span);
                ids.extend_from_slice(seen.entry(span.clone()).or_insert_with(new));
            }
            ids.extend_from_slice(&after);
            offsets.push(i64::try_from(ids.len()).unwrap());
        }
        let ids: Vec<u16> = ids.into_iter().map(|id| u16::try_from(id).unwrap()).collect();
        for threads in 1..5 {
            let (found, found_offsets) = batch(&documents, Frame { before: &before, after: &after }, threads).unwrap();
            prop_assert!(found == ids);
            prop_assert_eq!(&found_offsets, &offsets);
        }
    }
}

/// A vocabulary with another byte order returns the same ids except for those of bytes, whether
/// merged or cached; and they decode to the text.
fn check_ordered(order: &ByteOrder, documents: &[Vec<u8>]) -> Result<(), TestCaseError> {
    let mut merges = MERGES;
    order.of_ids(&mut merges);
    let splitter = Splitter::new(PATTERN, GapRule::Spans).unwrap();
    let plain = encoder(GapRule::Spans);
    let vocabulary = Vocabulary::ordered(&merges, order).unwrap();
    let decoder = crate::Decoder::new(&vocabulary, &[]).unwrap();
    let ordered = Encoder::ordered(splitter, &merges, order).unwrap();
    let (data, offsets) = ordered.token_bytes();
    prop_assert_eq!((&data[..], &offsets[..]), vocabulary.parts());
    prop_assert_eq!(ordered.num_ids(), vocabulary.len());
    for document in documents.iter().chain(documents) {
        let mut expected = plain.encode(document).unwrap();
        order.rename(&mut expected);
        let found = ordered.encode(document).unwrap();
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(&decoder.decode(&found).unwrap(), document);
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_byte_order_renames_bytes_and_changes_nothing_else(
        bytes in Just((0..=255).collect::<Vec<u8>>()).prop_shuffle(),
        documents in prop::collection::vec(
            (prop::collection::vec(prop::sample::select(b"abc1 \xff".as_slice()), 0..40), 0usize..200)
                .prop_map(|(text, times)| text.repeat(times / 4)),
            0..6,
        ),
    ) {
        check_ordered(&ByteOrder::new(&bytes).unwrap(), &documents)?;
    }
}

/// Documents of few letters, in which spans are repeated.
fn documents() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let letters = prop::collection::vec(prop::sample::select(b"abc1 \xff".as_slice()), 0..40);
    let document = (letters, 0usize..200).prop_map(|(text, times)| text.repeat(times / 4));
    prop::collection::vec(document, 0..6)
}

/// Whole tokens that are not made by `MERGES`, and are no bytes.
fn whole_tokens() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let token = prop::collection::vec(prop::sample::select(b"abc1 \xff".as_slice()), 2..7);
    prop::collection::btree_set(token, 0..20).prop_map(|tokens| {
        let vocabulary = Vocabulary::new(&MERGES).unwrap();
        let known = |token: &[u8]| (0..300).any(|id| vocabulary.get(id) == Some(token));
        tokens.into_iter().filter(|token| !known(token)).collect()
    })
}

fn check_numbered(
    whole: &[Vec<u8>],
    numbering: &[u32],
    documents: &[Vec<u8>],
) -> Result<(), TestCaseError> {
    let regex = fancy_regex::Regex::new(PATTERN).unwrap();
    let (mut starts, data) = (vec![0], whole.concat());
    starts.extend(whole.iter().scan(0, |end, token| {
        *end += i64::try_from(token.len()).unwrap();
        Some(*end)
    }));
    let whole = Documents::new(&data, &starts).unwrap();
    let tokens =
        Tokens { whole: Some(whole), numbering: Some(numbering), ..Tokens::merges(&MERGES) };
    let splitter = Splitter::new(PATTERN, GapRule::Spans).unwrap();
    let encoder = Encoder::of_tokens(splitter, tokens).unwrap();
    let most = numbering.iter().max().unwrap();
    prop_assert_eq!(encoder.num_ids(), *most as usize + 1);
    for document in documents.iter().chain(documents) {
        let spans = reference::split(&regex, document);
        let ids = spans.iter().flat_map(|(span, _)| {
            let found = (0..whole.len()).find(|&number| whole.get(number) == span);
            match found {
                Some(number) => vec![u32::try_from(256 + MERGES.len() + number).unwrap()],
                None => reference::encode_span(&MERGES, span),
            }
        });
        let ids: Vec<u32> = ids.map(|id| numbering[id as usize]).collect();
        prop_assert_eq!(&encoder.encode(document).unwrap(), &ids);
        let narrow = encoder.encode_slices::<u16>(&[document], Frame::default(), 1);
        match narrow {
            Ok((narrow, _)) => prop_assert!(narrow.iter().copied().map(u32::from).eq(ids)),
            Err(error) => {
                let number = encoder.num_ids();
                prop_assert_eq!(error, Error::TooManyTokens { number, limit: 1 << 16 });
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn numbered_and_whole_tokens_equal_the_reference(
        whole in whole_tokens(),
        documents in documents(),
        mut numbering in Just((0..300).collect::<Vec<u32>>()).prop_shuffle(),
        factor in prop::sample::select(vec![1, 200, 300, 5_000_000]),
    ) {
        numbering.truncate(256 + MERGES.len() + whole.len());
        for id in &mut numbering {
            *id *= factor;
        }
        check_numbered(&whole, &numbering, &documents)?;
    }
}
