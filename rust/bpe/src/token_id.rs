//! The two widths of token ids in results, and ids packed into one number, which is read and
//! written at once.

use bytemuck::Zeroable;

/// An integer type of token ids.
pub trait TokenId: Copy + Default + Send + Zeroable {
    /// The number of different ids of the type.
    const LIMIT: usize;
    /// The id in this width, which must be below the limit.
    fn narrow(id: u32) -> Self;
    /// The id in 32 bits.
    fn widen(self) -> u32;
}

impl TokenId for u16 {
    const LIMIT: usize = 1 << 16;

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the encoder compares with LIMIT first")]
    fn narrow(id: u32) -> Self {
        id as Self
    }

    #[inline]
    fn widen(self) -> u32 {
        self.into()
    }
}

impl TokenId for u32 {
    const LIMIT: usize = 1 << 32;

    #[inline]
    fn narrow(id: u32) -> Self {
        id
    }

    #[inline]
    fn widen(self) -> u32 {
        self
    }
}

/// The packing of ids into words of 128 bits, which depends on the size of the vocabulary. The last
/// lane is the number of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Lanes of 16 bits.
    Narrow,
    /// Lanes of 32 bits.
    Wide,
}

/// Ids that `Packing::unpack` writes for a word, of which only the first ones are valid.
pub(crate) const UNPACKED: usize = 8;

impl Packing {
    /// The packing for ids below `number`.
    pub(crate) fn of(number: usize) -> Self {
        if number <= u16::LIMIT { Self::Narrow } else { Self::Wide }
    }

    /// Bytes of an id.
    #[inline]
    pub(crate) fn id_bytes(self) -> usize {
        match self {
            Self::Narrow => 2,
            Self::Wide => 4,
        }
    }

    /// Lanes of a word.
    #[inline]
    pub(crate) fn lanes(self) -> usize {
        16 / self.id_bytes()
    }

    /// `ids`, at least one, as `K` words, if they fit.
    #[inline]
    pub(crate) fn pack<const K: usize>(self, ids: &[u32]) -> Option<[u128; K]> {
        let mut words = [[0; 16]; K];
        let (number, size) = (u32::try_from(ids.len()).ok()?, self.id_bytes());
        let (lanes, last) = words.as_flattened_mut().split_at_mut(16 * K - size);
        if ids.len() > lanes.len() / size {
            return None;
        }
        last.copy_from_slice(&number.to_le_bytes()[..size]);
        for (lane, id) in lanes.chunks_exact_mut(size).zip(ids) {
            lane.copy_from_slice(&id.to_le_bytes()[..size]);
        }
        Some(words.map(u128::from_le_bytes))
    }

    /// The ids of little-endian bytes.
    pub(crate) fn ids_of(self, bytes: &[u8]) -> impl ExactSizeIterator<Item = u32> {
        bytes.chunks_exact(self.id_bytes()).map(|bytes| match *bytes {
            [a, b] => u32::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
            _ => 0,
        })
    }

    /// The number of ids according to the last word.
    #[inline]
    pub(crate) fn number(self, last: u128) -> usize {
        (last >> (128 - 8 * self.id_bytes())) as usize
    }

    /// Writes the lanes of a word to the front of `out`; values after the ids are arbitrary.
    #[inline]
    pub(crate) fn unpack<I: TokenId>(self, word: u128, out: &mut [I; UNPACKED]) {
        match self {
            Self::Narrow => {
                let lanes: [u16; 8] = bytemuck::cast(word.to_le());
                *out = lanes.map(|lane| I::narrow(u32::from(u16::from_le(lane))));
            }
            Self::Wide => {
                let lanes: [u32; 4] = bytemuck::cast(word.to_le());
                for (id, lane) in out.iter_mut().zip(lanes) {
                    *id = I::narrow(u32::from_le(lane));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const K: usize>(packing: Packing, most: u32, id: u32) {
        for number in 1..=most {
            let ids: Vec<u32> = (0..number).map(|lane| id - lane).collect();
            let packed: [u128; K] = packing.pack(&ids).unwrap();
            let mut out = Vec::new();
            for word in packed {
                let mut lanes = [0_u32; UNPACKED];
                packing.unpack(word, &mut lanes);
                out.extend_from_slice(&lanes[..packing.lanes()]);
            }
            assert_eq!(packing.number(packed[K - 1]), ids.len());
            assert_eq!(out[..ids.len()], ids);
        }
        let too_many: Vec<u32> = (0..=most).collect();
        assert_eq!(packing.pack::<K>(&too_many), None);
    }

    #[test]
    fn few_ids_are_packed_and_unpacked() {
        check::<1>(Packing::Narrow, 7, 0xffff);
        check::<2>(Packing::Narrow, 15, 0xffff);
        check::<1>(Packing::Wide, 3, 0x00ab_cdef);
        check::<2>(Packing::Wide, 7, 0x00ab_cdef);
    }

    #[test]
    fn ids_that_fit_16_bits_are_packed_narrow() {
        assert_eq!(Packing::of(1 << 16), Packing::Narrow);
        assert_eq!(Packing::of((1 << 16) + 1), Packing::Wide);
    }
}
