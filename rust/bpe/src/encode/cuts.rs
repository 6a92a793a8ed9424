//! Positions at which a span can be cut before it is merged: between two bytes that are adjacent in
//! no token of the vocabulary.
//!
//! A merge across such a position would make a token with both bytes adjacent, so there is none,
//! and each part merges on its own. But a part is not a span: a part that is a token need not merge
//! to it.

use crate::Vocabulary;

/// One bit for each pair of bytes: 8 KiB.
#[derive(Debug)]
pub(crate) struct Cuts {
    joined: Vec<[u64; 4]>,
}

impl Cuts {
    pub(crate) fn new(vocabulary: &Vocabulary) -> Self {
        let (bytes, offsets) = vocabulary.parts();
        let mut joined = vec![[0; 4]; 256];
        for token in offsets.windows(2).map(|window| &bytes[window[0]..window[1]]) {
            for pair in token.windows(2) {
                joined[usize::from(pair[0])][usize::from(pair[1] / 64)] |= 1 << (pair[1] % 64);
            }
        }
        Self { joined }
    }

    /// One bit for each of the first 32 positions between two of `bytes`: set if they can be cut
    /// apart there.
    #[inline]
    pub(crate) fn first(&self, bytes: &[u8]) -> u32 {
        let pairs = (0..32).zip(bytes.windows(2));
        pairs.fold(0, |cuts, (at, pair)| cuts | u32::from(self.may_cut(pair[0], pair[1])) << at)
    }

    /// The number of `bytes` before the first cut; there must be at least one byte.
    pub(crate) fn first_part(&self, bytes: &[u8]) -> usize {
        let cut = bytes.windows(2).position(|pair| self.may_cut(pair[0], pair[1]));
        cut.map_or(bytes.len(), |before| before + 1)
    }

    /// Whether two adjacent bytes can be cut apart.
    #[inline]
    pub(crate) fn may_cut(&self, first: u8, second: u8) -> bool {
        self.joined[usize::from(first)][usize::from(second / 64)] >> (second % 64) & 1 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_inside_any_token_are_not_separated() {
        let cuts = Cuts::new(&Vocabulary::new(&[(97, 98), (256, 99)]).unwrap());
        let part = |text: &str| cuts.first_part(text.as_bytes());
        assert_eq!(["a", "abcabc", "bcx", "ba", "ab"].map(part), [1, 3, 2, 1, 2]);
    }
}
