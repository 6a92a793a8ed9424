//! The two widths of token ids: what callers get, and a few ids packed into one number, which is read and
//! written at once. Knows no spans.

/// An integer type that can hold token ids.
pub trait TokenId: Copy + Default + Send {
    /// How many different ids it can hold.
    const LIMIT: usize;
    /// The id in this width. Only called with ids below the limit.
    fn narrow(id: u32) -> Self;
}

impl TokenId for u16 {
    const LIMIT: usize = 1 << 16;

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the encoder compares with LIMIT first")]
    fn narrow(id: u32) -> Self {
        id as Self
    }
}

impl TokenId for u32 {
    const LIMIT: usize = 1 << 32;

    #[inline]
    fn narrow(id: u32) -> Self {
        id
    }
}

/// How ids are packed: by the size of the vocabulary, whatever the caller gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Up to seven ids of 16 bits.
    Narrow,
    /// Up to three ids of 32 bits.
    Wide,
}

/// Ids that `Packing::unpack` writes, of which the first few count.
pub(crate) const UNPACKED: usize = 8;

impl Packing {
    /// The packing for ids below `number`.
    pub(crate) fn of(number: usize) -> Self {
        if number <= u16::LIMIT { Self::Narrow } else { Self::Wide }
    }

    /// Bytes of an id.
    pub(crate) fn id_bytes(self) -> usize {
        match self {
            Self::Narrow => 2,
            Self::Wide => 4,
        }
    }

    /// `ids` as one number, never 0, if they are few enough; there is at least one.
    #[inline]
    pub(crate) fn pack(self, ids: &[u32]) -> Option<u128> {
        let bits = 8 * self.id_bytes();
        let most = 128 / bits - 1;
        let packed = |packed, &id| packed << bits | u128::from(id);
        (ids.len() <= most)
            .then(|| ids.iter().rev().fold(0, packed) | (ids.len() as u128) << (bits * most))
    }

    /// The ids whose bytes, little-endian, these are.
    pub(crate) fn ids_of(self, bytes: &[u8]) -> impl ExactSizeIterator<Item = u32> {
        bytes.chunks_exact(self.id_bytes()).map(|bytes| match *bytes {
            [a, b] => u32::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
            _ => 0,
        })
    }

    /// Writes packed ids to the front of `out`, and says how many they are; what it writes after them
    /// means nothing.
    #[inline]
    pub(crate) fn unpack<I: TokenId>(self, packed: u128, out: &mut [I; UNPACKED]) -> usize {
        match self {
            Self::Narrow => {
                let lanes: [u16; 8] = bytemuck::cast(packed.to_le());
                *out = lanes.map(|lane| I::narrow(u32::from(u16::from_le(lane))));
                usize::from(u16::from_le(lanes[7]))
            }
            Self::Wide => {
                let lanes: [u32; 4] = bytemuck::cast(packed.to_le());
                for (id, lane) in out.iter_mut().zip(lanes) {
                    *id = I::narrow(u32::from_le(lane));
                }
                u32::from_le(lanes[3]) as usize
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_ids_are_packed_and_unpacked() {
        for (packing, most, id) in [(Packing::Narrow, 7, 0xffff), (Packing::Wide, 3, 0x00ab_cdef)] {
            for number in 1..=most {
                let ids: Vec<u32> = (0..number).map(|lane| id - lane).collect();
                let packed = packing.pack(&ids).unwrap();
                let mut out = [0_u32; UNPACKED];
                let length = packing.unpack(packed, &mut out);
                assert_eq!(out[..length], ids);
            }
            let too_many: Vec<u32> = (0..=most).collect();
            assert_eq!(packing.pack(&too_many), None);
        }
    }

    #[test]
    fn ids_that_fit_16_bits_are_packed_narrow() {
        assert_eq!(Packing::of(1 << 16), Packing::Narrow);
        assert_eq!(Packing::of((1 << 16) + 1), Packing::Wide);
    }
}
