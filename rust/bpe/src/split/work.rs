//! A limit of the work of the backtracking engine for a document.
//!
//! The engine limits the backtracking steps of one search, but a document takes as many searches as
//! it has spans, and a search can take many steps without backtracking. It reads the text through a
//! trait, so every access to the text is counted here.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fancy_regex::{Input, RegexInput};

use crate::error::GaveUp;

/// Steps of every document, in addition to those for its bytes: a tenth of a second.
const FREE_STEPS: u64 = 10_000_000;

/// Steps for each byte. The patterns of GPT's family take 1 to 2 in real text, and up to 10 in the
/// worst document.
const STEPS_PER_BYTE: u64 = 256;

/// The work that is left for a document: accesses to its text.
#[derive(Debug)]
pub(crate) struct Work(Cell<u64>);

/// Ends a search.
struct NoneLeft;

impl Work {
    /// The limit for a document.
    pub(crate) fn of(num_bytes: usize) -> Self {
        Self(Cell::new(FREE_STEPS.saturating_add(STEPS_PER_BYTE.saturating_mul(num_bytes as u64))))
    }

    /// No step.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self(Cell::new(0))
    }

    #[inline]
    fn take_one(&self) {
        match self.0.get().checked_sub(1) {
            Some(left) => self.0.set(left),
            None => end(),
        }
    }

    /// The first match of `regex` in `text` at or after `from`.
    pub(crate) fn find(
        &self,
        regex: &fancy_regex::Regex,
        text: &str,
        from: usize,
    ) -> Result<Option<(usize, usize)>, GaveUp> {
        let counted = Counted { text, work: self };
        let search = || regex.find_input(RegexInput::new(&counted).from_pos(from));
        match catch_unwind(AssertUnwindSafe(search)) {
            Ok(found) => found.map_err(|error| gave_up(&error)),
            Err(ended) if ended.is::<NoneLeft>() => Err(GaveUp::Backtracking),
            Err(panicked) => resume_unwind(panicked),
        }
    }
}

/// The engine has no way to be stopped from outside, and every access is a call of this module.
#[cold]
fn end() -> ! {
    resume_unwind(Box::new(NoneLeft))
}

fn gave_up(error: &fancy_regex::Error) -> GaveUp {
    match error {
        fancy_regex::Error::RuntimeError(fancy_regex::RuntimeError::StackOverflow) => GaveUp::Stack,
        _ => GaveUp::Backtracking,
    }
}

/// A text whose accesses are counted.
struct Counted<'t, 's> {
    text: &'t str,
    work: &'s Work,
}

impl Input for Counted<'_, '_> {
    type Match<'m>
        = (usize, usize)
    where
        Self: 'm;

    #[inline]
    fn len(&self) -> usize {
        self.work.take_one();
        self.text.len()
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        self.work.take_one();
        self.text.as_bytes()
    }

    #[inline]
    fn is_char_boundary(&self, at: usize) -> bool {
        self.work.take_one();
        self.text.is_char_boundary(at)
    }

    fn is_ascii(&self) -> bool {
        self.text.is_ascii()
    }

    #[inline]
    fn prev_codepoint_ix(&self, at: usize) -> usize {
        self.work.take_one();
        Input::prev_codepoint_ix(self.text, at)
    }

    fn make_match(&self, start: usize, end: usize) -> (usize, usize) {
        (start, end)
    }

    fn advance_position(&self, at: usize) -> usize {
        Input::advance_position(self.text, at)
    }
}
