//! Spans that are runs of words, for tokens of several words ("superwords"). The pattern is
//! recognized by its spelling, with one to three digits; its alternatives are numbers, two or more
//! signs, a run of units, and white space:
//!
//! ```text
//! digits{1,n}
//! [space?] signs{2,} [tail*]
//! unit{1,256}      [space?] letters{1,16}, or [space?] and a single sign, or a space before a digit
//! \s*newline|\s+(?!\S)|\s+
//! ```
//!
//! Every character is in exactly one of the sets. A run is atomic, and a unit is not matched in
//! another way later, because the rest of the alternative cannot fail.

use regex_syntax::hir::ClassUnicode;

use super::{DIGIT, LETTER, Lexer, SIGN, ascii_letters, leading_letters};
use crate::split::family::{Family, set};
use crate::split::starts::Form;

/// The pattern, without the number of digits.
const PATTERN: [&str; 2] = [
    r"\p{N}{1,",
    r"}| ?[^\s\p{L}\p{M}\p{N}]{2,}+[\r\n/]*|(?>(?: ?(?:[\p{L}\p{M}]{1,16}|[^\s\p{L}\p{M}\p{N}](?![^\s\p{L}\p{M}\p{N}]))| (?=\p{N})){1,256})|\s*[\r\n]|\s+(?!\S)|\s+",
];

/// Limit of the letters of a unit.
const MAX_LETTERS: usize = 16;

/// Limit of the units of a span.
const MAX_UNITS: usize = 256;

impl Lexer {
    /// The lexer of `pattern`, if it is one of superwords.
    pub(crate) fn of_superwords(pattern: &str) -> Option<Self> {
        let digits = pattern.strip_prefix(PATTERN[0])?.strip_suffix(PATTERN[1])?;
        let max_digits = ["1", "2", "3"].iter().zip(1..).find(|(own, _)| **own == digits)?.1;
        let none = ClassUnicode::empty;
        let family = Family {
            contractions: Vec::new(),
            attached: Vec::new(),
            prefix: none(),
            letters: set(r"[\p{L}\p{M}]")?,
            upper: none(),
            lower: none(),
            spaced_digits: false,
            digits: set(r"\p{N}")?,
            max_digits,
            spaced_signs: true,
            signs: set(r"[^\s\p{L}\p{M}\p{N}]")?,
            tail: set(r"[\r\n/]")?,
            text_end: false,
            newlines: set(r"[\r\n]")?,
            spaces: set(r"\s")?,
            apart: None,
        };
        let mut lexer = Self::new(family);
        lexer.rules.form = Form::Superwords;
        Some(lexer)
    }

    /// Calls `visit` with the end of each unit and of each other span of `text`, and with whether a
    /// span ends there.
    #[inline]
    pub(crate) fn visit_units(&self, text: &[u8], mut visit: impl FnMut(usize, bool)) {
        let mut start = 0;
        while start < text.len() {
            let end = self.end_of_units(text, start, |end| visit(end, false));
            start = if end > start { end } else { self.end_without_units(text, start) };
            visit(start, true);
        }
    }

    /// The end of the span that begins at `start`.
    #[inline]
    pub(super) fn end_of_words(&self, text: &[u8], start: usize) -> usize {
        let end = self.end_of_units(text, start, |_| {});
        if end > start { end } else { self.end_without_units(text, start) }
    }

    /// The end of the run of units that begins at `start`. Calls `between` with the end of each unit
    /// but the last.
    #[inline]
    fn end_of_units(&self, text: &[u8], start: usize, mut between: impl FnMut(usize)) -> usize {
        let mut end = start;
        for _ in 0..MAX_UNITS {
            let Some(next) = self.unit(text, end) else { break };
            if end > start {
                between(end);
            }
            end = next;
        }
        end
    }

    /// The end of the span that begins at `start`, where no unit begins.
    fn end_without_units(&self, text: &[u8], start: usize) -> usize {
        let space = text[start] == b' ';
        let (classes, next) = self.classes.at(text, start + usize::from(space));
        if classes & SIGN != 0 {
            self.signs(text, next)
        } else if classes & DIGIT != 0 && !space {
            self.digits(text, start)
        } else {
            self.white_space(text, start)
        }
    }

    /// The end of the unit that begins at `start`, if any.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one call per word takes a tenth of encoding")]
    fn unit(&self, text: &[u8], start: usize) -> Option<usize> {
        let space = text.get(start) == Some(&b' ');
        let first = start + usize::from(space);
        let (classes, next) = self.classes.at(text, first);
        if classes & LETTER != 0 {
            return Some(self.few_letters(text, first));
        }
        if classes & SIGN != 0 {
            return (self.classes.at(text, next).0 & SIGN == 0).then_some(next);
        }
        (space && classes & DIGIT != 0).then_some(first)
    }

    /// The end of at most `MAX_LETTERS` letters that begin at `at`: ASCII letters eight at a time,
    /// others one by one.
    #[inline]
    fn few_letters(&self, text: &[u8], at: usize) -> usize {
        if let Some(eight) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let letters = leading_letters(u64::from_le_bytes(*eight));
            if eight.get(letters).is_some_and(u8::is_ascii) {
                return at + letters;
            }
        }
        self.more_letters(text, at)
    }

    /// The same for any letters.
    #[inline(never)]
    fn more_letters(&self, text: &[u8], mut at: usize) -> usize {
        let mut left = MAX_LETTERS;
        loop {
            let limit = text.len().min(at + left);
            let end = ascii_letters(&text[..limit], at);
            left -= end - at;
            at = end;
            if left == 0 || text.get(at).is_none_or(u8::is_ascii) {
                return at;
            }
            let (classes, length) = self.classes.wide_at(text, at);
            if classes & LETTER == 0 {
                return at;
            }
            left -= 1;
            at += length;
            if left == 0 {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests;
