//! Text to the places where spans start, 64 bytes at a time, for those members of GPT's family whose
//! classes have nothing in common. Finds what the lexer finds. Linear: beside its block a byte is looked
//! at only by the run of white space, the contraction or the number it belongs to.

use crate::cpu::Level;
use crate::lexer::{DIGIT, LETTER, Lexer, NEWLINE, PREFIX, SIGN, SPACE, TAIL};
use crate::planes::{AsciiSets, Block};
use crate::simd::Classifier;
use crate::starts::{Before, Masks, Rules, Starts, starts};

/// A member of the family, ready to scan.
#[derive(Debug)]
pub(crate) struct Scanner {
    lexer: Lexer,
    classifier: Classifier,
    rules: Rules,
}

/// Bits of the classifier's sets; signs are what is in none of the four kinds of ASCII.
mod bit {
    pub(super) const LETTER: usize = 0;
    pub(super) const DIGIT: usize = 1;
    pub(super) const QUOTE: usize = 2;
    pub(super) const SPACE: usize = 3;
    pub(super) const NEWLINE: usize = 4;
    pub(super) const PREFIX: usize = 5;
    pub(super) const TAIL: usize = 6;
    pub(super) const BLANK: usize = 7;
}

impl Scanner {
    /// A scanner that splits as `lexer` does; its family must be `separate`.
    pub(crate) fn new(lexer: Lexer, level: Level) -> Self {
        let classifier = Classifier::new(ascii_sets(&lexer), level);
        let rules = Rules { spaced_digits: lexer.spaced_digits, spaced_signs: lexer.spaced_signs };
        Self { lexer, classifier, rules }
    }

    /// The starts of all spans of `text`, block after block.
    #[inline]
    pub(crate) fn scan<'a>(&'a self, text: &'a str) -> Scan<'a> {
        Scan { scanner: self, text: text.as_bytes(), base: 0, carry: Carry::default() }
    }

    /// Calls `visit` with each span of `text`; joined they are the text.
    #[inline]
    pub(crate) fn split<'d>(&self, text: &'d str, mut visit: impl FnMut(&'d [u8])) {
        let mut start = 0;
        self.visit_ends(text, |end| {
            visit(&text.as_bytes()[std::mem::replace(&mut start, end)..end]);
        });
    }

    /// Calls `visit` with where each span of `text` ends.
    #[inline]
    pub(crate) fn visit_ends(&self, text: &str, mut visit: impl FnMut(usize)) {
        let mut blocks = self.scan(text);
        // The first start of all ends nothing.
        let first = blocks.next().map(|(base, starts)| (base, starts & starts.wrapping_sub(1)));
        for (base, mut starts) in first.into_iter().chain(blocks) {
            while starts != 0 {
                visit(base + starts.trailing_zeros() as usize);
                starts &= starts - 1;
            }
        }
        if !text.is_empty() {
            visit(text.len());
        }
    }
}

fn ascii_sets(lexer: &Lexer) -> AsciiSets {
    let kept = [
        (LETTER, bit::LETTER),
        (DIGIT, bit::DIGIT),
        (SPACE, bit::SPACE),
        (NEWLINE, bit::NEWLINE),
        (PREFIX, bit::PREFIX),
        (TAIL, bit::TAIL),
    ];
    let mut sets = [0; 128];
    for (own, character) in sets.iter_mut().zip(0..) {
        let classes = lexer.classes.of_ascii(character);
        for (class, bit) in kept {
            *own |= u8::from(classes & class != 0) << bit;
        }
        *own |=
            u8::from(character == b'\'') << bit::QUOTE | u8::from(character == b' ') << bit::BLANK;
    }
    sets
}

/// The blocks of a text: where each begins, and which of its bytes start a span.
pub(crate) struct Scan<'a> {
    scanner: &'a Scanner,
    text: &'a [u8],
    base: usize,
    carry: Carry,
}

/// What a block leaves to the next.
#[derive(Debug, Default)]
struct Carry {
    before: Before,
    /// Classes of the character that is not over.
    open: u8,
    /// How many of its bytes are left.
    open_bytes: usize,
    /// Digits so far of the span that is not over.
    digits: u32,
    /// Bytes that a contraction takes.
    taken: u64,
    /// The letter after it.
    after: u64,
}

impl Iterator for Scan<'_> {
    type Item = (usize, u64);

    #[inline]
    fn next(&mut self) -> Option<(usize, u64)> {
        let rest = self.text.get(self.base..).filter(|rest| !rest.is_empty())?;
        let starts = if let Some(block) = rest.first_chunk() {
            self.block(block, u64::MAX)
        } else {
            let mut block = [0; 64];
            block[..rest.len()].copy_from_slice(rest);
            self.block(&block, (1 << rest.len()) - 1)
        };
        let item = (self.base, starts);
        self.base += 64;
        Some(item)
    }
}

impl Scan<'_> {
    /// The starts among `block`, of which the bytes in `valid` are text.
    #[inline]
    fn block(&mut self, block: &Block, valid: u64) -> u64 {
        let masks = self.masks(block, valid);
        let last = valid & !(valid >> 1) & !(1 << 63);
        let found = starts(&masks, self.scanner.rules, &mut self.carry.before, last);
        let mut all = found.sure & !self.carry.taken | self.carry.after;
        (self.carry.taken, self.carry.after) = (0, 0);
        if found.after_newline != 0 {
            all |= self.after_newlines(&found, last);
        }
        if found.ends_in_space {
            all |= self.last_space(masks.rest);
        }
        if found.quote != 0 {
            all = self.contractions(found.quote, all);
        }
        if masks.digit != 0 && self.scanner.lexer.max_digits < u32::MAX {
            all |= self.numbers(masks.digit & !masks.rest, found.number);
        }
        all
    }

    #[inline]
    fn masks(&mut self, block: &Block, valid: u64) -> Masks {
        let planes = self.scanner.classifier.planes(block);
        let set = |bit: usize| planes.sets[bit] & valid;
        let (letter, digit, space) = (set(bit::LETTER), set(bit::DIGIT), set(bit::SPACE));
        let mut masks = Masks {
            letter,
            digit,
            space,
            sign: valid & !(letter | digit | space | planes.wide),
            newline: set(bit::NEWLINE),
            prefix: set(bit::PREFIX),
            tail: set(bit::TAIL),
            blank: set(bit::BLANK),
            quote: set(bit::QUOTE),
            rest: 0,
        };
        if planes.wide != 0 {
            self.widen(&mut masks, planes.wide);
        }
        masks
    }

    /// Adds the classes of the characters that are not ASCII.
    fn widen(&mut self, masks: &mut Masks, mut wide: u64) {
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
            let bytes = ((1 << length) - 1) << at;
            add(masks, classes, bytes);
            masks.rest |= bytes & (bytes << 1);
            wide &= !bytes;
            if at + length > 64 {
                (self.carry.open, self.carry.open_bytes) = (classes, at + length - 64);
            }
        }
    }

    /// Which of the starts after newlines are some.
    fn after_newlines(&self, found: &Starts, last: u64) -> u64 {
        let text_end = self.scanner.lexer.text_end;
        let ends = found.newline | if text_end { last << 1 } else { 0 };
        let (past, beyond) = found.gap.overflowing_add(found.after_newline);
        let swallowed = past & !found.gap & ends;
        if swallowed == 0 && !beyond {
            return found.after_newline;
        }
        let mut starts = found.after_newline;
        let mut left = starts;
        while left != 0 {
            let start = left.trailing_zeros();
            left &= left - 1;
            let length = (!found.gap >> start).trailing_zeros();
            let swallowed = match 1_u64.checked_shl(start + length) {
                Some(end) => ends & end != 0,
                None => self.is_swallowed(self.base + 64),
            };
            starts &= !(u64::from(swallowed) << start);
        }
        starts
    }

    /// Whether the white space that goes on at `at`, perhaps within a character, belongs to a newline, or to the end of the text.
    fn is_swallowed(&self, mut at: usize) -> bool {
        let lexer = &self.scanner.lexer;
        at += self.text[at..].iter().take_while(|&byte| (0x80..0xc0).contains(byte)).count();
        loop {
            let (classes, next) = lexer.classes.at(self.text, at);
            if classes & NEWLINE != 0 || next == at {
                return classes & NEWLINE != 0 || lexer.text_end;
            }
            if classes & SPACE == 0 {
                return false;
            }
            at = next;
        }
    }

    /// The start of the block's last character, white space, if it is no newline and the last one of its
    /// run.
    fn last_space(&self, rest: u64) -> u64 {
        let lexer = &self.scanner.lexer;
        let start = 63 - rest.leading_ones() as usize;
        let (classes, next) = lexer.classes.at(self.text, self.base + start);
        let follows = next < self.text.len() && lexer.classes.at(self.text, next).0 & SPACE == 0;
        u64::from(follows && classes & NEWLINE == 0) << start
    }

    /// `starts` as the contractions that begin at `quotes` have them: nothing starts in one, and the
    /// letter after it does.
    fn contractions(&mut self, mut quotes: u64, mut starts: u64) -> u64 {
        let lexer = &self.scanner.lexer;
        while quotes != 0 {
            let quote = quotes.trailing_zeros() as usize;
            quotes &= quotes - 1;
            let Some(end) = lexer.contraction(self.text, self.base + quote) else { continue };
            let letter = u128::from(lexer.classes.at(self.text, end).0 & LETTER != 0);
            let end = end - self.base;
            let taken = ((1_u128 << end) - (2 << quote)).to_le_bytes();
            let after = (letter << end).to_le_bytes();
            let half = |bytes: &[u8; 16], at: usize| {
                u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * at + byte]))
            };
            starts = starts & !half(&taken, 0) | half(&after, 0);
            self.carry.taken |= half(&taken, 1);
            self.carry.after |= half(&after, 1);
        }
        starts
    }

    /// The starts of groups of digits, but for the first of each number.
    fn numbers(&mut self, mut digits: u64, numbers: u64) -> u64 {
        let mut starts = 0;
        let mut length = self.carry.digits;
        while digits != 0 {
            let digit = digits & digits.wrapping_neg();
            digits ^= digit;
            if numbers & digit != 0 {
                length = 1;
            } else if length == self.scanner.lexer.max_digits {
                starts |= digit;
                length = 1;
            } else {
                length += 1;
            }
        }
        self.carry.digits = length;
        starts
    }
}

/// Puts `bytes` into the masks of `classes`.
#[inline]
fn add(masks: &mut Masks, classes: u8, bytes: u64) {
    if classes == LETTER {
        masks.letter |= bytes;
        return;
    }
    let all = [
        (LETTER, &mut masks.letter),
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
