//! The ids of single spans: examples, and the comparison with the reference implementation.

use proptest::prelude::*;

use super::*;
use crate::{Documents, Goal, MAX_TOKEN_BYTES, reference};

fn check(merges: &[Merge], span: &str, expected: &[u32]) {
    let tables = SpanIds::of_merges(merges).unwrap();
    assert_eq!(tables.encode(span.as_bytes(), &mut Scratch::default()), expected, "{span}");
}

#[test]
fn the_lowest_merge_comes_first_and_the_leftmost_of_equals() {
    check(&[], "ab", &[97, 98]);
    check(&[(98, 99), (97, 98)], "abcx", &[97, 256, 120]);
    check(&[(97, 97)], "aaa", &[256, 97]);
    check(&[(97, 98), (256, 256)], "ababab", &[257, 256]);
}

#[test]
fn a_whole_token_is_its_id_even_if_merges_do_not_form_it() {
    let merges = [(98, 99), (97, 98), (257, 99)];
    check(&merges, "abc", &[258]);
    check(&merges, "abcd", &[97, 256, 100]);
}

#[test]
fn a_whole_token_is_the_id_of_a_span_but_of_no_part_of_one() {
    let whole = Documents::new(b"abcdbc", &[0, 4, 6]).unwrap();
    for merges in [vec![(97, 98)], vec![(98, 97), (97, 98), (257, 97)]] {
        let tokens = Tokens { whole: Some(whole), ..Tokens::merges(&merges) };
        let tables = SpanIds::new(tokens).unwrap();
        let encode = |span: &str| tables.encode(span.as_bytes(), &mut Scratch::default()).to_vec();
        let (first, ab) = (256 + u32::try_from(merges.len()).unwrap(), encode("ab")[0]);
        assert_eq!((encode("abcd"), encode("bc")), (vec![first], vec![first + 1]));
        assert_eq!(encode("abcdbc"), [ab, 99, 100, 98, 99]);
        assert_eq!(encode("a"), [97]);
    }
}

#[test]
fn an_empty_or_repeated_whole_token_is_an_error() {
    let error = |data: &[u8], offsets: &[i64]| {
        let whole = Some(Documents::new(data, offsets).unwrap());
        SpanIds::new(Tokens { whole, ..Tokens::merges(&[(97, 98)]) }).unwrap_err()
    };
    let repeated = |token, first, bytes: &[u8]| {
        let bytes = bytes.to_vec();
        Error::RepeatedToken { token, first, bytes }
    };
    assert_eq!(error(b"abc", &[0, 3, 3]), Error::EmptyToken { token: 258 });
    assert_eq!(error(b"abcab", &[0, 3, 5]), repeated(258, 256, b"ab"));
    assert_eq!(error(b"abcabc", &[0, 3, 6]), repeated(258, 257, b"abc"));
    assert_eq!(error(b"a", &[0, 1]), repeated(257, 97, b"a"));
    let long = vec![97; MAX_TOKEN_BYTES + 1];
    let too_long = Error::TokenTooLong { token: 257, bytes: long.len() };
    assert_eq!(error(&long, &[0, i64::try_from(long.len()).unwrap()]), too_long);
}

#[test]
fn the_lower_of_two_tokens_with_the_same_bytes_is_used() {
    check(&[(97, 97), (256, 97), (97, 256)], "aaa", &[257]);
}

#[test]
fn a_repeated_merge_is_an_error() {
    let error = |merges: &[Merge]| SpanIds::of_merges(merges).unwrap_err();
    let first = (97, 98);
    assert_eq!(error(&[first, first]), Error::RepeatedMerge { merge: 1, first: 0 });
    let second = (256, 256);
    assert_eq!(error(&[first, second, second]), Error::RepeatedMerge { merge: 2, first: 1 });
}

#[test]
fn vocabularies_with_giant_tokens_are_merged_by_the_heap() {
    let doubling: Vec<Merge> =
        [(97, 97)].into_iter().chain((256..266).map(|id| (id, id))).collect();
    for (num_merges, backtracks) in [(10, true), (11, false)] {
        let tables = SpanIds::of_merges(&doubling[..num_merges]).unwrap();
        assert_eq!(tables.backtrack.is_some(), backtracks);
        let longest = 255 + u32::try_from(num_merges).unwrap();
        let span = vec![97; (2 << num_merges) + 1];
        let mut scratch = Scratch::default();
        assert_eq!(tables.encode(&span, &mut scratch), [longest, longest, 97]);
    }
}

#[test]
fn an_end_that_changes_a_long_span_is_detected() {
    // "bb" first: a run of b in pairs from its start, then each "a" merges with its remaining
    // neighbor.
    let merges = [(98, 98), (97, 98), (257, 256), (258, 258), (256, 99)];
    let tables = SpanIds::of_merges(&merges).unwrap();
    for length in 0..200 {
        let span = [&b"a".repeat(length % 3)[..], &b"b".repeat(length), b"c"].concat();
        assert_eq!(
            tables.encode(&span, &mut Scratch::default()),
            reference::encode_span(&merges, &span)
        );
    }
}

/// Merges of existing ids without duplicates: more general than learned merges.
fn any_merges() -> impl Strategy<Value = Vec<Merge>> {
    prop::collection::vec((0u32..40, 0u32..40), 0..40).prop_map(|choices| {
        let mut merges: Vec<Merge> = Vec::new();
        for (left, right) in choices {
            let id = |choice: u32| if choice < 4 { 97 + choice } else { 252 + choice };
            let merge = (id(left), id(right));
            let limit = 256 + u32::try_from(merges.len()).unwrap();
            if merge.0 < limit && merge.1 < limit && !merges.contains(&merge) {
                merges.push(merge);
            }
        }
        merges
    })
}

fn learned_merges() -> impl Strategy<Value = Vec<Merge>> {
    prop::collection::vec((spans(40), 1u64..5), 1..8)
        .prop_map(|spans| reference::learn(&spans, Goal::merges(40)).merges)
}

/// One letter, a period, a Fibonacci word, or random text of up to five letters.
fn spans(limit: usize) -> impl Strategy<Value = Vec<u8>> {
    let random =
        (1u8..6).prop_flat_map(move |letters| prop::collection::vec(97..97 + letters, 2..limit));
    let period = (prop::collection::vec(97u8..100, 1..5), 2..limit)
        .prop_map(|(period, length)| period.into_iter().cycle().take(length).collect());
    let fibonacci = (2..limit).prop_map(|length| {
        let (mut before, mut word) = (b"b".to_vec(), b"a".to_vec());
        while word.len() < length {
            (before, word) = (word.clone(), [word, before].concat());
        }
        word[..length].to_vec()
    });
    prop_oneof![random, period, fibonacci]
}

/// Bytes and characters in place of the letters of `spans`.
const BYTES: [&[u8]; 5] = [b"\xd0", b"\xbe", b"\xe4", b"\xbd", b" "];
const CHARACTERS: [&[u8]; 5] = [b"\xd0\xbe", b"\xd0\xbd", b"\xe4\xbe\xbd", b"\xe4\xbd\xbe", b" "];

fn spelled(span: &[u8], letters: [&[u8]; 5]) -> Vec<u8> {
    span.iter().flat_map(|&letter| letters[usize::from(letter) - 97]).copied().collect()
}

#[test]
fn merging_begins_with_characters_that_no_earlier_merge_disturbs() {
    let (o, n) = (256, 258);
    // " \xd0" comes before the character n, and after o.
    let merges = [(0xd0, 0xbe), (32, 0xd0), (0xd0, 0xbd), (o, n)];
    let tables = SpanIds::of_merges(&merges).unwrap();
    let begin = |span: &str| {
        let mut ids = [0; 9];
        let number = tables.characters.begin(span.as_bytes(), &mut ids).unwrap();
        ids[..number].to_vec()
    };
    assert_eq!(begin("он он"), [o, n, 32, o, n]);
    assert_eq!(begin(" но"), [32, 0xd0, 0xbd, o]);
    check(&merges, " онно", &[32, 259, n, o]);
    check(&merges, " но", &[257, 0xbd, o]);
}

impl SpanIds {
    fn of_merges(merges: &[Merge]) -> Result<Self, Error> {
        Self::new(Tokens::merges(merges))
    }

    fn is_token(&self, span: &[u8]) -> bool {
        (0..).take(self.vocabulary.len()).any(|id| self.vocabulary.get(id) == Some(span))
    }

    fn bytes_and_pairs(&self, span: &[u8]) -> (Vec<u32>, Vec<u32>) {
        let (ids, mut merged) = (span.iter().copied().map(u32::from).collect::<Vec<_>>(), vec![]);
        self.merges.of_pairs(&ids, &mut merged);
        (ids, merged)
    }

    fn by_scan(&self, span: &[u8]) -> Vec<u32> {
        let (mut ids, mut merged) = self.bytes_and_pairs(span);
        merge_by_scan(&mut ids, &mut merged, |left, right| self.merges.get(left, right));
        ids
    }

    fn by_heap(&self, span: &[u8]) -> Vec<u32> {
        let (mut ids, merged) = self.bytes_and_pairs(span);
        self.merge_by_heap(&mut ids, &merged);
        ids
    }

    fn by_sweeps(&self, span: &[u8]) -> Vec<u32> {
        let (mut ids, mut merged) = self.bytes_and_pairs(span);
        merge_by_sweeps(&self.merges, &mut ids, &mut merged, 0);
        self.merge_by_heap(&mut ids, &merged);
        ids
    }

    fn by_few(&self, level: Level, span: &[u8], ids: &mut Vec<u32>) -> bool {
        merge_few(Cpu::new(level), (&self.merges, &self.characters), few::MAX, span, ids)
    }

    fn by_backtracking(&self, span: &[u8]) -> Option<Vec<u32>> {
        let mut ids = Vec::new();
        let done = self.backtrack.as_ref()?.merge(&self.merges, span, &mut ids, &mut Vec::new());
        done.then_some(ids)
    }
}

proptest! {
    #[test]
    fn ids_equal_the_reference(
        merges in prop_oneof![any_merges(), learned_merges()], span in spans(150)
    ) {
        let tables = SpanIds::of_merges(&merges).unwrap();
        let expected = reference::encode_span(&merges, &span);
        let mut scratch = Scratch::default();
        prop_assert_eq!(tables.encode(&span, &mut scratch), &expected[..]);
        if !tables.is_token(&span) {
            prop_assert_eq!(&tables.by_scan(&span), &expected);
            prop_assert_eq!(&tables.by_heap(&span), &expected);
        }
    }

    #[test]
    fn a_few_bytes_merge_equally_at_every_level(
        merges in prop_oneof![any_merges(), learned_merges()], span in spans(few::MAX + 1), length in 1..=few::MAX,
    ) {
        let tables = SpanIds::of_merges(&merges).unwrap();
        let bytes = &span[..span.len().min(length)];
        for level in Level::ALL {
            let mut ids = vec![7];
            prop_assert!(tables.by_few(level, bytes, &mut ids));
            prop_assert_eq!(&ids[1..], tables.by_heap(bytes), "{}", level);
        }
    }

    #[test]
    fn merging_can_begin_with_characters(
        learned_from in prop::collection::vec((spans(40), 1u64..5), 1..8),
        other in any_merges(),
        is_learned in any::<bool>(),
        letters in prop_oneof![Just(BYTES), Just(CHARACTERS)],
        span in spans(few::MAX + 9),
    ) {
        let merges = if is_learned {
            let spell = |(span, count): (Vec<u8>, u64)| (spelled(&span, letters), count);
            let spans: Vec<_> = learned_from.into_iter().map(spell).collect();
            reference::learn(&spans, Goal::merges(40)).merges
        } else {
            let byte = |id| if id < 256 { BYTES[id as usize - 97][0].into() } else { id };
            other.into_iter().map(|(left, right)| (byte(left), byte(right))).collect()
        };
        let tables = SpanIds::of_merges(&merges).unwrap();
        let span = spelled(&span, letters);
        let number = tables.characters.begin(&span, &mut [0; 200]).unwrap();
        for level in Level::ALL {
            let mut ids = vec![7];
            let done = tables.by_few(level, &span, &mut ids);
            prop_assert_eq!(done, number <= few::MAX);
            prop_assert!(!done || ids[1..] == tables.by_heap(&span), "{}", level);
        }
    }

    #[test]
    fn all_ways_to_merge_agree(
        merges in prop_oneof![any_merges(), learned_merges()],
        span in prop_oneof![4 => spans(150), 1 => spans(3000)],
    ) {
        let tables = SpanIds::of_merges(&merges).unwrap();
        let expected = tables.by_heap(&span);
        prop_assert_eq!(&tables.by_scan(&span), &expected);
        prop_assert_eq!(&tables.by_sweeps(&span), &expected);
        if let Some(ids) = tables.by_backtracking(&span) {
            prop_assert_eq!(ids, expected);
        }
    }

    #[test]
    fn chunks_of_long_spans_join_to_the_whole(
        merges in prop_oneof![any_merges(), learned_merges()],
        pieces in prop::collection::vec(spans(3000), 2..8),
    ) {
        let tables = SpanIds::of_merges(&merges).unwrap();
        let span = pieces.concat();
        prop_assume!(!tables.is_token(&span));
        let expected = tables.by_heap(&span);
        prop_assert!(tables.encode(&span, &mut Scratch::default()) == expected);
        let mut ids = Vec::new();
        let merge = |bytes: &[u8], ids: &mut Vec<u32>| ids.extend(tables.by_heap(bytes));
        let length = |id| tables.vocabulary.get(id).unwrap().len();
        if merge_in_chunks(&span, 2048, &mut ids, merge, length) {
            prop_assert!(ids == expected);
        } else {
            prop_assert!(ids.is_empty());
        }
    }

    #[test]
    fn a_reachable_id_is_the_merge_of_its_bytes(merges in any_merges()) {
        let tables = SpanIds::of_merges(&merges).unwrap();
        for (id, reachable) in (0..).zip(tables.merges.reachable()) {
            let bytes = tables.vocabulary.get(id).unwrap();
            if bytes.len() < 3000 {
                prop_assert_eq!(tables.by_heap(bytes) == [id], reachable, "{}", id);
            }
        }
    }

    #[test]
    fn merging_both_sides_of_a_cut_changes_nothing(
        merges in prop_oneof![any_merges(), learned_merges()], span in spans(150)
    ) {
        let tables = SpanIds::of_merges(&merges).unwrap();
        let cut = span.windows(2).position(|pair| tables.may_cut(pair[0], pair[1]));
        let (before, after) = span.split_at(cut.map_or(span.len(), |before| before + 1));
        let sides = [tables.by_heap(before), tables.by_heap(after)].concat();
        prop_assert_eq!(sides, tables.by_heap(&span));
    }
}
