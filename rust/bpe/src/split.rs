//! Documents to spans, by a pattern. Takes any bytes, gives slices of them that join to the document.
//! Does not count, and knows no ids.

use std::sync::Arc;

use crate::Error;
use crate::automaton::Automaton;
use crate::error::GaveUp;

/// Version of the Unicode tables that `\p{L}`, `\s` and case folding come from. Other tables cut
/// other spans, so it belongs into the key of everything that is made with a pattern.
pub const UNICODE_VERSION: &str = "16.0.0";

/// Steps back that one search may take. A hostile pattern needs a bound (this one is seconds); a
/// search for the next match in a long document may honestly take a few per byte.
const BACKTRACK_LIMIT: usize = 200_000_000;

/// What a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The pattern matched it.
    Match,
    /// Text between two matches, as long as possible.
    Gap,
    /// One byte that is not part of valid UTF-8.
    InvalidByte,
}

/// What to do with text that the pattern does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapRule {
    /// It becomes spans of its own.
    Spans,
    /// It is an error.
    Refuse,
}

/// A compiled pattern. A clone shares the tables but not the memory a search works in: give each
/// thread its own clone.
#[derive(Debug, Clone)]
pub struct Splitter {
    regex: fancy_regex::Regex,
    automaton: Option<Arc<Automaton>>,
    gaps: GapRule,
}

/// Where in a document splitting ended early, and why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stuck {
    offset: usize,
    reason: GaveUp,
}

impl Stuck {
    pub(crate) fn in_document(self, document: usize) -> Error {
        Error::Split { document, offset: self.offset, reason: self.reason }
    }
}

impl Splitter {
    /// Compiles `pattern`.
    ///
    /// # Errors
    ///
    /// The pattern is not a regular expression.
    pub fn new(pattern: &str, gaps: GapRule) -> Result<Self, Error> {
        let regex = fancy_regex::RegexBuilder::new(pattern)
            .backtrack_limit(BACKTRACK_LIMIT)
            .build()
            .map_err(|error| Error::Pattern { reason: error.to_string() })?;
        Ok(Self { regex, automaton: Automaton::of(pattern), gaps })
    }

    /// The pattern as it was given.
    pub fn pattern(&self) -> &str {
        self.regex.as_str()
    }

    /// Calls `visit` with each span of `document`, from left to right. Spans are never empty.
    ///
    /// Each maximal run of valid UTF-8 is split by itself, as if the document were that run.
    ///
    /// # Errors
    ///
    /// The regex engine gave up, or a gap that is refused; the document is called document 0.
    pub fn split<'d>(
        &self,
        document: &'d [u8],
        visit: impl FnMut(&'d [u8], Kind),
    ) -> Result<(), Error> {
        self.visit(document, visit).map_err(|stuck| stuck.in_document(0))
    }

    pub(crate) fn visit<'d>(
        &self,
        document: &'d [u8],
        mut visit: impl FnMut(&'d [u8], Kind),
    ) -> Result<(), Stuck> {
        let mut start = 0;
        for chunk in document.utf8_chunks() {
            self.visit_text(chunk.valid(), &mut visit)
                .map_err(|stuck| Stuck { offset: start + stuck.offset, ..stuck })?;
            chunk.invalid().chunks(1).for_each(|byte| visit(byte, Kind::InvalidByte));
            start += chunk.valid().len() + chunk.invalid().len();
        }
        Ok(())
    }

    fn visit_text<'d>(
        &self,
        text: &'d str,
        visit: &mut impl FnMut(&'d [u8], Kind),
    ) -> Result<(), Stuck> {
        let mut done = 0;
        let mut position = 0;
        while let Some((start, end)) = self.find(text, position)? {
            if start == end {
                position = next_character(text, end);
                continue;
            }
            self.visit_gap(text, done, start, visit)?;
            visit(&text.as_bytes()[start..end], Kind::Match);
            done = end;
            position = end;
        }
        self.visit_gap(text, done, text.len(), visit)
    }

    fn visit_gap<'d>(
        &self,
        text: &'d str,
        start: usize,
        end: usize,
        visit: &mut impl FnMut(&'d [u8], Kind),
    ) -> Result<(), Stuck> {
        if start == end {
            return Ok(());
        }
        if self.gaps == GapRule::Refuse {
            return Err(Stuck { offset: start, reason: GaveUp::Gap });
        }
        visit(&text.as_bytes()[start..end], Kind::Gap);
        Ok(())
    }

    /// The next match at or after `from`.
    #[inline]
    fn find(&self, text: &str, from: usize) -> Result<Option<(usize, usize)>, Stuck> {
        let quick = self.automaton.as_ref().and_then(|automaton| automaton.match_at(text, from));
        match quick {
            Some(end) => Ok(Some((from, end))),
            None if from >= text.len() => Ok(None),
            None => self.search(text, from),
        }
    }

    fn search(&self, text: &str, from: usize) -> Result<Option<(usize, usize)>, Stuck> {
        match self.regex.find_from_pos(text, from) {
            Ok(found) => Ok(found.map(|found| (found.start(), found.end()))),
            Err(error) => Err(Stuck { offset: from, reason: gave_up(&error) }),
        }
    }
}

/// Start of the character after the one at `position`: past the end at the end of the text.
fn next_character(text: &str, position: usize) -> usize {
    position + text[position..].chars().next().map_or(1, char::len_utf8)
}

fn gave_up(error: &fancy_regex::Error) -> GaveUp {
    match error {
        fancy_regex::Error::RuntimeError(fancy_regex::RuntimeError::StackOverflow) => GaveUp::Stack,
        _ => GaveUp::Backtracking,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use regex_syntax::hir::{Class, HirKind};

    use super::*;
    use crate::naive;

    const NANOCHAT: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
    const CL100K: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";
    const R50K: &str =
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s";
    const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

    /// Patterns that an automaton takes, and such that it does not; with gaps, and empty matches.
    const PATTERNS: [&str; 12] = [
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
    fn the_usual_patterns_have_an_automaton() {
        for pattern in [NANOCHAT, CL100K, R50K, O200K] {
            assert!(Automaton::of(pattern).is_some(), "{pattern}");
        }
    }

    #[test]
    fn nanochat_spans_are_those_of_nanochat() {
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
    fn refused_gaps_name_their_place() {
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

    #[test]
    fn a_bad_pattern_is_an_error() {
        assert!(matches!(Splitter::new("(", GapRule::Spans), Err(Error::Pattern { .. })));
    }

    fn check_class(class: &str, expected: usize) {
        let hir = regex_syntax::parse(class).unwrap();
        let HirKind::Class(Class::Unicode(class)) = hir.kind() else { panic!("not a class") };
        let number: usize =
            class.ranges().iter().map(regex_syntax::hir::ClassUnicodeRange::len).sum();
        assert_eq!(number, expected);
    }

    #[test]
    fn unicode_tables_are_version_16() {
        assert_eq!(UNICODE_VERSION, "16.0.0");
        check_class(r"\p{L}", 141_028);
        check_class(r"\p{N}", 1_911);
        check_class(r"\s", 25);
    }

    /// Text in which the patterns have something to decide.
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

    /// Compiled once: that takes longer than a thousand cases.
    static TWINS: LazyLock<Vec<Twins>> = LazyLock::new(|| {
        let twins = |pattern: &&str| {
            let splitter = Splitter::new(pattern, GapRule::Spans).unwrap();
            (splitter, fancy_regex::Regex::new(pattern).unwrap())
        };
        PATTERNS.iter().map(twins).collect()
    });

    proptest! {
        #[test]
        fn spans_are_those_of_the_regex_engine(document in bytes()) {
            for (splitter, regex) in TWINS.iter() {
                let mut found = Vec::new();
                splitter.split(&document, |span, _| found.push(span.to_vec())).unwrap();
                prop_assert_eq!(&found, &naive::split(regex, &document), "{}", regex.as_str());
                prop_assert_eq!(found.concat(), &document[..]);
            }
        }
    }
}
