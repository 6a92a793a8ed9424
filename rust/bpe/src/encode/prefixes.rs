//! The longest token that some bytes begin with. Takes tokens of the vocabulary, answers for bytes.
//! Does not know merges.
//!
//! A tree of all tokens, kept as one table: a node is named by its place there, its key is the node
//! before and a byte. The first two bytes need no search.

use crate::Vocabulary;

/// The place of no node.
const EMPTY: u32 = u32::MAX;

/// Set in a first node that no longer token begins with.
const LAST: u32 = 1 << 31;

/// Most nodes: names of twice as many, after those of the first two bytes, take 24 bits.
const MAX_NODES: usize = 1 << 22;

/// A tree of tokens.
#[derive(Debug)]
pub(crate) struct Prefixes {
    firsts: Vec<u32>,
    nodes: Vec<Node>,
    shift: u32,
}

/// `token` is the longest that ends here or before.
#[derive(Debug, Clone, Copy)]
struct Node {
    key: u32,
    token: u32,
}

impl Prefixes {
    /// The tree of `tokens`, to which every byte belongs unasked; none if it has too many nodes.
    /// Time: sorting them. Memory: 16 to 32 bytes a node, and 256 KiB.
    pub(crate) fn new(vocabulary: &Vocabulary, tokens: &[u32]) -> Option<Self> {
        let bytes = |id: u32| vocabulary.get(id).unwrap_or_default();
        let mut tokens = tokens.to_vec();
        tokens.sort_unstable_by_key(|&id| bytes(id));
        let num_nodes = num_nodes(tokens.iter().map(|&id| bytes(id)));
        if num_nodes > MAX_NODES {
            return None;
        }
        let places = (num_nodes * 5 / 4 + 1).next_power_of_two().max(2);
        let mut tree = Self {
            firsts: (0..1 << 16).map(|pair| pair >> 8 | LAST).collect(),
            nodes: vec![Node { key: EMPTY, token: 0 }; places],
            shift: 32 - places.trailing_zeros(),
        };
        tokens.sort_by_key(|&id| bytes(id).len());
        for id in tokens {
            tree.insert(bytes(id), id);
        }
        Some(tree)
    }

    /// The longest token that `bytes` begin with; there must be one byte.
    #[inline]
    pub(crate) fn longest(&self, bytes: &[u8]) -> u32 {
        let &[first, second, ref rest @ ..] = bytes else {
            return u32::from(bytes[0]);
        };
        let mut node = u32::from(first) << 8 | u32::from(second);
        let mut token = self.firsts[node as usize];
        if token & LAST != 0 {
            return token ^ LAST;
        }
        for &byte in rest {
            let place = self.place(node << 8 | u32::from(byte));
            if self.nodes[place].key == EMPTY {
                break;
            }
            token = self.nodes[place].token;
            node = name(place);
        }
        token
    }

    /// Tokens must come by length, so that what a new node inherits is final.
    fn insert(&mut self, bytes: &[u8], id: u32) {
        let &[first, second, ref rest @ ..] = bytes else { return };
        let mut node = u32::from(first) << 8 | u32::from(second);
        let start = &mut self.firsts[node as usize];
        if rest.is_empty() {
            *start = id | LAST;
            return;
        }
        *start &= !LAST;
        let mut longest = *start;
        for &byte in rest {
            let key = node << 8 | u32::from(byte);
            let place = self.place(key);
            let found = &mut self.nodes[place];
            if found.key == EMPTY {
                *found = Node { key, token: longest };
            }
            longest = found.token;
            node = name(place);
        }
        self.nodes[(node - (1 << 16)) as usize].token = id;
    }

    /// Where `key` is, or where it would be.
    #[inline]
    fn place(&self, key: u32) -> usize {
        let mask = self.nodes.len() - 1;
        let mut place = (key.wrapping_mul(0x9e37_79b1) >> self.shift) as usize;
        while self.nodes[place].key != key && self.nodes[place].key != EMPTY {
            place = (place + 1) & mask;
        }
        place
    }
}

/// Different prefixes of three bytes or more of sorted `tokens`.
fn num_nodes<'t>(tokens: impl Iterator<Item = &'t [u8]>) -> usize {
    let mut before: &[u8] = &[];
    let mut number = 0;
    for token in tokens {
        let common = token.iter().zip(before).take_while(|(one, other)| one == other).count();
        number += token.len().saturating_sub(common.max(2));
        before = token;
    }
    number
}

/// Names follow those of the first two bytes.
#[expect(clippy::cast_possible_truncation, reason = "at most 2 * MAX_NODES places")]
#[inline]
fn name(place: usize) -> u32 {
    place as u32 + (1 << 16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_are_always_tokens() {
        let vocabulary = Vocabulary::new(&[]).unwrap();
        let tree = Prefixes::new(&vocabulary, &[]).unwrap();
        assert_eq!(tree.longest(b"\xff"), 255);
        assert_eq!(tree.longest(b"ab"), 97);
    }

    #[test]
    fn tokens_that_are_left_out_are_not_found() {
        let vocabulary = Vocabulary::new(&[(97, 98), (256, 99), (257, 100)]).unwrap();
        let tree = Prefixes::new(&vocabulary, &[258, 256]).unwrap();
        assert_eq!(
            ["abcd", "abcx", "ax"].map(|text| tree.longest(text.as_bytes())),
            [258, 256, 97]
        );
    }

    proptest! {
        #[test]
        fn the_longest_is_that_of_a_search(
            choices in prop::collection::vec((any::<u16>(), any::<u16>()), 0..60),
            text in prop::collection::vec(97u8..100, 1..30),
        ) {
            let merges: Vec<_> = (3u32..).zip(choices).map(|(limit, (left, right))| {
                let id = |choice: u16| match u32::from(choice) % limit { id @ 0..3 => 97 + id, id => 253 + id };
                (id(left), id(right))
            }).collect();
            let Ok(vocabulary) = Vocabulary::new(&merges) else { return Ok(()) };
            let is_first = |id: &u32| (0..*id).all(|other| vocabulary.get(other) != vocabulary.get(*id));
            let tokens: Vec<u32> = (256..).take(merges.len()).filter(is_first).collect();
            let Some(tree) = Prefixes::new(&vocabulary, &tokens) else { return Ok(()) };
            let all = (0..256).chain(tokens).filter(|&id| text.starts_with(vocabulary.get(id).unwrap()));
            let expected = all.max_by_key(|&id| vocabulary.get(id).unwrap().len());
            prop_assert_eq!(Some(tree.longest(&text)), expected);
        }
    }
}
