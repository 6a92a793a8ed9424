//! `Planes` by vector instructions: the only unsafe code of the core. Takes the same tables and blocks as
//! the portable twin and gives the same masks.

#![expect(unsafe_code, reason = "instructions that not every CPU has")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use crate::cpu::Level;
use crate::cpu::planes::{AsciiSets, Block, NUM_SETS, Planes};

/// Tables of the sets in the forms that the levels want.
#[derive(Debug)]
pub(crate) struct Classifier {
    /// Only ever a level that this CPU was found to have: `new` is the one place that sets it.
    level: Level,
    sets: AsciiSets,
    /// For each set, by the low half of a byte: the high halves with which it is in the set, a bit each.
    #[cfg(target_arch = "x86_64")]
    halves: [[u8; 16]; NUM_SETS],
}

impl Classifier {
    /// Tables for `level`, or for the portable twin if this CPU lacks it.
    pub(crate) fn new(sets: AsciiSets, level: Level) -> Self {
        let level = if level.is_available() { level } else { Level::Portable };
        #[cfg(target_arch = "x86_64")]
        let halves = halves(&sets);
        Self {
            level,
            sets,
            #[cfg(target_arch = "x86_64")]
            halves,
        }
    }

    /// The masks of `block`.
    #[inline]
    pub(crate) fn planes(&self, block: &Block) -> Planes {
        match self.level {
            // SAFETY: `new` took this level only after `is_available` had found avx512bw (which implies
            // avx512f) and avx512vbmi.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { x86::avx512(&self.sets, block) },
            // SAFETY: `new` took this level only after `is_available` had found avx2.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { x86::avx2(&self.halves, block) },
            _ => Planes::portable(&self.sets, block),
        }
    }
}

/// Asks for the line of memory at `index` before it is needed; does nothing if there is none.
#[inline]
pub(crate) fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(wanted) = slice.get(index) {
        // SAFETY: a hint; reads nothing, and the address is that of a reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(wanted).cast()) };
    }
}

#[cfg(target_arch = "x86_64")]
fn halves(sets: &AsciiSets) -> [[u8; 16]; NUM_SETS] {
    let mut halves = [[0; 16]; NUM_SETS];
    for (byte, own) in sets.iter().enumerate() {
        for (bit, half) in halves.iter_mut().enumerate() {
            half[byte & 15] |= (own >> bit & 1) << (byte >> 4);
        }
    }
    halves
}

#[cfg(target_arch = "x86_64")]
#[expect(clippy::cast_ptr_alignment, reason = "loads that ask for no alignment")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, __m512i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
        _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_set1_epi8,
        _mm256_setr_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
        _mm512_loadu_si512, _mm512_maskz_permutex2var_epi8, _mm512_movepi8_mask, _mm512_set1_epi8,
        _mm512_test_epi8_mask,
    };

    use crate::cpu::planes::{AsciiSets, Block, NUM_SETS, Planes};

    /// One look-up of 64 bytes in a table of 128.
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    pub(super) fn avx512(sets: &AsciiSets, block: &Block) -> Planes {
        // SAFETY: each of the three loads reads 64 bytes from a reference to at least 64, at no alignment.
        let (low, high, bytes) = unsafe {
            let table = sets.as_ptr().cast::<__m512i>();
            (
                _mm512_loadu_si512(table),
                _mm512_loadu_si512(table.add(1)),
                _mm512_loadu_si512(block.as_ptr().cast()),
            )
        };
        let wide = _mm512_movepi8_mask(bytes);
        let own = _mm512_maskz_permutex2var_epi8(!wide, low, bytes, high);
        let mut planes = Planes { wide, ..Planes::default() };
        for bit in 0..NUM_SETS {
            let set = _mm512_set1_epi8((1_u8 << bit).cast_signed());
            planes.sets[bit] = _mm512_test_epi8_mask(own, set);
        }
        planes
    }

    /// For each set a look-up by the low half of each byte; its high half chooses the bit.
    #[target_feature(enable = "avx2")]
    #[inline(never)]
    pub(super) fn avx2(halves: &[[u8; 16]; NUM_SETS], block: &Block) -> Planes {
        // SAFETY: the loads read bytes 0 to 32 and 32 to 64 of a reference to 64, at no alignment.
        let bytes = unsafe {
            let start = block.as_ptr().cast::<__m256i>();
            [_mm256_loadu_si256(start), _mm256_loadu_si256(start.add(1))]
        };
        let mut planes = Planes::default();
        for (number, bytes) in bytes.into_iter().enumerate() {
            let low = _mm256_and_si256(bytes, _mm256_set1_epi8(15));
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), _mm256_set1_epi8(15));
            let bit = _mm256_shuffle_epi8(bit_of_high_half(), high);
            for (half, plane) in halves.iter().zip(&mut planes.sets) {
                // SAFETY: reads the 16 bytes of a reference to 16, at no alignment.
                let half = unsafe { _mm_loadu_si128(half.as_ptr().cast::<__m128i>()) };
                let row = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(half), low);
                let absent = _mm256_cmpeq_epi8(_mm256_and_si256(row, bit), _mm256_setzero_si256());
                *plane |= u64::from(!mask(absent)) << (32 * number);
            }
            planes.wide |= u64::from(mask(bytes)) << (32 * number);
        }
        planes
    }

    /// 1 << high half; none for bytes that are not ASCII.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn bit_of_high_half() -> __m256i {
        let last = i8::MIN;
        _mm256_setr_epi8(
            1, 2, 4, 8, 16, 32, 64, last, 0, 0, 0, 0, 0, 0, 0, 0, //
            1, 2, 4, 8, 16, 32, 64, last, 0, 0, 0, 0, 0, 0, 0, 0,
        )
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn mask(bytes: __m256i) -> u32 {
        _mm256_movemask_epi8(bytes).cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_level_gives_the_masks_of_the_portable_twin(
            sets in prop::array::uniform32(any::<[u8; 4]>()), block in prop::array::uniform32(any::<[u8; 2]>()),
        ) {
            let sets: AsciiSets = sets.concat().try_into().unwrap();
            let block: Block = block.concat().try_into().unwrap();
            for level in Level::ALL {
                let planes = Classifier::new(sets, level).planes(&block);
                prop_assert_eq!(planes, Planes::portable(&sets, &block), "{}", level);
            }
        }
    }
}
