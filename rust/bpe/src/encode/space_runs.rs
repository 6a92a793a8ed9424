//! Tokens of several spaces that all have the same priority, which is the lowest.
//!
//! Models of the family of Llama 2 have such tokens: of all pairs of neighbors that make one of
//! them, the leftmost is merged. Priorities of merges cannot express that, because merges of
//! different tokens are never equal. Since all other merges come first, only spaces that no other
//! merge took are left, at the start of a span, and they are joined when the span has its ids.
//!
//! Joining from left to right is the same rule: before the next space is appended, no pair can be
//! merged, so the leftmost pair that can is always the last one.

use nanotok_memory as memory;

use crate::numbering::WITHOUT_ID;

/// The ids of runs of spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpaceRuns {
    /// By the number of spaces; [`WITHOUT_ID`] for a number that is no token.
    ids: Vec<u32>,
}

impl SpaceRuns {
    /// `ids[n]` is the id of n spaces, or [`WITHOUT_ID`]; `ids[1]` is that of a space.
    pub(crate) fn new(ids: &[u32]) -> Self {
        Self { ids: memory::copied(ids) }
    }

    /// The highest id plus one.
    pub(crate) fn num_ids(&self) -> usize {
        let ids = self.ids.iter().filter(|&&id| id != WITHOUT_ID);
        ids.max().map_or(0, |&id| id as usize + 1)
    }

    /// Joins the spaces at the start of the ids of a span.
    #[inline]
    pub(crate) fn join(&self, ids: &mut Vec<u32>) {
        let space = self.ids.get(1).copied();
        if ids.len() > 1 && ids.first().copied() == space && ids.get(1).copied() == space {
            let number = ids.iter().take_while(|&&id| Some(id) == space).count();
            let mut joined = self.joined(number);
            memory::append(&mut joined, &ids[number..]);
            *ids = joined;
        }
    }

    /// The ids of a number of spaces.
    fn joined(&self, number: usize) -> Vec<u32> {
        let mut lengths: Vec<usize> = Vec::new();
        for _ in 0..number {
            let mut last = 1;
            while let Some(&before) = lengths.last()
                && self.id(before + last).is_some()
            {
                last += before;
                lengths.pop();
            }
            memory::push(&mut lengths, last);
        }
        let mut ids = memory::with_capacity(lengths.len());
        ids.extend(lengths.into_iter().filter_map(|length| self.id(length)));
        ids
    }

    fn id(&self, length: usize) -> Option<u32> {
        self.ids.get(length).copied().filter(|&id| id != WITHOUT_ID)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Merges the leftmost pair until none merges.
    fn plain(ids: &[u32], number: usize) -> Vec<u32> {
        let is_token = |length: usize| ids.get(length).is_some_and(|&id| id != WITHOUT_ID);
        let mut lengths = vec![1; number];
        while let Some(at) = lengths.windows(2).position(|pair| is_token(pair[0] + pair[1])) {
            lengths[at] += lengths.remove(at + 1);
        }
        lengths.into_iter().map(|length| ids[length]).collect()
    }

    #[test]
    fn spaces_at_the_start_are_joined_and_others_stay() {
        let runs = SpaceRuns::new(&[WITHOUT_ID, 5, 6, WITHOUT_ID, 8]);
        let joined = |ids: &[u32]| {
            let mut ids = ids.to_vec();
            runs.join(&mut ids);
            ids
        };
        assert_eq!(joined(&[5, 5, 9, 5, 5]), [6, 9, 5, 5]);
        assert_eq!(joined(&[5; 7]), [8, 6, 5]);
        assert_eq!(joined(&[9, 5, 5]), [9, 5, 5]);
        assert_eq!(joined(&[5]), [5]);
        assert_eq!(joined(&[]), [0; 0]);
        assert_eq!(runs.num_ids(), 9);
    }

    proptest! {
        #[test]
        fn the_leftmost_pair_is_merged(
            tokens in prop::collection::vec(any::<bool>(), 2..20),
            number in 0_usize..60,
        ) {
            let mut ids: Vec<u32> = (0..22).collect();
            for (id, is_token) in ids[2..].iter_mut().zip(tokens) {
                if !is_token {
                    *id = WITHOUT_ID;
                }
            }
            prop_assert_eq!(SpaceRuns::new(&ids).joined(number), plain(&ids, number));
        }
    }
}
