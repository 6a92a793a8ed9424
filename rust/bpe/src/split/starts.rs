//! The starts of spans among 64 bytes, from a few operations on the masks of their classes. For
//! members of GPT's family, among characters that are not hard (such as those that are both letters
//! and signs), a start depends only on neighbors. The caller handles the rest: the ends of long
//! runs, contractions, groups of digits.
//!
//! All bytes of a wide character have its class; `rest` are those after its first. A shift by one
//! refers to the previous byte.

/// Classes of 64 bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Masks {
    pub(crate) letter: u64,
    /// Subset of `letter`: can begin a word if case matters, otherwise empty.
    pub(crate) upper: u64,
    pub(crate) digit: u64,
    pub(crate) sign: u64,
    pub(crate) space: u64,
    /// Subset of `space`.
    pub(crate) newline: u64,
    /// Can precede letters. Subset of `space` and `sign`.
    pub(crate) prefix: u64,
    /// Can follow signs. Subset of `space` and `sign`.
    pub(crate) tail: u64,
    /// U+0020.
    pub(crate) blank: u64,
    pub(crate) quote: u64,
    /// Bytes of characters except the first of each.
    pub(crate) rest: u64,
    /// All bytes of non-ASCII characters.
    pub(crate) wide: u64,
    /// Characters whose runs are pieces.
    pub(crate) apart: u64,
}

/// State of the byte before a block, each 0 or 1.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Before {
    letter: u64,
    /// A letter that is not upper.
    lower: u64,
    digit: u64,
    sign: u64,
    tail: u64,
    space: u64,
    newline: u64,
    blank: u64,
    /// White space that can precede letters.
    white_prefix: u64,
    /// A single sign that can precede letters.
    lone_sign: u64,
    apart: u64,
    /// A mark, or ASCII letters after it.
    marked: u64,
}

/// The rules of a member that are not in the masks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) spaced_digits: bool,
    pub(crate) spaced_signs: bool,
    pub(crate) form: Form,
}

/// The form of a member of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Contractions are spans.
    Plain,
    /// Contractions belong to the preceding letters.
    Attached,
    /// Numbers, and runs of some characters, are pieces, see `family::pieces`.
    Pieces,
    /// Runs of words are spans, see `lexer::superwords`. The scanner does not support this form.
    Superwords,
}

/// Starts of spans, and candidates for further checks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Starts {
    /// All certain starts.
    pub(crate) sure: u64,
    /// White space directly after a newline: a start unless only white space is between it and
    /// another newline (or the end of the text, if that counts).
    pub(crate) after_newline: u64,
    /// White space except newlines and tails.
    pub(crate) gap: u64,
    /// Newlines except tails.
    pub(crate) newline: u64,
    /// Apostrophes that start a span; if contractions are attached, those directly after letters.
    pub(crate) quote: u64,
    /// First digits of a number.
    pub(crate) number: u64,
    /// Whether the last byte is white space and not a tail.
    pub(crate) ends_in_space: bool,
}

/// The starts among the bytes of `masks`. `last` is the last byte of the text, if it is in the
/// block.
#[inline(always)]
#[expect(clippy::inline_always, reason = "kernels use the instructions of a level only if inlined")]
pub(crate) fn starts(masks: &Masks, rules: Rules, before: &mut Before, last: u64) -> Starts {
    let pieces = rules.form == Form::Pieces;
    let border = if pieces { borders(masks, before, last) } else { 0 };
    let tail = tails(masks, before, border);
    let first = !masks.rest;
    let (sign, space) = (masks.sign & !tail, masks.space & !tail);
    let (newline, blank) = (masks.newline & !tail, masks.blank & !tail);
    let after_blank = blank << 1 | before.blank;
    let joined = |spaced: bool| if spaced { after_blank } else { 0 };

    let before_sign = sign << 1 | before.sign | joined(rules.spaced_signs);
    let sign_start = sign & first & (!before_sign | border);
    let lone = spread(sign_start & masks.prefix | before.lone_sign & masks.rest, masks.rest);
    let white_prefix = space & masks.prefix;
    let prefixed = white_prefix << 1 | before.white_prefix | lone << 1 | before.lone_sign;
    let after_letter = masks.letter << 1 | before.letter;
    let lower = masks.letter & !masks.upper;
    let letter_start = masks.letter & first & !after_letter & !prefixed
        | masks.upper & first & (lower << 1 | before.lower);
    let number = masks.digit & first & !(masks.digit << 1 | before.digit);
    let space_start = space & first & !(space << 1 | before.space);
    let (marked, unmarked) = if pieces { after_marks(masks, lone, before) } else { (0, 0) };
    let piece_end = if pieces { (masks.digit | masks.apart) >> 1 } else { 0 };
    let last_space = last_spaces(space, last | piece_end, masks.rest) & !newline;
    let gap = space & !newline;
    let sure = sign_start | letter_start | number & !joined(rules.spaced_digits);
    let found = Starts {
        sure: sure | space_start | last_space | border | unmarked,
        after_newline: gap & first & (newline << 1 | before.newline),
        gap,
        newline,
        quote: sign_start
            & masks.quote
            & if rules.form == Form::Attached { after_letter } else { u64::MAX },
        number,
        ends_in_space: space >> 63 == 1,
    };
    *before = Before {
        letter: masks.letter >> 63,
        lower: lower >> 63,
        digit: masks.digit >> 63,
        sign: sign >> 63,
        tail: tail >> 63,
        space: space >> 63,
        newline: newline >> 63,
        blank: blank >> 63,
        white_prefix: white_prefix >> 63,
        lone_sign: lone >> 63,
        apart: masks.apart >> 63,
        marked: marked >> 63,
    };
    found
}

/// The last character of each run of `space` in the block, except those at `ends` of texts.
#[inline]
fn last_spaces(space: u64, ends: u64, rest: u64) -> u64 {
    gathered(space & !(space >> 1) & !(1 << 63) & !ends, rest)
}

/// The starts of runs of characters that are pieces, and of what follows them.
#[inline]
fn borders(masks: &Masks, before: &Before, last: u64) -> u64 {
    (masks.apart ^ (masks.apart << 1 | before.apart)) & !masks.rest & !(last << 1)
}

/// The bytes of `lone`, which are marks, and of the ASCII letters after them, and the starts of other
/// letters directly after these bytes.
#[inline]
fn after_marks(masks: &Masks, lone: u64, before: &Before) -> (u64, u64) {
    let ascii = masks.letter & !masks.wide;
    let marked = lone | run(ascii, ascii & (lone << 1 | before.marked));
    let others = masks.letter & masks.wide & !masks.rest;
    (marked, others & (marked << 1 | before.marked))
}

/// Runs of `tail` that begin directly after a sign.
#[inline]
fn tails(masks: &Masks, before: &Before, border: u64) -> u64 {
    let after_sign = (masks.sign << 1 | before.sign) & !border;
    run(masks.tail, masks.tail & (!masks.sign & after_sign | before.tail))
}

/// The bits of `mask` from each of `begin`, which are among them, to the next zero.
#[inline]
fn run(mask: u64, begin: u64) -> u64 {
    // The sum carries from each begin to the end of its run, and keeps begins within a run.
    mask & !mask.wrapping_add(begin) | begin
}

/// Extends first bytes of characters to all of their bytes.
#[inline]
pub(crate) fn spread(mut mask: u64, rest: u64) -> u64 {
    if rest != 0 {
        for _ in 0..3 {
            mask |= mask << 1 & rest;
        }
    }
    mask
}

/// Moves last bytes of characters to their first bytes.
#[inline]
fn gathered(mut mask: u64, rest: u64) -> u64 {
    if rest != 0 {
        for _ in 0..3 {
            mask = mask & !rest | (mask & rest) >> 1;
        }
    }
    mask
}
