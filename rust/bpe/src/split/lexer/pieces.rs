//! Spans of a sequence of steps, see `family::pieces`.

use super::{APART, DIGIT, LETTER, Lexer, PREFIX, SIGN, SPACE, TAIL, ascii_letters};
use crate::split::classes::Sets;

impl Lexer {
    /// The end of the span that begins at `start`, by the alternatives in order.
    pub(super) fn end_in_piece(&self, text: &[u8], start: usize) -> usize {
        let (first, second_start) = self.classes.at(text, start);
        if first & DIGIT != 0 {
            return self.digits(text, start);
        }
        let piece = first & APART;
        let (second, third_start) = self.within(text, second_start, piece);
        let is_mark = first & (SIGN | PREFIX) == SIGN | PREFIX;
        if is_mark && text.get(second_start).is_some_and(u8::is_ascii_alphabetic) {
            ascii_letters(text, second_start)
        } else if first & LETTER != 0 {
            self.run_within(text, second_start, (piece, LETTER))
        } else if first & PREFIX != 0 && second & LETTER != 0 && !is_mark {
            self.run_within(text, third_start, (piece, LETTER))
        } else if first & SIGN != 0 {
            self.signs_within(text, second_start, piece)
        } else if text[start] == b' ' && self.rules.spaced_signs && second & SIGN != 0 {
            self.signs_within(text, third_start, piece)
        } else if first & SPACE != 0 {
            self.white_space(text, start)
        } else {
            self.others(text, (start, second_start), piece)
        }
    }

    /// The sets of the character at `at` and the start of the next one; no set at the end of the
    /// piece, whose characters have the sets `piece` of `APART`.
    #[inline]
    fn within(&self, text: &[u8], at: usize, piece: Sets) -> (Sets, usize) {
        let (own, next) = self.classes.at(text, at);
        if own & (APART | DIGIT) == piece { (own, next) } else { (0, at) }
    }

    /// The end of the characters of `wanted` in `piece` from `at` on.
    #[inline]
    fn run_within(&self, text: &[u8], mut at: usize, (piece, wanted): (Sets, Sets)) -> usize {
        loop {
            let (own, next) = self.within(text, at, piece);
            if own & wanted == 0 {
                return at;
            }
            at = next;
        }
    }

    fn signs_within(&self, text: &[u8], at: usize, piece: Sets) -> usize {
        let end = self.run_within(text, at, (piece, SIGN));
        self.run_within(text, end, (piece, TAIL))
    }

    /// The end of characters of no kind, without the last one if it precedes letters. The second of
    /// them begins at `at`.
    fn others(&self, text: &[u8], (start, mut at): (usize, usize), piece: Sets) -> usize {
        let mut last = start;
        loop {
            let (own, next) = self.within(text, at, piece);
            if own & (LETTER | SIGN | SPACE) != 0 || next == at {
                return if own & LETTER != 0 { last } else { at };
            }
            (last, at) = (at, next);
        }
    }
}

#[cfg(test)]
mod tests;
