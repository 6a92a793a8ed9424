//! Derives merges from the vocabularies of other tools, which contain only the bytes of each id.
//!
//! For [`merges_of_tokens`], the pair of a token is the result of encoding its bytes with the merges
//! before it. If that is two parts for each token, merging pairs returns the same ids as merging the
//! lowest joined bytes: see `span_ids`. [`merges_of_ranks`] accepts every vocabulary: tokens that
//! joining never makes, such as 588 of Llama 3, and tokens of which a part has a higher rank, such
//! as 90 of Llama 3.

use nanotok_memory as memory;
use rustc_hash::FxHashMap;

use crate::encode::merging::{Applied, Merged, in_order, merge};
use crate::vocabulary::check_length;
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
    merge(&ids, |_, pair| known.get(&pair).map(|&id| (id, id))).symbols
}

/// The merges and the whole tokens of a vocabulary of ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranked {
    /// Pairs of internal ids.
    pub merges: Vec<Merge>,
    /// The positions of the whole tokens.
    pub whole: Vec<usize>,
    /// The position of each internal id: bytes, merges, whole tokens.
    pub numbering: Vec<u32>,
}

impl Ranked {
    /// The priority of each merge, which is its position.
    pub fn priorities(&self) -> &[u32] {
        &self.numbering[256..256 + self.merges.len()]
    }
}

/// What encodes like tiktoken: a span that is a token is that token, and otherwise of all neighbors
/// whose joined bytes are a token, those of the lowest rank are joined, the leftmost first.
/// `tokens` are the bytes of the tokens in the order of their ranks.
///
/// A token that joining its own bytes makes becomes a merge, of the two parts that are joined last.
/// Every other token is never made: see the fact in `merging`, in which the pair of two neighbors
/// is their joined bytes. So of all neighbors whose joined bytes are a token only the pairs of
/// merges ever occur, and merging by pairs does the same, with the ranks as priorities.
///
/// Time: n log n for a token of n bytes.
///
/// # Errors
///
/// Fails if a byte is missing, or if a token is empty, repeated or too long.
pub fn merges_of_ranks(tokens: Documents<'_>) -> Result<Ranked, Error> {
    let ranks = ranks_of(tokens)?;
    let mut numbering: Vec<u32> = memory::with_capacity(tokens.len());
    for byte in 0..=255 {
        numbering.push(*ranks.get(&[byte][..]).ok_or(Error::MissingByte { byte })?);
    }
    let mut internal: Vec<u32> = memory::filled(u32::MAX, tokens.len());
    numbering.iter().zip(0..).for_each(|(&rank, byte)| internal[rank as usize] = byte);
    let (mut applied, mut whole) = (Vec::new(), Vec::new());
    for (token, symbol) in (0..tokens.len()).zip(0..) {
        let (bytes, length) = (tokens.get(token), tokens.get(token).len());
        match joined(bytes, tokens, &ranks, &numbering[..256]).whole() {
            _ if length == 1 => {}
            Some(step) => memory::push(&mut applied, Applied { step, symbol, length }),
            None => memory::push(&mut whole, token),
        }
    }
    let (merges, priorities) = in_order(applied, &mut internal);
    memory::append(&mut numbering, &priorities);
    numbering.extend(whole.iter().filter_map(|&token| u32::try_from(token).ok()));
    Ok(Ranked { merges, whole, numbering })
}

/// The rank of each token by its bytes.
fn ranks_of(tokens: Documents<'_>) -> Result<FxHashMap<&[u8], u32>, Error> {
    if u32::try_from(tokens.len()).is_err() {
        return Err(Error::TooManyMerges { number: tokens.len() });
    }
    memory::check_room::<[u32; 6]>(2 * tokens.len());
    let mut ranks = FxHashMap::default();
    for (token, rank) in (0..tokens.len()).zip(0..) {
        let bytes = tokens.get(token);
        if bytes.is_empty() {
            return Err(Error::EmptyToken { token });
        }
        check_length(token, bytes.len())?;
        if let Some(first) = ranks.insert(bytes, rank) {
            let (first, bytes) = (first as usize, bytes.to_vec());
            return Err(Error::RepeatedToken { token, first, bytes });
        }
    }
    Ok(ranks)
}

/// The result of joining `bytes` by the ranks of the joined bytes, with all tokens; symbols are
/// ranks.
fn joined(
    bytes: &[u8],
    tokens: Documents<'_>,
    ranks: &FxHashMap<&[u8], u32>,
    of_bytes: &[u32],
) -> Merged {
    let symbols: Vec<u32> =
        memory::collected(bytes.iter().map(|&byte| of_bytes[usize::from(byte)]));
    let length = |rank: u32| tokens.get(rank as usize).len();
    merge(&symbols, |start, (left, right)| {
        let end = start + length(left) + length(right);
        ranks.get(&bytes[start..end]).map(|&rank| (rank, rank))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encode::Tokens;
    use crate::encode::span_ids::{Scratch, SpanIds};
    use crate::{Goal, Vocabulary, reference};

    fn offsets_of(tokens: &[&[u8]]) -> Vec<i64> {
        let mut offsets = vec![0];
        for token in tokens {
            offsets.push(offsets[offsets.len() - 1] + i64::try_from(token.len()).unwrap());
        }
        offsets
    }

    fn recovered(tokens: &[&[u8]]) -> Result<Vec<Merge>, Error> {
        let data = tokens.concat();
        merges_of_tokens(Documents::new(&data, &offsets_of(tokens))?).map(|(_, merges)| merges)
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

    fn ranked(tokens: &[&[u8]]) -> Result<Ranked, Error> {
        merges_of_ranks(Documents::new(&tokens.concat(), &offsets_of(tokens))?)
    }

    fn ranked_with_bytes(tokens: &[&[u8]]) -> Result<Ranked, Error> {
        let bytes: Vec<u8> = (0..=255).collect();
        ranked(&[tokens, &bytes.chunks(1).collect::<Vec<_>>()].concat())
    }

    #[test]
    fn a_token_that_joining_never_makes_is_whole() {
        let found = ranked_with_bytes(&[b"ab", b"bc", b"abcd", b"xab"]).unwrap();
        assert_eq!((found.merges, found.whole), (vec![(97, 98), (98, 99), (120, 256)], vec![2]));
        let bytes = (4..260).collect::<Vec<u32>>();
        assert_eq!(found.numbering, [&bytes[..], &[0, 1, 3], &[2]].concat());
    }

    #[test]
    fn a_token_follows_its_parts_and_keeps_its_rank() {
        let found = ranked_with_bytes(&[b"abc", b"xy", b"ab"]).unwrap();
        assert_eq!(found.merges, [(120, 121), (97, 98), (257, 99)]);
        assert_eq!(found.priorities(), [1, 2, 0]);
    }

    #[test]
    fn wrong_tokens_are_named() {
        let error = |tokens: &[&[u8]]| ranked_with_bytes(tokens).unwrap_err();
        assert_eq!(error(&[b"ab", b""]), Error::EmptyToken { token: 1 });
        let (token, first, bytes) = (1, 0, b"ab".to_vec());
        assert_eq!(error(&[b"ab", b"ab"]), Error::RepeatedToken { token, first, bytes });
        assert_eq!(ranked(&[b"ab"]), Err(Error::MissingByte { byte: 0 }));
    }

    /// Compares the spans, whole and merged.
    fn check_ranks(tokens: &[Vec<u8>], spans: &[Vec<u8>]) -> Result<(), TestCaseError> {
        let tokens: Vec<&[u8]> = tokens.iter().map(Vec::as_slice).collect();
        let found = ranked(&tokens).unwrap();
        prop_assert_eq!(256 + found.merges.len() + found.whole.len(), tokens.len());
        let whole: Vec<&[u8]> = found.whole.iter().map(|&token| tokens[token]).collect();
        let (data, offsets) = (whole.concat(), offsets_of(&whole));
        let tables = SpanIds::new(Tokens {
            merges: &found.merges,
            priorities: Some(found.priorities()),
            whole: Some(Documents::new(&data, &offsets).unwrap()),
            numbering: Some(&found.numbering),
            ..Tokens::default()
        });
        let (tables, mut scratch) = (tables.unwrap(), Scratch::default());
        for span in spans.iter().map(Vec::as_slice).chain(tokens.iter().copied()) {
            let ids = tables.encode(span, &mut scratch).iter().map(|&id| id as usize);
            prop_assert!(ids.eq(reference::join_ranks(&tokens, span)), "{:?}", span);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn ids_equal_those_of_the_ranks(
            tokens in prop::collection::btree_set(prop::collection::vec(97u8..100, 2..6), 0..16),
            by_length in any::<bool>(),
            mut order in Just((0..272).collect::<Vec<usize>>()).prop_shuffle(),
            spans in prop::collection::vec(prop::collection::vec(97u8..100, 1..30), 1..20),
        ) {
            let bytes = (0..=255).map(|byte| vec![byte]);
            let tokens: Vec<Vec<u8>> = bytes.chain(tokens).collect();
            order.retain(|&at| at < tokens.len());
            let mut tokens: Vec<Vec<u8>> = order.into_iter().map(|at| tokens[at].clone()).collect();
            if by_length {
                tokens.sort_by_key(Vec::len);
            }
            check_ranks(&tokens, &spans)?;
        }
    }
}
