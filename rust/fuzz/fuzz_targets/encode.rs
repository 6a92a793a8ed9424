//! Any merges and any documents: the ids equal those of the reference implementation, one by one
//! and in batches, with any number of threads, and again from the cache; and they decode to the
//! documents.

#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use nanotok_bpe::{Decoder, Documents, Encoder, Error, Frame, Merge, TokenId};
use nanotok_fuzz::patterns::{self, Case};
use nanotok_fuzz::{program::Program, reference};

/// The documents in a window of some data, and their expected ids.
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
    let (around, threads) = (program.byte(), 1 + usize::from(program.byte()) % 3);
    let merges = program.merges();
    let tokens = reference::spell(&merges);
    let documents = program.documents(&tokens);
    let mut merger = reference::Merger::new(&merges, &tokens);
    let expected = expect(case, &mut merger, &documents, around);

    check(&encoder(case, &merges), &expected, threads);
});

fn encoder(case: &Case, merges: &[Merge]) -> Encoder {
    Encoder::new(case.splitters[0].clone(), merges).expect("merges are valid by construction")
}

fn expect(
    case: &Case,
    merger: &mut reference::Merger,
    documents: &[Vec<u8>],
    around: u8,
) -> Expected {
    let (before, after) = (usize::from(around & 15), usize::from(around >> 4));
    let (mut data, mut ids) = (b"ab".repeat(before), Vec::new());
    let (mut offsets, mut ends) = (vec![offset(data.len())], vec![0]);
    for document in documents {
        data.extend_from_slice(document);
        offsets.push(offset(data.len()));
        for (span, _) in reference::split(&case.regex, document) {
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

/// Panics with the first difference only, since the whole arrays would be too long to read.
fn assert_same<T: PartialEq + Debug>(own: &[T], expected: &[T]) {
    if own != expected {
        let at = own.iter().zip(expected).take_while(|(own, other)| own == other).count();
        let lengths = (own.len(), expected.len());
        panic!("{at}: {:?} and not {:?}; lengths {lengths:?}", own.get(at), expected.get(at));
    }
}
