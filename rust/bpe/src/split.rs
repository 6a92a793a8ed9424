//! Splits documents into spans by a pattern. Documents are any bytes; spans are slices that join to
//! the document.
//!
//! * `engine`: chooses the fastest of four implementations that finds the same spans.
//! * `scanner`: 64 bytes at a time, with vector instructions; `starts`: the starts of spans among
//!   them.
//! * `lexer`: one span at a time, for all patterns of GPT's family.
//! * `automaton`: a DFA, for other regular patterns. The regex engine matches the rest; `steps`
//!   limits its work for a document.
//! * `grammar`: a pattern as a regular expression without look-around; `family`: the options of the
//!   lexer for a pattern of GPT's family.
//! * `classes`: the sets of characters that a pattern distinguishes.

use nanotok_memory as memory;

use crate::Error;
use crate::cpu::Level;
use crate::cpu::simd::Cpu;
use crate::error::GaveUp;
use crate::split::engine::Engine;
pub(crate) use crate::split::scanner::{Ends, Scan};
use crate::split::steps::Steps;

mod automaton;
mod classes;
mod engine;
mod family;
mod grammar;
mod lexer;
mod scanner;
mod starts;
mod steps;

/// Version of the Unicode tables of `\p{L}`, `\s` and case folding. Other tables make other spans,
/// so the version is part of every key of results that depend on a pattern.
pub const UNICODE_VERSION: &str = "16.0.0";

/// Limit of the bytes of a pattern: compiling it takes thousands of times as much memory.
const MAX_PATTERN_BYTES: usize = 1 << 16;

/// Limit of backtracking steps of one search, which takes seconds; `Steps` limits a document. A
/// search for the next match in a long document can legitimately take a few steps per byte.
const BACKTRACK_LIMIT: usize = 200_000_000;

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

/// A compiled pattern. A clone shares the tables but not the memory of a search: use one clone per
/// thread.
#[derive(Debug, Clone)]
pub struct Splitter {
    regex: fancy_regex::Regex,
    engine: Engine,
    gaps: GapRule,
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
        if pattern.len() > MAX_PATTERN_BYTES {
            let (bytes, limit) = (pattern.len(), MAX_PATTERN_BYTES);
            let reason = format!("it has {bytes} bytes: the limit is {limit}");
            return Err(Error::Pattern { reason });
        }
        let regex = fancy_regex::RegexBuilder::new(pattern)
            .backtrack_limit(BACKTRACK_LIMIT)
            .build()
            .map_err(|error| Error::Pattern { reason: error.to_string() })?;
        Ok(Self { regex, engine: Engine::of(pattern)?, gaps })
    }

    /// The pattern as it was passed.
    pub fn pattern(&self) -> &str {
        self.regex.as_str()
    }

    /// The implementation that splits text: "lexer", "table" or "regex", from fastest to slowest.
    /// The spans are the same. "lexer" includes the scanner, "table" is the DFA.
    pub fn engine(&self) -> &'static str {
        self.engine.name()
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

    /// The CPU level of the splitter; the portable one if it uses none.
    pub(crate) fn cpu(&self) -> Cpu {
        match &self.engine {
            Engine::Scanner(scanner) => scanner.cpu(),
            _ => Cpu::new(Level::Portable),
        }
    }

    /// The spans of `document`, which begins at `offset` of its data, for iteration in portions, if
    /// the engine supports that.
    pub(crate) fn scan<'a>(&'a self, document: &'a [u8], offset: usize) -> Option<Scan<'a>> {
        let Engine::Scanner(scanner) = &self.engine else { return None };
        Some(scanner.scan(simdutf8::basic::from_utf8(document).ok()?, offset))
    }

    /// Calls `visit` with the end of each span, and returns the number of gaps. This is the fastest
    /// way if only the ends are needed.
    #[inline]
    pub(crate) fn visit_ends(
        &self,
        document: &[u8],
        mut visit: impl FnMut(usize),
    ) -> Result<u64, Stuck> {
        if let Engine::Scanner(scanner) = &self.engine
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
        let steps = Steps::of(document.len());
        if let Ok(text) = simdutf8::basic::from_utf8(document) {
            return self.visit_text(text, &steps, &mut visit);
        }
        let mut start = 0;
        for chunk in document.utf8_chunks() {
            self.visit_text(chunk.valid(), &steps, &mut visit)
                .map_err(|stuck| Stuck { offset: start + stuck.offset, ..stuck })?;
            chunk.invalid().chunks(1).for_each(|byte| visit(byte, Kind::InvalidByte));
            start += chunk.valid().len() + chunk.invalid().len();
        }
        Ok(())
    }

    fn visit_text<'d>(
        &self,
        text: &'d str,
        steps: &Steps,
        visit: &mut impl FnMut(&'d [u8], Kind),
    ) -> Result<(), Stuck> {
        match &self.engine {
            Engine::Scanner(scanner) => {
                scanner.split(text, |span| visit(span, Kind::Match));
                return Ok(());
            }
            Engine::Lexer(lexer) => {
                lexer.split(text, |span| visit(span, Kind::Match));
                return Ok(());
            }
            Engine::Table(_) | Engine::Regex => {}
        }
        let mut done = 0;
        let mut position = 0;
        while let Some((start, end)) = self.find(text, position, steps)? {
            if start == end {
                position = next_character(text, end);
                continue;
            }
            self.visit_gap(text, done, start, visit)?;
            visit(&text.as_bytes()[start..end], Kind::Match);
            done = end;
            position = end;
        }
        self.visit_gap(text, done, text.len(), visit)
    }

    fn visit_gap<'d>(
        &self,
        text: &'d str,
        start: usize,
        end: usize,
        visit: &mut impl FnMut(&'d [u8], Kind),
    ) -> Result<(), Stuck> {
        if start == end {
            return Ok(());
        }
        if self.gaps == GapRule::Refuse {
            return Err(Stuck { offset: start, reason: GaveUp::Gap });
        }
        visit(&text.as_bytes()[start..end], Kind::Gap);
        Ok(())
    }

    /// The next match at or after `from`.
    #[inline]
    fn find(
        &self,
        text: &str,
        from: usize,
        steps: &Steps,
    ) -> Result<Option<(usize, usize)>, Stuck> {
        let quick = match &self.engine {
            Engine::Table(automaton) => automaton.match_at(text, from),
            Engine::Scanner(_) | Engine::Lexer(_) | Engine::Regex => None,
        };
        match quick {
            Some(end) => Ok(Some((from, end))),
            None if from >= text.len() => Ok(None),
            None => {
                steps.find(&self.regex, text, from).map_err(|reason| Stuck { offset: from, reason })
            }
        }
    }
}

/// The start of the character after the one at `position`; beyond the end for the last one.
fn next_character(text: &str, position: usize) -> usize {
    position + text[position..].chars().next().map_or(1, char::len_utf8)
}

#[cfg(test)]
mod tests;
