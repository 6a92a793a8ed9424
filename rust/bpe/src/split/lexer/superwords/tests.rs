//! Compares the spans of superwords with the regex engine.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::{GapRule, Splitter, reference};

/// By the number of digits: the splitter, and the reference.
static TWINS: LazyLock<Vec<(Splitter, fancy_regex::Regex)>> = LazyLock::new(|| {
    let twins = |digits| {
        let pattern = pattern(digits);
        let splitter = Splitter::new(&pattern, GapRule::Refuse).unwrap();
        (splitter, fancy_regex::Regex::new(&pattern).unwrap())
    };
    (1..=3).map(twins).collect()
});

fn pattern(digits: u32) -> String {
    format!("{}{digits}{}", PATTERN[0], PATTERN[1])
}

fn check(text: &[u8]) {
    for twins in TWINS.iter() {
        check_by(twins, text);
    }
}

fn check_by((splitter, regex): &(Splitter, fancy_regex::Regex), text: &[u8]) {
    let mut found = Vec::new();
    splitter.split(text, |span, kind| found.push((span.to_vec(), kind))).unwrap();
    assert_eq!(found, reference::split(regex, text), "{text:?} by {}", regex.as_str());
}

fn spans(text: &str) -> String {
    let mut found = Vec::new();
    TWINS[1].0.split(text.as_bytes(), |span, _| found.push(span.to_vec())).unwrap();
    String::from_utf8(found.join(&b'|')).unwrap()
}

#[test]
fn only_the_exact_spelling_is_recognized() {
    for digits in 0..5 {
        let lexer = Lexer::of_superwords(&pattern(digits));
        let expected = Some(digits).filter(|digits| (1..=3).contains(digits));
        assert_eq!(lexer.map(|lexer| lexer.max_digits), expected);
    }
    assert!(TWINS.iter().all(|(splitter, _)| splitter.engine() == "lexer"));
    let known = pattern(2);
    let others =
        [format!(" {known}"), format!("{known} "), known.replace("256", "255"), known[1..].into()];
    assert!(others.iter().all(|other| Lexer::of_superwords(other).is_none()));
    let equal = Splitter::new(&format!("(?:{known})"), GapRule::Refuse);
    assert_eq!(equal.unwrap().engine(), "regex");
}

#[test]
fn words_and_single_signs_are_one_span() {
    let cases = [
        ("By the way, it's 1999 (really)... ok", "By the way, it's |19|99| (really|)...| ok"),
        ("one  two\n\n three\r\n", "one| | two|\n\n| three|\r\n"),
        ("a //\n/ b/c \n", "a| //\n/| b/c| \n"),
        ("e\u{301} \u{301} \u{4e2d}\u{6587}!", "e\u{301} \u{301} \u{4e2d}\u{6587}!"),
        ("a \t1  2", "a| |\t|1| | |2"),
        ("a\u{a0}b \u{a0} c!", "a|\u{a0}|b| \u{a0}| c!"),
    ];
    for (text, expected) in cases {
        check(text.as_bytes());
        assert_eq!(spans(text), expected);
    }
}

#[test]
fn a_span_has_256_units_of_16_letters() {
    let lengths = |unit: &str| {
        let found = spans(&unit.repeat(9000));
        found.split('|').take(2).map(str::len).collect::<Vec<_>>()
    };
    assert_eq!(lengths("a"), [4096, 4096]);
    assert_eq!(lengths(" \u{e9}"), [768, 768]);
    assert_eq!(lengths(" abcdefghijklmnopq"), [128 * 18; 2]);
    assert_eq!(lengths("a."), [256, 256]);
    assert_eq!(lengths("."), [9000]);
}

#[test]
fn every_character_is_split_as_by_the_regex_engine() {
    let mut text = String::new();
    for character in '\0'..=char::MAX {
        text.extend([character, ' ', character, 'a', character, '1', ' ', character, '.', '\n']);
        if text.len() > 1 << 14 || character == char::MAX {
            check_by(&TWINS[1], text.as_bytes());
            text.clear();
        }
    }
}

/// All texts of up to five characters of different kinds.
#[test]
fn short_texts_are_split_as_by_the_regex_engine() {
    let characters = [' ', '\n', '\r', '\t', 'a', '1', '!', '/', '\u{301}', '\u{3000}'];
    let mut texts = vec![String::new()];
    for length in 0..5 {
        let shorter = texts.iter().filter(|text| text.chars().count() == length);
        let longer = shorter.flat_map(|text| characters.map(|end| format!("{text}{end}")));
        texts.extend(longer.collect::<Vec<_>>());
    }
    for text in &texts {
        check(text.as_bytes());
    }
}

#[test]
fn long_runs_take_linear_time() {
    for run in ["a", " ", "\n ", "! ", "!a", "=", "1", " 1", "\u{301}", " \u{4e2d}", "the end of "]
    {
        let text = run.repeat(1 << 20);
        let mut bytes = 0;
        TWINS[2].0.split(text.as_bytes(), |span, _| bytes += span.len()).unwrap();
        assert_eq!(bytes, text.len());
    }
}

/// Pieces with a decision, delimited by bars.
const PIECES: &str = "a|word|Abcdefgh|abcdefghijklmnop|\u{e9}|\u{17f}|\u{4e2d}\u{6587}|\u{10400}|\
    e\u{301}|\u{301}|\u{94d}|\u{20dd}|\u{fe0f}|0|12|12345|\u{bd}|\u{2167}|\u{663}| | |  |\t|\n|\r|\
    \r\n|\u{b}|\u{1c}|\u{85}|\u{a0}|\u{2003}|\u{2028}|\u{3000}|\u{200b}|\u{feff}|'|'s|!|.|,|/|//|...|\
    //\r\n/|=====|\u{2019}|\u{1f600}|\u{1f468}\u{200d}\u{1f4bb}|\0|\u{10ffff}";

fn text() -> impl Strategy<Value = Vec<u8>> {
    let pieces = PIECES.split('|').map(|piece| piece.as_bytes().to_vec()).collect::<Vec<_>>();
    let piece = prop_oneof![
        20 => prop::sample::select(pieces),
        2 => any::<char>().prop_map(|character| character.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    let repeated = prop_oneof![
        20 => Just(1),
        3 => 2..40_usize,
        1 => 250..260_usize,
    ];
    let some = prop::collection::vec(piece, 1..4);
    prop::collection::vec((some, repeated), 0..12)
        .prop_map(|parts| parts.iter().flat_map(|(some, n)| some.concat().repeat(*n)).collect())
}

proptest! {
    #[test]
    fn any_bytes_are_split_as_by_the_regex_engine(text in text()) {
        check(&text);
    }
}
