//! The documents that wait for a place, searched by length; of equal lengths the smallest index
//! first.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use nanotok_memory as memory;

/// A document: its length and its index.
pub(crate) type Candidate = (u32, u64);

/// Documents in the order of length; of equal lengths in decreasing order of indexes, so that the
/// smallest is found from above.
#[derive(Debug, Clone, Default)]
pub(crate) struct Candidates(BTreeSet<(u32, Reverse<u64>)>);

impl Candidates {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Checks that there is memory for `number` more documents.
    pub(crate) fn check_room(number: usize) {
        // An entry of a tree whose nodes are half full.
        memory::check_room::<[Candidate; 2]>(number);
    }

    pub(crate) fn insert(&mut self, (length, number): Candidate) {
        self.0.insert((length, Reverse(number)));
    }

    /// Removes and returns the largest document of up to `most` tokens.
    pub(crate) fn take_fitting(&mut self, most: u32) -> Option<Candidate> {
        let &found = self.0.range(..=(most, Reverse(0))).next_back()?;
        self.0.remove(&found);
        Some((found.0, found.1.0))
    }

    /// Removes and returns the largest document.
    pub(crate) fn take_longest(&mut self) -> Option<Candidate> {
        self.0.pop_last().map(|(length, number)| (length, number.0))
    }

    /// Removes and returns the smallest document.
    pub(crate) fn take_shortest(&mut self) -> Option<Candidate> {
        let &(shortest, _) = self.0.first()?;
        self.take_fitting(shortest)
    }
}

impl FromIterator<Candidate> for Candidates {
    fn from_iter<I: IntoIterator<Item = Candidate>>(found: I) -> Self {
        Self(found.into_iter().map(|(length, number)| (length, Reverse(number))).collect())
    }
}
