//! Spans of up to 15 bytes as one number, which is compared and hashed in a few instructions: 99%
//! of the spans of English text are that short.

/// A span of 1 to 15 bytes with its length in the top byte. The default is no span, and equals no
/// span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Short(u128);

/// The value of `Short::number_within` for all longer spans, which no short span has.
pub(crate) const LONGER: u128 = u128::MAX << 120;

/// By length, up to 16: the bits of a number that contain bytes.
static MASKS: [u128; 17] = {
    let mut masks = [0; 17];
    let mut length = 1;
    while length < 16 {
        masks[length] = u128::MAX >> (128 - 8 * length);
        length += 1;
    }
    masks
};

/// By length, up to 16: the other bits.
static TAGS: [u128; 17] = {
    let mut tags = [LONGER; 17];
    let mut length = 0;
    while length < 16 {
        tags[length] = (length as u128) << 120;
        length += 1;
    }
    tags
};

impl Short {
    /// Maximum length of a short span in bytes.
    pub(crate) const MAX_LENGTH: usize = 15;

    /// Bytes that are copied for a short span of any length.
    pub(crate) const ROOM: usize = 16;

    /// The short form of `span`, if it has 1 to 15 bytes.
    ///
    /// Reads the span as its first and last bytes, which can overlap: a copy of variable length is
    /// a function call.
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

    /// The short form of the first `length` of `bytes`, 1 to 15, with a load and a mask; `new`
    /// branches on the length.
    #[inline]
    pub(crate) fn first_of(bytes: &[u8; 16], length: usize) -> Self {
        let mask = u128::MAX >> (128 - 8 * length);
        Self(u128::from_le_bytes(*bytes) & mask | (length as u128) << 120)
    }

    /// The short form of `data[start..end]`, if it is short.
    #[inline]
    pub(crate) fn within(data: &[u8], start: usize, end: usize) -> Option<Self> {
        let length = end - start;
        if length > Self::MAX_LENGTH {
            return None;
        }
        match data.get(start..).and_then(|rest| rest.first_chunk()) {
            Some(bytes) => Some(Self::first_of(bytes, length)),
            None => Self::new(&data[start..end]),
        }
    }

    /// The number of the short form of `data[start..end]`, without a branch for its length;
    /// `LONGER` for a longer span.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of a kernel")]
    pub(crate) fn number_within(data: &[u8], start: usize, end: usize) -> u128 {
        let length = (end - start).min(Self::ROOM);
        let bytes = match data.get(start..).and_then(|rest| rest.first_chunk()) {
            Some(bytes) => u128::from_le_bytes(*bytes),
            None => Self::last_bytes(&data[start..]),
        };
        bytes & MASKS[length] | TAGS[length]
    }

    #[cold]
    fn last_bytes(rest: &[u8]) -> u128 {
        let mut bytes = [0; Self::ROOM];
        bytes[..rest.len()].copy_from_slice(rest);
        u128::from_le_bytes(bytes)
    }

    /// The span as a number: 0 for none.
    #[cfg(test)]
    fn number(self) -> u128 {
        self.0
    }

    /// The span of a number.
    #[inline]
    pub(crate) fn of_number(number: u128) -> Self {
        Self(number)
    }

    /// The lower and upper half of the number; the upper half is 0 only for no span.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "halves of a number")]
    pub(crate) fn halves(self) -> [u64; 2] {
        [self.0 as u64, (self.0 >> 64) as u64]
    }

    /// The span of two halves.
    #[inline]
    pub(crate) fn of_halves([low, high]: [u64; 2]) -> Self {
        Self(u128::from(low) | u128::from(high) << 64)
    }

    /// The span's bytes, and its length.
    pub(crate) fn bytes(self) -> ([u8; Self::ROOM], usize) {
        let bytes = self.0.to_le_bytes();
        (bytes, usize::from(bytes[15]))
    }

    /// A hash whose lowest bits are well distributed.
    #[inline]
    pub(crate) fn mixed(self) -> usize {
        mixed(self.halves(), 0)
    }
}

/// A span of 16 to 31 bytes with its length in the top byte of the second word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Middle([u128; 2]);

impl Middle {
    /// Maximum length of a middle span in bytes. A table of its own for these saves the encoder up to
    /// 7% of later calls.
    pub(crate) const MAX_LENGTH: usize = 31;

    /// The middle form of `span`, if it has 16 to 31 bytes.
    #[inline]
    pub(crate) fn new(span: &[u8]) -> Option<Self> {
        let length = span.len();
        if length > Self::MAX_LENGTH {
            return None;
        }
        let (first, last) = (span.first_chunk()?, span.last_chunk()?);
        // Two shifts, since a single shift could be by 128 bits.
        let rest = u128::from_le_bytes(*last) >> (8 * (31 - length)) >> 8;
        Some(Self([u128::from_le_bytes(*first), rest | (length as u128) << 120]))
    }

    /// The form as words, of which the last is never 0.
    #[inline]
    pub(crate) fn words(self) -> [u128; 2] {
        self.0
    }

    /// A hash whose lowest bits are well distributed.
    #[inline]
    pub(crate) fn mixed([first, second]: [u128; 2]) -> usize {
        let first = mixed(Short(first).halves(), 0);
        mixed(Short(second).halves(), first as u64)
    }
}

/// A hash of three numbers whose lowest bits are well distributed.
#[inline]
fn mixed([low, high]: [u64; 2], seed: u64) -> usize {
    const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
    const SECOND: u64 = 0xd1b5_4a32_d192_ed03;
    let product = u128::from(low ^ FIRST ^ seed) * u128::from(high ^ SECOND);
    (product ^ product >> 64) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_16_to_31_bytes_are_middle() {
        assert_eq!(Middle::new(&[0; 15]), None);
        assert_eq!(Middle::new(&[0; 32]), None);
    }

    #[test]
    fn only_1_to_15_bytes_are_short() {
        assert_eq!(Short::new(b""), None);
        assert_eq!(Short::new(&[0; 16]), None);
        assert_ne!(Short::new(&[0; 15]), Some(Short::default()));
    }

    proptest! {
        #[test]
        fn a_middle_span_is_its_bytes(a in prop::collection::vec(0u8..2, 16..32),
                                      b in prop::collection::vec(0u8..2, 16..32)) {
            let [own, other] = [&a, &b].map(|span| Middle::new(span).unwrap().words());
            prop_assert_eq!(own == other, a == b);
            prop_assert_eq!(Short::number_within(&a, 0, a.len()), LONGER);
            let bytes = own.map(u128::to_le_bytes).concat();
            prop_assert_eq!(&bytes[..a.len()], &a[..]);
            prop_assert_eq!(usize::from(bytes[31]), a.len());
        }

        #[test]
        fn a_short_span_is_its_bytes(a in prop::collection::vec(0u8..3, 1..16),
                                     b in prop::collection::vec(0u8..3, 1..16)) {
            let (short, other) = (Short::new(&a).unwrap(), Short::new(&b).unwrap());
            let (bytes, length) = short.bytes();
            prop_assert_eq!(&bytes[..length], &a[..]);
            prop_assert_eq!(short == other, a == b);
            let mut longer = [7; 16];
            longer[..a.len()].copy_from_slice(&a);
            prop_assert_eq!(Short::first_of(&longer, a.len()), short);
            let both = [&b[..], &a[..], &[9; 16]].concat();
            for data in [&both[..], &both[..b.len() + a.len()]] {
                prop_assert_eq!(Short::within(data, b.len(), b.len() + a.len()), Some(short));
                let number = Short::number_within(data, b.len(), b.len() + a.len());
                prop_assert_eq!(number, short.number());
            }
            prop_assert_eq!(Short::of_halves(short.halves()), short);
        }
    }
}
