//! Splitting: tables of examples, and the comparison with the regex engine.

use std::sync::LazyLock;

use proptest::prelude::*;
use regex_syntax::hir::{Class, HirKind};

use super::*;
use crate::reference::{self, SUPERWORDS};

const NANOCHAT: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const CL100K: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";
const R50K: &str =
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s";
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Patterns with and without an automaton; with gaps, and empty matches.
const PATTERNS: [&str; 13] = [
    NANOCHAT,
    CL100K,
    R50K,
    O200K,
    r"\p{L}+",
    r"a*|\s+(?!\S)|\s+",
    r"(?=a)|\s+",
    r"a+?b|a$",
    r"(a)\1|\w",
    r"a*",
    "",
    r"(?i:[SK])+|\d++\D",
    SUPERWORDS,
];

fn spans(pattern: &str, document: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let mut spans = Vec::new();
    let splitter = Splitter::new(pattern, GapRule::Spans)?;
    splitter.split(document, |span, _| spans.push(span.to_vec()))?;
    Ok(spans)
}

fn check(pattern: &str, document: &str, expected: &str) {
    let joined = spans(pattern, document.as_bytes()).unwrap().join(&b'|');
    assert_eq!(String::from_utf8_lossy(&joined), expected, "{document:?} by {pattern}");
}

#[test]
fn a_pattern_has_the_fastest_engine_that_supports_it() {
    let engines = PATTERNS.map(|pattern| Splitter::new(pattern, GapRule::Spans).unwrap().engine());
    assert_eq!(engines[..5], ["lexer", "lexer", "lexer", "lexer", "table"]);
    assert_eq!(engines[5..9], ["table", "regex", "table", "regex"]);
    assert_eq!(engines[12], "lexer");
}

#[test]
fn nanochat_spans_equal_those_of_nanochat() {
    check(NANOCHAT, "", "");
    check(NANOCHAT, "Hello world's 12345!\n", "Hello| world|'s| |12|34|5|!\n");
    check(NANOCHAT, "x\n    y", "x|\n|   | y");
    check(NANOCHAT, "a \n  ", "a| \n|  ");
    check(NANOCHAT, "\n\n\n", "\n\n\n");
    check(NANOCHAT, "it'\u{17f}", "it|'\u{17f}");
    check(NANOCHAT, "e\u{301}clair", "e|\u{301}clair");
    check(NANOCHAT, "a\u{3000}\u{3000}b", "a|\u{3000}|\u{3000}b");
    check(NANOCHAT, "\u{1f468}\u{200d}\u{1f4bb} ok", "\u{1f468}\u{200d}\u{1f4bb}| ok");
    check(CL100K, "a \n  ", "a| \n  ");
}

#[test]
fn gaps_are_maximal_and_empty_matches_lose_nothing() {
    check("b+", "aabbaa", "aa|bb|aa");
    check("", "ab\u{e9}", "ab\u{e9}");
    check("a*", "baac", "b|aa|c");
    check("(?=a)|b", "caba", "ca|b|a");
}

#[test]
fn every_invalid_byte_is_a_span() {
    let document = b"ab\xff\xe2\x82 \xf0\x9f\x98 c";
    let expected: [&[u8]; 9] =
        [b"ab", b"\xff", b"\xe2", b"\x82", b" ", b"\xf0", b"\x9f", b"\x98", b" c"];
    assert_eq!(spans(NANOCHAT, document).unwrap(), expected);
}

#[test]
fn refused_gaps_name_their_position() {
    let splitter = Splitter::new("a+", GapRule::Refuse).unwrap();
    assert_eq!(splitter.split(b"aa", |_, _| {}), Ok(()));
    assert_eq!(splitter.split(b"a\xffa", |_, _| {}), Ok(()));
    let expected = Error::Split { document: 0, offset: 4, reason: GaveUp::Gap };
    assert_eq!(splitter.split(b"aa\xffaba", |_, _| {}), Err(expected));
}

#[test]
fn long_white_space_is_split_or_is_an_error() {
    let spaces = " ".repeat(1_500_000) + "x";
    let found = spans(NANOCHAT, spaces.as_bytes()).unwrap();
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [1_499_999, 2]);
    let unusual = r"(a)\1|\s+(?!\S)|\s+";
    let expected = Error::Split { document: 0, offset: 0, reason: GaveUp::Stack };
    assert_eq!(spans(unusual, spaces.as_bytes()), Err(expected));
}

/// Every search of these patterns is short, but a document takes one for each character; the second
/// backtracks without reading the text.
#[test]
fn the_steps_of_a_document_are_limited() {
    for pattern in [r"(?:a?){20}a{20}(?=z)|\s+|\S", r"(?:\G|){25}b|a"] {
        for document in
            [b"a".repeat(4000), b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xff".repeat(99)]
        {
            let found = spans(pattern, &document).unwrap_err();
            let Error::Split { document: 0, reason: GaveUp::Backtracking, .. } = found else {
                panic!("{found:?}");
            };
        }
    }
}

#[test]
fn steps_are_for_each_byte_and_no_engine_but_the_last_takes_any() {
    let long = "ab c ".repeat(1 << 20);
    let pattern = r"(a)\1|(?:\w\B){0,9}\w|\s";
    assert_eq!(Splitter::new(pattern, GapRule::Spans).unwrap().engine(), "regex");
    assert_eq!(spans(pattern, long.as_bytes()).unwrap().len(), 4 << 20);
    for pattern in PATTERNS.iter().take(4).chain([&SUPERWORDS]) {
        let splitter = Splitter::new(pattern, GapRule::Spans).unwrap();
        let work = Work::none();
        assert!(splitter.visit_text("ab c \n 12", &work, &mut |_, _| {}).is_ok(), "{pattern}");
    }
}

#[test]
fn a_bad_pattern_is_an_error() {
    assert!(matches!(Splitter::new("(", GapRule::Spans), Err(Error::Pattern { .. })));
}

fn check_class(class: &str, expected: usize) {
    let hir = regex_syntax::parse(class).unwrap();
    let HirKind::Class(Class::Unicode(class)) = hir.kind() else { panic!("not a class") };
    let number: usize = class.ranges().iter().map(regex_syntax::hir::ClassUnicodeRange::len).sum();
    assert_eq!(number, expected);
}

#[test]
fn unicode_tables_are_version_16() {
    assert_eq!(UNICODE_VERSION, "16.0.0");
    check_class(r"\p{L}", 141_028);
    check_class(r"\p{N}", 1_911);
    check_class(r"\s", 25);
}

/// Text with decisions for the patterns.
fn text() -> impl Strategy<Value = String> {
    let characters = prop_oneof![
        8 => prop::sample::select(vec![
            'a', 'b', 's', 'L', ' ', '\n', '\r', '\t', '1', '2', '\'', '!', '/', '\u{17f}',
            '\u{e9}', '\u{301}', '\u{a0}', '\u{3000}', '\u{4e2d}', '\u{bd}', '\u{85}', '\u{1f600}',
        ]),
        1 => any::<char>(),
    ];
    prop::collection::vec(characters, 0..40).prop_map(String::from_iter)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => text().prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

type Twins = (Splitter, fancy_regex::Regex);

/// Compiled once, since compiling takes longer than a thousand cases.
static TWINS: LazyLock<Vec<Twins>> = LazyLock::new(|| {
    let twins = |pattern: &&str| {
        let splitter = Splitter::new(pattern, GapRule::Spans).unwrap();
        (splitter, fancy_regex::Regex::new(pattern).unwrap())
    };
    PATTERNS.iter().map(twins).collect()
});

proptest! {
    #[test]
    fn spans_equal_the_regex_engine(document in bytes()) {
        for (splitter, regex) in TWINS.iter() {
            let mut found = Vec::new();
            splitter.split(&document, |span, kind| found.push((span.to_vec(), kind))).unwrap();
            prop_assert_eq!(&found, &reference::split(regex, &document), "{}", regex.as_str());
            let joined: Vec<u8> = found.into_iter().flat_map(|(span, _)| span).collect();
            prop_assert_eq!(&joined, &document);
        }
    }
    #[test]
    fn boundaries_equal_those_of_the_spans_of_a_part(
        document in bytes(), start in 0_usize..50, most in 0_usize..50,
    ) {
        for (splitter, _) in TWINS.iter() {
            let mut all = vec![0];
            splitter.split(&document, |span, _| all.push(all[all.len() - 1] + span.len())).unwrap();
            let later = all.iter().copied().filter(|&end| end >= start);
            let first = later.clone().next();
            let expected = later.filter(|end| end - first.unwrap() <= most);
            let found = splitter.boundaries(&document, start, most).unwrap();
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}
