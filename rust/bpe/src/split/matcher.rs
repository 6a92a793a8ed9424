//! A compiled pattern: its matches in a text, and the gaps between them.

use crate::Error;
use crate::error::GaveUp;
use crate::split::automaton::Automaton;
use crate::split::engine::Engine;
use crate::split::lexer::Lexer;
use crate::split::scanner::Scanner;
use crate::split::starts::Form;
use crate::split::work::Work;
use crate::split::{GapRule, Kind, Stuck};

/// Limit of the bytes of a pattern: compiling it takes thousands of times as much memory.
const MAX_PATTERN_BYTES: usize = 1 << 16;

/// Limit of backtracking steps of one search, which takes seconds; `Work` limits a document. A
/// search for the next match in a long document can legitimately take a few steps per byte.
const BACKTRACK_LIMIT: usize = 200_000_000;

/// In a rest of so few bytes that does not begin with a match, the table is tried at each character,
/// which takes up to the square of this number of steps. The regex engine takes as many to begin:
/// with it, encoding with a sequence of steps takes up to 1.25 times as long.
const SHORT_REST: usize = 32;

/// A compiled pattern. A clone shares the tables but not the memory of a search.
#[derive(Debug, Clone)]
pub(super) struct Matcher {
    regex: fancy_regex::Regex,
    pub(super) engine: Engine,
}

impl Matcher {
    /// Compiles `pattern`.
    pub(super) fn new(pattern: &str) -> Result<Self, Error> {
        check_length(pattern)?;
        let regex = fancy_regex::RegexBuilder::new(pattern)
            .backtrack_limit(BACKTRACK_LIMIT)
            .build()
            .map_err(|error| Error::Pattern { reason: error.to_string() })?;
        Ok(Self { regex, engine: Engine::of(pattern)? })
    }

    /// The scanner, if that is the engine.
    pub(super) fn scanner(&self) -> Option<&Scanner> {
        match &self.engine {
            Engine::Scanner(scanner) => Some(scanner),
            _ => None,
        }
    }

    /// The lexer, if the spans are runs of units.
    pub(super) fn superwords(&self) -> Option<&Lexer> {
        match &self.engine {
            Engine::Lexer(lexer) if lexer.rules.form == Form::Superwords => Some(lexer),
            _ => None,
        }
    }

    fn table(&self) -> Option<&Automaton> {
        match &self.engine {
            Engine::Table(table) => Some(table),
            Engine::Scanner(_) | Engine::Lexer(_) | Engine::Regex => None,
        }
    }

    /// The pattern as it was passed.
    pub(super) fn pattern(&self) -> &str {
        self.regex.as_str()
    }

    /// Calls `visit` with each match in `text` and each gap between them.
    pub(super) fn visit_text<'d>(
        &self,
        text: &'d str,
        gaps: GapRule,
        work: &Work,
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
        while let Some((start, end)) = self.find(text, position, work)? {
            if start == end {
                position = next_character(text, end);
                continue;
            }
            visit_gap(text, (done, start), gaps, visit)?;
            visit(&text.as_bytes()[start..end], Kind::Match);
            done = end;
            position = end;
        }
        visit_gap(text, (done, text.len()), gaps, visit)
    }

    /// The next match at or after `from`.
    #[inline]
    fn find(&self, text: &str, from: usize, work: &Work) -> Result<Option<(usize, usize)>, Stuck> {
        let quick = self.table().and_then(|table| table.match_at(text, from));
        if let Some(end) = quick {
            return Ok(Some((from, end)));
        }
        if from >= text.len() {
            return Ok(None);
        }
        match self.table().filter(|_| text.len() - from <= SHORT_REST) {
            Some(table) => Ok(table.match_after(text, from)),
            None => {
                work.find(&self.regex, text, from).map_err(|reason| Stuck { offset: from, reason })
            }
        }
    }
}

/// Checks the bytes of a pattern.
pub(super) fn check_length(pattern: &str) -> Result<(), Error> {
    if pattern.len() > MAX_PATTERN_BYTES {
        let (bytes, limit) = (pattern.len(), MAX_PATTERN_BYTES);
        let reason = format!("it has {bytes} bytes: the limit is {limit}");
        return Err(Error::Pattern { reason });
    }
    Ok(())
}

fn visit_gap<'d>(
    text: &'d str,
    (start, end): (usize, usize),
    gaps: GapRule,
    visit: &mut impl FnMut(&'d [u8], Kind),
) -> Result<(), Stuck> {
    if start == end {
        return Ok(());
    }
    if gaps == GapRule::Refuse {
        return Err(Stuck { offset: start, reason: GaveUp::Gap });
    }
    visit(&text.as_bytes()[start..end], Kind::Gap);
    Ok(())
}

/// The start of the character after the one at `position`; beyond the end for the last one.
fn next_character(text: &str, position: usize) -> usize {
    position + text[position..].chars().next().map_or(1, char::len_utf8)
}
