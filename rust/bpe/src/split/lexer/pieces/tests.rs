//! Compares the lexer, and the scanner at every CPU level, with the steps one after the other: for
//! every character, and for text with the decisive combinations.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::cpu::Level;
use crate::reference;
use crate::split::family::Family;
use crate::split::scanner::Scanner;
use crate::split::{GapRule, Splitter, Step};

const DEEPSEEK: [&str; 3] = [
    r"\p{N}{1,3}",
    "[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
];

/// Replacements of a part of a step by others of the same kind; the step, the part, and the other.
const RELATIVES: [(usize, &str, &str); 9] = [
    (0, "{1,3}", "+"),
    (0, r"\p{N}{1,3}", r"\p{Nd}"),
    (1, "\u{3040}-\u{309f}", r"\u{e0}-\u{ff}\u{660}\u{301}\u{1f600}-\u{1f700}--\p{N}"),
    (2, "$%&'", "'"),
    (2, r"[\p{L}\p{M}]+", r"\p{L}+"),
    (2, r" ?[\p{P}", r"[\p{P}"),
    (2, "[\r\n]*", ""),
    (2, "[\r\n]*", r"\s*"),
    (2, "|\\s*[\r\n]+", ""),
];

/// A lexer, a scanner for each available CPU level, and the regular expressions of the steps.
struct Twins {
    lexer: Lexer,
    scanners: Vec<Scanner>,
    steps: Vec<Step>,
    regexes: Vec<fancy_regex::Regex>,
}

fn twins(patterns: [&str; 3]) -> Option<Twins> {
    let family = Family::of_steps(patterns)?;
    let levels = Level::ALL.into_iter().filter(|level| level.is_available());
    Some(Twins {
        scanners: levels.map(|level| Scanner::new(Lexer::new(family.clone()), level)).collect(),
        lexer: Lexer::new(family),
        steps: patterns.map(Step::plain).to_vec(),
        regexes: patterns.map(|pattern| fancy_regex::Regex::new(pattern).unwrap()).to_vec(),
    })
}

fn related(&(step, part, other): &(usize, &str, &str)) -> [String; 3] {
    let mut patterns = DEEPSEEK.map(str::to_owned);
    assert!(patterns[step].contains(part), "{part}");
    patterns[step] = patterns[step].replacen(part, other, 1);
    patterns
}

static TWINS: LazyLock<Vec<Twins>> = LazyLock::new(|| {
    let relatives = RELATIVES.iter().map(related).map(|patterns| {
        let patterns = patterns.each_ref().map(String::as_str);
        twins(patterns).unwrap_or_else(|| panic!("not recognized: {patterns:?}"))
    });
    twins(DEEPSEEK).into_iter().chain(relatives).collect()
});

fn check(Twins { lexer, scanners, steps, regexes }: &Twins, text: &str) {
    let mut found = Vec::new();
    lexer.split(text, |span| found.push(span.to_vec()));
    let expected = reference::split_by_steps(steps, regexes, text.as_bytes());
    assert_eq!(found, expected, "{text:?} by {steps:?}");
    for (number, scanner) in scanners.iter().enumerate() {
        found.clear();
        scanner.split(text, |span| found.push(span.to_vec()));
        assert_eq!(found, expected, "{text:?} by {steps:?}, level {number}");
    }
}

#[test]
fn steps_are_done_together_only_if_that_is_known_to_be_the_same() {
    let engine = |patterns: [&str; 3], changed: &dyn Fn(&mut Step)| {
        let mut steps = patterns.map(Step::plain);
        changed(&mut steps[1]);
        Splitter::of_steps(&steps, GapRule::Spans).unwrap().engine()
    };
    assert_eq!(engine(DEEPSEEK, &|_| {}), "lexer");
    assert_eq!(engine(DEEPSEEK, &|step| step.invert = true), "table");
    for (step, part, other) in [
        (0, "{1,3}", "{2,3}"),
        (0, r"\p{N}", r"[\p{N}\p{Lu}]"),
        (0, r"\p{N}", r"[\p{N}!]"),
        (1, "+", "{1,9}"),
        (1, "[\u{4e00}", r"[\p{N}\u{4e00}"),
        (1, "[\u{4e00}", r"[\u{3000}\u{4e00}"),
        (1, "[\u{4e00}", "[a\u{4e00}"),
        (2, "[!", "[\u{a1}!"),
        (2, "[!", "[ !"),
        (2, "[A-Za-z]+", "[A-Z]+"),
        (2, "[A-Za-z]+", "[A-Za-z]*"),
        (2, r"[^\r\n\p{L}", r"[^\p{L}".trim()),
        (2, r"\p{P}\p{S}]?", r"\p{P}]?"),
        (2, r"\p{P}\p{S}]?", r"\p{P}\p{S}\p{Cc}]?"),
        (2, r"[\p{L}\p{M}]+", r"[\p{L}\p{P}]+"),
        (2, r"[\p{L}\p{M}]+", r"[\p{Lu}\p{M}]+"),
        (2, "[\r\n]*", "[\r\n/]*"),
        (2, r"|\s+(?!", r"|\s+$|\s+(?!"),
        (2, r"|\s+(?!\S)|\s+", ""),
    ] {
        let mut patterns = DEEPSEEK.map(str::to_owned);
        let part = part.replace(r"\r\n", "\r\n");
        assert!(patterns[step].contains(&part), "{part}");
        patterns[step] = patterns[step].replacen(&part, other, 1);
        let engine = engine(patterns.each_ref().map(String::as_str), &|_| {});
        assert_eq!(engine, "table", "{part} as {other}");
    }
}

#[test]
fn examples() {
    let split = |text: &str| {
        let mut spans = Vec::new();
        TWINS[0].lexer.split(text, |span| spans.push(String::from_utf8_lossy(span).into_owned()));
        spans.join("|")
    };
    assert_eq!(split("a(b (b ((b 'tis\u{e9}s"), "a|(b| (|b| ((|b| '|tis\u{e9}s");
    assert_eq!(split("(bc\u{e9}f (\u{e9}"), "(bc|\u{e9}f| (|\u{e9}");
    assert_eq!(split("x  1234  y\n  5!\n\n!"), "x|  |123|4| | y|\n|  |5|!\n\n|!");
    assert_eq!(
        split("  \u{4e2d}\u{6587}a \u{30a2}\u{30fb}\u{30fb}\u{30a4}\n"),
        "  |\u{4e2d}\u{6587}|a| |\u{30a2}|\u{30fb}\u{30fb}|\u{30a4}|\n"
    );
    assert_eq!(split("\0\0a\0\0 a\0b"), "\0|\0a|\0\0| a|\0b");
}

#[test]
fn every_character_is_split_as_by_the_steps() {
    let mut text = String::new();
    for one in '\0'..=char::MAX {
        text.extend([one, ' ', one, 'a', one, '(', one, '\u{4e2d}', one, '\n', one, 'b']);
        if text.len() > 1 << 14 || one == char::MAX {
            check(&TWINS[0], &text);
            text.clear();
        }
    }
}

/// All texts of up to four characters of different kinds.
#[test]
fn short_texts_are_split_as_by_the_steps() {
    let characters = [
        ' ', '\n', '\t', 'a', '\u{e9}', '1', '!', '\u{301}', '\u{3000}', '\u{4e2d}', '\u{30fb}',
        '\u{3040}', '\0', '\u{3001}',
    ];
    let mut texts = vec![String::new()];
    for length in 0..4 {
        let shorter = texts.iter().filter(|text| text.chars().count() == length);
        let longer = shorter.flat_map(|text| characters.map(|end| format!("{text}{end}")));
        texts.extend(longer.collect::<Vec<_>>());
    }
    for text in &texts {
        check(&TWINS[0], text);
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
        "!",
        "!a",
        "!a\u{e9}",
        "1",
        "\u{301}",
        " \u{3000}",
        "\u{4e2d}",
        "\u{30fb}",
        "\0",
        "\u{3040}",
        "\0a",
        "\u{4e2d}a",
    ] {
        let text = run.repeat(1 << 20);
        let Twins { lexer, scanners, .. } = &TWINS[0];
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

/// Pieces with a decision, delimited by bars.
const PIECES: [&str; 5] = [
    "a|s|Word|Abcdefgh|\u{e9}|\u{17f}|\u{212a}|\u{4e2d}\u{6587}|\u{9fa6}|\u{3042}\u{3099}|\u{30fc}",
    "\u{30fb}|\u{30a0}|\u{3040}|\u{3098}|\u{309b}|\u{3001}|\u{3000}|\u{3400}|\u{ac00}|\u{10400}",
    "'|(|((|_a|!|/|...|=====\n|{\n|//\r\n/|\u{a1}|\u{2019}s|\u{1f468}\u{200d}\u{1f4bb}|\u{1f600}",
    " |  |\t|\n|\r|\r\n|\u{b}|\u{c}|\u{1c}|\u{85}|\u{a0}|\u{2003}|\u{200b}|\u{2028}|\u{feff}|\0|\u{e000}",
    "0|12|12345|\u{bd}|\u{2167}|\u{b2}|\u{663}|\u{301}|\u{94d}|\u{fe0f}|\u{345}|\u{10ffff}",
];

fn text() -> impl Strategy<Value = String> {
    let pieces = PIECES.iter().flat_map(|line| line.split('|')).collect::<Vec<_>>();
    let piece = prop_oneof![
        9 => prop::sample::select(pieces).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    let times = prop_oneof![30 => Just(1), 2 => 2..71_usize, 1 => 250..260_usize];
    prop::collection::vec((piece, times), 0..30)
        .prop_map(|pieces| pieces.into_iter().map(|(piece, times)| piece.repeat(times)).collect())
}

/// Every offset of every piece in a block, after a letter, a sign, white space, and borders.
#[test]
fn the_ends_of_blocks_do_not_matter() {
    let pieces: Vec<_> = PIECES.iter().flat_map(|line| line.split('|')).collect();
    for before in ["x", "!", " ", "\n", "\u{4e2d}", "1"] {
        for offset in 50..66 {
            let ends = ["", "x", "  ", "\n", "\u{4e2d}", "(x\u{e9}"];
            let tails =
                pieces.iter().flat_map(|piece| ends.map(|end| format!("{piece}(s{piece}{end}")));
            for tail in tails {
                let before = before.repeat(offset / before.len());
                let start = "x".repeat(offset % 3);
                check(&TWINS[offset % TWINS.len()], &format!("{start}{before}{tail}"));
            }
        }
    }
}

proptest! {
    #[test]
    fn text_is_split_as_by_the_steps(text in text()) {
        TWINS.iter().for_each(|twins| check(twins, &text));
    }
}
