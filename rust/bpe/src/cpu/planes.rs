//! The sets of 64 bytes, as one 64-bit mask for each set: bit i is byte i. The sets of the 128
//! ASCII characters are given; every other byte is only "wide". This is the portable
//! implementation; `simd` does the same with vector instructions.

/// Maximum number of sets of a table: one for each bit of a byte.
pub(crate) const NUM_SETS: usize = 8;

/// The sets of each ASCII character, one bit each.
pub(crate) type AsciiSets = [u8; 128];

pub(crate) type Block = [u8; 64];

/// The masks of one block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Planes {
    /// The ASCII bytes of each set, by the index of its bit.
    pub(crate) sets: [u64; NUM_SETS],
    /// Bytes from 0x80 on.
    pub(crate) wide: u64,
    /// Wide bytes below 0xc0: the bytes of a character except its first.
    pub(crate) rest: u64,
}

const ONES: u64 = 0x0101_0101_0101_0101;

impl Planes {
    /// Processes eight bytes at a time.
    pub(crate) fn portable(sets: &AsciiSets, block: &Block) -> Self {
        let mut planes = Self::default();
        for (number, eight) in block.chunks_exact(8).enumerate() {
            let bytes = u64::from_le_bytes(std::array::from_fn(|at| eight[at]));
            let own =
                u64::from_le_bytes(std::array::from_fn(|at| sets[usize::from(eight[at] & 0x7f)]));
            let wide = (bytes >> 7) & ONES;
            let own = own & !(wide * 0xff);
            for (bit, plane) in planes.sets.iter_mut().enumerate() {
                *plane |= gathered(own >> bit) << (8 * number);
            }
            planes.wide |= gathered(wide) << (8 * number);
            planes.rest |= gathered(wide & !(bytes >> 6)) << (8 * number);
        }
        planes
    }
}

/// The lowest bits of eight bytes, adjacent.
fn gathered(eight: u64) -> u64 {
    (eight & ONES).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_the_bits_of_the_bytes_in_its_set() {
        let mut sets = [0; 128];
        (sets[0], sets[usize::from(b'a')], sets[127]) = (1, 0x82, 0xff);
        let mut block = [b' '; 64];
        (block[0], block[9], block[10], block[62], block[63]) = (0, b'a', 0xbf, 127, 0xff);
        let planes = Planes::portable(&sets, &block);
        assert_eq!(planes.sets[0], 1 | 1 << 62);
        assert_eq!(planes.sets[1], 1 << 9 | 1 << 62);
        assert_eq!(planes.sets[2], 1 << 62);
        assert_eq!(planes.sets[7], 1 << 9 | 1 << 62);
        assert_eq!((planes.wide, planes.rest), (1 << 10 | 1 << 63, 1 << 10));
    }
}
