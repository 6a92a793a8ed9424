//! Merges a few bytes by always choosing the lowest merge, the leftmost of equal ones, without
//! unpredictable branches other than the number of merges.

#![expect(
    clippy::inline_always,
    reason = "kernels use the instructions of a level only if inlined"
)]

use crate::cpu::simd::{Kernel, Simd};
use crate::encode::merge_table::{MergeTable, NO_ID, NO_MERGE};

/// The position of no id, and the number of positions.
const NOWHERE: u32 = 16;

/// The maximum number of bytes.
pub(crate) const MAX: usize = NOWHERE as usize;

/// Appends the ids of `bytes`, 1 to 16 of them, to `ids`, for merges whose ids are below `NO_ID`.
pub(crate) struct MergeFew<'a> {
    pub(crate) merges: &'a MergeTable,
    pub(crate) bytes: &'a [u8],
    pub(crate) ids: &'a mut Vec<u32>,
}

impl Kernel for MergeFew<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { merges, bytes, ids } = self;
        let mut here = [NO_ID; MAX + 1];
        here.iter_mut().zip(bytes).for_each(|(id, &byte)| *id = byte.into());
        let mut keys = [NO_MERGE; MAX];
        let pairs = bytes.windows(2).zip(0..);
        for (key, (pair, at)) in keys.iter_mut().zip(pairs) {
            *key = key_of(merges.of_bytes(pair[0], pair[1]), at);
        }
        let mut keys = simd.sixteen(&keys);
        // One bit for each position with an id.
        let mut there = (1_u32 << bytes.len()) - 1;
        loop {
            let least = simd.least(keys);
            if least == NO_MERGE {
                break;
            }
            let (at, id) = (least % NOWHERE, least / NOWHERE);
            let after = there & !1 << at;
            let (next, after) = (after.trailing_zeros(), after & after.wrapping_sub(1));
            let after = (after | 1 << NOWHERE).trailing_zeros();
            let before = there & ((1 << at) - 1);
            let before = if before == 0 { NOWHERE } else { before.ilog2() };
            there ^= 1 << next;
            here[at as usize] = id;
            let left = key_of(merges.of_new(here[before as usize], id), before);
            let right = key_of(merges.of_new(id, here[after as usize]), at);
            keys = simd.with(keys, before, left);
            keys = simd.with(keys, at, right);
            keys = simd.with(keys, next, NO_MERGE);
        }
        while there != 0 {
            ids.push(here[there.trailing_zeros() as usize]);
            there &= there - 1;
        }
    }
}

/// A merge and its position, in the order of merging.
#[inline(always)]
fn key_of(id: u32, at: u32) -> u32 {
    if id == NO_MERGE { NO_MERGE } else { (id * NOWHERE) | at }
}
