//! Processes the short spans of a window in two loops without unpredictable branches: the first
//! computes keys and prefetches table lines, the second copies the ids of cached spans.

#![expect(
    clippy::inline_always,
    reason = "kernels use the instructions of a level only if inlined"
)]

use std::hint::select_unpredictable;

use crate::cpu::simd::{Kernel, Simd, prefetch};
use crate::encode::span_memo::{Line, SpanMemo};
use crate::short::{LONGER, Short};
use crate::split::Ends;
use crate::token_id::{Packing, TokenId, UNPACKED};

/// The keys of the spans of a window.
#[derive(Debug)]
pub(crate) struct Keys {
    /// The short form of each span, or `LONGER`.
    pub(crate) shorts: [u128; Ends::MAX],
    /// The line of each span in its table.
    pub(crate) homes: [usize; Ends::MAX],
    /// The indexes of longer spans.
    longer: [u16; Ends::MAX],
    num_longer: usize,
}

impl Keys {
    /// The index of the longer span `at`, if there is one.
    pub(crate) fn longer(&self, at: usize) -> Option<usize> {
        self.longer[..self.num_longer].get(at).map(|&number| number.into())
    }
}

impl Default for Keys {
    fn default() -> Self {
        const { assert!(Ends::MAX <= u16::MAX as usize) };
        let (shorts, homes, longer) = ([0; Ends::MAX], [0; Ends::MAX], [0; Ends::MAX]);
        Self { shorts, homes, longer, num_longer: 0 }
    }
}

/// Computes the keys of the spans of `data` from `start` on that end at `ends`.
pub(crate) struct Ask<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) start: usize,
    pub(crate) ends: &'a [usize],
    pub(crate) memo: &'a SpanMemo<1>,
    pub(crate) keys: &'a mut Keys,
}

impl Kernel for Ask<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { data, mut start, ends, memo, keys } = self;
        let (lines, mut num_longer) = (memo.lines(), 0);
        let mask = lines.len() - 1;
        let places = keys.shorts.iter_mut().zip(&mut keys.homes);
        for ((&end, (short, home)), number) in ends.iter().zip(places).zip(0..) {
            let key = Short::number_within(data, start, end);
            start = end;
            *short = key;
            *home = Short::of_number(key).mixed() & mask;
            prefetch(lines, *home);
            if let Some(longer) = keys.longer.get_mut(num_longer) {
                *longer = number;
            }
            num_longer += usize::from(key == LONGER);
        }
        keys.num_longer = num_longer;
    }
}

/// Copies the ids of short spans to the front of `room`, up to the first span that is not in its
/// own line or whose value holds no ids.
pub(crate) struct Answer<'a, I> {
    pub(crate) lines: &'a [Line],
    pub(crate) shorts: &'a [u128],
    pub(crate) homes: &'a [usize],
    pub(crate) packing: Packing,
    pub(crate) room: &'a mut [I],
    /// The number of ids before the room.
    pub(crate) length: usize,
    /// The end of the ids of each span, or empty if it is not needed.
    pub(crate) id_ends: &'a mut [usize],
}

impl<I: TokenId> Kernel for Answer<'_, I> {
    /// The number of spans, and the number of ids.
    type Output = (usize, usize);

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> (usize, usize) {
        match self.packing {
            Packing::Narrow => self.copy(Packing::Narrow),
            Packing::Wide => self.copy(Packing::Wide),
        }
    }
}

impl<I: TokenId> Answer<'_, I> {
    #[inline(always)]
    fn copy(self, packing: Packing) -> (usize, usize) {
        let Self { lines, shorts, homes, room, length, id_ends, .. } = self;
        let (mut spans, mut ids) = (0, 0);
        for (&key, &home) in shorts.iter().zip(homes) {
            let Some([first, second, of_first, of_second]) = lines.get(home) else { break };
            let (not_first, not_second) = (*first ^ key, *second ^ key);
            // Without a branch, which would be unpredictable.
            let value = *select_unpredictable(not_first == 0, of_first, of_second);
            let is_unknown = not_first != 0 && not_second != 0;
            let Some(place) =
                room.get_mut(ids..).and_then(|room| room.first_chunk_mut::<UNPACKED>())
            else {
                break;
            };
            let number = packing.number(value);
            if is_unknown || number == 0 {
                break;
            }
            packing.unpack(value, place);
            ids += number;
            if let Some(end) = id_ends.get_mut(spans) {
                *end = length + ids;
            }
            spans += 1;
        }
        (spans, ids)
    }
}
