//! The implementation that matches a pattern: the fastest one that finds the same spans. Tables are
//! cached for the next splitter of the same pattern.

use std::sync::{Arc, Mutex};

use crate::Error;
use crate::cpu::Level;
use crate::split::automaton::Automaton;
use crate::split::family::Family;
use crate::split::grammar::Grammar;
use crate::split::lexer::Lexer;
use crate::split::scanner::Scanner;

/// Limit of cached patterns: building a table takes up to 15 ms, and counting or encoding small
/// inputs creates many splitters.
const MAX_KEPT: usize = 4;

/// The most recent patterns with their engines, the newest last.
static KEPT: Mutex<Vec<(String, Engine)>> = Mutex::new(Vec::new());

/// From the fastest engine to the one that supports every pattern.
#[derive(Debug, Clone)]
pub(crate) enum Engine {
    /// The lexer for hard characters, and 64 bytes at a time for all others.
    Scanner(Arc<Scanner>),
    /// The lexer for all characters: for members of the family for which most are hard, and for the
    /// patterns of superwords.
    Lexer(Arc<Lexer>),
    /// A DFA.
    Table(Arc<Automaton>),
    /// The backtracking regex engine, which supports every pattern.
    Regex,
}

impl Engine {
    /// The engine for `pattern`.
    ///
    /// # Errors
    ///
    /// Fails if the environment requires an unavailable CPU level.
    pub(crate) fn of(pattern: &str) -> Result<Self, Error> {
        // Never wait for the lock: in a process that was forked while it was held, it stays held.
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
        if let Some(lexer) = Lexer::of_superwords(pattern) {
            return Self::Lexer(Arc::new(lexer));
        }
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
