//! Recognizes sequences of three steps, as of `DeepSeek`, which split off groups of digits, then runs
//! of a set of characters, then by a pattern like those of the family:
//!
//! ```text
//! 1. digits{1,n}  or without a limit
//! 2. apart+
//! 3. mark [A-Za-z]+     marks are ASCII signs
//!    [prefix?] letters+ among ASCII exactly A to Z and a to z
//!    [space?] signs+ [tail*]
//!    [\s*newline+]
//!    \s+(?!\S)|\s+       or \s
//! ```
//!
//! Every step sees the pieces of the one before as texts. So white space before a digit or at a
//! border of `apart` is at the end of its text, and nothing precedes letters across such a border.
//!
//! Other characters are in no set. Of several in a row, the last one precedes letters that follow.
//! All before it are a gap of step 3, which is one span.

use regex_syntax::hir::ClassUnicode;

use super::alternatives::{
    letters_of_any_case, one_then_letters, spaced_signs, steps, white_space,
};
use super::{Family, ascii, common, is_apart, is_within, set};
use crate::split::class_runs::runs_of;
use crate::split::grammar::Grammar;

impl Family {
    /// The member that splits like three isolated steps, if there is one.
    pub(crate) fn of_steps([digits, apart, last]: [&str; 3]) -> Option<Self> {
        let (digits, max_digits) = runs_of(digits)?;
        let (apart, usize::MAX) = runs_of(apart)? else { return None };
        let grammar = Grammar::new(last).filter(|grammar| grammar.whitespace_rule)?;
        let parsed = grammar.alternatives.iter().map(|text| regex_syntax::parse(text).ok());
        let alternatives = parsed.map(|hir| steps(&hir?)).collect::<Option<Vec<_>>>()?;
        let [marked, letters, signs, white @ ..] = &alternatives[..] else { return None };
        let marks = one_then_letters(marked)?;
        let letters = letters_of_any_case(letters).filter(|letters| letters.words.is_empty())?;
        let (spaced_signs, signs, tail) = spaced_signs(signs)?;
        let spaces = set(r"\s")?;
        let (text_end, newlines) = white_space(white, &spaces)?;
        let is_clear = [&ascii(), &digits, &spaces].iter().all(|set| is_apart(&apart, set));
        let family = Self {
            contractions: Vec::new(),
            attached: Vec::new(),
            prefix: letters.prefix,
            letters: letters.all,
            upper: ClassUnicode::empty(),
            lower: ClassUnicode::empty(),
            spaced_digits: false,
            digits,
            max_digits: u32::try_from(max_digits).unwrap_or(u32::MAX),
            spaced_signs,
            signs,
            tail,
            text_end,
            newlines,
            spaces,
            apart: Some(apart),
        };
        let is_clear = is_clear && !text_end && family.has_separate_kinds();
        is_clear.then(|| family.with_marks(&marks)).flatten()
    }

    /// Whether no character is of two kinds.
    fn has_separate_kinds(&self) -> bool {
        let kinds = [&self.letters, &self.digits, &self.signs, &self.spaces];
        let mut pairs = (1..4).flat_map(|at| kinds[..at].iter().map(move |one| (*one, kinds[at])));
        self.has_ascii_letters()
            && pairs.all(|(one, other)| is_apart(one, other))
            && is_within(&self.tail, &self.spaces)
    }

    /// Adds `marks` to the prefixes, which must be all other characters, and white space except
    /// newlines, besides letters and digits: those make no difference.
    fn with_marks(self, marks: &ClassUnicode) -> Option<Self> {
        let others = self.others();
        let mut prefix = common(&self.prefix, &self.spaces);
        let is_usual = is_within(&others, &self.prefix)
            && is_apart(&self.prefix, &self.signs)
            && is_apart(&self.prefix, &self.newlines)
            && is_within(marks, &common(&ascii(), &self.signs));
        prefix.union(&others);
        prefix.union(marks);
        is_usual.then_some(Self { prefix, ..self })
    }
}
