//! Positions at which a span of several words can be cut before it is merged: between two bytes that
//! are adjacent in no token of the vocabulary.
//!
//! A merge across such a position would make a token with both bytes adjacent, so there is none,
//! and each part merges on its own. But a part is not a span: a part that is a token need not merge
//! to it.
//!
//! Other spans are merged without cuts: looking for them takes as long as they save.

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
        let may_cut = |pair: &[u8; 2]| cuts.may_cut(pair[0], pair[1]);
        assert_eq!(
            [b"ab", b"bc", b"ca", b"ba", b"cx"].map(may_cut),
            [false, false, true, true, true]
        );
    }
}
