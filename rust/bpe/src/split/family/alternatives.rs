//! Parses the alternatives of a pattern one by one, and returns the sets and options of those at
//! the positions of GPT's family.

use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{ClassUnicode, Hir, HirKind, Look};

use super::{is_within, only, set};
use crate::split::grammar::one_character;

/// A part of an alternative.
pub(super) enum Step {
    Repeat {
        of: ClassUnicode,
        min: u32,
        max: Option<u32>,
    },
    /// An optional contraction of a list.
    Words(Vec<Vec<u8>>),
    TextEnd,
}

/// The alternatives of letters; `upper` and `lower` are empty if case does not matter.
#[derive(PartialEq)]
pub(super) struct Letters {
    pub(super) prefix: ClassUnicode,
    pub(super) all: ClassUnicode,
    pub(super) upper: ClassUnicode,
    pub(super) lower: ClassUnicode,
    pub(super) words: Vec<Vec<u8>>,
}

/// The optional alternatives between the signs and the white-space rule.
enum White {
    TextEnd,
    Newlines(ClassUnicode),
}

/// All strings that `hir` matches, in order of preference, if they are a short list of
/// contractions.
pub(super) fn contractions(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    let found = Extractor::new().limit_class(64).extract(hir);
    let fits = |word: &&regex_syntax::hir::literal::Literal| {
        word.is_exact() && word.as_bytes().starts_with(b"'") && word.len() > 1
    };
    let words = found.literals().filter(|words| !words.is_empty())?;
    words.iter().map(|word| Some(word).filter(fits).map(|word| word.as_bytes().to_vec())).collect()
}

pub(super) fn steps(alternative: &Hir) -> Option<Vec<Step>> {
    match alternative.kind() {
        HirKind::Concat(parts) => parts.iter().map(step).collect(),
        _ => Some(vec![step(alternative)?]),
    }
}

fn step(part: &Hir) -> Option<Step> {
    match part.kind() {
        HirKind::Look(Look::End) => Some(Step::TextEnd),
        HirKind::Repetition(repeat) if repeat.greedy => match one_character(&repeat.sub) {
            Some(of) => Some(Step::Repeat { of, min: repeat.min, max: repeat.max }),
            None if (repeat.min, repeat.max) == (0, Some(1)) => {
                Some(Step::Words(contractions(&repeat.sub)?))
            }
            None => None,
        },
        _ => Some(Step::Repeat { of: one_character(part)?, min: 1, max: Some(1) }),
    }
}

/// The set before `?` at the front, or an empty set, and the remaining steps.
fn prefixed(steps: &[Step]) -> (ClassUnicode, &[Step]) {
    match steps {
        [Step::Repeat { of, min: 0, max: Some(1) }, rest @ ..] => (of.clone(), rest),
        _ => (ClassUnicode::empty(), steps),
    }
}

/// The same, if that set is the space or there is none.
fn spaced(steps: &[Step]) -> Option<(bool, &[Step])> {
    let (prefix, rest) = prefixed(steps);
    let none = prefix == ClassUnicode::empty();
    let space = prefix == only(' ');
    (none || space).then_some((space, rest))
}

/// The one or two alternatives of letters, and the remaining alternatives.
pub(super) fn letters(alternatives: &[Vec<Step>]) -> Option<(Letters, &[Vec<Step>])> {
    let (first, rest) = alternatives.split_first()?;
    if let Some(letters) = letters_of_any_case(first) {
        return Some((letters, rest));
    }
    let (second, rest) = rest.split_first()?;
    let letters = cased_letters(first, (0, 1))?;
    (letters == cased_letters(second, (1, 0))?).then_some((letters, rest))
}

pub(super) fn letters_of_any_case(steps: &[Step]) -> Option<Letters> {
    let (prefix, rest) = prefixed(steps);
    let [Step::Repeat { of, min: 1, max: None }, words @ ..] = rest else { return None };
    let (upper, lower) = (ClassUnicode::empty(), ClassUnicode::empty());
    Some(Letters { prefix, all: of.clone(), upper, lower, words: words_of(words)? })
}

/// The characters of which one precedes the letters A to Z and a to z.
pub(super) fn one_then_letters(steps: &[Step]) -> Option<ClassUnicode> {
    let [Step::Repeat { of: one, min: 1, max: Some(1) }, Step::Repeat { of, min: 1, max: None }] =
        steps
    else {
        return None;
    };
    (Some(of) == set("[A-Za-z]").as_ref()).then(|| one.clone())
}

/// Upper and lower letters, with the minimum number of each.
fn cased_letters(steps: &[Step], least: (u32, u32)) -> Option<Letters> {
    let (prefix, rest) = prefixed(steps);
    let [
        Step::Repeat { of: upper, min: least_upper, max: None },
        Step::Repeat { of: lower, min: least_lower, max: None },
        words @ ..,
    ] = rest
    else {
        return None;
    };
    let mut all = upper.clone();
    all.union(lower);
    let (upper, lower) = (upper.clone(), lower.clone());
    let letters = Letters { prefix, all, upper, lower, words: words_of(words)? };
    ((*least_upper, *least_lower) == least).then_some(letters)
}

fn words_of(steps: &[Step]) -> Option<Vec<Vec<u8>>> {
    match steps {
        [] => Some(Vec::new()),
        [Step::Words(words)] => Some(words.clone()),
        _ => None,
    }
}

pub(super) fn spaced_digits(steps: &[Step]) -> Option<(bool, ClassUnicode, u32)> {
    let (space, rest) = spaced(steps)?;
    let [Step::Repeat { of, min: 1, max }] = rest else { return None };
    Some((space, of.clone(), max.unwrap_or(u32::MAX)))
}

pub(super) fn spaced_signs(steps: &[Step]) -> Option<(bool, ClassUnicode, ClassUnicode)> {
    let (space, rest) = spaced(steps)?;
    let [Step::Repeat { of, min: 1, max: None }, tail @ ..] = rest else { return None };
    match tail {
        [] => Some((space, of.clone(), ClassUnicode::empty())),
        [Step::Repeat { of: tail, min: 0, max: None }] => Some((space, of.clone(), tail.clone())),
        _ => None,
    }
}

pub(super) fn white_space(
    alternatives: &[Vec<Step>],
    spaces: &ClassUnicode,
) -> Option<(bool, ClassUnicode)> {
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
