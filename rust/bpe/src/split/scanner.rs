//! Finds the starts of spans 64 bytes at a time, for members of GPT's family for which most
//! characters are easy. The result equals that of the lexer. Linear: besides its block, a byte is
//! read only by its run of white space, its contraction or its number, and once by the lexer.
//!
//! The lexer processes a block with a hard character: text before the start of a span does not
//! affect later spans, so the lexer continues from the last known start to the first start after
//! the block, where masks are used again. Starts in earlier blocks stay valid: they depend only on
//! the text that was read.

#![expect(
    clippy::inline_always,
    reason = "kernels use the instructions of a level only if inlined"
)]

use crate::cpu::Level;
use crate::cpu::planes::Block;
use crate::cpu::simd::{Cpu, Kernel, Simd, Tables};
use crate::split::classes::Sets;
use crate::split::lexer::{LETTER, Lexer, NEWLINE, SPACE};
use crate::split::starts::{Before, Form, Starts, starts};

mod masks;

/// A member of the family with its masks.
#[derive(Debug)]
pub(crate) struct Scanner {
    lexer: Lexer,
    tables: Tables,
    /// By the lower six bits of a first byte: 0xff if its characters are letters without case.
    letters: [u8; 64],
    cpu: Cpu,
}

impl Scanner {
    /// A scanner that splits like `lexer`, whose family must be mostly easy.
    pub(crate) fn new(lexer: Lexer, level: Level) -> Self {
        let tables = Tables::new(masks::ascii_sets(&lexer));
        let letters = lexer.classes.leads(masks::is_plain_letter);
        Self { lexer, tables, letters, cpu: Cpu::new(level) }
    }

    /// The lexer that splits in the same way.
    pub(crate) fn lexer(&self) -> &Lexer {
        &self.lexer
    }

    /// The spans of `text`, which begins at `offset` of its data.
    pub(crate) fn scan<'a>(&'a self, text: &'a str, offset: usize) -> Scan<'a> {
        let (text, carry) = (text.as_bytes(), Carry::default());
        Scan { scanner: self, text, offset, base: 0, newest: 0, is_first: true, carry }
    }

    /// Calls `visit` with each span of `text`; their concatenation is the text.
    #[inline]
    pub(crate) fn split<'d>(&self, text: &'d str, mut visit: impl FnMut(&'d [u8])) {
        let mut start = 0;
        self.visit_ends(text, |end| {
            visit(&text.as_bytes()[std::mem::replace(&mut start, end)..end]);
        });
    }

    /// Calls `visit` with the end of each span of `text`.
    #[inline]
    pub(crate) fn visit_ends(&self, text: &str, mut visit: impl FnMut(usize)) {
        let (mut scan, mut ends) = (self.scan(text, 0), Ends::default());
        while scan.fill(&mut ends) {
            ends.all().iter().for_each(|&end| visit(end));
            ends.clear();
        }
    }
}

/// Ends of spans, as many as are processed at a time.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    places: [usize; Self::MAX],
    number: usize,
}

impl Ends {
    /// The capacity.
    pub(crate) const MAX: usize = 320;

    pub(crate) fn all(&self) -> &[usize] {
        &self.places[..self.number]
    }

    pub(crate) fn clear(&mut self) {
        self.number = 0;
    }

    /// Whether the ends of another block may exceed the capacity.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.number + 65 > Self::MAX
    }

    /// Appends an end; there must be room.
    #[inline]
    pub(crate) fn push(&mut self, end: usize) {
        self.places[self.number] = end;
        self.number += 1;
    }

    /// Appends the sum of `base` and the position of each bit of `starts`; there must be room.
    #[inline(always)]
    fn push_all<S: Simd>(&mut self, simd: S, starts: u64, base: usize) {
        let room = self.places.get_mut(self.number..).and_then(|room| room.first_chunk_mut());
        if let Some(room) = room {
            simd.places(starts, base, room);
            self.number += starts.count_ones() as usize;
        }
    }
}

impl Default for Ends {
    fn default() -> Self {
        Self { places: [0; Self::MAX], number: 0 }
    }
}

/// The spans of a text, block by block. Blocks do not overlap; a span that starts in one block can
/// extend to the next.
pub(crate) struct Scan<'a> {
    scanner: &'a Scanner,
    text: &'a [u8],
    /// The position of the text.
    offset: usize,
    base: usize,
    /// The last known start.
    newest: usize,
    /// Whether no block was processed yet.
    is_first: bool,
    carry: Carry,
}

/// State that a block passes to the next.
#[derive(Debug, Default)]
struct Carry {
    before: Before,
    /// Classes of the incomplete character.
    open: Sets,
    /// Number of its remaining bytes.
    open_bytes: usize,
    /// Digits so far of the incomplete span.
    digits: u32,
    /// Bytes of a contraction.
    taken: u64,
    /// The letter after the contraction.
    after: u64,
    /// The end of the last attached contraction.
    word_end: usize,
}

/// The part of a text whose spans are added to `ends`.
struct Fill<'s, 'a> {
    scan: &'s mut Scan<'a>,
    ends: &'s mut Ends,
}

impl Kernel for Fill<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { scan, ends } = self;
        while !ends.is_full() {
            let Some((base, starts)) = scan.next(simd) else { return };
            // The very first start is not an end.
            let first = if scan.is_first { starts & starts.wrapping_neg() } else { 0 };
            scan.is_first = false;
            ends.push_all(simd, starts ^ first, scan.offset + base);
            if scan.base >= scan.text.len() {
                ends.push(scan.offset + scan.text.len());
            }
        }
    }
}

impl Scan<'_> {
    /// Adds the ends of the next spans until another block may exceed the capacity; returns whether
    /// there are any.
    pub(crate) fn fill(&mut self, ends: &mut Ends) -> bool {
        let before = ends.number;
        self.scanner.cpu.run(Fill { scan: self, ends });
        ends.number > before
    }

    /// The start of the next block, and the bytes of it at which spans start.
    #[inline(always)]
    fn next<S: Simd>(&mut self, simd: S) -> Option<(usize, u64)> {
        let rest = self.text.get(self.base..).filter(|rest| !rest.is_empty())?;
        let starts = if let Some(block) = rest.first_chunk() {
            self.block(simd, block, u64::MAX)
        } else {
            let mut block = [0; 64];
            block[..rest.len()].copy_from_slice(rest);
            self.block(simd, &block, (1 << rest.len()) - 1)
        };
        let Some(starts) = starts else { return Some(self.hard_block()) };
        let item = (self.base, starts);
        if starts != 0 {
            self.newest = self.base + 63 - starts.leading_zeros() as usize;
        }
        self.base += 64;
        Some(item)
    }

    /// Processes the block with the lexer. The next block begins at the first start after it.
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

    /// The starts in `block`, of which the bytes in `valid` are text; none if the block is hard.
    #[inline(always)]
    fn block<S: Simd>(&mut self, simd: S, block: &Block, valid: u64) -> Option<u64> {
        let masks = self.masks(simd, block, valid)?;
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

    /// Returns which of the candidates after newlines are starts.
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

    /// Whether the white space that continues at `at`, possibly within a character, belongs to a
    /// newline or to the end of the text.
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

    /// The start of the block's last character if it is white space, not a newline, and the last of
    /// its run.
    fn last_space(&self, rest: u64) -> u64 {
        let lexer = &self.scanner.lexer;
        let start = 63 - rest.leading_ones() as usize;
        let (classes, next) = lexer.classes.at(self.text, self.base + start);
        let ends = SPACE | lexer.borders;
        let follows = next < self.text.len() && lexer.classes.at(self.text, next).0 & ends == 0;
        u64::from(follows && classes & NEWLINE == 0) << start
    }

    /// Corrects `starts` for the contractions that begin at `quotes`: no span starts in one (nor,
    /// if attached, at its start), and a span starts at the letter after it. A contraction cannot
    /// follow an attached one.
    fn contractions(&mut self, mut quotes: u64, mut starts: u64) -> u64 {
        let lexer = &self.scanner.lexer;
        while quotes != 0 {
            let quote = quotes.trailing_zeros() as usize;
            quotes &= quotes - 1;
            if lexer.rules.form == Form::Attached && self.carry.word_end == self.base + quote {
                continue;
            }
            let Some(end) = lexer.contraction(self.text, self.base + quote) else { continue };
            self.carry.word_end = end;
            let letter = u128::from(lexer.classes.at(self.text, end).0 & LETTER != 0);
            let end = end - self.base;
            let first_taken = if lexer.rules.form == Form::Attached { 1 } else { 2 };
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

    /// The starts of groups of digits, except the first of each number.
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
