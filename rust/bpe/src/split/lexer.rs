//! Splits text by patterns of GPT's family, with a few loops instead of a table lookup per byte.
//! The text is valid UTF-8; every span is found without gaps and errors. Linear: no byte is read
//! more than six times.

use regex_syntax::hir::ClassUnicode;

use crate::split::classes::{Classes, Sets};
use crate::split::family::Family;
use crate::split::starts::{Form, Rules};

mod cased;
mod pieces;
mod superwords;

pub(crate) const LETTER: Sets = 1;
pub(crate) const DIGIT: Sets = 1 << 1;
pub(crate) const SIGN: Sets = 1 << 2;
pub(crate) const SPACE: Sets = 1 << 3;
pub(crate) const NEWLINE: Sets = 1 << 4;
pub(crate) const PREFIX: Sets = 1 << 5;
pub(crate) const TAIL: Sets = 1 << 6;
pub(crate) const UPPER: Sets = 1 << 7;
pub(crate) const LOWER: Sets = 1 << 8;
/// The characters of `Family::hard`.
pub(crate) const HARD: Sets = 1 << 9;
pub(crate) const APART: Sets = 1 << 10;

/// A member of the family with its tables.
#[derive(Debug)]
pub(crate) struct Lexer {
    pub(crate) classes: Classes,
    contractions: Vec<Vec<u8>>,
    pub(crate) rules: Rules,
    /// Whether the case of letters matters.
    cased: bool,
    pub(crate) max_digits: u32,
    pub(crate) text_end: bool,
    /// Characters before which white space is at the end of its piece.
    pub(crate) borders: Sets,
}

impl Lexer {
    /// Builds the tables of `family`, which takes 2 ms.
    pub(crate) fn new(family: Family) -> Self {
        let none = ClassUnicode::empty();
        let form = match &family.apart {
            Some(_) => Form::Pieces,
            None if family.attached.is_empty() => Form::Plain,
            None => Form::Attached,
        };
        let sets: [(Sets, &ClassUnicode); 11] = [
            (LETTER, &family.letters),
            (DIGIT, &family.digits),
            (SIGN, &family.signs),
            (SPACE, &family.spaces),
            (NEWLINE, &family.newlines),
            (PREFIX, &family.prefix),
            (TAIL, &family.tail),
            (UPPER, &family.upper),
            (LOWER, &family.lower),
            (HARD, &family.hard()),
            (APART, family.apart.as_ref().unwrap_or(&none)),
        ];
        Self {
            classes: Classes::new(&sets),
            rules: Rules {
                spaced_digits: family.spaced_digits,
                spaced_signs: family.spaced_signs,
                form,
            },
            cased: [&family.upper, &family.lower].iter().any(|set| !set.ranges().is_empty()),
            contractions: [family.contractions, family.attached].concat(),
            max_digits: family.max_digits,
            text_end: family.text_end,
            borders: if form == Form::Pieces { APART | DIGIT } else { 0 },
        }
    }

    /// Calls `visit` with each span of `text`; their concatenation is the text.
    #[inline]
    pub(crate) fn split<'d>(&self, text: &'d str, mut visit: impl FnMut(&'d [u8])) {
        let text = text.as_bytes();
        let mut start = 0;
        while start < text.len() {
            let end = self.end(text, start);
            visit(&text[start..end]);
            start = end;
        }
    }

    /// The end of the span that begins at `start`, by the alternatives in order.
    #[inline]
    pub(crate) fn end(&self, text: &[u8], start: usize) -> usize {
        match self.rules.form {
            Form::Pieces => return self.end_in_piece(text, start),
            Form::Superwords => return self.end_of_words(text, start),
            Form::Plain | Form::Attached => {}
        }
        if text[start] == b'\''
            && self.rules.form == Form::Plain
            && let Some(end) = self.contraction(text, start)
        {
            return end;
        }
        if let Some(end) = self.word(text, start) {
            let attached = self.rules.form == Form::Attached && text.get(end) == Some(&b'\'');
            return attached.then(|| self.contraction(text, end)).flatten().unwrap_or(end);
        }
        let (first, second_start) = self.classes.at(text, start);
        let (second, third_start) = self.classes.at(text, second_start);
        let space = text[start] == b' ';
        if space && self.rules.spaced_digits && second & DIGIT != 0 {
            self.digits(text, second_start)
        } else if first & DIGIT != 0 {
            self.digits(text, start)
        } else if space && self.rules.spaced_signs && second & SIGN != 0 {
            self.signs(text, third_start)
        } else if first & SIGN != 0 {
            self.signs(text, second_start)
        } else {
            self.white_space(text, start)
        }
    }

    /// The end of the contraction that begins at `start`, if any.
    pub(crate) fn contraction(&self, text: &[u8], start: usize) -> Option<usize> {
        let fits = self.contractions.iter().find(|word| text[start..].starts_with(word));
        fits.map(|word| start + word.len())
    }

    /// The end of the letters of the word that begins at `start`, if any.
    #[inline]
    fn word(&self, text: &[u8], start: usize) -> Option<usize> {
        if self.cased {
            return cased::letters_end(&self.classes, text, start);
        }
        let (first, second_start) = self.classes.at(text, start);
        if first & LETTER != 0 {
            return Some(self.letters(text, second_start));
        }
        let (second, third_start) = self.classes.at(text, second_start);
        (first & PREFIX != 0 && second & LETTER != 0).then(|| self.letters(text, third_start))
    }

    /// Reads ASCII letters eight at a time, others one by one.
    #[inline]
    fn letters(&self, text: &[u8], mut at: usize) -> usize {
        loop {
            at = ascii_letters(text, at);
            if text.get(at).is_none_or(u8::is_ascii) {
                return at;
            }
            let end = self.classes.run(text, at, LETTER);
            if end == at {
                return at;
            }
            at = end;
        }
    }

    #[inline]
    fn digits(&self, text: &[u8], mut at: usize) -> usize {
        for _ in 0..self.max_digits {
            let (classes, next) = self.classes.at(text, at);
            if classes & DIGIT == 0 {
                break;
            }
            at = next;
        }
        at
    }

    #[inline]
    fn signs(&self, text: &[u8], at: usize) -> usize {
        let end = self.classes.run(text, at, SIGN);
        self.classes.run(text, end, TAIL)
    }

    /// White space up to its last newline; without a newline all of it, except the last of several
    /// characters if other text follows.
    fn white_space(&self, text: &[u8], start: usize) -> usize {
        let (mut last, mut end, mut newline) = (start, start, start);
        let after = loop {
            while text.get(end..).and_then(|rest| rest.first_chunk()) == Some(b"        ") {
                (last, end) = (end + 7, end + 8);
            }
            let (classes, next) = self.classes.at(text, end);
            if classes & SPACE == 0 {
                break classes;
            }
            (last, end) = (end, next);
            if classes & NEWLINE != 0 {
                newline = end;
            }
        };
        let at_text_end = end == text.len() || after & self.borders != 0;
        if newline > start && !(self.text_end && at_text_end) {
            newline
        } else if at_text_end || last == start {
            end
        } else {
            last
        }
    }
}

/// The end of the letters A to Z and a to z that begin at `at`.
#[inline]
fn ascii_letters(text: &[u8], mut at: usize) -> usize {
    while let Some(eight) = text.get(at..).and_then(|rest| rest.first_chunk()) {
        let letters = leading_letters(u64::from_le_bytes(*eight));
        at += letters;
        if letters < 8 {
            return at;
        }
    }
    while text.get(at).is_some_and(u8::is_ascii_alphabetic) {
        at += 1;
    }
    at
}

/// The number of ASCII letters at the beginning of eight bytes, from the lowest.
#[inline]
fn leading_letters(eight: u64) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    let small = (eight | (0x20 * ONES)) & !HIGH;
    let from_a = small + (0x80 - 0x61) * ONES;
    let past_z = small + (0x80 - 0x7b) * ONES;
    let others = !(from_a & !past_z & !eight) & HIGH;
    (others.trailing_zeros() / 8) as usize
}

#[cfg(test)]
mod tests;
