//! Classes of characters: up to fifteen sets of characters as bits of two bytes, looked up in valid
//! UTF-8.

use std::collections::HashMap;

use regex_syntax::hir::ClassUnicode;

/// The sets of a character, one bit each.
pub(crate) type Sets = u16;

/// Not a set: the byte begins a character of several bytes.
const WIDE: Sets = 1 << 15;

/// Characters of a block: those that differ only in the last byte of a wide character.
const BLOCK: usize = 64;

/// The sets of every character. English text uses only the first table; the others take about 100
/// KB, since most blocks of characters are equal.
#[derive(Debug)]
pub(crate) struct Classes {
    ascii: [Sets; 256],
    /// The common sets of all characters that begin with a byte from 0xc0 on; `WIDE` if they
    /// differ.
    leads: [Sets; 64],
    /// The index of the block of each 64 characters.
    blocks: Vec<u16>,
    members: Vec<Sets>,
}

/// The bytes with which characters of some sets begin.
#[derive(Debug)]
pub(crate) struct FirstBytes {
    /// By byte: 0 if none begins with it, as with the later bytes of characters.
    entries: [u8; 256],
    /// Whether none is ASCII.
    skips_ascii: bool,
}

impl Classes {
    /// The table of `sets`, each with its bit; the highest bit is reserved.
    pub(crate) fn new(sets: &[(Sets, &ClassUnicode)]) -> Self {
        let mut all = vec![0; char::MAX as usize + 1];
        for (bit, set) in sets {
            for range in set.ranges() {
                all[range.start() as usize..=range.end() as usize]
                    .iter_mut()
                    .for_each(|bits| *bits |= bit);
            }
        }
        let mut ascii = [WIDE; 256];
        ascii[..128].copy_from_slice(&all[..128]);
        let (blocks, members) = without_repeats(&all);
        let leads = std::array::from_fn(|low| common(&all, low));
        Self { ascii, leads, blocks, members }
    }

    /// The sets of an ASCII character.
    pub(crate) fn of_ascii(&self, character: u8) -> Sets {
        self.ascii[usize::from(character)]
    }

    /// The sets of the character at `at`, and the start of the next one; no set at the end.
    #[inline]
    pub(crate) fn at(&self, text: &[u8], at: usize) -> (Sets, usize) {
        let Some(&byte) = text.get(at) else { return (0, at) };
        match self.ascii[usize::from(byte)] {
            WIDE => self.wide(text, at),
            classes => (classes, at + 1),
        }
    }

    /// The end of the characters of `wanted` that begin at `at`.
    #[inline]
    pub(crate) fn run(&self, text: &[u8], mut at: usize, wanted: Sets) -> usize {
        loop {
            let (classes, next) = self.at(text, at);
            if classes & wanted == 0 {
                return at;
            }
            at = next;
        }
    }

    /// The first bytes of the characters of `wanted`.
    pub(crate) fn first_bytes(&self, wanted: Sets) -> FirstBytes {
        let entries = std::array::from_fn(|byte| match byte {
            0..0x80 => u8::from(self.ascii[byte] & wanted != 0),
            0x80..0xc0 => 0,
            _ => {
                let classes = self.leads[byte & 0x3f];
                u8::from(classes == WIDE || classes & wanted != 0)
            }
        });
        FirstBytes { entries, skips_ascii: entries[..128].iter().all(|&entry| entry == 0) }
    }

    /// The start of the first character of `wanted` at or after `at`, or the end of the text. `first`
    /// are the `first_bytes` of `wanted`. Most text is skipped eight bytes at a time.
    #[inline]
    pub(crate) fn find(
        &self,
        text: &[u8],
        mut at: usize,
        wanted: Sets,
        first: &FirstBytes,
    ) -> usize {
        let may_begin = |byte: u8| first.entries[usize::from(byte)] != 0;
        while let Some(&byte) = text.get(at) {
            if !may_begin(byte) {
                at = skip(text, at + 1, first);
                continue;
            }
            let (classes, length) =
                if byte.is_ascii() { (self.of_ascii(byte), 1) } else { self.wide_at(text, at) };
            if classes & wanted != 0 {
                return at;
            }
            at += length;
        }
        at
    }

    /// By the lower six bits of the first byte of a character of several bytes: 0xff if that byte
    /// implies that `is_wanted` holds for its sets, otherwise 0.
    pub(crate) fn leads(&self, is_wanted: impl Fn(Sets) -> bool) -> [u8; 64] {
        self.leads.map(|classes| if classes != WIDE && is_wanted(classes) { 0xff } else { 0 })
    }

    /// The sets of the character of several bytes at `at`, and its length. Only the first byte is
    /// read if it determines the sets, as in Cyrillic, Chinese or Korean.
    #[inline]
    pub(crate) fn wide_at(&self, text: &[u8], at: usize) -> (Sets, usize) {
        let lead = text[at];
        match self.leads[usize::from(lead & 0x3f)] {
            WIDE => {
                let (classes, next) = self.wide(text, at);
                (classes, next - at)
            }
            classes => (classes, length(lead)),
        }
    }

    /// The same for a character of several bytes: all bits but the last six select the block.
    #[inline]
    fn wide(&self, text: &[u8], at: usize) -> (Sets, usize) {
        let low = |offset: usize| usize::from(text[at + offset] & 0x3f);
        let lead = usize::from(text[at]);
        let (block, length) = match lead {
            ..0xe0 => (lead & 0x1f, 2),
            0xe0..0xf0 => ((lead & 0xf) << 6 | low(1), 3),
            _ => ((lead & 7) << 12 | low(1) << 6 | low(2), 4),
        };
        let place = usize::from(self.blocks[block]) * BLOCK + low(length - 1);
        (self.members[place], at + length)
    }
}

/// The position of the first byte at or after `at` whose entry is not 0, or the end.
#[inline]
fn skip(text: &[u8], mut at: usize, first: &FirstBytes) -> usize {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let entry = |byte: &u8| first.entries[usize::from(*byte)];
    while let Some(eight) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let is_ascii = u64::from_le_bytes(*eight) & HIGH == 0;
        let skips = first.skips_ascii && is_ascii;
        if !skips && eight.iter().fold(0, |any, byte| any | entry(byte)) != 0 {
            break;
        }
        at += 8;
    }
    while text.get(at).is_some_and(|byte| entry(byte) == 0) {
        at += 1;
    }
    at
}

/// Length in bytes of a character that begins with `lead`.
#[inline]
fn length(lead: u8) -> usize {
    2 + usize::from(lead >= 0xe0) + usize::from(lead >= 0xf0)
}

/// The sets of all characters that begin with the byte 0xc0 + `low`, if they are equal.
fn common(all: &[Sets], low: usize) -> Sets {
    let characters = match low {
        0x02..0x20 => low << 6..(low + 1) << 6,
        0x20..0x30 => ((low & 0xf) << 12).max(0x800)..((low & 0xf) + 1) << 12,
        0x30..0x35 => ((low & 7) << 18).max(1 << 16)..(((low & 7) + 1) << 18).min(all.len()),
        _ => return WIDE,
    };
    let first = all[characters.start];
    if all[characters].iter().all(|&own| own == first) { first } else { WIDE }
}

/// Each different block once, in the order of first occurrence, and the block of each position.
fn without_repeats(all: &[Sets]) -> (Vec<u16>, Vec<Sets>) {
    let mut members = Vec::new();
    let mut numbers = HashMap::new();
    let number_of = |block| {
        let next = u16::try_from(numbers.len()).expect("there are 17,408 blocks");
        *numbers.entry(block).or_insert_with(|| {
            members.extend_from_slice(block);
            next
        })
    };
    let blocks = all.chunks_exact(BLOCK).map(number_of).collect();
    (blocks, members)
}

#[cfg(test)]
mod tests {
    use regex_syntax::hir::{Class, HirKind};

    use super::*;

    fn set(pattern: &str) -> ClassUnicode {
        let hir = regex_syntax::parse(pattern).unwrap();
        let HirKind::Class(Class::Unicode(class)) = hir.kind() else { panic!("not a class") };
        class.clone()
    }

    #[test]
    fn every_character_has_its_sets() {
        let sets = [set(r"\p{L}"), set(r"\s"), set(r"[^\r\n]")];
        let classes = Classes::new(&[(1, &sets[0]), (2, &sets[1]), (1 << 14, &sets[2])]);
        let mut inside = sets.each_ref().map(|set| {
            let mut inside = vec![false; char::MAX as usize + 1];
            for range in set.ranges() {
                inside[range.start() as usize..=range.end() as usize].fill(true);
            }
            inside
        });
        for character in '\0'..=char::MAX {
            let [a, b, c] = inside.each_mut().map(|inside| Sets::from(inside[character as usize]));
            let text = character.to_string();
            let expected = (a | b << 1 | c << 14, text.len());
            assert_eq!(classes.at(text.as_bytes(), 0), expected, "{character:?}");
            if !character.is_ascii() {
                assert_eq!(classes.wide_at(text.as_bytes(), 0), expected, "{character:?}");
            }
        }
    }

    #[test]
    fn the_first_byte_determines_many_letters() {
        let classes = Classes::new(&[(1, &set(r"\p{L}")), (2, &set(r"\p{N}"))]);
        let known = |text: &str| classes.leads[usize::from(text.as_bytes()[0] & 0x3f)] == 1;
        assert!(["\u{431}", "\u{5b57}", "\u{c5b4}"].into_iter().all(known));
        assert!(!["\u{e9}", "\u{905}", "\u{3042}", "\u{1f600}"].into_iter().any(known));
    }

    #[test]
    fn a_run_ends_at_another_set_or_the_end_of_the_text() {
        let letters = set(r"\p{L}");
        let classes = Classes::new(&[(1, &letters)]);
        let text = "a\u{e9}\u{4e2d}\u{10400}b! x".as_bytes();
        assert_eq!(classes.run(text, 0, 1), 11);
        assert_eq!(classes.run(text, 11, 1), 11);
        assert_eq!(classes.run(text, 13, 1), 14);
        assert_eq!(classes.at(text, 14), (0, 14));
    }

    #[test]
    fn the_first_character_of_a_set_is_found() {
        let classes = Classes::new(&[(1, &set(r"[a-z\u{3042}\u{4e00}-\u{9fff}]")), (2, &set("."))]);
        let first = classes.first_bytes(1);
        let pieces = ["A", "1", "\u{e9}", "\u{3041}", "\u{1f600}", "\u{5d0}"];
        for wanted in ["a", "\u{3042}", "\u{4e2d}", ""] {
            for length in 0..40 {
                let skipped: String = (0..length).map(|at| pieces[at * 7 % 11 % 6]).collect();
                let text = format!("{skipped}{wanted}b");
                let expected = if wanted.is_empty() { text.len() - 1 } else { skipped.len() };
                assert_eq!(classes.find(text.as_bytes(), 0, 1, &first), expected);
                assert_eq!(classes.find(skipped.as_bytes(), 0, 1, &first), skipped.len());
            }
        }
    }

    #[test]
    fn the_tables_are_small() {
        let classes = Classes::new(&[(1, &set(r"\p{L}")), (2, &set(r"\p{N}")), (4, &set(r"\s"))]);
        assert!(classes.members.len() < 1 << 15, "{}", classes.members.len());
    }
}
