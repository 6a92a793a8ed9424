//! Patterns of one set of characters: one of them, a run of any length, or of at most a number of
//! characters, as `\p{N}{1,3}`. The first steps of a sequence are often such patterns, which rarely
//! match in most text.

use regex_syntax::hir::{ClassUnicode, HirKind};

use crate::split::classes::{Classes, FirstBytes, Sets};
use crate::split::grammar::{Grammar, one_character};

/// The set of the pattern.
const MEMBER: Sets = 1;

/// A pattern of one set of characters.
#[derive(Debug)]
pub(super) struct ClassRuns {
    classes: Classes,
    first: FirstBytes,
    /// Characters of a match.
    most: usize,
}

impl ClassRuns {
    /// The matcher of `pattern`, if it is such a pattern.
    pub(super) fn new(pattern: &str) -> Option<Self> {
        let (set, most) = runs_of(pattern)?;
        let classes = Classes::new(&[(MEMBER, &set)]);
        let first = classes.first_bytes(MEMBER);
        Some(Self { classes, first, most })
    }

    /// Calls `visit` with each match in `text` and each gap between them, and whether it is a match.
    pub(super) fn visit_text<'t>(&self, text: &'t str, mut visit: impl FnMut(&'t str, bool)) {
        let mut done = 0;
        while done < text.len() {
            let start = self.classes.find(text.as_bytes(), done, MEMBER, &self.first);
            if start > done {
                visit(&text[done..start], false);
            }
            if start == text.len() {
                return;
            }
            done = self.end(text.as_bytes(), start);
            visit(&text[start..done], true);
        }
    }

    /// The end of the match that begins at `start`.
    fn end(&self, text: &[u8], start: usize) -> usize {
        let mut end = start;
        for _ in 0..self.most {
            let (classes, next) = self.classes.at(text, end);
            if classes & MEMBER == 0 {
                break;
            }
            end = next;
        }
        end
    }
}

/// The set of a pattern and the most characters of a match, if it is such a pattern.
pub(super) fn runs_of(pattern: &str) -> Option<(ClassUnicode, usize)> {
    let grammar = Grammar::new(pattern).filter(|grammar| !grammar.whitespace_rule)?;
    let [only] = &grammar.alternatives[..] else { return None };
    let hir = regex_syntax::parse(only).ok()?;
    match hir.kind() {
        HirKind::Repetition(repetition) if repetition.greedy && repetition.min == 1 => {
            let most = repetition.max.map_or(usize::MAX, |most| most as usize);
            Some((one_character(&repetition.sub)?, most))
        }
        _ => Some((one_character(&hir)?, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expected: Option<&str>) {
        let found = ClassRuns::new(pattern).map(|runs| {
            let mut parts = Vec::new();
            runs.visit_text(text, |part, is_match| {
                parts.push(format!("{part}{}", if is_match { "!" } else { "" }));
            });
            parts.join("|")
        });
        assert_eq!(found.as_deref(), expected, "{pattern}");
    }

    #[test]
    fn patterns_of_one_set_are_recognized() {
        check(r"\p{N}{1,3}", "ab1234c\u{bd}5", Some("ab|123!|4!|c|\u{bd}5!"));
        check(r"\p{N}", "12a", Some("1!|2!|a"));
        check(r"[0-9]+", "", Some(""));
        check(
            r"[\u{4e00}-\u{9fa5}]+",
            "abcdefghijk\u{4e00}\u{4e01}.",
            Some("abcdefghijk|\u{4e00}\u{4e01}!|."),
        );
        check("a", "bab", Some("b|a!|b"));
        check("a++", "baab", Some("b|aa!|b"));
        for other in ["a*", "a+?", "a{2,3}", "ab", "a|bc", r"a+(?!b)", "(?=a)", "", "(a)b*"] {
            check(other, "aab", None);
        }
    }
}
