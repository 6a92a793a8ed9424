//! Text to the places where spans start, 64 bytes at a time, for those members of GPT's family that find
//! most characters easy. Finds what the lexer finds. Linear: beside its block a byte is looked at only by
//! the run of white space, the contraction or the number it belongs to, and once by the lexer.
//!
//! A block with a hard character is the lexer's: nothing before a span's start matters to what comes from
//! there on, so it goes from the last start that is known to the first one after the block, where masks
//! begin anew. Starts in blocks before stay right: of what follows, they depend on no more than was
//! looked at.

use crate::cpu::Level;
use crate::cpu::planes::Block;
use crate::cpu::simd::Classifier;
use crate::split::classes::Sets;
use crate::split::lexer::{LETTER, Lexer, NEWLINE, SPACE};
use crate::split::starts::{Before, Starts, starts};

mod masks;

/// A member of the family, ready to scan.
#[derive(Debug)]
pub(crate) struct Scanner {
    lexer: Lexer,
    classifier: Classifier,
}

impl Scanner {
    /// A scanner that splits as `lexer` does; its family must be mostly easy.
    pub(crate) fn new(lexer: Lexer, level: Level) -> Self {
        let classifier = Classifier::new(masks::ascii_sets(&lexer), level);
        Self { lexer, classifier }
    }

    /// The starts of all spans of `text`, block after block.
    #[inline]
    pub(crate) fn scan<'a>(&'a self, text: &'a str) -> Scan<'a> {
        Scan { scanner: self, text: text.as_bytes(), base: 0, newest: 0, carry: Carry::default() }
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

/// The blocks of a text: where each begins, and which of its bytes start a span. Blocks do not overlap;
/// between two there may be a span that starts in the first.
pub(crate) struct Scan<'a> {
    scanner: &'a Scanner,
    text: &'a [u8],
    base: usize,
    /// The last start that is known.
    newest: usize,
    carry: Carry,
}

/// What a block leaves to the next.
#[derive(Debug, Default)]
struct Carry {
    before: Before,
    /// Classes of the character that is not over.
    open: Sets,
    /// How many of its bytes are left.
    open_bytes: usize,
    /// Digits so far of the span that is not over.
    digits: u32,
    /// Bytes that a contraction takes.
    taken: u64,
    /// The letter after it.
    after: u64,
    /// Where the newest attached contraction ends.
    word_end: usize,
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
        let Some(starts) = starts else { return Some(self.hard_block()) };
        let item = (self.base, starts);
        if starts != 0 {
            self.newest = self.base + 63 - starts.leading_zeros() as usize;
        }
        self.base += 64;
        Some(item)
    }
}

impl Scan<'_> {
    /// The block as the lexer has it. The next one begins at the first start after it.
    #[cold]
    fn hard_block(&mut self) -> (usize, u64) {
        let (base, mut start, mut starts) = (self.base, self.newest, 0);
        let block_end = self.text.len().min(base + 64);
        while start < block_end {
            if start >= base {
                starts |= 1 << (start - base);
            }
            start = self.scanner.lexer.end(self.text, start);
        }
        (self.base, self.newest, self.carry) = (start, start, Carry::default());
        (base, starts)
    }

    /// The starts among `block`, of which the bytes in `valid` are text; none if it is hard.
    #[inline]
    fn block(&mut self, block: &Block, valid: u64) -> Option<u64> {
        let masks = self.masks(block, valid)?;
        let last = valid & !(valid >> 1) & !(1 << 63);
        let found = starts(&masks, self.scanner.lexer.rules, &mut self.carry.before, last);
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
        Some(all)
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

    /// `starts` as the contractions that begin at `quotes` have them: nothing starts in one (nor with one
    /// that is attached), and the letter after it does. What follows an attached one is none itself.
    fn contractions(&mut self, mut quotes: u64, mut starts: u64) -> u64 {
        let lexer = &self.scanner.lexer;
        while quotes != 0 {
            let quote = quotes.trailing_zeros() as usize;
            quotes &= quotes - 1;
            if lexer.rules.attached && self.carry.word_end == self.base + quote {
                continue;
            }
            let Some(end) = lexer.contraction(self.text, self.base + quote) else { continue };
            self.carry.word_end = end;
            let letter = u128::from(lexer.classes.at(self.text, end).0 & LETTER != 0);
            let end = end - self.base;
            let first_taken = if lexer.rules.attached { 1 } else { 2 };
            let taken = ((1_u128 << end) - (first_taken << quote)).to_le_bytes();
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
