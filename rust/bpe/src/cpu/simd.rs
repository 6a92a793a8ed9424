//! Work that is compiled once for each CPU level, and the instructions of the levels: the only
//! unsafe code of the core. A portable implementation returns the same results.

#![expect(unsafe_code, reason = "instructions that not every CPU has")]
#![expect(
    clippy::inline_always,
    reason = "kernels use the instructions of a level only if inlined"
)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use crate::cpu::Level;
use crate::cpu::planes::{AsciiSets, Block, NUM_SETS, Planes};

/// Work that `Cpu::run` compiles for each level. Its `run` and all functions that it calls must be
/// inlined, since only then do they use the instructions of the level.
pub(crate) trait Kernel {
    type Output;

    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// The differences between the levels. A value of a level other than the portable one is proof that
/// the CPU has its instructions: only `Cpu::run` makes one.
pub(crate) trait Simd: Copy {
    /// Sixteen numbers.
    type Sixteen: Copy;

    fn sixteen(self, numbers: &[u32; 16]) -> Self::Sixteen;

    /// The numbers with `value` in `lane`, if that lane exists.
    fn with(self, numbers: Self::Sixteen, lane: u32, value: u32) -> Self::Sixteen;

    /// The minimum of the numbers.
    fn least(self, numbers: Self::Sixteen) -> u32;

    /// The masks of `block`.
    fn planes(self, tables: &Tables, block: &Block) -> Planes;

    /// A mask of the bytes whose lower six bits are the index of a byte of the table with its
    /// highest bit set. An implementation without a fast instruction for this returns 0.
    #[inline(always)]
    fn marked(self, _: &Block, _: &[u8; 64]) -> u64 {
        0
    }

    /// Writes the sum of `base` and the position of each bit of `mask` to the front of `places`;
    /// values after them are arbitrary.
    #[inline(always)]
    fn places(self, mut mask: u64, base: usize, places: &mut [usize; 64]) {
        for place in places {
            if mask == 0 {
                break;
            }
            *place = base + mask.trailing_zeros() as usize;
            mask &= mask - 1;
        }
    }
}

/// Tables of the sets in the forms that the levels need.
#[derive(Debug)]
pub(crate) struct Tables {
    sets: AsciiSets,
    /// For each set, by the low half of a byte: the high halves with which it is in the set, one
    /// bit each.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for vector instructions"))]
    halves: [[u8; 16]; NUM_SETS],
}

impl Tables {
    pub(crate) fn new(sets: AsciiSets) -> Self {
        let mut halves = [[0; 16]; NUM_SETS];
        for (byte, own) in sets.iter().enumerate() {
            for (bit, half) in halves.iter_mut().enumerate() {
                half[byte & 15] |= (own >> bit & 1) << (byte >> 4);
            }
        }
        Self { sets, halves }
    }
}

/// A level that this CPU supports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cpu {
    level: Level,
}

impl Cpu {
    /// `level`, or the portable implementation if this CPU does not support it.
    pub(crate) fn new(level: Level) -> Self {
        Self { level: if level.is_available() { level } else { Level::Portable } }
    }

    /// Does the work with the instructions of the level.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.level {
            // SAFETY: `new` took this level only after `is_available` had found all features of
            // `run_avx512` (avx512bw implies avx512f).
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { x86::run_avx512(kernel) },
            // SAFETY: `new` took this level only after `is_available` had found all features of
            // `run_avx2`.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { x86::run_avx2(kernel) },
            _ => kernel.run(Portable),
        }
    }
}

/// Code for every CPU.
#[derive(Debug, Clone, Copy)]
struct Portable;

impl Simd for Portable {
    type Sixteen = [u32; 16];

    #[inline(always)]
    fn sixteen(self, numbers: &[u32; 16]) -> [u32; 16] {
        *numbers
    }

    #[inline(always)]
    fn with(self, numbers: [u32; 16], lane: u32, value: u32) -> [u32; 16] {
        with_lane(numbers, lane, value)
    }

    #[inline(always)]
    fn least(self, numbers: [u32; 16]) -> u32 {
        numbers.into_iter().fold(u32::MAX, u32::min)
    }

    #[inline(always)]
    fn planes(self, tables: &Tables, block: &Block) -> Planes {
        Planes::portable(&tables.sets, block)
    }
}

#[inline(always)]
fn with_lane(mut numbers: [u32; 16], lane: u32, value: u32) -> [u32; 16] {
    if let Some(number) = numbers.get_mut(lane as usize) {
        *number = value;
    }
    numbers
}

/// Prefetches the memory at `index`; does nothing if the index is out of range.
#[inline]
pub(crate) fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(wanted) = slice.get(index) {
        // SAFETY: a hint; reads nothing, and the address is that of a reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(wanted).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}

/// Asks the system for large pages for memory that was not written yet; a hint, which affects only
/// the time of writing.
pub(crate) fn advise_large_pages<T>(memory: &[T]) {
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 1 << 12;
        let range = memory.as_ptr_range();
        let start = range.start.addr().next_multiple_of(PAGE);
        let length = range.end.addr().saturating_sub(start) & !(PAGE - 1);
        if length >= 1 << 21 {
            let pages = std::ptr::without_provenance_mut(start);
            // SAFETY: MADV_HUGEPAGE does not change the content of the pages, and they are a part
            // of `memory`; if pages are larger than 4 KiB the call can be refused.
            unsafe { libc::madvise(pages, length, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

#[cfg(target_arch = "x86_64")]
#[expect(clippy::cast_ptr_alignment, reason = "loads that ask for no alignment")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, __m512i, _mm_loadu_si64, _mm_loadu_si128, _mm256_and_si256,
        _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_cmpgt_epi8, _mm256_loadu_si256,
        _mm256_movemask_epi8, _mm256_set1_epi8, _mm256_setr_epi8, _mm256_setzero_si256,
        _mm256_shuffle_epi8, _mm256_srli_epi16, _mm512_add_epi64, _mm512_cmplt_epi8_mask,
        _mm512_cvtepu8_epi64, _mm512_loadu_si512, _mm512_mask_set1_epi32,
        _mm512_maskz_compress_epi8, _mm512_maskz_permutex2var_epi8, _mm512_movepi8_mask,
        _mm512_permutexvar_epi8, _mm512_reduce_min_epu32, _mm512_set1_epi8, _mm512_set1_epi64,
        _mm512_storeu_si512, _mm512_test_epi8_mask,
    };

    use super::{Kernel, Simd, Tables, with_lane};
    use crate::cpu::planes::{AsciiSets, Block, NUM_SETS, Planes};

    /// As signed numbers, bytes from 0x80 to below 0xc0 are below this value.
    const FIRST: i8 = -64;

    /// Proof of AVX2 and BMI.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Avx2(());

    /// Proof of AVX-512 with BW, VL, VBMI, VBMI2, and of the features of `Avx2`.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Avx512(());

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
        kernel.run(Avx2(()))
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
    pub(super) fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
        kernel.run(Avx512(()))
    }

    impl Simd for Avx2 {
        type Sixteen = [u32; 16];

        #[inline(always)]
        fn sixteen(self, numbers: &[u32; 16]) -> [u32; 16] {
            *numbers
        }

        #[inline(always)]
        fn with(self, numbers: [u32; 16], lane: u32, value: u32) -> [u32; 16] {
            with_lane(numbers, lane, value)
        }

        #[inline(always)]
        fn least(self, numbers: [u32; 16]) -> u32 {
            numbers.into_iter().fold(u32::MAX, u32::min)
        }

        #[inline(always)]
        fn planes(self, tables: &Tables, block: &Block) -> Planes {
            // SAFETY: a `Self` is made only by `run_avx2`, which has all features of `avx2_planes`.
            unsafe { avx2_planes(&tables.halves, block) }
        }
    }

    impl Simd for Avx512 {
        type Sixteen = __m512i;

        #[inline(always)]
        fn sixteen(self, numbers: &[u32; 16]) -> __m512i {
            // SAFETY: a `Self` is made only by `run_avx512`, which has avx512f; the load reads the
            // 64 bytes of a reference, without alignment.
            unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
        }

        #[inline(always)]
        fn with(self, numbers: __m512i, lane: u32, value: u32) -> __m512i {
            let mask = 1_u16.checked_shl(lane).unwrap_or(0);
            // SAFETY: a `Self` is made only by `run_avx512`, which has avx512f.
            unsafe { _mm512_mask_set1_epi32(numbers, mask, value.cast_signed()) }
        }

        #[inline(always)]
        fn least(self, numbers: __m512i) -> u32 {
            // SAFETY: a `Self` is made only by `run_avx512`, which has avx512f.
            unsafe { _mm512_reduce_min_epu32(numbers) }
        }

        #[inline(always)]
        fn planes(self, tables: &Tables, block: &Block) -> Planes {
            // SAFETY: a `Self` is made only by `run_avx512`, which has all features of
            // `avx512_planes`.
            unsafe { avx512_planes(&tables.sets, block) }
        }

        #[inline(always)]
        fn marked(self, block: &Block, table: &[u8; 64]) -> u64 {
            // SAFETY: a `Self` is made only by `run_avx512`, which has all features of
            // `avx512_marked`.
            unsafe { avx512_marked(block, table) }
        }

        #[inline(always)]
        fn places(self, mask: u64, base: usize, places: &mut [usize; 64]) {
            // SAFETY: a `Self` is made only by `run_avx512`, which has all features of
            // `avx512_places`.
            unsafe { avx512_places(mask, base, places) }
        }
    }

    /// One lookup of 64 bytes in a table of 128.
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    #[inline]
    fn avx512_planes(sets: &AsciiSets, block: &Block) -> Planes {
        // SAFETY: each of the three loads reads 64 bytes from a reference to at least 64, without
        // alignment.
        let (low, high, bytes) = unsafe {
            let table = sets.as_ptr().cast::<__m512i>();
            (
                _mm512_loadu_si512(table),
                _mm512_loadu_si512(table.add(1)),
                _mm512_loadu_si512(block.as_ptr().cast()),
            )
        };
        let wide = _mm512_movepi8_mask(bytes);
        let rest = _mm512_cmplt_epi8_mask(bytes, _mm512_set1_epi8(FIRST));
        let own = _mm512_maskz_permutex2var_epi8(!wide, low, bytes, high);
        let mut planes = Planes { wide, rest, ..Planes::default() };
        for bit in 0..NUM_SETS {
            let set = _mm512_set1_epi8((1_u8 << bit).cast_signed());
            planes.sets[bit] = _mm512_test_epi8_mask(own, set);
        }
        planes
    }

    /// One lookup of 64 bytes in a table of 64.
    #[target_feature(enable = "avx512bw,avx512vbmi")]
    #[inline]
    fn avx512_marked(block: &Block, table: &[u8; 64]) -> u64 {
        // SAFETY: each of the two loads reads the 64 bytes of a reference, without alignment.
        let (bytes, table) = unsafe {
            (_mm512_loadu_si512(block.as_ptr().cast()), _mm512_loadu_si512(table.as_ptr().cast()))
        };
        _mm512_movepi8_mask(_mm512_permutexvar_epi8(bytes, table))
    }

    /// The indexes of the bits, compressed, then widened eight at a time.
    #[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
    #[inline]
    fn avx512_places(mask: u64, base: usize, places: &mut [usize; 64]) {
        const NUMBERS: [u8; 64] = {
            let mut numbers = [0; 64];
            let mut number = 0;
            while number < 64 {
                numbers[number as usize] = number;
                number += 1;
            }
            numbers
        };
        let mut packed = [0_u8; 64];
        // SAFETY: the load reads the 64 bytes of `NUMBERS`, the store writes those of `packed`,
        // without alignment.
        unsafe {
            let numbers = _mm512_loadu_si512(NUMBERS.as_ptr().cast());
            let numbers = _mm512_maskz_compress_epi8(mask, numbers);
            _mm512_storeu_si512(packed.as_mut_ptr().cast(), numbers);
        }
        let base = _mm512_set1_epi64(base.cast_signed() as i64);
        let number = mask.count_ones() as usize;
        let eights = packed.chunks_exact(8).zip(places.chunks_exact_mut(8));
        for (from, to) in eights.take(number.div_ceil(8)) {
            // SAFETY: the load reads 8 bytes of a slice of 8, the store writes 64 bytes, which are
            // a slice of 8 numbers of 64 bits: the crate compiles for no target with others.
            unsafe {
                let eight = _mm512_cvtepu8_epi64(_mm_loadu_si64(from.as_ptr()));
                _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_add_epi64(eight, base));
            }
        }
    }

    /// For each set a lookup by the low half of each byte, whose high half selects the bit.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn avx2_planes(halves: &[[u8; 16]; NUM_SETS], block: &Block) -> Planes {
        // SAFETY: the loads read bytes 0 to 32 and 32 to 64 of `block`, which has 64 bytes, and
        // require no alignment.
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
                // SAFETY: reads the 16 bytes of a reference to 16, without alignment.
                let half = unsafe { _mm_loadu_si128(half.as_ptr().cast::<__m128i>()) };
                let row = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(half), low);
                let absent = _mm256_cmpeq_epi8(_mm256_and_si256(row, bit), _mm256_setzero_si256());
                *plane |= u64::from(!mask(absent)) << (32 * number);
            }
            let rest = _mm256_cmpgt_epi8(_mm256_set1_epi8(FIRST), bytes);
            planes.wide |= u64::from(mask(bytes)) << (32 * number);
            planes.rest |= u64::from(mask(rest)) << (32 * number);
        }
        planes
    }

    /// 1 << high half; 0 for bytes that are not ASCII.
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

    /// All results of a level.
    struct All<'a>(&'a Tables, &'a Block, &'a [u8; 64], u64);

    impl Kernel for All<'_> {
        type Output = (Planes, u64, Vec<usize>);

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> Self::Output {
            let mut places = [0; 64];
            let Self(tables, block, marks, mask) = self;
            simd.places(mask, 7, &mut places);
            let places = places[..mask.count_ones() as usize].to_vec();
            (simd.planes(tables, block), simd.marked(block, marks), places)
        }
    }

    proptest! {
        #[test]
        fn every_level_equals_the_portable_code(
            sets in prop::array::uniform32(any::<[u8; 4]>()),
            block in prop::array::uniform32(any::<[u8; 2]>()),
            marks in prop::array::uniform32(any::<[bool; 2]>()),
            mask in any::<u64>(),
        ) {
            let tables = Tables::new(sets.concat().try_into().unwrap());
            let block: Block = block.concat().try_into().unwrap();
            let marks: [u8; 64] =
                std::array::from_fn(|at| if marks[at / 2][at % 2] { 0xff } else { 0 });
            let marked = (0..64).fold(0, |all, at| {
                all | u64::from(marks[usize::from(block[at] & 63)] >> 7) << at
            });
            let expected: Vec<usize> =
                (0..64).filter(|at| mask >> at & 1 == 1).map(|at| 7 + at).collect();
            for level in Level::ALL {
                let (planes, found, places) =
                    Cpu::new(level).run(All(&tables, &block, &marks, mask));
                prop_assert_eq!(found & !marked, 0, "{}", level);
                prop_assert!(found == marked || level != Level::Avx512 || !level.is_available());
                prop_assert_eq!(planes, Planes::portable(&tables.sets, &block), "{}", level);
                prop_assert_eq!(&places, &expected, "{}", level);
            }
        }
    }
}
