//! Merges from a list of pairs of byte strings, as in a tokenizer.json: of all adjacent pairs in the
//! list, the first in the list is merged, the leftmost of equal ones first. A merged pair is the
//! token of its joined bytes, whichever pair made it.
//!
//! Files that were converted from ranks list every division of a token in two, of which one applies.
//! A pair is *kept* if it is the last step of merging the bytes of both parts on their own with all
//! pairs. The kept pairs, with their positions in the list as priorities, give the same tokens:
//!
//! 1. By the fact in `merging`, exactly the kept pairs are ever merged, in any text. So the others
//!    can be left out.
//! 2. No two kept pairs have the same bytes, since merging these bytes has one last step. So a token
//!    that is not a byte is made by one kept pair, and can be identified with it.
//! 3. The parts of a kept pair are bytes or were merged within it, by pairs that are kept. So the
//!    kept pairs in the order of their effective ranks are merges: parts precede.

use nanotok_memory as memory;
use rustc_hash::FxHashMap;

use crate::encode::merging::{Applied, Merged, in_order, merge};
use crate::vocabulary::check_length;
use crate::{Documents, Error, Merge};

/// The merges that a list of pairs applies, and the position of each of them in the list, which is
/// its priority. `parts` are left and right of the first pair, then of the second, and so on; of
/// equal pairs, the last counts.
///
/// Time: n log n for a pair of n bytes.
///
/// # Errors
///
/// Fails if the number of parts is odd, or if a pair has too many bytes.
pub fn merges_of_pairs(parts: Documents<'_>) -> Result<(Vec<Merge>, Vec<u32>), Error> {
    let number = parts.len() / 2;
    if parts.len() % 2 == 1 {
        return Err(Error::OddParts { number: parts.len() });
    }
    if u32::try_from(2 * parts.len() + 256).is_err() {
        return Err(Error::TooManyMerges { number });
    }
    let list = List::new(parts);
    let mut applied = Vec::new();
    for (pair, rank) in (0..number).zip(0..) {
        let length = list.joined(pair).len();
        check_length(pair, length)?;
        let result = list.merged(pair);
        if let Some(step) = result.whole().filter(|step| step.rank == rank) {
            memory::push(&mut applied, Applied { step, symbol: result.symbols[0], length });
        }
    }
    let mut internal: Vec<u32> = memory::filled(u32::MAX, list.symbols.len());
    (0..256).for_each(|byte| internal[byte as usize] = byte);
    Ok(in_order(applied, &mut internal))
}

/// Pairs with their ranks, of numbered byte strings.
struct List<'a> {
    parts: Documents<'a>,
    /// The number of each byte string; single bytes have their own value.
    symbols: FxHashMap<&'a [u8], u32>,
    /// The rank of each pair, and the symbol of its joined bytes.
    known: FxHashMap<Merge, (u32, u32)>,
}

impl<'a> List<'a> {
    fn new(parts: Documents<'a>) -> Self {
        memory::check_room::<[u64; 4]>(4 * parts.len());
        let mut own = Self { parts, symbols: FxHashMap::default(), known: FxHashMap::default() };
        for byte in BYTES.chunks_exact(1) {
            own.symbol(byte);
        }
        for (pair, rank) in (0..parts.len() / 2).zip(0..) {
            let left = own.symbol(parts.get(2 * pair));
            let right = own.symbol(parts.get(2 * pair + 1));
            let joined = own.symbol(own.joined(pair));
            own.known.insert((left, right), (rank, joined));
        }
        own
    }

    fn symbol(&mut self, bytes: &'a [u8]) -> u32 {
        let next = u32::try_from(self.symbols.len()).unwrap_or(u32::MAX);
        *self.symbols.entry(bytes).or_insert(next)
    }

    /// The bytes of both parts of a pair.
    fn joined(&self, pair: usize) -> &'a [u8] {
        &self.parts.data()[self.parts.start(2 * pair)..self.parts.start(2 * pair + 2)]
    }

    /// The result of merging the bytes of a pair with all pairs.
    fn merged(&self, pair: usize) -> Merged {
        let bytes: Vec<u32> =
            memory::collected(self.joined(pair).iter().map(|&byte| u32::from(byte)));
        merge(&bytes, |_, pair| self.known.get(&pair).copied())
    }
}

static BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut byte = 0_u8;
    loop {
        bytes[byte as usize] = byte;
        if byte == u8::MAX {
            break bytes;
        }
        byte += 1;
    }
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encode::Tokens;
    use crate::encode::span_ids::{Scratch, SpanIds};
    use crate::{Goal, Vocabulary, reference};

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    fn found(pairs: &Pairs) -> Result<(Vec<Merge>, Vec<u32>), Error> {
        let parts: Vec<&[u8]> =
            pairs.iter().flat_map(|(left, right)| [&left[..], &right[..]]).collect();
        // Data before and after the pairs are no part of them.
        let mut offsets = vec![3];
        for part in &parts {
            offsets.push(offsets[offsets.len() - 1] + i64::try_from(part.len()).unwrap());
        }
        let data = [&b"xyz"[..], &parts.concat(), b"xyz"].concat();
        merges_of_pairs(Documents::new(&data, &offsets)?)
    }

    fn check(pairs: &[(&str, &str)], (merges, positions): (&[Merge], &[u32])) {
        let pairs =
            pairs.iter().map(|(left, right)| (left.as_bytes().into(), right.as_bytes().into()));
        assert_eq!(found(&pairs.collect()), Ok((merges.to_vec(), positions.to_vec())));
    }

    #[test]
    fn pairs_that_never_apply_are_left_out() {
        check(&[], (&[], &[]));
        check(&[("a", "b"), ("a", "bc"), ("ab", "c")], (&[(97, 98), (256, 99)], &[0, 2]));
        check(&[("a", "b"), ("x", "yz"), ("", "a")], (&[(97, 98)], &[0]));
        check(&[("a", "a"), ("a", "aa"), ("aa", "a")], (&[(97, 97), (256, 97)], &[0, 2]));
    }

    #[test]
    fn the_last_of_equal_pairs_counts() {
        check(&[("a", "b"), ("b", "c"), ("a", "b")], (&[(98, 99), (97, 98)], &[1, 2]));
    }

    #[test]
    fn a_pair_follows_its_parts_and_keeps_its_position() {
        check(
            &[("ab", "c"), ("x", "y"), ("a", "b")],
            (&[(120, 121), (97, 98), (257, 99)], &[1, 2, 0]),
        );
        let list = [("x", "y"), ("ab", "cd"), ("a", "b"), ("c", "d")];
        check(&list, (&[(120, 121), (97, 98), (99, 100), (257, 258)], &[0, 2, 3, 1]));
    }

    #[test]
    fn an_odd_number_of_parts_is_an_error() {
        let odd = merges_of_pairs(Documents::new(b"abc", &[0, 1, 2, 3]).unwrap());
        assert_eq!(odd, Err(Error::OddParts { number: 3 }));
    }

    /// Pairs of short strings of few letters, many of which are other pairs joined.
    fn pairs() -> impl Strategy<Value = Pairs> {
        let part = prop::collection::vec(97u8..99, 1..4);
        let random = prop::collection::vec((part.clone(), part), 0..16);
        let grown = prop::collection::vec((0usize..40, 0usize..40), 0..16).prop_map(|choices| {
            let mut strings = vec![b"a".to_vec(), b"b".to_vec()];
            let mut pairs = Pairs::new();
            for (left, right) in choices {
                let pair = [left, right].map(|part| strings[part % strings.len()].clone());
                strings.push(pair.concat());
                let [left, right] = pair;
                pairs.push((left, right));
            }
            pairs
        });
        let swapped = (grown, any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(
            |(mut pairs, one, other)| {
                if !pairs.is_empty() {
                    let (one, other) = (one.index(pairs.len()), other.index(pairs.len()));
                    pairs.swap(one, other);
                }
                pairs
            },
        );
        prop_oneof![random, swapped]
    }

    fn spans() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::vec(prop::collection::vec(97u8..100, 1..40), 1..20)
    }

    /// Compares spans, and whether each pair is applied when its own bytes are merged.
    fn check_list(pairs: &Pairs, spans: &[Vec<u8>]) -> Result<(), TestCaseError> {
        let (merges, positions) = found(pairs).unwrap();
        let vocabulary = Vocabulary::new(&merges).unwrap();
        prop_assert!(vocabulary.duplicates().is_empty());
        for (&position, id) in positions.iter().zip(256..) {
            let (left, right) = &pairs[position as usize];
            prop_assert_eq!(vocabulary.get(id).unwrap(), [&left[..], right].concat());
        }
        let own = pairs.iter().map(|(left, right)| [&left[..], right].concat());
        let priorities = Some(&positions[..]);
        let tables = SpanIds::new(Tokens { priorities, ..Tokens::merges(&merges) }).unwrap();
        for span in spans.iter().cloned().chain(own) {
            let ids = reference::encode_span_by(&merges, &positions, &span);
            let tokens: Vec<&[u8]> = ids.iter().map(|&id| vocabulary.get(id).unwrap()).collect();
            prop_assert_eq!(tokens, reference::merge_pairs(pairs, &span));
            let mut scratch = Scratch::default();
            prop_assert_eq!(tables.encode(&span, &mut scratch), ids);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn tokens_equal_those_of_the_list(pairs in pairs(), spans in spans()) {
            check_list(&pairs, &spans)?;
        }

        #[test]
        fn learned_merges_are_found_among_all_divisions(
            texts in prop::collection::vec("[abc]{1,30}", 0..9), spans in spans(),
        ) {
            let texts: Vec<_> = texts.into_iter().map(|text| (text.into_bytes(), 1)).collect();
            let merges = reference::learn(&texts, Goal::merges(30)).merges;
            let vocabulary = Vocabulary::new(&merges).unwrap();
            let known = |part: &[u8]| (0..).map_while(|id| vocabulary.get(id)).any(|it| it == part);
            let mut pairs = Pairs::new();
            for id in (256..).take(merges.len()) {
                let token = vocabulary.get(id).unwrap();
                let divisions = (1..token.len()).map(|at| token.split_at(at));
                pairs.extend(divisions
                    .filter(|(left, right)| known(left) && known(right))
                    .map(|(left, right)| (left.to_vec(), right.to_vec())));
            }
            prop_assert_eq!(found(&pairs).unwrap().0, merges);
            check_list(&pairs, &spans)?;
        }
    }
}
