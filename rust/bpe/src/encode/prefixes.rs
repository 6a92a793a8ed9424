//! Finds the longest token that is a prefix of some bytes.
//!
//! The tokens are a tree with steps of two bytes, stored in one table: a node is identified by its
//! slot, and its key is the parent node with two bytes. A token of an odd number of bytes is a node
//! without children. The first two bytes need no search.

use nanotok_memory as memory;

use crate::Vocabulary;

/// No node.
const EMPTY: u64 = u64::MAX;

/// Set in the token of a node without children.
const LEAF: u32 = 1 << 23;

/// Set in the key of a step of one byte.
const ODD: u64 = 1 << 39;

/// Bits of a slot below its key: a token and `LEAF`.
const TOKEN_BITS: u32 = 24;

/// Number of first nodes, one for each two bytes.
const NUM_FIRSTS: usize = 1 << 16;

/// Limit of nodes: twice as many slots and the first nodes fit 23 bits.
const MAX_NODES: usize = (1 << 22) - NUM_FIRSTS;

/// A tree of tokens.
#[derive(Debug)]
pub(crate) struct Prefixes {
    /// The longest token for the first two bytes.
    firsts: Vec<u32>,
    /// Keys with the longest token that ends at the node or before it.
    slots: Vec<u64>,
    shift: u32,
}

impl Prefixes {
    /// The tree of `tokens` and all single bytes; none if it has too many nodes. Time: sorting the
    /// tokens. Memory: 13 to 26 bytes per node, and 256 KiB.
    pub(crate) fn new(vocabulary: &Vocabulary, tokens: &[u32]) -> Option<Self> {
        let bytes = |id: u32| vocabulary.get(id).unwrap_or_default();
        let mut tokens = memory::copied(tokens);
        tokens.sort_unstable_by_key(|&id| bytes(id));
        let num_nodes = num_nodes(tokens.iter().map(|&id| bytes(id)));
        if num_nodes > MAX_NODES || tokens.iter().any(|&id| id >= LEAF) {
            return None;
        }
        let places = (num_nodes * 5 / 3 + 1).next_power_of_two().max(2);
        let mut tree = Self {
            firsts: (0..1 << 16).map(|pair| pair >> 8 | LEAF).collect(),
            slots: memory::filled(EMPTY, places),
            shift: 64 - places.trailing_zeros(),
        };
        tokens.sort_by_key(|&id| bytes(id).len());
        for id in tokens {
            tree.insert(bytes(id), id);
        }
        Some(tree)
    }

    /// The longest token that is a prefix of `bytes`; there must be at least one byte.
    #[inline]
    pub(crate) fn longest(&self, bytes: &[u8]) -> u32 {
        let &[first, second, ref rest @ ..] = bytes else {
            return u32::from(bytes[0]);
        };
        let mut node = usize::from(first) << 8 | usize::from(second);
        let mut token = self.firsts[node];
        let mut pairs = rest.chunks_exact(2);
        let mut last = pairs.remainder();
        while token & LEAF == 0 {
            let Some(pair) = pairs.next() else {
                return last.first().map_or(token, |&byte| self.odd(node, byte).unwrap_or(token));
            };
            let (place, slot) = self.find(even_key(node, pair[0], pair[1]));
            if slot == EMPTY {
                last = &pair[..1];
                return self.odd(node, last[0]).unwrap_or(token);
            }
            token = token_of(slot);
            node = place + NUM_FIRSTS;
        }
        token ^ LEAF
    }

    /// The token of `node` with one more byte.
    #[inline]
    fn odd(&self, node: usize, byte: u8) -> Option<u32> {
        let (_, slot) = self.find(odd_key(node, byte));
        (slot != EMPTY).then(|| token_of(slot))
    }

    /// Tokens must be inserted in the order of lengths, so that the values that a new node inherits
    /// are final.
    fn insert(&mut self, bytes: &[u8], id: u32) {
        let &[first, second, ref rest @ ..] = bytes else { return };
        let mut node = usize::from(first) << 8 | usize::from(second);
        if rest.is_empty() {
            self.firsts[node] = id | LEAF;
            return;
        }
        let mut pairs = rest.chunks_exact(2);
        for pair in &mut pairs {
            let inherited = self.odd(node, pair[0]).unwrap_or(self.token_at(node));
            node =
                NUM_FIRSTS + self.child(node, even_key(node, pair[0], pair[1]), inherited | LEAF);
        }
        match pairs.remainder() {
            [] => self.set(node - NUM_FIRSTS, id | LEAF),
            last => {
                let place = self.child(node, odd_key(node, last[0]), id);
                self.set(place, id);
            }
        }
    }

    /// The slot of the child of `node` with this key; a new child gets `token`.
    fn child(&mut self, node: usize, key: u64, token: u32) -> usize {
        let own = self.token_at(node);
        match node.checked_sub(NUM_FIRSTS) {
            Some(place) => self.set(place, own),
            None => self.firsts[node] = own,
        }
        let (place, slot) = self.find(key);
        if slot == EMPTY {
            self.slots[place] = key << TOKEN_BITS | u64::from(token);
        }
        place
    }

    fn token_at(&self, node: usize) -> u32 {
        let token = match node.checked_sub(NUM_FIRSTS) {
            Some(place) => token_of(self.slots[place]),
            None => self.firsts[node],
        };
        token & !LEAF
    }

    fn set(&mut self, place: usize, token: u32) {
        let key = self.slots[place] >> TOKEN_BITS;
        self.slots[place] = key << TOKEN_BITS | u64::from(token);
    }

    /// The slot of `key`, or the slot where it belongs, and its content.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a few bits are left")]
    fn find(&self, key: u64) -> (usize, u64) {
        let mask = self.slots.len() - 1;
        let mut place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize & mask;
        loop {
            let slot = self.slots[place];
            if slot >> TOKEN_BITS == key || slot == EMPTY {
                return (place, slot);
            }
            place = (place + 1) & mask;
        }
    }
}

#[inline]
fn even_key(node: usize, first: u8, second: u8) -> u64 {
    (node as u64) << 16 | u64::from(first) << 8 | u64::from(second)
}

#[inline]
fn odd_key(node: usize, byte: u8) -> u64 {
    ODD | (node as u64) << 16 | u64::from(byte)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower bits of a slot")]
fn token_of(slot: u64) -> u32 {
    slot as u32 & ((1 << TOKEN_BITS) - 1)
}

/// The number of different prefixes of sorted `tokens` with an even number of at least four bytes,
/// and of tokens with an odd number.
fn num_nodes<'t>(tokens: impl Iterator<Item = &'t [u8]>) -> usize {
    let mut before: &[u8] = &[];
    let mut number = 0;
    for token in tokens {
        let common = token.iter().zip(before).take_while(|(one, other)| one == other).count();
        number += (token.len() / 2).saturating_sub((common / 2).max(1)) + token.len() % 2;
        before = token;
    }
    number
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
    fn excluded_tokens_are_not_found() {
        let vocabulary = Vocabulary::new(&[(97, 98), (256, 99), (257, 100)]).unwrap();
        let tree = Prefixes::new(&vocabulary, &[258, 256]).unwrap();
        assert_eq!(
            ["abcd", "abcx", "ax"].map(|text| tree.longest(text.as_bytes())),
            [258, 256, 97]
        );
    }

    proptest! {
        #[test]
        fn the_longest_prefix_equals_that_of_a_search(
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
