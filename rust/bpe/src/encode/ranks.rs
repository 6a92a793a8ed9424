//! Derives merges from the vocabularies of other tools, which contain only the bytes of each id.
//!
//! The pair of a token is the result of encoding its bytes with the merges before it. If that is
//! two parts for each token, merging pairs returns the same ids as merging the lowest joined bytes:
//! see `span_ids`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nanotok_memory as memory;
use rustc_hash::FxHashMap;

use crate::encode::linked::Linked;
use crate::{ByteOrder, Documents, Error, Merge};

/// The merges, in ids, of a vocabulary: `tokens` are the bytes of its ids, the first 256 of one
/// byte each.
///
/// Time: n log n for a token of n bytes.
///
/// # Errors
///
/// Fails if the first 256 tokens are not a permutation of the bytes, or at the first token that
/// does not consist of two parts.
pub fn merges_of_tokens(tokens: Documents<'_>) -> Result<(ByteOrder, Vec<Merge>), Error> {
    let singles: Vec<u8> = (0..tokens.len().min(256))
        .filter_map(|id| <[u8; 1]>::try_from(tokens.get(id)).ok())
        .map(|[byte]| byte)
        .collect();
    let order = ByteOrder::new(&singles)?;
    memory::check_room::<[u32; 4]>(2 * tokens.len());
    let (mut merges, mut known) = (Vec::new(), FxHashMap::default());
    for (token, id) in (256..tokens.len()).zip(256..) {
        let pair = match parts(tokens.get(token), &known)[..] {
            [left, right] => (left, right),
            ref parts => {
                let (bytes, parts) = (tokens.get(token).to_vec(), parts.len());
                return Err(Error::UnreachableToken { token, bytes, parts });
            }
        };
        known.insert(pair, id);
        memory::push(&mut merges, pair);
    }
    order.of_ids(&mut merges);
    Ok((order, merges))
}

/// The ids of bytes, by always applying the lowest merge, the leftmost first.
fn parts(bytes: &[u8], known: &FxHashMap<Merge, u32>) -> Vec<u32> {
    let ids: Vec<u32> = memory::collected(bytes.iter().map(|&byte| u32::from(byte)));
    let merged = |pair: Merge| known.get(&pair).copied();
    let mut list = Linked::new(&ids);
    let pairs = ids.windows(2).map(|pair| merged((pair[0], pair[1])));
    let mut heap: BinaryHeap<Reverse<(u32, u32)>> =
        pairs.zip(0..).filter_map(|(id, at)| Some(Reverse((id?, at)))).collect();
    while let Some(Reverse((id, at))) = heap.pop() {
        if list.pair(at).and_then(merged) != Some(id) {
            continue;
        }
        list.merge(at, id);
        for left in [list.before(at), Some(at)].into_iter().flatten() {
            if let Some(id) = list.pair(left).and_then(merged) {
                heap.push(Reverse((id, left)));
            }
        }
    }
    list.ids().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Goal, Vocabulary, reference};

    fn recovered(tokens: &[&[u8]]) -> Result<Vec<Merge>, Error> {
        let mut offsets = vec![0];
        for token in tokens {
            offsets.push(offsets[offsets.len() - 1] + i64::try_from(token.len()).unwrap());
        }
        let data = tokens.concat();
        merges_of_tokens(Documents::new(&data, &offsets)?).map(|(_, merges)| merges)
    }

    fn spelled(merges: &[Merge], order: &ByteOrder) -> Vec<Vec<u8>> {
        let vocabulary = Vocabulary::ordered(merges, order).unwrap();
        (0..).map_while(|id| vocabulary.get(id).map(<[u8]>::to_vec)).collect()
    }

    fn with_bytes(tokens: &[&[u8]]) -> Result<Vec<Merge>, Error> {
        let bytes: Vec<u8> = (0..=255).collect();
        recovered(&[&bytes.chunks(1).collect::<Vec<_>>(), tokens].concat())
    }

    #[test]
    fn a_token_without_two_parts_is_named() {
        let error = |token, bytes: &[u8], parts| {
            Err(Error::UnreachableToken { token, bytes: bytes.to_vec(), parts })
        };
        assert_eq!(with_bytes(&[b"ab", b"bc", b"abc"]), Ok(vec![(97, 98), (98, 99), (256, 99)]));
        assert_eq!(with_bytes(&[b"ab", b"abcd"]), error(257, b"abcd", 3));
        assert_eq!(with_bytes(&[b"ab", b"ab"]), error(257, b"ab", 1));
        assert_eq!(with_bytes(&[b"ab", b"c"]), error(257, b"c", 1));
        assert_eq!(with_bytes(&[b""]), error(256, b"", 0));
    }

    #[test]
    fn the_first_tokens_must_be_the_bytes() {
        assert_eq!(recovered(&[]), Err(Error::ByteOrder { number: 0, twice: None }));
        let number = 255;
        let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        tokens[9].push(1);
        let tokens: Vec<&[u8]> = tokens.iter().map(Vec::as_slice).collect();
        assert_eq!(recovered(&tokens), Err(Error::ByteOrder { number, twice: None }));
    }

    proptest! {
        #[test]
        fn learned_merges_are_restored_from_their_tokens_for_any_byte_order(
            texts in prop::collection::vec("[abc]{1,30}", 0..9),
            bytes in Just((0..=255).collect::<Vec<u8>>()).prop_shuffle(),
        ) {
            let spans: Vec<_> = texts.into_iter().map(|text| (text.into_bytes(), 1)).collect();
            let mut merges = reference::learn(&spans, Goal::merges(30)).merges;
            let order = ByteOrder::new(&bytes).unwrap();
            order.of_ids(&mut merges);
            let tokens = spelled(&merges, &order);
            let tokens: Vec<&[u8]> = tokens.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(recovered(&tokens), Ok(merges));
        }
    }
}
