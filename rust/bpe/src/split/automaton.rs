//! A split pattern as a DFA: a table of state transitions by byte. Given text and a position, it
//! returns the end of the match that begins there. It is ten times as fast as the backtracking
//! engine, and linear on runs of white space that exhaust that engine. If the table cannot decide,
//! the caller uses the other engine.

use regex_automata::dfa::dense::{Builder, Config, DFA};
use regex_automata::dfa::{Automaton as _, StartKind};
use regex_automata::util::primitives::StateID;
use regex_automata::{Anchored, Input, MatchKind};

use crate::split::grammar::Grammar;

/// Patterns with a larger table (usual ones take 1.5 to 3 MB) are left to the backtracking engine.
const MAX_BYTES: usize = 32 << 20;

/// The number of the white-space rule among the automaton's patterns.
const WHITESPACE: usize = 1;

/// A pattern's table.
#[derive(Debug)]
pub(crate) struct Automaton {
    table: DFA<Vec<u32>>,
    start: StateID,
}

impl Automaton {
    /// The table of `grammar`, unless it is too large.
    pub(crate) fn new(grammar: &Grammar) -> Option<Self> {
        let config = Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::LeftmostFirst)
            .accelerate(false)
            .dfa_size_limit(Some(MAX_BYTES))
            .determinize_size_limit(Some(MAX_BYTES));
        let mut patterns = vec![grammar.alternatives.join("|")];
        if grammar.whitespace_rule {
            patterns.push(r"\s+".to_owned());
        }
        let table = Builder::new().configure(config).build_many(&patterns).ok()?;
        let start = table.start_state_forward(&Input::new("").anchored(Anchored::Yes)).ok()?;
        Some(Self { table, start })
    }

    /// The end of the match that begins at `from`; `None` for no match or an empty one.
    pub(crate) fn match_at(&self, text: &str, from: usize) -> Option<usize> {
        let (end, state) = self.longest(text.as_bytes(), from)?;
        if self.table.match_pattern(state, 0).as_usize() == WHITESPACE {
            return Some(whitespace_end(text, from, end));
        }
        (end > from).then_some(end)
    }

    /// The first match that begins after `from`, and is not empty; every start is tried.
    pub(crate) fn match_after(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let mut starts = text[from..].char_indices().skip(1).map(|(at, _)| from + at);
        starts.find_map(|start| Some((start, self.match_at(text, start)?)))
    }

    /// The automaton reports a match one byte late, or at the end of the text.
    fn longest(&self, bytes: &[u8], from: usize) -> Option<(usize, StateID)> {
        let table = &self.table;
        let mut state = self.start;
        let mut found = None;
        for (at, &byte) in bytes.iter().enumerate().skip(from) {
            state = table.next_state(state, byte);
            if table.is_special_state(state) {
                if table.is_match_state(state) {
                    found = Some((at, state));
                } else if table.is_dead_state(state) {
                    return found;
                }
            }
        }
        state = table.next_eoi_state(state);
        if table.is_match_state(state) { Some((bytes.len(), state)) } else { found }
    }
}

/// `\s+(?!\S)|\s+` for the white space `from..end`: its last character belongs to what follows.
fn whitespace_end(text: &str, from: usize, end: usize) -> usize {
    let last = text[from..end].chars().next_back().map_or(0, char::len_utf8);
    if end == text.len() || end - last == from { end } else { end - last }
}
