//! Normalizers: examples, and the comparison with the library on whole texts.

use proptest::prelude::*;

use super::*;
use crate::normalize::forms::{CALM, MARK};

const FORMS: [(Normalizer, Form); 5] = [
    (Normalizer::Nfc, Form::Nfc),
    (Normalizer::Nfd, Form::Nfd),
    (Normalizer::Nfkc, Form::Nfkc),
    (Normalizer::Nfkd, Form::Nfkd),
    (Normalizer::Lowercase, Form::Lower),
];

fn check(normalizers: &[Normalizer], text: &str, expected: &str) {
    let own = Normalizers::new(normalizers.to_vec()).unwrap();
    let changed = own.changed(text.as_bytes());
    assert_eq!(changed.is_some(), text != expected, "{normalizers:?} {text:?}");
    let changed = changed.map_or(text.to_owned(), |it| String::from_utf8(it).unwrap());
    assert_eq!(changed, expected, "{normalizers:?} {text:?}");
}

#[test]
fn texts_are_changed_in_the_order_of_normalizers() {
    let prepend = Normalizer::Prepend("_".to_owned());
    let replace = Normalizer::Replace { text: " ".to_owned(), by: "_".to_owned() };
    let strip = Normalizer::Strip { left: true, right: true };
    check(&[prepend.clone(), replace.clone()], " a b", "__a_b");
    check(&[replace.clone(), strip.clone()], " a b", "_a_b");
    check(&[strip.clone(), prepend.clone()], "\u{3000} a b\n", "_a b");
    check(&[strip.clone(), prepend.clone(), Normalizer::PrefixSpace], " \t", "");
    check(&[Normalizer::PrefixSpace], "a", " a");
    check(&[Normalizer::PrefixSpace], " a", " a");
    check(&[prepend, Normalizer::PrefixSpace, Normalizer::Lowercase], "", "");
    check(&[Normalizer::Strip { left: false, right: true }], " a ", " a");
    check(&[Normalizer::Strip { left: false, right: false }], " a ", " a ");
    check(&[Normalizer::Prepend(String::new())], "a", "a");
    let overlapping = Normalizer::Replace { text: "aa".to_owned(), by: "aab".to_owned() };
    check(&[overlapping], "xaaaaay", "xaabaabay");
}

#[test]
fn characters_are_changed_with_their_neighbors() {
    check(&[Normalizer::Nfc], "cafe\u{301} \u{1100}\u{1161}\u{11a8}", "caf\u{e9} \u{ac01}");
    check(&[Normalizer::Nfc], "caf\u{e9} \u{4e2d}", "caf\u{e9} \u{4e2d}");
    check(&[Normalizer::Nfc], "\u{301}e\u{323}\u{302}", "\u{301}\u{1ec7}");
    check(&[Normalizer::Nfd], "\u{1ec7}x", "e\u{323}\u{302}x");
    check(&[Normalizer::Nfkc], "\u{fb01}\u{2460}\u{ff21}", "fi1A");
    check(&[Normalizer::Nfkd], "\u{bd}", "1\u{2044}2");
    check(&[Normalizer::Lowercase], "AbC \u{130}\u{c9}\u{3a3}", "abc i\u{307}\u{e9}\u{3c3}");
}

#[test]
fn valid_parts_are_changed_on_their_own() {
    let normalizers = vec![Normalizer::Nfc, Normalizer::Prepend("_".to_owned())];
    let own = Normalizers::new(normalizers).unwrap();
    let changed = own.changed(b"\xffe\xcc\x81\xe2\x82a").unwrap();
    assert_eq!(changed, b"\xff_\xc3\xa9\xe2\x82_a");
    assert_eq!(Normalizers::default().changed(b"\xff"), None);
}

#[test]
fn an_empty_text_cannot_be_replaced() {
    let replace = Normalizer::Replace { text: String::new(), by: "a".to_owned() };
    assert_eq!(Normalizers::new(vec![replace]).err(), Some(Error::EmptyReplaced));
}

/// By the library alone.
fn expected(form: Form, text: &str) -> String {
    let mut out = String::new();
    form.visit(text, |character| out.push(character));
    out
}

/// Every character alone, after and before others that it can combine with.
#[test]
fn every_character_is_changed_as_by_the_library() {
    let around =
        ["", "a", "\u{301}", "\u{1100}", "\u{ac00}", "\u{9c7}", "\u{323}\u{315}", "\u{11a8}"];
    for (normalizer, form) in FORMS {
        let own = Normalizers::new(vec![normalizer]).unwrap();
        let mut text = String::new();
        for character in '\0'..=char::MAX {
            let combines =
                matches!(character as u32, 0..0x3400 | 0x11000..0x11800 | 0x1d100..0x1d200);
            for side in around.iter().take(if combines { around.len() } else { 2 }) {
                text.clear();
                text.push_str(side);
                text.push(character);
                text.push_str(side);
                let changed = own.changed_text(&text);
                let found = changed.as_deref().unwrap_or(&text);
                assert_eq!(found, expected(form, &text), "{form:?} {text:?}");
            }
        }
    }
}

/// Each calm character that decomposes, with each quiet mark.
#[test]
fn a_quiet_mark_changes_no_calm_character() {
    for (_, form) in FORMS {
        let of_set = |set| ('\0'..=char::MAX).filter(move |&it| form.set_of(it) == set);
        let decomposes = |character: &char| {
            let mut number = 0;
            unicode_normalization_alignments::char::decompose_canonical(*character, |_| {
                number += 1;
            });
            number > 1
        };
        // Of Hangul, all decompose in the same way.
        let calm: Vec<char> = of_set(CALM)
            .filter(decomposes)
            .filter(|&it| !('\u{ac20}'..='\u{d7a3}').contains(&it))
            .chain(['a', '\u{4e2d}', '\u{915}'])
            .collect();
        let mut text = String::new();
        for mark in of_set(MARK) {
            for &character in &calm {
                text.clear();
                text.extend([character, mark]);
                assert_eq!(expected(form, &text), text, "{form:?}");
            }
        }
    }
}

/// Text with many characters that change or combine.
fn text() -> impl Strategy<Value = String> {
    let combining = prop::sample::select(vec![
        '\u{301}',
        '\u{302}',
        '\u{323}',
        '\u{316}',
        '\u{345}',
        '\u{315}',
        '\u{5b0}',
        '\u{93c}',
        '\u{9be}',
        '\u{9d7}',
        '\u{1161}',
        '\u{11a7}',
        '\u{11a8}',
        '\u{3099}',
        '\u{1d165}',
    ]);
    let starting = prop::sample::select(vec![
        'a',
        'e',
        'A',
        ' ',
        '\u{e9}',
        '\u{1ec7}',
        '\u{1100}',
        '\u{ac00}',
        '\u{ac01}',
        '\u{9c7}',
        '\u{304b}',
        '\u{212b}',
        '\u{fb01}',
        '\u{344}',
        '\u{958}',
        '\u{1d15e}',
        '\u{4e2d}',
        '\u{130}',
    ]);
    let character = prop_oneof![4 => combining, 4 => starting, 1 => any::<char>()];
    prop::collection::vec(character, 0..12).prop_map(String::from_iter)
}

proptest! {
    #[test]
    fn texts_are_changed_as_by_the_library(text in text()) {
        for (normalizer, form) in FORMS {
            let changed = Normalizers::new(vec![normalizer]).unwrap().changed_text(&text);
            let expected = expected(form, &text);
            prop_assert_eq!(changed.is_some(), text != expected);
            prop_assert_eq!(changed.as_deref().unwrap_or(&text), &expected, "{:?}", form);
        }
    }
}

proptest! {
    #[test]
    fn folded_documents_are_words_in_plain_code(
        texts in prop::collection::vec("[aB\\t \u{a0}\u{3000}\u{301}\u{130}\u{1F}e\u{fb}]{0,9}", 0..5),
    ) {
        let plain: Vec<String> = texts
            .iter()
            .map(|text| {
                let composed = Form::Nfc.changed(text).unwrap_or_else(|| text.clone());
                let lower: String = composed.chars().flat_map(char::to_lowercase).collect();
                let words: Vec<&str> = lower.split(char::is_whitespace).collect();
                words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
            })
            .collect();
        let mut offsets = vec![0];
        for text in &texts {
            offsets.push(offsets[offsets.len() - 1] + i64::try_from(text.len()).unwrap());
        }
        let data = texts.concat();
        let documents = Documents::new(data.as_bytes(), &offsets).unwrap();
        let (words, ends) = folded(documents);
        prop_assert_eq!(String::from_utf8(words).unwrap(), plain.concat());
        prop_assert_eq!(ends.len(), texts.len() + 1);
        for (number, text) in plain.iter().enumerate() {
            prop_assert_eq!(ends[number + 1] - ends[number], i64::try_from(text.len()).unwrap());
        }
    }
}
