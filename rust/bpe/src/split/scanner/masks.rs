//! The masks of a block of text: ASCII, and letters that their first byte identifies, with
//! instructions of the CPU level; other characters one by one.

#![expect(
    clippy::inline_always,
    reason = "kernels use the instructions of a level only if inlined"
)]

use super::Scan;
use crate::cpu::planes::{AsciiSets, Block, Planes};
use crate::cpu::simd::Simd;
use crate::split::classes::Sets;
use crate::split::lexer::{
    APART, DIGIT, HARD, LETTER, LOWER, Lexer, NEWLINE, PREFIX, SIGN, SPACE, TAIL, UPPER,
};
use crate::split::starts::{Form, Masks, spread};

/// Bits of the classifier's sets. Only the space is both letter and space; signs are in none of
/// letter, digit and space.
mod bit {
    pub(super) const LETTER: usize = 0;
    pub(super) const DIGIT: usize = 1;
    /// The apostrophe; for pieces, which have no contractions, the hard characters.
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
        let is_quote =
            if lexer.rules.form == Form::Pieces { classes & HARD != 0 } else { character == b'\'' };
        *own |= u8::from(is_quote) << bit::QUOTE | u8::from(character == b' ') << bit::LETTER;
    }
    sets
}

impl Scan<'_> {
    /// None if the block has a hard character.
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
            wide: planes.wide,
            apart: 0,
        };
        if self.scanner.lexer.rules.form == Form::Pieces && masks.quote != 0 {
            return None;
        }
        let easy = planes.wide == 0 || self.widen(simd, &mut masks, block, &planes);
        easy.then_some(masks)
    }

    /// Adds the classes of non-ASCII characters, unless one is hard: first of their first bytes,
    /// then of the following bytes.
    #[inline(always)]
    fn widen<S: Simd>(
        &mut self,
        simd: S,
        masks: &mut Masks,
        block: &Block,
        planes: &Planes,
    ) -> bool {
        let classes = &self.scanner.lexer.classes;
        let first = planes.wide & !planes.rest;
        let mut letter = first & simd.marked(block, &self.scanner.letters);
        let mut others = Masks::default();
        let (mut left, mut is_other) = (first & !letter, false);
        while left != 0 {
            let bit = left & left.wrapping_neg();
            let (own, _) = classes.wide_at(self.text, self.base + left.trailing_zeros() as usize);
            left ^= bit;
            if own & HARD != 0 {
                return false;
            }
            if is_plain_letter(own) {
                letter |= bit;
            } else if own == LETTER | APART {
                letter |= bit;
                others.apart |= bit;
                is_other = true;
            } else {
                add(&mut others, own, bit);
                is_other = true;
            }
        }
        masks.rest = planes.rest;
        masks.letter |= spread(letter, planes.rest);
        if is_other {
            masks.add_spread(&others);
        }
        if self.carry.open_bytes > 0 {
            add(masks, self.carry.open, (1 << self.carry.open_bytes) - 1);
            self.carry.open_bytes = 0;
        }
        if planes.wide >> 63 == 1 {
            let at = 63 - first.leading_zeros() as usize;
            let (own, length) = classes.wide_at(self.text, self.base + at);
            (self.carry.open, self.carry.open_bytes) = (own, at + length - 64);
        }
        true
    }
}

/// Whether a character of these classes is a letter without case, and nothing else.
pub(super) fn is_plain_letter(classes: Sets) -> bool {
    classes & !LOWER == LETTER
}

impl Masks {
    /// Adds `first`, the masks of the first bytes of characters, and their following bytes.
    fn add_spread(&mut self, first: &Self) {
        let rest = self.rest;
        self.letter |= spread(first.letter, rest);
        self.upper |= spread(first.upper, rest);
        self.digit |= spread(first.digit, rest);
        self.sign |= spread(first.sign, rest);
        self.space |= spread(first.space, rest);
        self.newline |= spread(first.newline, rest);
        self.prefix |= spread(first.prefix, rest);
        self.tail |= spread(first.tail, rest);
        self.apart |= spread(first.apart, rest);
    }
}

/// Adds `bytes` to the masks of `classes`.
#[inline]
fn add(masks: &mut Masks, classes: Sets, bytes: u64) {
    if is_plain_letter(classes) {
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
        (APART, &mut masks.apart),
    ];
    for (class, mask) in all {
        *mask |= if classes & class == 0 { 0 } else { bytes };
    }
}
