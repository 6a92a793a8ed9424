//! Encoding with words first, compared with merging whole spans.

use proptest::prelude::*;

use super::*;
use crate::encode::Encoder;
use crate::reference::SUPERWORDS;
use crate::split::GapRule;
use crate::{Splitter, reference};

/// Merges of `text`, each of two adjacent ids of `spans` after the merges before it, so that every
/// token is the result of merging its own bytes. The first `number` are within words.
fn learned(text: &str, number: usize, choices: &[usize]) -> Vec<Merge> {
    let mut merges: Vec<Merge> = Vec::new();
    for (step, &choice) in choices.iter().enumerate() {
        let spans: Vec<&str> = if step < number {
            text.split_inclusive(|one: char| !one.is_alphabetic()).collect()
        } else {
            vec![text]
        };
        let ids = spans.iter().map(|span| reference::encode_span(&merges, span.as_bytes()));
        let pairs: Vec<Merge> = ids
            .flat_map(|ids| ids.windows(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>())
            .collect();
        if pairs.is_empty() {
            break;
        }
        merges.push(pairs[choice % pairs.len()]);
    }
    merges
}

/// A text of short words over a small alphabet, with signs, digits and white space.
fn text() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a",
        "b",
        "ab",
        " a",
        " b",
        " ab",
        " ba",
        " é",
        "語",
        ",",
        " ,",
        "(",
        " 12",
        "3",
        " ",
        "\n",
        "  ",
        "aaaaaaaaaaaaaaaaaaaa",
        " of",
        " the",
        "--",
        "- ",
    ]);
    prop::collection::vec(part, 0..120).prop_map(|parts| parts.concat())
}

fn encoder(merges: &[Merge]) -> Encoder {
    Encoder::new(Splitter::new(SUPERWORDS, GapRule::Spans).unwrap(), merges).unwrap()
}

fn expected(merges: &[Merge], document: &[u8]) -> Vec<u32> {
    let regex = fancy_regex::Regex::new(SUPERWORDS).unwrap();
    let spans = reference::split(&regex, document);
    spans.iter().flat_map(|(span, _)| reference::encode_span(merges, span)).collect()
}

#[test]
fn words_are_joined_by_later_merges_only() {
    // "ab", " a", " ab", "ab ab" and " ab ab"
    let merges = [(97, 98), (32, 256), (256, 257), (257, 257)];
    let encoder = encoder(&merges);
    assert!(encoder.words.is_some());
    for (text, ids) in [
        ("ab ab", vec![258]),
        (" ab ab ab", vec![259, 257]),
        ("ab ab ab", vec![258, 257]),
        ("ab\nab ab", vec![256, 10, 258]),
    ] {
        assert_eq!(encoder.encode(text.as_bytes()).unwrap(), ids, "{text:?}");
    }
}

#[test]
fn a_long_run_after_others_is_merged_across_windows() {
    let merges = [(97, 98), (32, 256), (256, 257), (257, 257), (259, 259)];
    for number in [63, 64, 255, 256, 257, 2000] {
        let document = "ab ab ab\n".repeat(30) + "ab ab" + &" ab".repeat(number);
        let ids = encoder(&merges).encode(document.as_bytes()).unwrap();
        assert!(ids == expected(&merges, document.as_bytes()), "{number}");
    }
}

proptest! {
    #[test]
    fn spans_equal_those_of_all_merges(
        sample in text(),
        text in text(),
        number in 0usize..12,
        choices in prop::collection::vec(0usize..1000, 1..40),
        invalid in prop::collection::vec(0usize..200, 0..2),
    ) {
        let merges = learned(&sample, number, &choices);
        let mut document = (text + &sample).into_bytes();
        for at in invalid {
            let at = at.min(document.len());
            document.insert(at, 0xff);
        }
        prop_assert_eq!(encoder(&merges).encode(&document).unwrap(), expected(&merges, &document));
    }
}
