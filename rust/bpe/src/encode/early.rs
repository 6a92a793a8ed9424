//! Merges whose priority is lower than that of a merge which makes one of their parts.
//!
//! Other methods merge in the order of ids, so ids must be in the order of priorities, and parts must
//! precede. Both are possible except for *early* merges, which are made at once when their parts
//! exist. They follow their parts in the order of ids, in which they are wrong.
//!
//! The other methods are exact for every span that has the bytes of no early merge: no such merge
//! can occur in it, and without them, ids are in the order of priorities. Spans with such bytes are
//! rare, and are merged by the priorities here.
//!
//! In ids, effective priorities do not decrease; the effective priority of a merge is the highest
//! one of all merges that make it. For a merge that is not early, it is its own.

use aho_corasick::AhoCorasick;
use nanotok_memory as memory;

use crate::encode::merge_table::{MergeTable, NO_MERGE};
use crate::encode::merging::merge;
use crate::numbering::by_id;
use crate::{Error, Merge, Vocabulary};

/// Priorities with early merges.
#[derive(Debug)]
pub(crate) struct Early {
    /// Finds the bytes of early merges.
    searcher: AhoCorasick,
    /// By merge.
    priorities: Vec<u32>,
}

impl Early {
    /// Nothing if no merge is early: then priorities are in the order of ids.
    ///
    /// # Errors
    ///
    /// Fails if there are not as many priorities as merges, if two are equal, or if effective
    /// priorities decrease.
    pub(crate) fn new(
        merges: &[Merge],
        priorities: &[u32],
        vocabulary: &Vocabulary,
    ) -> Result<Option<Self>, Error> {
        check(merges, priorities)?;
        let mut effective: Vec<u32> = memory::filled(0, vocabulary.len());
        let mut early = Vec::new();
        let mut before = 0;
        for (merge, (&(left, right), &priority)) in merges.iter().zip(priorities).enumerate() {
            let parts = effective[left as usize].max(effective[right as usize]);
            if parts > priority {
                let id = u32::try_from(256 + merge).unwrap_or(u32::MAX);
                early.push(vocabulary.get(id).unwrap_or_default());
            }
            let own = parts.max(priority);
            if own < before {
                return Err(Error::PriorityOrder { merge, priority });
            }
            effective[256 + merge] = own;
            before = own;
        }
        if early.is_empty() {
            return Ok(None);
        }
        let searcher = AhoCorasick::new(&early)
            .map_err(|error| Error::Needles { reason: error.to_string() })?;
        Ok(Some(Self { searcher, priorities: memory::copied(priorities) }))
    }

    /// Clears `reachable` for all tokens with bytes of early merges, which are no part of a span that
    /// is merged elsewhere, and returns whether every token is the result of merging its own bytes.
    pub(crate) fn correct(
        &self,
        merges: &MergeTable,
        vocabulary: &Vocabulary,
        reachable: &mut [bool],
    ) -> bool {
        let (mut all, mut ids) = (true, Vec::new());
        for (reachable, id) in reachable.iter_mut().zip(0..) {
            let bytes = vocabulary.get(id).unwrap_or_default();
            if self.occurs_in(bytes) {
                ids.clear();
                self.merge(merges, bytes, &mut ids);
                all &= ids == [id];
                *reachable = false;
            } else {
                all &= *reachable;
            }
        }
        all
    }

    /// Whether the bytes of an early merge occur in `span`.
    pub(crate) fn occurs_in(&self, span: &[u8]) -> bool {
        self.searcher.is_match(span)
    }

    /// Appends the ids of `span`, merged in the order of priorities, to `ids`.
    pub(crate) fn merge(&self, merges: &MergeTable, span: &[u8], ids: &mut Vec<u32>) {
        let bytes: Vec<u32> = memory::collected(span.iter().map(|&byte| u32::from(byte)));
        let result = merge(&bytes, |_, (left, right)| {
            let id = merges.get(left, right);
            (id != NO_MERGE).then(|| (self.priorities[id as usize - 256], id))
        });
        memory::append(ids, &result.symbols);
    }
}

/// Checks that each merge has another priority.
fn check(merges: &[Merge], priorities: &[u32]) -> Result<(), Error> {
    if merges.len() != priorities.len() {
        let (priorities, merges) = (priorities.len(), merges.len());
        return Err(Error::PrioritiesLength { priorities, merges });
    }
    let order = by_id(priorities);
    let twice = order.windows(2).find(|pair| priorities[pair[0]] == priorities[pair[1]]);
    twice.map_or(Ok(()), |pair| {
        Err(Error::PriorityOrder { merge: pair[1], priority: priorities[pair[1]] })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(merges: &[Merge], priorities: &[u32]) -> Option<Error> {
        Early::new(merges, priorities, &Vocabulary::new(merges).unwrap()).err()
    }

    #[test]
    fn priorities_that_differ_from_the_order_of_merges_are_an_error() {
        let merges = [(97, 98), (256, 99), (98, 99)];
        assert_eq!(error(&merges, &[5, 3, 7]), None);
        assert_eq!(error(&merges, &[5, 6, 7]), None);
        let wrong = |merge, priority| Some(Error::PriorityOrder { merge, priority });
        assert_eq!(error(&merges, &[5, 3, 4]), wrong(2, 4));
        assert_eq!(error(&merges, &[5, 3, 3]), wrong(2, 3));
        let lengths = Error::PrioritiesLength { priorities: 2, merges: 3 };
        assert_eq!(error(&merges, &[5, 3]), Some(lengths));
    }

    #[test]
    fn priorities_in_the_order_of_merges_need_no_table() {
        let merges = [(97, 98), (256, 99)];
        let vocabulary = Vocabulary::new(&merges).unwrap();
        assert!(Early::new(&merges, &[1, 9], &vocabulary).unwrap().is_none());
        let early = Early::new(&merges, &[9, 1], &vocabulary).unwrap().unwrap();
        assert!(early.occurs_in(b"xabcx"));
        assert!(!early.occurs_in(b"abbc"));
    }
}
