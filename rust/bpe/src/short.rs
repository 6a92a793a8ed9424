//! Spans of up to 15 bytes as one number, which is compared and hashed in a few instructions: 99 in a
//! hundred spans of English are that short. Holds no table and knows no ids.

/// A span of 1 to 15 bytes; its length in the top byte. The default is no span, and equals none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Short(u128);

impl Short {
    /// The short form of `span`, if it has 1 to 15 bytes.
    ///
    /// Reads the span as its first and last bytes, which may overlap: a copy of a length that is not
    /// known beforehand is a call.
    #[inline]
    pub(crate) fn new(span: &[u8]) -> Option<Self> {
        let length = span.len();
        let bytes = match length {
            8..=15 => {
                let first = u64::from_le_bytes(*span.first_chunk()?);
                let last = u64::from_le_bytes(*span.last_chunk()?);
                u128::from(first) | u128::from(last) << (8 * (length - 8))
            }
            4..=7 => {
                let first = u64::from(u32::from_le_bytes(*span.first_chunk()?));
                let last = u64::from(u32::from_le_bytes(*span.last_chunk()?));
                u128::from(first | last << (8 * (length - 4)))
            }
            2..=3 => {
                let first = u32::from(u16::from_le_bytes(*span.first_chunk()?));
                let last = u32::from(u16::from_le_bytes(*span.last_chunk()?));
                u128::from(first | last << (8 * (length - 2)))
            }
            1 => u128::from(span[0]),
            _ => return None,
        };
        Some(Self(bytes | (length as u128) << 120))
    }

    /// The span's bytes, and how many of them count.
    pub(crate) fn bytes(self) -> ([u8; 16], usize) {
        let bytes = self.0.to_le_bytes();
        (bytes, usize::from(bytes[15]))
    }

    /// A number that spreads over a power of two.
    #[inline]
    pub(crate) fn mixed(self) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        #[expect(clippy::cast_possible_truncation, reason = "the other half is added")]
        let mixed = (self.0 as u64) ^ ((self.0 >> 64) as u64).rotate_left(23);
        (mixed.wrapping_mul(ODD) >> 40) as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_1_to_15_bytes_are_short() {
        assert_eq!(Short::new(b""), None);
        assert_eq!(Short::new(&[0; 16]), None);
        assert_ne!(Short::new(&[0; 15]), Some(Short::default()));
    }

    proptest! {
        #[test]
        fn a_short_span_is_its_bytes(a in prop::collection::vec(0u8..3, 1..16),
                                     b in prop::collection::vec(0u8..3, 1..16)) {
            let (short, other) = (Short::new(&a).unwrap(), Short::new(&b).unwrap());
            let (bytes, length) = short.bytes();
            prop_assert_eq!(&bytes[..length], &a[..]);
            prop_assert_eq!(short == other, a == b);
        }
    }
}
