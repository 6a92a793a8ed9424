//! Ids of one span, by the merges. Takes bytes, gives ids. Knows neither documents nor patterns.
//!
//! The rule: a span that is a token as a whole is that id (of two with the same bytes, the lower). Else
//! its bytes are ids, and of all neighbouring pairs that merge, the one that makes the lowest id is
//! merged, the leftmost first, until none merges.
//!
//! tiktoken looks at the joined bytes of two neighbours instead of the pair. Both give the same ids if
//! each merge is the last step of encoding its own bytes with the merges before it, as learned merges
//! are: neighbours whose joined bytes are token n were made by merges below n, within those bytes
//! alone, so they are the pair of merge n.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashTable;
use rustc_hash::FxHashMap;

use crate::linked::Linked;
use crate::{Error, Merge, Vocabulary, hash64};

/// From this many bytes on a heap finds the next merge: shorter spans are faster scanned.
const LONG_SPAN: usize = 64;

/// "These two do not merge", greater than every id.
const NO_MERGE: u32 = u32::MAX;

/// The tables that give a span's ids.
#[derive(Debug)]
pub(crate) struct SpanIds {
    vocabulary: Vocabulary,
    whole: HashTable<u32>,
    of_bytes: Vec<u32>,
    merges: FxHashMap<Merge, u32>,
}

/// Memory that is used again for each span.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    ids: Vec<u32>,
    merged: Vec<u32>,
}

impl SpanIds {
    pub(crate) fn new(merges: &[Merge]) -> Result<Self, Error> {
        let vocabulary = Vocabulary::new(merges)?;
        let mut tables = Self {
            whole: whole_spans(&vocabulary),
            vocabulary,
            of_bytes: vec![NO_MERGE; 1 << 16],
            merges: FxHashMap::default(),
        };
        for (&pair, id) in merges.iter().zip(256..) {
            let slot = match pair {
                (left @ 0..256, right @ 0..256) => {
                    &mut tables.of_bytes[(left << 8 | right) as usize]
                }
                _ => tables.merges.entry(pair).or_insert(NO_MERGE),
            };
            if *slot != NO_MERGE {
                let (merge, first) = (id as usize - 256, *slot as usize - 256);
                return Err(Error::RepeatedMerge { merge, first });
            }
            *slot = id;
        }
        Ok(tables)
    }

    pub(crate) fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The ids of `span`, which is not empty.
    pub(crate) fn encode<'s>(&self, span: &[u8], scratch: &'s mut Scratch) -> &'s [u32] {
        let Scratch { ids, merged } = scratch;
        ids.clear();
        if let Some(id) = self.whole_span(span) {
            ids.push(id);
            return ids;
        }
        ids.extend(span.iter().map(|&byte| u32::from(byte)));
        if span.len() < LONG_SPAN {
            self.merge_by_scan(ids, merged);
        } else {
            self.merge_by_heap(ids);
        }
        ids
    }

    fn whole_span(&self, span: &[u8]) -> Option<u32> {
        if let &[byte] = span {
            return Some(u32::from(byte));
        }
        self.whole.find(hash64(span), |&id| self.vocabulary.get(id) == Some(span)).copied()
    }

    #[inline]
    fn merged(&self, left: u32, right: u32) -> u32 {
        if left < 256 && right < 256 {
            return self.of_bytes[(left << 8 | right) as usize];
        }
        self.merges.get(&(left, right)).copied().unwrap_or(NO_MERGE)
    }

    /// Time: n for each merge. `merged[i]` is what ids i and i + 1 merge to.
    fn merge_by_scan(&self, ids: &mut Vec<u32>, merged: &mut Vec<u32>) {
        merged.clear();
        merged.extend(ids.windows(2).map(|pair| self.merged(pair[0], pair[1])));
        while let Some((at, &id)) = merged.iter().enumerate().min_by_key(|&(_, id)| id) {
            if id == NO_MERGE {
                return;
            }
            ids[at] = id;
            ids.remove(at + 1);
            merged.remove(at);
            if at > 0 {
                merged[at - 1] = self.merged(ids[at - 1], id);
            }
            if at < merged.len() {
                merged[at] = self.merged(id, ids[at + 1]);
            }
        }
    }

    /// Time: n log n. The heap may hold pairs that are gone: what stands there now tells.
    fn merge_by_heap(&self, ids: &mut Vec<u32>) {
        let merged = |(left, right)| self.merged(left, right);
        let mut list = Linked::new(ids);
        let pairs = ids.windows(2).map(|pair| self.merged(pair[0], pair[1]));
        let mut heap: BinaryHeap<Reverse<(u32, usize)>> =
            pairs.zip(0..).filter(|&(id, _)| id != NO_MERGE).map(Reverse).collect();
        while let Some(Reverse((id, at))) = heap.pop() {
            if list.pair(at).map(merged) != Some(id) {
                continue;
            }
            list.merge(at, id);
            for left in [list.before(at), Some(at)].into_iter().flatten() {
                let id = list.pair(left).map_or(NO_MERGE, merged);
                if id != NO_MERGE {
                    heap.push(Reverse((id, left)));
                }
            }
        }
        ids.clear();
        ids.extend(list.ids());
    }
}

fn whole_spans(vocabulary: &Vocabulary) -> HashTable<u32> {
    let mut table: HashTable<u32> = HashTable::with_capacity(vocabulary.len());
    let bytes = |id: u32| vocabulary.get(id).unwrap_or_default();
    for id in (0..).take(vocabulary.len()) {
        let same = |other: &u32| bytes(*other) == bytes(id);
        table.entry(hash64(bytes(id)), same, |other| hash64(bytes(*other))).or_insert(id);
    }
    table
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::naive;

    fn check(merges: &[Merge], span: &str, expected: &[u32]) {
        let tables = SpanIds::new(merges).unwrap();
        assert_eq!(tables.encode(span.as_bytes(), &mut Scratch::default()), expected, "{span}");
    }

    #[test]
    fn the_lowest_merge_comes_first_and_the_leftmost_of_equals() {
        check(&[], "ab", &[97, 98]);
        check(&[(98, 99), (97, 98)], "abcx", &[97, 256, 120]);
        check(&[(97, 97)], "aaa", &[256, 97]);
        check(&[(97, 98), (256, 256)], "ababab", &[257, 256]);
    }

    #[test]
    fn a_whole_token_is_its_id_even_if_merges_do_not_lead_there() {
        let merges = [(98, 99), (97, 98), (257, 99)];
        check(&merges, "abc", &[258]);
        check(&merges, "abcd", &[97, 256, 100]);
    }

    #[test]
    fn of_two_tokens_with_the_same_bytes_the_lower_is_taken() {
        check(&[(97, 97), (256, 97), (97, 256)], "aaa", &[257]);
    }

    #[test]
    fn a_repeated_merge_is_an_error() {
        let error = |merges: &[Merge]| SpanIds::new(merges).unwrap_err();
        let first = (97, 98);
        assert_eq!(error(&[first, first]), Error::RepeatedMerge { merge: 1, first: 0 });
        let second = (256, 256);
        assert_eq!(error(&[first, second, second]), Error::RepeatedMerge { merge: 2, first: 1 });
    }

    /// Merges of ids that exist before, no pair twice: more than a learner would ever make.
    fn merges() -> impl Strategy<Value = Vec<Merge>> {
        prop::collection::vec((0u32..40, 0u32..40), 0..40).prop_map(|choices| {
            let mut merges: Vec<Merge> = Vec::new();
            for (left, right) in choices {
                let id = |choice: u32| if choice < 4 { 97 + choice } else { 252 + choice };
                let merge = (id(left), id(right));
                let limit = 256 + u32::try_from(merges.len()).unwrap();
                if merge.0 < limit && merge.1 < limit && !merges.contains(&merge) {
                    merges.push(merge);
                }
            }
            merges
        })
    }

    proptest! {
        #[test]
        fn ids_are_those_of_the_plain_twin(
            merges in merges(), span in prop::collection::vec(97u8..102, 1..150)
        ) {
            let tables = SpanIds::new(&merges).unwrap();
            let mut scratch = Scratch::default();
            let expected = naive::encode_span(&merges, &span);
            prop_assert_eq!(tables.encode(&span, &mut scratch), &expected[..]);
            for by_heap in [false, true] {
                let mut ids: Vec<u32> = span.iter().map(|&byte| u32::from(byte)).collect();
                if by_heap {
                    tables.merge_by_heap(&mut ids);
                } else {
                    tables.merge_by_scan(&mut ids, &mut Vec::new());
                }
                let whole = tables.whole_span(&span).map(|id| vec![id]);
                prop_assert_eq!(whole.unwrap_or(ids), &expected[..]);
            }
        }
    }
}
