//! Compares the lexer, and the scanner at every CPU level, with the regex engine: for every
//! character, and for text with the decisive combinations.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::cpu::Level;
use crate::split::grammar::Grammar;
use crate::split::scanner::Scanner;
use crate::{Kind, reference};

/// Patterns in use: nanochat, rustbpe, cl100k, r50k, GPT-2, Qwen 2, Qwen 3.5, o200k.
const USED: [&str; 8] = [
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// Variants of each part of a member; every combination is a member, except with contractions both
/// before and after letters. "A" and "B" are upper and lower letters, "W" contractions, of `CASES`.
const PLACES: [&[&str]; 6] = [
    &["", "", "'(?i:[sdmtk]|ll|ve|re)|", "'(?:s|ll|l)|", "(?i:'s|'\u{e9}t|' )|"],
    &[
        r"[^\r\n\p{L}\p{N}]?+\p{L}+",
        r" ?\p{L}+",
        r"\p{L}+",
        r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
        r"\S?[\p{L}\p{Nl}]+",
        r"[^\r\n\p{L}\p{N}]?\p{L}+W",
        r"[^\r\n\p{L}\p{N}]?A*B+W|[^\r\n\p{L}\p{N}]?A+B*W",
        r"[^\r\n\p{L}\p{N}]?A*B++W|[^\r\n\p{L}\p{N}]?A++B*+W",
        r"\S?A*B+W|\S?A+B*W",
        r" ?+A*B+W| ?+A+B*W",
        r"A*B+W|A+B*W",
    ],
    &[r"\p{N}", r"\p{N}{1,3}", r" ?\p{N}{1,2}", r" ?\p{N}++", r"[\p{N}\p{M} ]+"],
    &[
        r" ?[^\s\p{L}\p{N}]+",
        r"[^\s\p{L}\p{N}]++[\r\n]*",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r" ?[^\p{L}]+[a\n]*",
    ],
    &["", r"|\s++$", r"|\s+$"],
    &["", r"|\s*[\r\n]", r"|\s*[\r\n]+", r"|\s*\x{85}+"],
];

/// Replacements of "A|B" and of "W".
const CASES: [&[&str]; 2] = [
    &[
        r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]|[\p{Ll}\p{Lm}\p{Lo}\p{M}]",
        r"[\p{Lu}\p{Lt}]|[\p{Ll}\p{Lm}\p{Lo}]",
        r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}]|[\p{Ll}\p{Lo}\p{M}\p{Nl}]",
        r"[\p{L}--\p{Ll}]|[\p{Ll}\p{Lo}]",
        r"\p{L}|[\p{L}\p{M}]",
        r"[A-Mn-z]|[\p{L}--[A-Mn-z]]",
    ],
    &[
        "",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"('s|'l|'ll)?+",
        r"(?:'t|'\u{e9}t|'\u{4e2d}|' )?",
        r"(?:'\u{5d0}|'')?",
    ],
];

/// A lexer, a scanner for each available CPU level (none if ASCII is hard), and the reference.
struct Twins {
    lexer: Lexer,
    scanners: Vec<Scanner>,
    regex: fancy_regex::Regex,
}

fn twins(pattern: &str) -> Twins {
    let family = Family::of(&Grammar::new(pattern).unwrap());
    let family = family.unwrap_or_else(|| panic!("not recognized: {pattern}"));
    let levels =
        Level::ALL.into_iter().filter(|level| family.is_mostly_easy() && level.is_available());
    let scanners = levels.map(|level| Scanner::new(Lexer::new(family.clone()), level)).collect();
    let regex = fancy_regex::Regex::new(pattern).unwrap();
    Twins { lexer: Lexer::new(family), scanners, regex }
}

static USED_TWINS: LazyLock<Vec<Twins>> =
    LazyLock::new(|| USED.iter().map(|pattern| twins(pattern)).collect());

fn check(Twins { lexer, scanners, regex }: &Twins, text: &str) {
    let mut found = Vec::new();
    lexer.split(text, |span| found.push((span.to_vec(), Kind::Match)));
    let expected = reference::split(regex, text.as_bytes());
    assert_eq!(found, expected, "{text:?} by {}", regex.as_str());
    for scanner in scanners {
        found.clear();
        scanner.split(text, |span| found.push((span.to_vec(), Kind::Match)));
        assert_eq!(found, expected, "{text:?} by {}, {scanner:?}", regex.as_str());
    }
}

#[test]
fn every_character_is_split_as_by_the_regex_engine() {
    for twins in [0, 3, 6, 7].map(|used| &USED_TWINS[used]) {
        let mut text = String::new();
        for character in '\0'..=char::MAX {
            text.extend([character, ' ', character, 'a', character, 'b', '\'', character]);
            if text.len() > 1 << 14 || character == char::MAX {
                check(twins, &text);
                text.clear();
            }
        }
    }
}

#[test]
fn every_single_character_is_split_as_by_the_regex_engine() {
    for twins in [0, 7].map(|used| &USED_TWINS[used]) {
        for character in '\0'..=char::MAX {
            check(twins, character.encode_utf8(&mut [0; 4]));
        }
    }
}

/// All texts of up to four characters of different kinds.
#[test]
fn short_texts_are_split_as_by_the_regex_engine() {
    let characters = [' ', '\n', '\t', 'a', 's', 'A', '1', '\'', '!', '/', '\u{301}', '\u{3000}'];
    let mut texts = vec![String::new()];
    for length in 0..4 {
        let shorter = texts.iter().filter(|text| text.chars().count() == length);
        let longer = shorter.flat_map(|text| characters.map(|end| format!("{text}{end}")));
        texts.extend(longer.collect::<Vec<_>>());
    }
    for twins in USED_TWINS.iter() {
        for text in &texts {
            check(twins, text);
        }
    }
}

#[test]
fn letters_are_counted_eight_at_a_time() {
    for byte in 0..=u8::MAX {
        for at in 0..8 {
            let mut eight = *b"azAZmMnN";
            eight[at] = byte;
            let expected = if byte.is_ascii_alphabetic() { 8 } else { at };
            assert_eq!(leading_letters(u64::from_le_bytes(eight)), expected, "{eight:?}");
        }
    }
}

#[test]
fn long_runs_take_linear_time() {
    for run in [
        " ",
        "\n",
        "\n ",
        "a",
        "\u{e9}",
        "'",
        "!",
        "1",
        "\u{301}",
        " \u{3000}",
        "A",
        "'s",
        "\u{5b57}",
        "A\u{301}",
        "a\u{301}A",
    ] {
        let text = run.repeat(1 << 20);
        for Twins { lexer, scanners, .. } in USED_TWINS.iter() {
            let mut expected = Vec::new();
            lexer.split(&text, |span| expected.push(span.len()));
            assert_eq!(expected.iter().sum::<usize>(), text.len());
            for scanner in scanners {
                let mut found = Vec::new();
                scanner.split(&text, |span| found.push(span.len()));
                assert!(found == expected, "{run:?}");
            }
        }
    }
}

/// Pieces with a decision, delimited by bars.
const PIECES: [&str; 6] = [
    "a|s|K|LL|word|Abcdefgh|\u{e9}|\u{17f}|\u{212a}|\u{130}|\u{4e2d}\u{6587}|\u{10400}",
    "\u{e01}\u{e33}|'|'S|'\u{17f}|'ll|'lL|'Re|'v|\u{2019}s| |  |\t|\n|\r|\r\n|\u{b}|\u{c}",
    "\u{1c}|\u{85}|\u{a0}|\u{1680}|\u{180e}|\u{2003}|\u{200b}|\u{2028}|\u{202f}|\u{3000}",
    "\u{feff}|0|12|12345|\u{bd}|\u{2167}|\u{b2}|\u{663}|\u{301}|\u{94d}",
    "\u{1f468}\u{200d}\u{1f4bb}|\u{1f600}|!|/|...|=====\n|_|\0|\u{10ffff}|{\n|//\r\n/",
    "D|T|Ee|eE|Case|TWO|\u{c9}|\u{1c5}|\u{2b0}|\u{aa}|\u{5d0}|'re|'Ll's|'t't|'tx|\u{fe0f}|\u{1e9e}|\u{345}",
];

fn text() -> impl Strategy<Value = String> {
    let pieces = PIECES.iter().flat_map(|line| line.split('|')).collect::<Vec<_>>();
    let piece = prop_oneof![
        9 => prop::sample::select(pieces).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec((piece, length()), 0..30)
        .prop_map(|pieces| pieces.into_iter().map(|(piece, times)| piece.repeat(times)).collect())
}

/// The repetitions of a piece: usually one, otherwise about as many as fit a block or the byte of a
/// length.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![30 => Just(1), 2 => 2..71_usize, 1 => 250..260_usize]
}

/// Every offset of every piece in a block, after a letter, a sign, a space and a newline.
#[test]
fn the_ends_of_blocks_do_not_matter() {
    let pieces: Vec<_> = PIECES.iter().flat_map(|line| line.split('|')).collect();
    for before in ["x", "!", " ", "\n"] {
        for offset in 50..66 {
            let ends = ["", "x", "  ", "\n"];
            let tails =
                pieces.iter().flat_map(|piece| ends.map(|end| format!("{piece}'s{piece}{end}")));
            for tail in tails {
                check(&USED_TWINS[offset % 8], &format!("{}{tail}", before.repeat(offset)));
            }
        }
    }
}

fn relative() -> impl Strategy<Value = String> {
    let parts = PLACES.map(|choices| prop::sample::select(choices.to_vec()));
    (parts, CASES.map(|choices| prop::sample::select(choices.to_vec()))).prop_map(
        |([words, letters, digits, signs, end, newline], [cases, attached])| {
            let (upper, lower) = cases.split_once('|').unwrap();
            let attached = if words.is_empty() { attached } else { "" };
            let filled = letters.replace('A', upper).replace('B', lower).replace('W', attached);
            format!(r"{words}{filled}|{digits}|{signs}{end}{newline}|\s+(?!\S)|\s+")
        },
    )
}

proptest! {
    #[test]
    fn text_is_split_as_by_the_regex_engine(text in text()) {
        USED_TWINS.iter().for_each(|twins| check(twins, &text));
    }

    #[test]
    fn relatives_split_as_the_regex_engine(
        pattern in relative(),
        texts in prop::collection::vec(text(), 20),
    ) {
        let twins = twins(&pattern);
        for text in &texts {
            check(&twins, text);
        }
    }
}
