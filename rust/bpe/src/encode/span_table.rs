//! The ids of many spans, made once and shipped with a tokenizer: a flat file that every process maps as
//! it stands. An accelerator: ids are the same without it. Takes the bytes of the file, checks that they
//! are whole and belong to the tokenizer, gives ids or nothing. Opens no file, writes none.
//!
//! The file, all numbers little-endian:
//!
//! ```text
//! 0    "NANOSPAN", u32 version, u32 bytes of an id (2 or 4), sha256 of the tokenizer
//! 48   u64 short places, u64 long places, u64 bytes of the buffer, u64 spans
//! 80   u64 xxh3_64 of the bytes before, xor that of the bytes from 128 on, then zeros
//! 128  short places of 32 bytes: a span of up to 15 bytes, then its packed ids; zeros where there is none
//!      long places of 16 bytes: hash, start in the buffer, bytes of the span, number of ids; or zeros
//!      buffer: for each long place the bytes of the span, then its ids
//! ```
//!
//! Both kinds of places are found by a hash, and are at most two thirds full: who finds another span goes
//! on to the next place, and past the last to the first. Which hash is part of the version.

use std::fmt;
use std::sync::Arc;

use crate::encode::long_memo::Place;
use crate::short::Short;
use crate::token_id::Packing;
use crate::{Error, hash64};

const MAGIC: &[u8; 8] = b"NANOSPAN";
const VERSION: u32 = 1;
const HEADER: usize = 128;
const HASHED: usize = 80;
const SHORT_PLACE: usize = 32;
const LONG_PLACE: usize = 16;

/// The sha256 of a tokenizer.
pub type Sha256 = [u8; 32];

/// A table that was checked.
#[derive(Clone)]
pub struct SpanTable {
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
    layout: Layout,
}

/// What a header says of what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    packing: Packing,
    short_places: usize,
    long_places: usize,
    buffer_bytes: usize,
    num_spans: usize,
}

impl SpanTable {
    /// Checks the bytes of a file, all of them.
    ///
    /// # Errors
    ///
    /// It is damaged, of another version, or was made for another tokenizer than `tokenizer`.
    pub fn new(
        bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
        tokenizer: &Sha256,
    ) -> Result<Self, Error> {
        let layout = Layout::read((*bytes).as_ref(), tokenizer)
            .map_err(|reason| Error::SpanTable { reason })?;
        Ok(Self { bytes, layout })
    }

    /// Number of spans in it.
    pub fn len(&self) -> usize {
        self.layout.num_spans
    }

    /// Whether it holds no span.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How the ids are packed.
    pub(crate) fn packing(&self) -> Packing {
        self.layout.packing
    }

    /// The packed ids of a short span; 0 if it is not there.
    pub(crate) fn short(&self, span: Short) -> u128 {
        let places = self.part(0, SHORT_PLACE * self.layout.short_places);
        let find = |at: usize| {
            let place = places.get(SHORT_PLACE * at..)?.first_chunk::<SHORT_PLACE>()?;
            let number =
                |at: usize| u128::from_le_bytes(std::array::from_fn(|byte| place[at + byte]));
            let own = number(0);
            (own == span.number() || own == 0).then(|| number(16))
        };
        probe(span.mixed(), self.layout.short_places, find).unwrap_or(0)
    }

    /// The bytes of the ids of a span of over 15 bytes.
    pub(crate) fn long(&self, span: &[u8], hash: u64) -> Option<&[u8]> {
        let start = SHORT_PLACE * self.layout.short_places;
        let places = self.part(start, LONG_PLACE * self.layout.long_places);
        let buffer = self.part(start + places.len(), self.layout.buffer_bytes);
        let find = |at: usize| {
            let place = places.get(LONG_PLACE * at..)?.first_chunk::<LONG_PLACE>()?;
            let place = Place::unpack(u128::from_le_bytes(*place));
            if place.num_ids == 0 {
                return Some(None);
            }
            let buffer = buffer.get(place.start as usize..).filter(|_| place.hash == hash)?;
            place.ids_of(buffer, span, self.packing()).map(Some)
        };
        probe(index(hash), self.layout.long_places, find).flatten()
    }

    /// Whether `span` is in it.
    pub(crate) fn holds(&self, span: &[u8]) -> bool {
        match Short::new(span) {
            Some(short) => self.short(short) != 0,
            None => self.long(span, hash64(span)).is_some(),
        }
    }

    fn part(&self, start: usize, length: usize) -> &[u8] {
        (*self.bytes).as_ref().get(HEADER + start..HEADER + start + length).unwrap_or_default()
    }
}

impl fmt::Debug for SpanTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.layout.fmt(formatter)
    }
}

impl Layout {
    fn read(bytes: &[u8], tokenizer: &Sha256) -> Result<Self, String> {
        let short = || format!("it has {} bytes and a header alone {HEADER}", bytes.len());
        let (header, body) = bytes.split_first_chunk::<HEADER>().ok_or_else(short)?;
        if !header.starts_with(MAGIC) {
            return Err("it is no span table".to_owned());
        }
        let [version, id_bytes] = [8, 12].map(|at| small_at(header, at));
        if version != VERSION {
            return Err(format!("its version is {version} and this build reads {VERSION}"));
        }
        if header[16..48] != *tokenizer {
            return Err("it was made for another tokenizer".to_owned());
        }
        let packing = match id_bytes {
            2 => Packing::Narrow,
            4 => Packing::Wide,
            _ => return Err(format!("its ids have {id_bytes} bytes")),
        };
        let [short_places, long_places, buffer_bytes, num_spans] = sizes(header);
        let layout = Self {
            packing,
            short_places: as_size(short_places),
            long_places: as_size(long_places),
            buffer_bytes: as_size(buffer_bytes),
            num_spans: as_size(num_spans),
        };
        layout.check(header, body)?;
        Ok(layout)
    }

    fn check(&self, header: &[u8; HEADER], body: &[u8]) -> Result<(), String> {
        let found = body.len();
        if self.body_bytes() != Some(found) {
            return Err(format!("it has {found} bytes after its header, which says otherwise"));
        }
        if header[HASHED..] != check_sum(&header[..HASHED], body) {
            return Err("its bytes are not those that were written".to_owned());
        }
        Ok(())
    }

    fn body_bytes(&self) -> Option<usize> {
        let short = self.short_places.checked_mul(SHORT_PLACE)?;
        let long = self.long_places.checked_mul(LONG_PLACE)?;
        short.checked_add(long)?.checked_add(self.buffer_bytes)
    }
}

/// What a header ends with.
fn check_sum(header: &[u8], body: &[u8]) -> [u8; HEADER - HASHED] {
    let mut end = [0; HEADER - HASHED];
    end[..8].copy_from_slice(&(hash64(header) ^ hash64(body)).to_le_bytes());
    end
}

/// The first place from `hash` on where `find` ends the search.
fn probe<T>(hash: usize, number: usize, find: impl Fn(usize) -> Option<T>) -> Option<T> {
    let mask = number.checked_sub(1)?;
    (0..number).find_map(|step| find(hash.wrapping_add(step) & mask))
}

fn small_at(header: &[u8; HEADER], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| header[at + byte]))
}

fn sizes(header: &[u8; HEADER]) -> [u64; 4] {
    std::array::from_fn(|number| {
        u64::from_le_bytes(std::array::from_fn(|byte| header[48 + 8 * number + byte]))
    })
}

/// A size that does not fit is more than any file has.
fn as_size(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

#[expect(clippy::cast_possible_truncation, reason = "the low bits are as good as any")]
fn index(hash: u64) -> usize {
    hash as usize
}

mod file;
#[cfg(test)]
mod tests;

pub(crate) use file::file;
