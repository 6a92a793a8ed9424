//! What matches a pattern: the fastest way that is known to find the same spans. Keeps what is built for
//! the next splitter of the same pattern. Does not split.

use std::sync::{Arc, Mutex};

use crate::Error;
use crate::cpu::Level;
use crate::split::automaton::Automaton;
use crate::split::family::Family;
use crate::split::grammar::Grammar;
use crate::split::lexer::Lexer;
use crate::split::scanner::Scanner;

/// As many patterns are remembered: to build a table takes up to 15 ms, and whoever counts or encodes
/// small things makes many splitters.
const MAX_KEPT: usize = 4;

/// The newest patterns and their engines, newest last.
static KEPT: Mutex<Vec<(String, Engine)>> = Mutex::new(Vec::new());

/// From the fastest to the one that takes every pattern.
#[derive(Debug, Clone)]
pub(crate) enum Engine {
    Scanner(Arc<Scanner>),
    Lexer(Arc<Lexer>),
    Table(Arc<Automaton>),
    Regex,
}

impl Engine {
    /// The engine for `pattern`.
    ///
    /// # Errors
    ///
    /// The level of the CPU that the environment asks for is not there.
    pub(crate) fn of(pattern: &str) -> Result<Self, Error> {
        // Nobody waits for the lock: in a process that was forked while it was held it stays held.
        if let Ok(kept) = KEPT.try_lock()
            && let Some((_, engine)) = kept.iter().find(|(known, _)| known == pattern)
        {
            return Ok(engine.clone());
        }
        let engine = Self::new(pattern, Level::in_use()?);
        if let Ok(mut kept) = KEPT.try_lock() {
            if kept.len() == MAX_KEPT {
                kept.remove(0);
            }
            kept.push((pattern.to_owned(), engine.clone()));
        }
        Ok(engine)
    }

    fn new(pattern: &str, level: Level) -> Self {
        let Some(grammar) = Grammar::new(pattern) else { return Self::Regex };
        match Family::of(&grammar) {
            Some(family) if family.is_mostly_easy() => {
                Self::Scanner(Arc::new(Scanner::new(Lexer::new(family), level)))
            }
            Some(family) => Self::Lexer(Arc::new(Lexer::new(family))),
            None => Automaton::new(&grammar)
                .map_or(Self::Regex, |automaton| Self::Table(Arc::new(automaton))),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Scanner(_) | Self::Lexer(_) => "lexer",
            Self::Table(_) => "table",
            Self::Regex => "regex",
        }
    }
}
