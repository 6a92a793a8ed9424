//! Any merges and any documents: ids are the plain twin's, one by one and in batches, on any number of
//! threads, again when spans are remembered, with and without a table; and they decode to the documents.

#![no_main]

use std::fmt::Debug;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use nanotok_bpe::{Decoder, Documents, Encoder, Error, Frame, Merge, SpanTable, TokenId};
use nanotok_fuzz::patterns::{self, Case};
use nanotok_fuzz::{naive, program::Program};

const TOKENIZER: [u8; 32] = [7; 32];

/// What is encoded: documents in a window of some data, and what comes out.
struct Expected {
    data: Vec<u8>,
    offsets: Vec<i64>,
    ids: Vec<u32>,
    ends: Vec<i64>,
}

impl Expected {
    fn documents(&self) -> Documents<'_> {
        Documents::new(&self.data, &self.offsets).expect("a batch")
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut program = Program::new(bytes);
    let case = patterns::chosen(program.byte());
    let (around, in_table) = (program.byte(), program.byte());
    let threads = 1 + usize::from(around) % 3;
    let merges = program.merges();
    let tokens = naive::spell(&merges);
    let documents = program.documents(&tokens);
    let mut merger = naive::Merger::new(&merges, &tokens);
    let expected = expect(case, &mut merger, &documents, around);

    let plain = encoder(case, &merges);
    check(&plain, &expected, threads);
    let spans = some_spans(case, &documents, in_table);
    if !spans.is_empty() {
        check(&with_table(&plain, encoder(case, &merges), &spans), &expected, threads);
    }
});

fn encoder(case: &Case, merges: &[Merge]) -> Encoder {
    Encoder::new(case.splitters[0].clone(), merges).expect("merges are valid by construction")
}

fn expect(case: &Case, merger: &mut naive::Merger, documents: &[Vec<u8>], around: u8) -> Expected {
    let (before, after) = (usize::from(around & 15), usize::from(around >> 4));
    let (mut data, mut ids) = (b"ab".repeat(before), Vec::new());
    let (mut offsets, mut ends) = (vec![offset(data.len())], vec![0]);
    for document in documents {
        data.extend_from_slice(document);
        offsets.push(offset(data.len()));
        for (span, _) in naive::split(&case.regex, document) {
            ids.extend_from_slice(merger.encode(span));
        }
        ends.push(offset(ids.len()));
    }
    data.extend(b"a".repeat(after));
    Expected { data, offsets, ids, ends }
}

fn offset(position: usize) -> i64 {
    i64::try_from(position).expect("it is small")
}

/// Spans of the documents, sorted, those that a bit is set for; none for 0.
fn some_spans<'d>(case: &Case, documents: &'d [Vec<u8>], bits: u8) -> Vec<&'d [u8]> {
    let split = |document: &'d Vec<u8>| naive::split(&case.regex, document);
    let mut spans: Vec<&[u8]> = documents.iter().flat_map(split).map(|(span, _)| span).collect();
    spans.sort_unstable();
    spans.dedup();
    let chosen = |&(number, _): &(usize, _)| bits >> (number % 8) & 1 == 1;
    spans.into_iter().enumerate().filter(chosen).map(|(_, span)| span).collect()
}

fn with_table(plain: &Encoder, encoder: Encoder, spans: &[&[u8]]) -> Encoder {
    let mut offsets = vec![0];
    offsets.extend(spans.iter().scan(0, |end, span| {
        *end += span.len();
        Some(offset(*end))
    }));
    let data = spans.concat();
    let spans = Documents::new(&data, &offsets).expect("a batch");
    let file = plain.span_table_file(spans, &TOKENIZER);
    let table = SpanTable::new(Arc::new(file), &TOKENIZER).expect("a table that was just made");
    encoder.with_table(table).expect("a table of this vocabulary")
}

fn check(encoder: &Encoder, expected: &Expected, threads: usize) {
    check_batch::<u32>(encoder, expected, threads);
    check_batch::<u16>(encoder, expected, threads);
    let documents = expected.documents();
    for (number, window) in expected.ends.windows(2).enumerate() {
        let [start, end] = [window[0], window[1]].map(|end| usize::try_from(end).expect("it is"));
        let own = encoder.encode(documents.get(number)).expect("it is split");
        assert_same(&own, &expected.ids[start..end]);
    }
    let vocabulary = encoder.vocabulary();
    let decoder = Decoder::new(vocabulary, &[]).expect("spellings are few");
    let (text, _) = decoder.decode_rows(&expected.ids, &expected.ends).expect("they are ids");
    let all = &expected.data[documents_range(expected)];
    assert_same(&text, all);
    assert_same(&decoder.decode(&expected.ids).expect("they are ids"), all);
}

fn documents_range(expected: &Expected) -> std::ops::Range<usize> {
    let bound = |offset: Option<&i64>| usize::try_from(*offset.expect("some")).expect("it is");
    bound(expected.offsets.first())..bound(expected.offsets.last())
}

fn check_batch<I: TokenId + Into<u32>>(encoder: &Encoder, expected: &Expected, threads: usize) {
    let result = encoder.encode_batch::<I>(expected.documents(), Frame::default(), threads);
    let number = encoder.vocabulary().len();
    if number > I::LIMIT {
        assert_eq!(result.err(), Some(Error::TooManyTokens { number, limit: I::LIMIT }));
        return;
    }
    let (ids, ends) = result.expect("it is split");
    assert_same(&ids.into_iter().map(Into::into).collect::<Vec<u32>>(), &expected.ids);
    assert_same(&ends, &expected.ends);
}

/// Panics with the first difference: all of both would be too long to read.
fn assert_same<T: PartialEq + Debug>(own: &[T], expected: &[T]) {
    if own != expected {
        let at = own.iter().zip(expected).take_while(|(own, other)| own == other).count();
        let lengths = (own.len(), expected.len());
        panic!("{at}: {:?} and not {:?}; lengths {lengths:?}", own.get(at), expected.get(at));
    }
}
