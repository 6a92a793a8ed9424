//! Splits documents into spans by a pattern. Documents are any bytes; spans are slices that join to
//! the document.
//!
//! * `engine`: chooses the fastest of four implementations that finds the same spans.
//! * `scanner`: 64 bytes at a time, with vector instructions; `starts`: the starts of spans among
//!   them.
//! * `lexer`: one span at a time, for all patterns of GPT's family and those of superwords.
//! * `automaton`: a DFA, for other regular patterns. The regex engine matches the rest; `work`
//!   limits what it does for a document. `matcher` uses the engine of a pattern.
//! * `sequence`: several patterns, one after the other; `class_runs`: those of one set of characters.
//!   The scanner does some sequences together.
//! * `grammar`: a pattern as a regular expression without look-around; `family`: the options of the
//!   lexer for a pattern of GPT's family.
//! * `classes`: the sets of characters that a pattern distinguishes.

use std::sync::Arc;

use nanotok_memory as memory;

use crate::Error;
use crate::error::GaveUp;
pub(crate) use crate::split::classes::{Classes, FirstBytes, Sets};
use crate::split::lexer::Lexer;
use crate::split::matcher::Matcher;
use crate::split::scanner::Scanner;
pub(crate) use crate::split::scanner::{Ends, Scan};
use crate::split::sequence::Sequence;
pub use crate::split::sequence::{Behavior, Step};
use crate::split::work::Work;

mod automaton;
mod class_runs;
mod classes;
mod engine;
mod family;
mod grammar;
mod lexer;
mod matcher;
mod scanner;
mod sequence;
mod starts;
mod work;

/// Version of the Unicode tables of `\p{L}`, `\s` and case folding. Other tables make other spans,
/// so the version is part of every key of results that depend on a pattern.
pub const UNICODE_VERSION: &str = "16.0.0";

/// The kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A match of the pattern.
    Match,
    /// Text between two matches, as long as possible.
    Gap,
    /// A byte that is not part of valid UTF-8.
    InvalidByte,
}

/// The rule for text that the pattern does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapRule {
    /// It becomes spans.
    Spans,
    /// It is an error.
    Refuse,
}

/// A compiled pattern, or a sequence of steps. A clone shares the tables but not the memory of a
/// search: use one clone per thread.
#[derive(Debug, Clone)]
pub struct Splitter {
    plan: Plan,
    gaps: GapRule,
}

#[derive(Debug, Clone)]
enum Plan {
    Pattern(Matcher),
    Steps(Sequence),
    /// Steps that one scanner does together.
    Together(Vec<Step>, Arc<Scanner>),
}

/// The position at which splitting of a document ended early, and the reason.
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
    /// Fails if the pattern is not a regular expression or too long, or if the environment variable
    /// `NANOTOK_CPU` names a CPU level that is unknown or that this CPU does not support.
    pub fn new(pattern: &str, gaps: GapRule) -> Result<Self, Error> {
        Ok(Self { plan: Plan::Pattern(Matcher::new(pattern)?), gaps })
    }

    /// Compiles a sequence of steps, of which each splits every piece of the one before; the pieces
    /// of the last are the spans. A single step that is isolated and not inverted is the same as its
    /// pattern. Otherwise every piece is a span, so that there are no gaps, whatever the rule is.
    ///
    /// # Errors
    ///
    /// As for `new`, for each pattern; and if there are no steps or too many.
    pub fn of_steps(steps: &[Step], gaps: GapRule) -> Result<Self, Error> {
        let plan = match steps {
            [only] if only.is_plain() => Plan::Pattern(Matcher::new(&only.pattern)?),
            _ => match sequence::together(steps)? {
                Some(scanner) => Plan::Together(steps.to_vec(), Arc::new(scanner)),
                None => Plan::Steps(Sequence::new(steps)?),
            },
        };
        Ok(Self { plan, gaps })
    }

    /// The steps of the splitter: those of `of_steps`, or one for the pattern.
    pub fn steps(&self) -> Vec<Step> {
        match &self.plan {
            Plan::Pattern(matcher) => vec![Step::plain(matcher.pattern())],
            Plan::Steps(sequence) => sequence.steps().cloned().collect(),
            Plan::Together(steps, _) => steps.clone(),
        }
    }

    /// The implementation that splits text: "lexer", "table" or "regex", from fastest to slowest;
    /// of several steps, the slowest one. The spans are the same. "lexer" includes the scanner, which
    /// does some steps together; "table" is the DFA.
    pub fn engine(&self) -> &'static str {
        match &self.plan {
            Plan::Pattern(matcher) => matcher.engine.name(),
            Plan::Steps(sequence) => sequence.engine(),
            Plan::Together(..) => "lexer",
        }
    }

    /// Calls `visit` with each span of `document`, from left to right. Spans are never empty.
    ///
    /// Each maximal run of valid UTF-8 is split on its own, like a document.
    ///
    /// # Errors
    ///
    /// Fails if the regex engine gives up, or at a gap that is refused; the error names document 0.
    pub fn split<'d>(
        &self,
        document: &'d [u8],
        visit: impl FnMut(&'d [u8], Kind),
    ) -> Result<(), Error> {
        self.visit(document, visit).map_err(|stuck| stuck.in_document(0))
    }

    /// The boundaries of spans in a part of a document: from the first span that begins at `start`
    /// or later, as many whole spans as fit `most` bytes. Takes time linear in the document, and
    /// memory only for the part.
    ///
    /// # Errors
    ///
    /// As for [`Splitter::split`].
    pub fn boundaries(
        &self,
        document: &[u8],
        start: usize,
        most: usize,
    ) -> Result<Vec<usize>, Error> {
        let mut found: Vec<usize> = Vec::new();
        let mut visit = |end: usize| match found.first() {
            None if end >= start => memory::push(&mut found, end),
            Some(first) if end - first <= most => memory::push(&mut found, end),
            _ => {}
        };
        if start == 0 {
            visit(0);
        }
        self.visit_ends(document, visit).map_err(|stuck| stuck.in_document(0))?;
        Ok(found)
    }

    /// The spans of `document`, which begins at `offset` of its data, for iteration in portions, if
    /// the engine supports that.
    pub(crate) fn scan<'a>(&'a self, document: &'a [u8], offset: usize) -> Option<Scan<'a>> {
        Some(self.scanner()?.scan(simdutf8::basic::from_utf8(document).ok()?, offset))
    }

    /// The lexer, if the spans are runs of units.
    pub(crate) fn superwords(&self) -> Option<&Lexer> {
        match &self.plan {
            Plan::Pattern(matcher) => matcher.superwords(),
            Plan::Steps(_) | Plan::Together(..) => None,
        }
    }

    /// Calls `visit` with the end of each span, and returns the number of gaps. This is the fastest
    /// way if only the ends are needed.
    #[inline]
    pub(crate) fn visit_ends(
        &self,
        document: &[u8],
        mut visit: impl FnMut(usize),
    ) -> Result<u64, Stuck> {
        if let Some(scanner) = self.scanner()
            && let Ok(text) = simdutf8::basic::from_utf8(document)
        {
            scanner.visit_ends(text, visit);
            return Ok(0);
        }
        let (mut end, mut gaps) = (0, 0);
        self.visit(document, |span, kind| {
            end += span.len();
            gaps += u64::from(kind == Kind::Gap);
            visit(end);
        })?;
        Ok(gaps)
    }

    pub(crate) fn visit<'d>(
        &self,
        document: &'d [u8],
        mut visit: impl FnMut(&'d [u8], Kind),
    ) -> Result<(), Stuck> {
        let work = Work::of(document.len());
        if let Ok(text) = simdutf8::basic::from_utf8(document) {
            return self.visit_text(text, &work, &mut visit);
        }
        let mut start = 0;
        for chunk in document.utf8_chunks() {
            self.visit_text(chunk.valid(), &work, &mut visit)
                .map_err(|stuck| Stuck { offset: start + stuck.offset, ..stuck })?;
            chunk.invalid().chunks(1).for_each(|byte| visit(byte, Kind::InvalidByte));
            start += chunk.valid().len() + chunk.invalid().len();
        }
        Ok(())
    }

    fn visit_text<'d>(
        &self,
        text: &'d str,
        work: &Work,
        visit: &mut impl FnMut(&'d [u8], Kind),
    ) -> Result<(), Stuck> {
        match &self.plan {
            Plan::Pattern(matcher) => matcher.visit_text(text, self.gaps, work, visit),
            Plan::Steps(sequence) => {
                sequence.visit_text(text, work, &mut |piece| visit(piece.as_bytes(), Kind::Match))
            }
            Plan::Together(_, scanner) => {
                scanner.split(text, |span| visit(span, Kind::Match));
                Ok(())
            }
        }
    }

    /// The scanner, if that is the engine.
    fn scanner(&self) -> Option<&Scanner> {
        match &self.plan {
            Plan::Pattern(matcher) => matcher.scanner(),
            Plan::Steps(_) => None,
            Plan::Together(_, scanner) => Some(scanner),
        }
    }
}

#[cfg(test)]
mod tests;
