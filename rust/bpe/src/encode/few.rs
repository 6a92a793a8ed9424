//! Merges a few ids by always choosing the lowest merge, the leftmost of equal ones, without
//! unpredictable branches other than the number of merges.

#![expect(
    clippy::inline_always,
    reason = "kernels use the instructions of a level only if inlined"
)]

use crate::cpu::simd::{Cpu, Kernel, Simd};
use crate::encode::characters::Characters;
use crate::encode::merge_table::{MergeTable, NO_ID, NO_MERGE};

/// The maximum number of ids: those of two vectors. In large vocabularies the second one saves up to
/// a sixth of a first call in many languages, and two thirds of one with random words.
pub(crate) const MAX: usize = 32;

/// The maximum number of ids for one vector.
const MAX_OF_ONE: usize = 16;

/// With at most this many ids, the tables of other ways to merge fit the cache of a core, and those
/// are faster for more than 16 ids.
const FEW_IDS: usize = 1 << 16;

/// The number of ids up to which this way to merge is possible and the fastest.
pub(crate) fn most_ids(num_ids: usize) -> usize {
    match num_ids {
        ..=FEW_IDS => MAX_OF_ONE,
        _ if num_ids <= NO_ID as usize => MAX,
        _ => 0,
    }
}

/// Appends the ids of `span` to `ids`, for merges whose ids are below `NO_ID`, unless merging begins
/// with more than `most` ids, of at most 32. Returns whether it did.
#[inline]
pub(crate) fn merge_few(
    cpu: Cpu,
    (merges, characters): (&MergeTable, &Characters),
    most: usize,
    span: &[u8],
    ids: &mut Vec<u32>,
) -> bool {
    if span.is_ascii() {
        if span.len() <= most {
            merge(cpu, merges, span.iter().map(|&byte| byte.into()), ids);
        }
        return span.len() <= most;
    }
    let mut first = [0; MAX];
    let Some(number) = characters.begin(span, &mut first[..most]) else { return false };
    merge(cpu, merges, first[..number].iter().copied(), ids);
    true
}

/// Appends what the ids `first`, 1 to 32 of them, merge to.
#[inline]
fn merge(
    cpu: Cpu,
    merges: &MergeTable,
    first: impl ExactSizeIterator<Item = u32> + Clone,
    ids: &mut Vec<u32>,
) {
    if first.len() <= MAX_OF_ONE {
        cpu.run(MergeFew::<_, 1> { merges, first, ids });
    } else {
        cpu.run(MergeFew::<_, 2> { merges, first, ids });
    }
}

/// Merges up to 16 ids for each of the `V` vectors.
struct MergeFew<'a, F, const V: usize> {
    merges: &'a MergeTable,
    first: F,
    ids: &'a mut Vec<u32>,
}

impl<F, const V: usize> MergeFew<'_, F, V> {
    /// The number of positions, which is also the position of no id.
    #[expect(clippy::cast_possible_truncation, reason = "one or two vectors")]
    const NOWHERE: u32 = 16 * V as u32;

    /// A merge and its position, in the order of merging.
    #[inline(always)]
    fn key_of(id: u32, at: u32) -> u32 {
        if id == NO_MERGE { NO_MERGE } else { (id * Self::NOWHERE) | at }
    }
}

impl<F: ExactSizeIterator<Item = u32> + Clone, const V: usize> Kernel for MergeFew<'_, F, V> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { merges, first, ids } = self;
        let mut here = [NO_ID; MAX + 1];
        here.iter_mut().zip(first.clone()).for_each(|(here, id)| *here = id);
        let mut keys = [[NO_MERGE; MAX_OF_ONE]; V];
        let pairs = first.clone().zip(first.clone().skip(1)).zip(0..);
        for (key, ((left, right), at)) in keys.as_flattened_mut().iter_mut().zip(pairs) {
            *key = Self::key_of(merges.get(left, right), at);
        }
        let mut keys = keys.map(|sixteen| simd.sixteen(&sixteen));
        // One bit for each position with an id.
        let mut there = (1_u64 << first.len()) - 1;
        loop {
            let least = keys.iter().fold(NO_MERGE, |least, &keys| least.min(simd.least(keys)));
            if least == NO_MERGE {
                break;
            }
            let (at, id) = (least % Self::NOWHERE, least / Self::NOWHERE);
            let after = there & !1 << at;
            let (next, after) = (after.trailing_zeros(), after & after.wrapping_sub(1));
            let after = (after | 1 << Self::NOWHERE).trailing_zeros();
            let before = there & ((1 << at) - 1);
            let before = if before == 0 { Self::NOWHERE } else { before.ilog2() };
            there ^= 1 << next;
            here[at as usize] = id;
            let left = Self::key_of(merges.of_new(here[before as usize], id), before);
            let right = Self::key_of(merges.of_new(id, here[after as usize]), at);
            for (keys, first) in keys.iter_mut().zip((0..).step_by(MAX_OF_ONE)) {
                let lane = |at: u32| at.wrapping_sub(first);
                *keys = simd.with(*keys, lane(before), left);
                *keys = simd.with(*keys, lane(at), right);
                *keys = simd.with(*keys, lane(next), NO_MERGE);
            }
        }
        while there != 0 {
            ids.push(here[there.trailing_zeros() as usize]);
            there &= there - 1;
        }
    }
}
