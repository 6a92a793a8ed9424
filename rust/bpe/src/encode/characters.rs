//! Characters of two or three bytes that are merged before their neighbors can matter.
//!
//! Merging begins with the id of a character in place of its bytes if no merge up to that id can
//! cross a border of the character. This changes nothing: consider the first merge that crosses one.
//! Until then the bytes of the character merged on their own, and as long as they are not one id, a
//! merge of an id up to that of the character is possible within them. So the crossing merge has a
//! lower id, and one of its two parts is a proper part of the character that ends or begins at the
//! border. Merging by id makes the rest the same, since a merge of the character has a higher id.
//!
//! Such a crossing merge makes a token that ends with the byte before the character and the start
//! of a character with the same first byte, or begins with the end of a character, of which the last
//! byte is the same, and the byte after it, which is not inside a character. The lowest ids of these
//! tokens are known for all two bytes at a border.
//!
//! The merge of the character itself cannot cross a border: its bytes begin with the only byte
//! that begins a character.

use nanotok_memory as memory;

use crate::Vocabulary;
use crate::encode::merge_table::NO_MERGE;

/// First bytes of characters of two or three bytes, and bytes inside a character: their lower six
/// bits differ.
const PLACES: usize = 64;

/// Code points of characters of up to three bytes.
const POINTS: usize = 1 << 16;

/// The ids of characters, and the lowest ids across their borders; `NO_MERGE` if there is none.
#[derive(Debug)]
pub(crate) struct Characters {
    /// By code point.
    ids: Vec<u32>,
    /// By the byte before a character and its first byte.
    before: Vec<u32>,
    /// By the byte after a character and its last byte.
    after: Vec<u32>,
}

impl Characters {
    /// The tables for merges whose ids have the bytes of `vocabulary`. Characters are the `reachable`
    /// ones: those that are the result of merging their own bytes.
    pub(crate) fn new(vocabulary: &Vocabulary, reachable: &[bool]) -> Self {
        let mut ids = memory::filled(NO_MERGE, POINTS);
        let mut before = memory::filled(NO_MERGE, 256 * PLACES);
        let mut after = memory::filled(NO_MERGE, 256 * PLACES);
        for (&reachable, id) in reachable.iter().zip(0..).skip(256) {
            let token = vocabulary.get(id).unwrap_or_default();
            if reachable
                && let Some((point, length)) = character(token)
                && length == token.len()
            {
                ids[point] = id;
            }
            let lower = |known: &mut u32| *known = (*known).min(id);
            let start = token.iter().rposition(|&byte| !is_inside(byte));
            if let Some(start @ 1..) = start
                && token.len() - start < length(token[start])
            {
                lower(&mut before[place(token[start - 1], token[start])]);
            }
            let end = token.iter().position(|&byte| !is_inside(byte));
            if let Some(end @ 1..) = end {
                lower(&mut after[place(token[end], token[end - 1])]);
            }
        }
        Self { ids, before, after }
    }

    /// Writes the ids with which merging `span` can begin to `ids`, and returns their number, or
    /// nothing if they do not fit.
    #[inline]
    pub(crate) fn begin(&self, span: &[u8], ids: &mut [u32]) -> Option<usize> {
        let (mut at, mut number) = (0, 0);
        while at < span.len() {
            let (id, length) = self.first(span, at);
            *ids.get_mut(number)? = id;
            number += 1;
            at += length;
        }
        Some(number)
    }

    /// The first id of `span[at..]`, and the number of its bytes.
    #[inline]
    fn first(&self, span: &[u8], at: usize) -> (u32, usize) {
        let rest = &span[at..];
        let byte = (rest[0].into(), 1);
        let Some((point, length)) = character(rest) else { return byte };
        let id = self.ids[point];
        let before = at.checked_sub(1).map_or(NO_MERGE, |it| self.before[place(span[it], rest[0])]);
        let after = rest.get(length).map_or(NO_MERGE, |&next| {
            if is_inside(next) { 0 } else { self.after[place(next, rest[length - 1])] }
        });
        if id < before.min(after) { (id, length) } else { byte }
    }
}

/// The code point and the number of bytes of a character of two or three bytes at the start of
/// `bytes`; surrogates are taken for characters too.
#[inline]
fn character(bytes: &[u8]) -> Option<(usize, usize)> {
    let bits = |byte: u8| usize::from(byte & 63);
    match *bytes {
        [first @ 0xc2..0xe0, last, ..] if is_inside(last) => {
            Some((usize::from(first & 31) << 6 | bits(last), 2))
        }
        [first @ 0xe0..0xf0, second, last, ..] if is_inside(second) && is_inside(last) => {
            let point = usize::from(first & 15) << 12 | bits(second) << 6 | bits(last);
            (point >= 0x800).then_some((point, 3))
        }
        _ => None,
    }
}

/// The number of bytes of a character of two or three bytes that begins with `first`, otherwise 0.
fn length(first: u8) -> usize {
    match first {
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 0,
    }
}

/// Whether a byte is not the first one of a character.
#[inline]
fn is_inside(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

#[inline]
fn place(neighbor: u8, own: u8) -> usize {
    usize::from(neighbor) * PLACES + usize::from(own & 63)
}
