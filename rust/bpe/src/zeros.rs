//! Zeros from the system, in pages of the largest size that it offers: they take no memory until
//! they are written, and few entries of the CPU's address cache cover all of them. Small arrays,
//! and systems without such mappings, use an ordinary allocation.

use std::fmt;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;
use nanotok_memory as memory;

/// Smaller arrays do not benefit from large pages.
const MIN_MAPPED: usize = 2 << 20;

/// Bytes of a cache line, to which the zeros are aligned.
const LINE: usize = 64;

/// Bytes that are initially zero, a multiple of 8.
pub(crate) enum Zeros {
    Mapped(MmapMut),
    Allocated { words: Vec<u64>, start: usize },
}

impl Zeros {
    pub(crate) fn new(number: usize) -> Self {
        let mapped = (number >= MIN_MAPPED).then(|| MmapMut::map_anon(number).ok()).flatten();
        let Some(mapped) = mapped else { return Self::allocated(number) };
        #[cfg(target_os = "linux")]
        let _ = mapped.advise(memmap2::Advice::HugePage); // optional: small pages work too
        Self::Mapped(mapped)
    }

    fn allocated(number: usize) -> Self {
        let spare = LINE / 8 - 1;
        let words: Vec<u64> = memory::zeros(number.div_ceil(8) + spare);
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
