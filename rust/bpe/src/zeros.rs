//! Zeros as they come from the system, in pages as large as it gives: they take no memory until something is
//! put there, and a few entries of the CPU's address cache are enough for all of them. A small number of
//! zeros, or where the system has none to map, is an ordinary allocation.

use std::fmt;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Fewer bytes gain nothing by large pages.
const MIN_MAPPED: usize = 2 << 20;

/// Bytes of a line of the CPU's caches: the zeros begin with one.
const LINE: usize = 64;

/// Bytes that begin as zeros, a multiple of 8.
pub(crate) enum Zeros {
    Mapped(MmapMut),
    Allocated { words: Vec<u64>, start: usize },
}

impl Zeros {
    pub(crate) fn new(number: usize) -> Self {
        let mapped = (number >= MIN_MAPPED).then(|| MmapMut::map_anon(number).ok()).flatten();
        let Some(mapped) = mapped else { return Self::allocated(number) };
        #[cfg(target_os = "linux")]
        let _ = mapped.advise(memmap2::Advice::HugePage); // a wish: small pages do as well
        Self::Mapped(mapped)
    }

    fn allocated(number: usize) -> Self {
        let spare = LINE / 8 - 1;
        let words = vec![0; number.div_ceil(8) + spare];
        let start = words.as_ptr().align_offset(LINE).min(spare);
        Self::Allocated { words, start }
    }
}

impl Deref for Zeros {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Allocated { words, start } => {
                let end = words.len() - (LINE / 8 - 1) + start;
                bytemuck::cast_slice(&words[*start..end])
            }
        }
    }
}

impl DerefMut for Zeros {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Allocated { words, start } => {
                let end = words.len() - (LINE / 8 - 1) + *start;
                bytemuck::cast_slice_mut(&mut words[*start..end])
            }
        }
    }
}

impl fmt::Debug for Zeros {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", self.len())
    }
}
