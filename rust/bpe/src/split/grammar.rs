//! Split patterns as plain regular expressions, without look-around and possessive repeats:
//! converts a pattern to an equivalent one for an automaton, or returns nothing if the equivalence
//! cannot be shown.
//!
//! Two features of the usual patterns are not plain, and both can be removed exactly:
//!
//! * Possessive repeats, `X++ Y`. A greedy `X+ Y` differs only if Y fails after all X and matches
//!   after fewer. That is impossible if Y never fails, or if Y cannot begin with an X.
//! * The last two alternatives `\s+(?!\S)|\s+` (or `\s`), which match all following white space,
//!   without its last character if there are several and other text follows.

use fancy_regex::{Assertion, Expr};
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind};

/// A pattern without look-around and possessive repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grammar {
    /// Alternatives before the white-space rule, in the syntax of `regex-syntax`.
    pub(crate) alternatives: Vec<String>,
    /// Whether the white-space rule is the last alternative.
    pub(crate) whitespace_rule: bool,
}

impl Grammar {
    /// The plain form of `pattern`, if an equivalent one is known.
    pub(crate) fn new(pattern: &str) -> Option<Self> {
        let mut alternatives = match Expr::parse_tree(pattern).ok()?.expr {
            Expr::Alt(alternatives) => alternatives,
            single => vec![single],
        };
        let whitespace_rule = ends_with_whitespace_rule(&alternatives);
        if whitespace_rule {
            alternatives.truncate(alternatives.len() - 2);
        }
        if alternatives.is_empty() {
            return None;
        }
        let texts = alternatives.into_iter().map(|alternative| Some(text_of(&plain(alternative)?)));
        Some(Self { alternatives: texts.collect::<Option<_>>()?, whitespace_rule })
    }
}

fn text_of(plain: &Expr) -> String {
    let mut text = String::new();
    plain.to_str(&mut text, 0);
    text
}

fn ends_with_whitespace_rule(alternatives: &[Expr]) -> bool {
    [r"\s+(?!\S)|\s+", r"\s+(?!\S)|\s"].iter().any(|rule| match Expr::parse_tree(rule) {
        Ok(tree) => matches!(&tree.expr, Expr::Alt(rule) if alternatives.ends_with(rule)),
        Err(_) => false,
    })
}

/// One alternative without possessive repeats.
fn plain(alternative: Expr) -> Option<Expr> {
    let parts = match alternative {
        Expr::Concat(parts) => parts,
        single => vec![single],
    };
    let greedy: Vec<Expr> = (0..parts.len())
        .map(|at| match &parts[at] {
            Expr::AtomicGroup(inner) => greedy(inner, &parts[at + 1..]),
            part => is_plain(part).then(|| part.clone()),
        })
        .collect::<Option<_>>()?;
    Some(Expr::Concat(greedy))
}

/// The possessive repeat as a greedy one, if the expressions after it make both equivalent.
fn greedy(possessive: &Expr, after: &[Expr]) -> Option<Expr> {
    let Expr::Repeat { child, greedy: true, .. } = possessive else { return None };
    let same = after.iter().all(never_fails)
        || matches!(after, [Expr::Assertion(Assertion::EndText), ..]) && class(child).is_some()
        || class(child).is_some_and(|repeated| starts_elsewhere(after, &repeated));
    (same && is_plain(possessive)).then(|| possessive.clone())
}

fn never_fails(part: &Expr) -> bool {
    match part {
        Expr::AtomicGroup(inner) => never_fails(inner),
        Expr::Repeat { lo: 0, .. } => true,
        _ => false,
    }
}

/// Whether `parts` begin with a character that is not in `repeated`.
fn starts_elsewhere(parts: &[Expr], repeated: &ClassUnicode) -> bool {
    let Some((part, after)) = parts.split_first() else { return false };
    let (single, may_be_absent) = match possessive_or_not(part) {
        Expr::Repeat { child, lo, .. } => (&**child, *lo == 0),
        single => (single, false),
    };
    let elsewhere = class(single).is_some_and(|mut first| {
        first.intersect(repeated);
        first.ranges().is_empty()
    });
    elsewhere && (!may_be_absent || starts_elsewhere(after, repeated))
}

fn possessive_or_not(part: &Expr) -> &Expr {
    match part {
        Expr::AtomicGroup(inner) => inner,
        other => other,
    }
}

/// The characters matched by an expression of exactly one character.
fn class(single: &Expr) -> Option<ClassUnicode> {
    if !matches!(single, Expr::Delegate { .. } | Expr::Literal { .. } | Expr::Any { .. }) {
        return None;
    }
    one_character(&regex_syntax::parse(&text_of(single)).ok()?)
}

/// The characters matched by `hir`, if it matches exactly one character.
pub(crate) fn one_character(hir: &Hir) -> Option<ClassUnicode> {
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class.clone()),
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok()?;
            let mut characters = text.chars();
            let only = characters.next().filter(|_| characters.next().is_none())?;
            Some(ClassUnicode::new([ClassUnicodeRange::new(only, only)]))
        }
        _ => None,
    }
}

/// Whether a backtracking engine and an automaton match `part` in the same way.
fn is_plain(part: &Expr) -> bool {
    match part {
        Expr::Literal { .. } | Expr::Delegate { .. } | Expr::Any { .. } => true,
        Expr::Assertion(assertion) => matches!(assertion, Assertion::EndText),
        Expr::Concat(parts) | Expr::Alt(parts) => parts.iter().all(is_plain),
        Expr::Repeat { child, .. } => is_plain(child),
        Expr::Group(inner) => is_plain(inner),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, expected: Option<(&[&str], bool)>) {
        let expected = expected.map(|(alternatives, whitespace_rule)| Grammar {
            alternatives: alternatives.iter().map(|&text| text.to_owned()).collect(),
            whitespace_rule,
        });
        assert_eq!(Grammar::new(pattern), expected, "{pattern}");
    }

    #[test]
    fn plain_patterns_are_unchanged() {
        check("a|b+", Some((&["a", "b+"], false)));
        check("a", Some((&["a"], false)));
        check(r"(a.)+?$", Some((&[r"(a.)+?$"], false)));
    }

    #[test]
    fn the_white_space_rule_is_removed() {
        check(r"a|\s+(?!\S)|\s+", Some((&["a"], true)));
        check(r"a|\s+(?!\S)|\s", Some((&["a"], true)));
        check(r"a|\s+(?!\S)", None);
        check(r"\s+(?!\S)|\s+", None);
        check(r"a|\s+(?!\S)|\s+|b", None);
    }

    #[test]
    fn possessive_repeats_become_greedy_if_equivalent() {
        check("a++", Some((&["a+"], false)));
        check("a?+b+", Some((&["a?b+"], false)));
        check("a++b*", Some((&["a+b*"], false)));
        check("a++b*+", Some((&["a+b*"], false)));
        check("a?+b*c+", Some((&["a?b*c+"], false)));
        check("a++(?:xy|z)?", Some((&["a+(?:xy|z)?"], false)));
        check("a+(?:xy|z)?+", Some((&["a+(?:xy|z)?"], false)));
        check(r"\s++$", Some((&[r"\s+$"], false)));
        check(r"[^\p{L}]?+\p{L}++", Some((&[r"[^\p{l}]?\p{l}+"], false)));
    }

    #[test]
    fn possessive_repeats_stay_if_not_equivalent() {
        check("a++ab", None);
        check("a?+a", None);
        check(r"\w++\d", None);
        check("a++b*a", None);
        check("a?+[ab]*c", None);
        check("a++(?:ab)?c", None);
        check("(?:a|ab)?+c", None);
        check(r"a(?:(a)\1)?+", None);
        check("(?>ab|a)c", None);
        check("(?:a++|c)a", None);
    }

    #[test]
    fn unknown_syntax_is_left_to_the_other_engine() {
        for pattern in [r"(a)\1", "(?=a)b", "(?<!a)b", r"\bab", "a(?!b)", r"\Ga", "^a", "("] {
            check(pattern, None);
        }
    }
}
