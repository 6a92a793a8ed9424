//! Tables of generated spans against the merges, files that are damaged, and the bytes of a file.

use proptest::prelude::*;

use super::*;
use crate::encode::span_ids::{Scratch, SpanIds};
use crate::short::Short;
use crate::{Documents, Encoder, GapRule, Merge, Splitter, naive};

const MERGES: [Merge; 4] = [(97, 98), (256, 256), (98, 97), (257, 257)];
const TOKENIZER: Sha256 = [7; 32];

fn file(spans: &[Vec<u8>], merges: &[Merge]) -> Vec<u8> {
    let mut offsets = vec![0];
    offsets.extend(spans.iter().scan(0, |end, span| {
        *end += i64::try_from(span.len()).unwrap();
        Some(*end)
    }));
    let span_ids = SpanIds::new(merges).unwrap();
    let data = spans.concat();
    super::file(Documents::new(&data, &offsets).unwrap(), &span_ids, &TOKENIZER)
}

fn found(table: &SpanTable, span: &[u8]) -> Option<Vec<u32>> {
    match Short::new(span) {
        Some(short) => {
            let mut ids = [0; 8];
            let packed = table.short(short);
            let number = table.packing().unpack(packed, &mut ids);
            (packed != 0).then(|| ids[..number].to_vec())
        }
        None => Some(table.packing().ids_of(table.long(span, hash64(span))?).collect()),
    }
}

fn refusal(bytes: Vec<u8>) -> String {
    SpanTable::new(Arc::new(bytes), &TOKENIZER).unwrap_err().to_string()
}

proptest! {
    #[test]
    fn a_table_gives_the_ids_that_the_merges_give(
        spans in prop::collection::hash_set(prop::collection::vec(97_u8..99, 1..40), 0..200),
        absent in prop::collection::vec(prop::collection::vec(97_u8..99, 1..40), 20),
    ) {
        let mut spans: Vec<_> = spans.into_iter().collect();
        spans.sort_unstable();
        let table = SpanTable::new(Arc::new(file(&spans, &MERGES)), &TOKENIZER).unwrap();
        let mut held = 0;
        for span in spans.iter().chain(&absent) {
            let ids = naive::encode_span(&MERGES, span);
            let expected = spans.contains(span) && (span.len() > 15 || ids.len() <= 7);
            held += usize::from(expected);
            prop_assert_eq!(found(&table, span), expected.then_some(ids));
            prop_assert_eq!(table.holds(span), expected);
        }
        let again = absent.iter().filter(|span| table.holds(span)).count();
        prop_assert_eq!(table.len(), held - again);
    }
}

#[test]
fn wide_ids_are_held_as_they_are() {
    let mut merges: Vec<Merge> = (0..256).flat_map(|a| (0..256).map(move |b| (a, b))).collect();
    merges.push((97 * 257 + 256, 97 * 257 + 256));
    let spans = [b"aaaa".to_vec(), b"zz".to_vec(), b"a long span of many bytes".to_vec()];
    let table = SpanTable::new(Arc::new(file(&spans, &merges)), &TOKENIZER).unwrap();
    assert_eq!(table.packing(), Packing::Wide);
    let span_ids = SpanIds::new(&merges).unwrap();
    for span in &spans {
        let ids = span_ids.encode(span, &mut Scratch::default()).to_vec();
        assert_eq!(found(&table, span), Some(ids));
    }
}

#[test]
fn a_file_that_is_damaged_or_of_another_is_refused() {
    let whole = file(&[b"ab".to_vec(), b"a span of more than 15 bytes".to_vec()], &MERGES);
    assert!(SpanTable::new(Arc::new(whole.clone()), &TOKENIZER).is_ok());
    assert!(refusal(Vec::new()).contains("it has 0 bytes"));
    assert!(refusal(vec![0; 200]).contains("no span table"));
    let reason = SpanTable::new(Arc::new(whole.clone()), &[8; 32]).unwrap_err().to_string();
    assert!(reason.contains("another tokenizer"), "{reason}");
    for length in 0..whole.len() {
        refusal(whole[..length].to_vec());
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        refusal(changed);
    }
}

#[test]
fn the_file_of_some_spans_is_always_the_same() {
    let spans = ["a", "ab", "abab", "a span of more than 15 bytes"].map(Into::into);
    assert_eq!(hash64(&file(&spans, &MERGES)), 13_342_430_792_290_524_689);
}

#[test]
fn an_encoder_with_a_table_gives_the_ids_it_gives_without() {
    let spans: Vec<Vec<u8>> =
        (1..60).map(|length| b"ab".repeat(length)[..length].to_vec()).collect();
    let table = SpanTable::new(Arc::new(file(&spans, &MERGES)), &TOKENIZER).unwrap();
    let encoder = || {
        let splitter = Splitter::new(r"\w+|\W+", GapRule::Spans).unwrap();
        Encoder::new(splitter, &MERGES).unwrap()
    };
    let (plain, quick) = (encoder(), encoder().with_table(table).unwrap());
    let text = spans.join(&b' ');
    assert_eq!(plain.encode(&text), quick.encode(&text));
    let documents = Documents::new(&text, &[0, 100]).unwrap();
    assert!(quick.bytes_in_table(documents).unwrap() > 80);
    assert_eq!(plain.bytes_in_table(documents), Ok(0));
}

/// A worker asks the table for its first 65,536 spans alone.
#[test]
fn more_new_spans_than_the_table_is_asked_for_change_no_ids() {
    let word = |number: u32| format!("{number:017b}").replace('0', "a").replace('1', "b");
    let words: Vec<Vec<u8>> = (0..70_000).map(|number| word(number).into_bytes()).collect();
    let table = SpanTable::new(Arc::new(file(&words, &MERGES)), &TOKENIZER).unwrap();
    assert_eq!(table.len(), words.len());
    let encoder = || {
        let splitter = Splitter::new(r"\w+|\W+", GapRule::Spans).unwrap();
        Encoder::new(splitter, &MERGES).unwrap()
    };
    let (plain, quick) = (encoder(), encoder().with_table(table).unwrap());
    let text = words.join(&b' ');
    assert!(plain.encode(&text) == quick.encode(&text));
}
