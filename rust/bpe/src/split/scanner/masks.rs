//! The masks of a block of text: ASCII by the classifier, other characters one by one. Does not know where
//! spans start.

#![expect(
    clippy::inline_always,
    reason = "kernels use the instructions of a level only if inlined"
)]

use super::Scan;
use crate::cpu::planes::{AsciiSets, Block};
use crate::cpu::simd::Simd;
use crate::split::classes::Sets;
use crate::split::lexer::{
    DIGIT, HARD, LETTER, LOWER, Lexer, NEWLINE, PREFIX, SIGN, SPACE, TAIL, UPPER,
};
use crate::split::starts::Masks;

/// Bits of the classifier's sets. The space alone is both letter and space; signs are what is none of
/// letter, digit and space.
mod bit {
    pub(super) const LETTER: usize = 0;
    pub(super) const DIGIT: usize = 1;
    pub(super) const QUOTE: usize = 2;
    pub(super) const SPACE: usize = 3;
    pub(super) const NEWLINE: usize = 4;
    pub(super) const PREFIX: usize = 5;
    pub(super) const TAIL: usize = 6;
    pub(super) const UPPER: usize = 7;
}

/// The table of the classifier.
pub(super) fn ascii_sets(lexer: &Lexer) -> AsciiSets {
    let kept = [
        (LETTER, bit::LETTER),
        (DIGIT, bit::DIGIT),
        (SPACE, bit::SPACE),
        (NEWLINE, bit::NEWLINE),
        (PREFIX, bit::PREFIX),
        (TAIL, bit::TAIL),
        (UPPER, bit::UPPER),
    ];
    let mut sets = [0; 128];
    for (own, character) in sets.iter_mut().zip(0..) {
        let classes = lexer.classes.of_ascii(character);
        for (class, bit) in kept {
            *own |= u8::from(classes & class != 0) << bit;
        }
        *own |=
            u8::from(character == b'\'') << bit::QUOTE | u8::from(character == b' ') << bit::LETTER;
    }
    sets
}

impl Scan<'_> {
    /// None if there is a hard character.
    #[inline(always)]
    pub(super) fn masks<S: Simd>(&mut self, simd: S, block: &Block, valid: u64) -> Option<Masks> {
        let planes = simd.planes(&self.scanner.tables, block);
        let set = |bit: usize| planes.sets[bit] & valid;
        let (letter, digit, space) = (set(bit::LETTER), set(bit::DIGIT), set(bit::SPACE));
        let mut masks = Masks {
            letter: letter & !space,
            upper: set(bit::UPPER),
            digit,
            space,
            sign: valid & !(letter | digit | space | planes.wide),
            newline: set(bit::NEWLINE),
            prefix: set(bit::PREFIX),
            tail: set(bit::TAIL),
            blank: letter & space,
            quote: set(bit::QUOTE),
            rest: 0,
        };
        let easy = planes.wide == 0 || self.widen(&mut masks, planes.wide);
        easy.then_some(masks)
    }

    /// Adds the classes of the characters that are not ASCII, unless one is hard.
    fn widen(&mut self, masks: &mut Masks, mut wide: u64) -> bool {
        if self.carry.open_bytes > 0 {
            let bytes = (1 << self.carry.open_bytes) - 1;
            add(masks, self.carry.open, bytes);
            masks.rest |= bytes;
            wide &= !bytes;
            self.carry.open_bytes = 0;
        }
        while wide != 0 {
            let at = wide.trailing_zeros() as usize;
            let (classes, length) = self.scanner.lexer.classes.wide_at(self.text, self.base + at);
            if classes & HARD != 0 {
                return false;
            }
            let bytes = ((1 << length) - 1) << at;
            add(masks, classes, bytes);
            masks.rest |= bytes & (bytes << 1);
            wide &= !bytes;
            if at + length > 64 {
                (self.carry.open, self.carry.open_bytes) = (classes, at + length - 64);
            }
        }
        true
    }
}

/// Puts `bytes` into the masks of `classes`.
#[inline]
fn add(masks: &mut Masks, classes: Sets, bytes: u64) {
    if classes & !LOWER == LETTER {
        masks.letter |= bytes;
        return;
    }
    let all = [
        (LETTER, &mut masks.letter),
        (UPPER, &mut masks.upper),
        (DIGIT, &mut masks.digit),
        (SIGN, &mut masks.sign),
        (SPACE, &mut masks.space),
        (NEWLINE, &mut masks.newline),
        (PREFIX, &mut masks.prefix),
        (TAIL, &mut masks.tail),
    ];
    for (class, mask) in all {
        *mask |= if classes & class == 0 { 0 } else { bytes };
    }
}
