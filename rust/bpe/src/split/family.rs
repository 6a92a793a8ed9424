//! Recognizes split patterns of GPT's family: from a pattern's plain form it returns the sets of
//! characters and the options of a lexer, or nothing, so that another engine is used. The decision
//! depends on what the alternatives match, not on their spelling.
//!
//! The alternatives of the family, in this order; those in brackets are optional:
//!
//! ```text
//! ['words]              a finite list that begins with an apostrophe, as '(?i:[sdmt]|ll|ve|re)
//! [prefix?] letters+ [words?]    among ASCII exactly A to Z and a to z
//! [space?] digits{1,n}  or without a limit
//! [space?] signs+ [tail*]
//! [\s+$]
//! [\s*newline]          or \s*newline+, which is the same: both end after the last one
//! \s+(?!\S)|\s+         or \s
//! ```
//!
//! The words are in one of the two positions. If case matters, the letters are two alternatives,
//! and upper and lower can share characters without case (together they are the letters):
//!
//! ```text
//! [prefix?] upper* lower+ [words?]
//! [prefix?] upper+ lower* [words?]
//! ```
//!
//! Together they match every character, so there are no gaps. `pieces` recognizes sequences of steps.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

use crate::split::family::alternatives::{
    contractions, letters, spaced_digits, spaced_signs, steps, white_space,
};
use crate::split::grammar::Grammar;

mod alternatives;
mod pieces;

/// The longest contraction in bytes whose separate form is recognized; usual ones have three.
const MAX_CONTRACTION: usize = 32;

/// A member of the family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Family {
    /// Each begins with an apostrophe; the first that matches is used.
    pub(crate) contractions: Vec<Vec<u8>>,
    /// The same for contractions that belong to the preceding letters instead of being spans; one
    /// of the two lists is empty.
    pub(crate) attached: Vec<Vec<u8>>,
    /// Characters of which one can precede letters; can be empty, like all sets except letters and
    /// digits.
    pub(crate) prefix: ClassUnicode,
    pub(crate) letters: ClassUnicode,
    /// Characters that can begin a word if case matters; otherwise empty, like `lower`.
    pub(crate) upper: ClassUnicode,
    /// Characters that can follow, up to the end of the word.
    pub(crate) lower: ClassUnicode,
    /// Whether a space can precede digits.
    pub(crate) spaced_digits: bool,
    pub(crate) digits: ClassUnicode,
    pub(crate) max_digits: u32,
    /// Whether a space can precede signs.
    pub(crate) spaced_signs: bool,
    pub(crate) signs: ClassUnicode,
    /// Characters that can follow signs.
    pub(crate) tail: ClassUnicode,
    /// Whether white space at the end of the text is one span before all other rules.
    pub(crate) text_end: bool,
    /// White space ends after the last of these.
    pub(crate) newlines: ClassUnicode,
    pub(crate) spaces: ClassUnicode,
    /// For a sequence of steps, see `pieces`: characters whose runs are pieces, as groups of digits
    /// are. A sign can then precede ASCII letters only.
    pub(crate) apart: Option<ClassUnicode>,
}

impl Family {
    /// The member that matches like `grammar`, if there is one.
    pub(crate) fn of(grammar: &Grammar) -> Option<Self> {
        let parsed = grammar.alternatives.iter().map(|text| regex_syntax::parse(text).ok());
        let hirs = parsed.collect::<Option<Vec<_>>>().filter(|_| grammar.whitespace_rule)?;
        let lists: Vec<_> = hirs.iter().map_while(contractions).collect();
        let rest = hirs[lists.len()..].iter().map(steps).collect::<Option<Vec<_>>>()?;
        let (letters, rest) = letters(&rest)?;
        let [digits, signs, white @ ..] = rest else { return None };
        let spaces = set(r"\s")?;
        let (spaced_digits, digits, max_digits) = spaced_digits(digits)?;
        let (spaced_signs, signs, tail) = spaced_signs(signs)?;
        let (text_end, newlines) = white_space(white, &spaces)?;
        let family = Self {
            contractions: lists.concat(),
            attached: letters.words,
            prefix: letters.prefix,
            letters: letters.all,
            upper: letters.upper,
            lower: letters.lower,
            spaced_digits,
            digits,
            max_digits,
            spaced_signs,
            signs,
            tail,
            text_end,
            newlines,
            spaces,
            apart: None,
        };
        let one_place = family.contractions.is_empty() || family.attached.is_empty();
        (one_place && family.has_ascii_letters() && family.others().ranges().is_empty())
            .then_some(family)
    }

    /// The characters whose neighbors do not determine whether a span starts there: those of
    /// several kinds (letter, digit, sign or white space) or of none, those that can precede letters
    /// or follow signs and are neither a plain sign nor white space, and letters that are both upper
    /// and lower.
    pub(crate) fn hard(&self) -> ClassUnicode {
        let kinds = [&self.letters, &self.digits, &self.signs, &self.spaces];
        let pairs = (1..4).flat_map(|at| kinds[..at].iter().map(move |kind| (*kind, kinds[at])));
        let others = [
            (&self.upper, &self.lower),
            (&self.prefix, &self.letters),
            (&self.prefix, &self.digits),
            (&self.prefix, &self.newlines),
            (&self.tail, &self.letters),
            (&self.tail, &self.digits),
        ];
        let mut hard = self.others();
        for (one, other) in pairs.chain(others) {
            hard.union(&common(one, other));
        }
        hard
    }

    /// Whether no ASCII character is hard, and contractions consist of an apostrophe, which is a
    /// sign, and letters: then neighbors determine the starts of spans in most text.
    pub(crate) fn is_mostly_easy(&self) -> bool {
        is_apart(&self.hard(), &ascii())
            && is_within(&only('\''), &self.signs)
            && [&self.contractions, &self.attached]
                .iter()
                .all(|words| words.iter().all(|word| self.is_quoted_letters(word)))
    }

    fn is_quoted_letters(&self, word: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(word) else { return false };
        let letter = |one: char| is_within(&only(one), &self.letters);
        word.len() <= MAX_CONTRACTION && text.chars().skip(1).all(letter)
    }

    fn has_ascii_letters(&self) -> bool {
        Some(common(&ascii(), &self.letters)) == set("[A-Za-z]")
    }

    /// The characters that are of no kind.
    fn others(&self) -> ClassUnicode {
        let mut others = self.letters.clone();
        for set in [&self.digits, &self.signs, &self.spaces] {
            others.union(set);
        }
        others.negate();
        others
    }
}

fn only(character: char) -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new(character, character)])
}

fn ascii() -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new('\0', '\x7f')])
}

fn common(one: &ClassUnicode, other: &ClassUnicode) -> ClassUnicode {
    let mut both = one.clone();
    both.intersect(other);
    both
}

fn is_apart(one: &ClassUnicode, other: &ClassUnicode) -> bool {
    common(one, other) == ClassUnicode::empty()
}

fn is_within(inner: &ClassUnicode, outer: &ClassUnicode) -> bool {
    common(inner, outer) == *inner
}

/// A set by its spelling.
pub(crate) fn set(class: &str) -> Option<ClassUnicode> {
    match regex_syntax::parse(class).ok()?.kind() {
        HirKind::Class(Class::Unicode(set)) => Some(set.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
