//! Whether a split pattern is of GPT's family, and which member. Takes a pattern's plain form, gives the
//! sets of characters and the choices that a lexer needs, or nothing: then another engine matches.
//! Judges what the alternatives match, not how they are spelled. Knows no text to split.
//!
//! The family, in this order; those in brackets may be absent:
//!
//! ```text
//! ['words]              a finite list that begins with an apostrophe, as '(?i:[sdmt]|ll|ve|re)
//! [prefix?] letters+    among ASCII exactly A to Z and a to z
//! [space?] digits{1,n}  or without a limit
//! [space?] signs+ [tail*]
//! [\s+$]
//! [\s*newline]          or \s*newline+, which is the same: both end after the last one
//! \s+(?!\S)|\s+         or \s
//! ```
//!
//! Together they match every character, so that there are no gaps.

use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look};

use crate::grammar::{Grammar, one_character};

/// Bytes of the longest contraction of which the separate form is known; those in use have three.
const MAX_CONTRACTION: usize = 32;

/// A member of the family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Family {
    /// Each begins with an apostrophe; the first that fits counts.
    pub(crate) contractions: Vec<Vec<u8>>,
    /// One of them may stand before letters; may be empty, like all sets but letters and digits.
    pub(crate) prefix: ClassUnicode,
    pub(crate) letters: ClassUnicode,
    /// Whether a space may stand before digits.
    pub(crate) spaced_digits: bool,
    pub(crate) digits: ClassUnicode,
    pub(crate) max_digits: u32,
    /// Whether a space may stand before signs.
    pub(crate) spaced_signs: bool,
    pub(crate) signs: ClassUnicode,
    /// What may follow signs.
    pub(crate) tail: ClassUnicode,
    /// Whether white space at the end of the text stays together before all else.
    pub(crate) text_end: bool,
    /// White space goes up to the last of these.
    pub(crate) newlines: ClassUnicode,
    pub(crate) spaces: ClassUnicode,
}

/// A part of an alternative.
enum Step {
    Repeat { of: ClassUnicode, min: u32, max: Option<u32> },
    TextEnd,
}

/// What may stand between the signs and the white-space rule.
enum White {
    TextEnd,
    Newlines(ClassUnicode),
}

impl Family {
    /// The member that matches what `grammar` does, if there is one.
    pub(crate) fn of(grammar: &Grammar) -> Option<Self> {
        let parsed = grammar.alternatives.iter().map(|text| regex_syntax::parse(text).ok());
        let hirs = parsed.collect::<Option<Vec<_>>>().filter(|_| grammar.whitespace_rule)?;
        let lists: Vec<_> = hirs.iter().map_while(contractions).collect();
        let rest = hirs[lists.len()..].iter().map(steps).collect::<Option<Vec<_>>>()?;
        let [letters, digits, signs, white @ ..] = rest.as_slice() else { return None };
        let spaces = set(r"\s")?;
        let (prefix, letters) = prefixed_letters(letters)?;
        let (spaced_digits, digits, max_digits) = spaced_digits(digits)?;
        let (spaced_signs, signs, tail) = spaced_signs(signs)?;
        let (text_end, newlines) = white_space(white, &spaces)?;
        let contractions = lists.concat();
        let family = Self {
            contractions,
            prefix,
            letters,
            spaced_digits,
            digits,
            max_digits,
            spaced_signs,
            signs,
            tail,
            text_end,
            newlines,
            spaces,
        };
        (family.has_ascii_letters() && family.is_total()).then_some(family)
    }

    /// Whether a character is of one kind (letter, digit, sign or white space) whatever stands before it,
    /// so that where spans start can be told from neighbours.
    pub(crate) fn is_separate(&self) -> bool {
        let kinds = [&self.letters, &self.digits, &self.signs, &self.spaces];
        let apart = (1..4).all(|at| kinds[..at].iter().all(|kind| is_apart(kind, kinds[at])));
        let mut loose = self.signs.clone();
        loose.union(&self.spaces);
        apart
            && is_within(&only('\''), &self.signs)
            && is_within(&self.tail, &loose)
            && is_within(&self.prefix, &loose)
            && is_apart(&self.prefix, &self.newlines)
            && self.contractions.iter().all(|word| self.is_quoted_letters(word))
    }

    fn is_quoted_letters(&self, word: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(word) else { return false };
        let letter = |one: char| is_within(&only(one), &self.letters);
        word.len() <= MAX_CONTRACTION && text.chars().skip(1).all(letter)
    }

    fn has_ascii_letters(&self) -> bool {
        let mut ascii = set(r"[\x00-\x7F]").unwrap_or_else(ClassUnicode::empty);
        ascii.intersect(&self.letters);
        Some(ascii) == set("[A-Za-z]")
    }

    fn is_total(&self) -> bool {
        let mut all = self.letters.clone();
        for set in [&self.digits, &self.signs, &self.spaces] {
            all.union(set);
        }
        all == ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)])
    }
}

/// All that `hir` matches, best first, if that is a short list of an apostrophe and something.
fn contractions(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    let found = Extractor::new().limit_class(64).extract(hir);
    let fits = |word: &&regex_syntax::hir::literal::Literal| {
        word.is_exact() && word.as_bytes().starts_with(b"'") && word.len() > 1
    };
    let words = found.literals().filter(|words| !words.is_empty())?;
    words.iter().map(|word| Some(word).filter(fits).map(|word| word.as_bytes().to_vec())).collect()
}

fn steps(alternative: &Hir) -> Option<Vec<Step>> {
    match alternative.kind() {
        HirKind::Concat(parts) => parts.iter().map(step).collect(),
        _ => Some(vec![step(alternative)?]),
    }
}

fn step(part: &Hir) -> Option<Step> {
    match part.kind() {
        HirKind::Look(Look::End) => Some(Step::TextEnd),
        HirKind::Repetition(repeat) if repeat.greedy => {
            let of = one_character(&repeat.sub)?;
            Some(Step::Repeat { of, min: repeat.min, max: repeat.max })
        }
        _ => Some(Step::Repeat { of: one_character(part)?, min: 1, max: Some(1) }),
    }
}

/// The set before `?` at the front, empty if there is none, and what follows it.
fn prefixed(steps: &[Step]) -> (ClassUnicode, &[Step]) {
    match steps {
        [Step::Repeat { of, min: 0, max: Some(1) }, rest @ ..] => (of.clone(), rest),
        _ => (ClassUnicode::empty(), steps),
    }
}

/// The same, if the set before `?` is the space or there is none.
fn spaced(steps: &[Step]) -> Option<(bool, &[Step])> {
    let (prefix, rest) = prefixed(steps);
    let none = prefix == ClassUnicode::empty();
    let space = prefix == only(' ');
    (none || space).then_some((space, rest))
}

fn prefixed_letters(steps: &[Step]) -> Option<(ClassUnicode, ClassUnicode)> {
    let (prefix, rest) = prefixed(steps);
    let [Step::Repeat { of, min: 1, max: None }] = rest else { return None };
    Some((prefix, of.clone()))
}

fn spaced_digits(steps: &[Step]) -> Option<(bool, ClassUnicode, u32)> {
    let (space, rest) = spaced(steps)?;
    let [Step::Repeat { of, min: 1, max }] = rest else { return None };
    Some((space, of.clone(), max.unwrap_or(u32::MAX)))
}

fn spaced_signs(steps: &[Step]) -> Option<(bool, ClassUnicode, ClassUnicode)> {
    let (space, rest) = spaced(steps)?;
    let [Step::Repeat { of, min: 1, max: None }, tail @ ..] = rest else { return None };
    match tail {
        [] => Some((space, of.clone(), ClassUnicode::empty())),
        [Step::Repeat { of: tail, min: 0, max: None }] => Some((space, of.clone(), tail.clone())),
        _ => None,
    }
}

fn white_space(alternatives: &[Vec<Step>], spaces: &ClassUnicode) -> Option<(bool, ClassUnicode)> {
    let kinds =
        alternatives.iter().map(|steps| white(steps, spaces)).collect::<Option<Vec<_>>>()?;
    match kinds.as_slice() {
        [] => Some((false, ClassUnicode::empty())),
        [White::TextEnd] => Some((true, ClassUnicode::empty())),
        [White::Newlines(newlines)] => Some((false, newlines.clone())),
        [White::TextEnd, White::Newlines(newlines)] => Some((true, newlines.clone())),
        _ => None,
    }
}

fn white(steps: &[Step], spaces: &ClassUnicode) -> Option<White> {
    match steps {
        [Step::Repeat { of, min: 1, max: None }, Step::TextEnd] if of == spaces => {
            Some(White::TextEnd)
        }
        [
            Step::Repeat { of, min: 0, max: None },
            Step::Repeat { of: newlines, min: 1, max: None | Some(1) },
        ] if of == spaces && is_within(newlines, spaces) => Some(White::Newlines(newlines.clone())),
        _ => None,
    }
}

fn only(character: char) -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new(character, character)])
}

fn is_apart(one: &ClassUnicode, other: &ClassUnicode) -> bool {
    let mut both = one.clone();
    both.intersect(other);
    both == ClassUnicode::empty()
}

fn is_within(inner: &ClassUnicode, outer: &ClassUnicode) -> bool {
    let mut both = inner.clone();
    both.intersect(outer);
    both == *inner
}

/// A set by its spelling.
fn set(class: &str) -> Option<ClassUnicode> {
    match regex_syntax::parse(class).ok()?.kind() {
        HirKind::Class(Class::Unicode(set)) => Some(set.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
