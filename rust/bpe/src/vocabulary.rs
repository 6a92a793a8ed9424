//! The bytes of each id: 0 to 255 are the bytes, in order or in another order, 256 + k is the token
//! of merge k, and tokens that no merge makes follow.

use nanotok_memory as memory;
use rustc_hash::FxHashMap;

use crate::{ByteOrder, Documents, Error, Merge};

/// Limit of the bytes of all ids together: those of well-known models have up to 1.4 million.
/// Without limits, n merges of the newest id with itself would need 2**n bytes.
pub const MAX_VOCABULARY_BYTES: usize = 1 << 26;

/// Limit of the bytes of one id, which every occurrence of the id decodes to: those of well-known
/// models have up to 128.
pub const MAX_TOKEN_BYTES: usize = 1 << 17;

/// Limit of the bytes of the name of a special token.
pub const MAX_NAME_BYTES: usize = 1 << 10;

/// Bytes of every id, one after the other.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    data: Vec<u8>,
    offsets: Vec<usize>,
}

impl Vocabulary {
    /// Builds the bytes of every id: time and memory are their sum.
    ///
    /// # Errors
    ///
    /// Fails if a merge uses a later id, if there are too many merges, or if the bytes of one id or
    /// of all ids exceed the limits, before memory is allocated for them.
    pub fn new(merges: &[Merge]) -> Result<Self, Error> {
        if u32::try_from(merges.len() + 256).is_err() {
            return Err(Error::TooManyMerges { number: merges.len() });
        }
        let mut vocabulary = Self { data: (0..=255).collect(), offsets: (0..=256).collect() };
        memory::reserve(&mut vocabulary.offsets, merges.len());
        for (merge, &(left, right)) in merges.iter().enumerate() {
            for id in [left, right] {
                if id as usize >= 256 + merge {
                    return Err(Error::UnknownMergePart { merge, id });
                }
            }
            let (left, right) = (vocabulary.range(left), vocabulary.range(right));
            let (token, length) = (256 + merge, left.len() + right.len());
            check_length(token, length)?;
            let bytes = vocabulary.data.len() + length;
            if bytes > MAX_VOCABULARY_BYTES {
                return Err(Error::VocabularyTooLarge { token, bytes });
            }
            memory::reserve(&mut vocabulary.data, length);
            vocabulary.data.extend_from_within(left);
            vocabulary.data.extend_from_within(right);
            vocabulary.offsets.push(vocabulary.data.len());
        }
        Ok(vocabulary)
    }

    /// The same for merges of ids of which 0 to 255 are the bytes in the order `order`.
    ///
    /// # Errors
    ///
    /// As for `new`.
    pub fn ordered(merges: &[Merge], order: &ByteOrder) -> Result<Self, Error> {
        let mut vocabulary = Self::new(&order.of_bytes(merges))?;
        vocabulary.data[..256].copy_from_slice(order.bytes());
        Ok(vocabulary)
    }

    /// Appends tokens that no merge makes.
    ///
    /// # Errors
    ///
    /// Fails if a token is empty, or if the bytes of one token or of all tokens exceed the limits.
    pub(crate) fn append(&mut self, tokens: Documents<'_>) -> Result<(), Error> {
        memory::reserve(&mut self.offsets, tokens.len());
        for number in 0..tokens.len() {
            let (bytes, token) = (tokens.get(number), self.len());
            if bytes.is_empty() {
                return Err(Error::EmptyToken { token });
            }
            check_length(token, bytes.len())?;
            let total = self.data.len() + bytes.len();
            if total > MAX_VOCABULARY_BYTES {
                return Err(Error::VocabularyTooLarge { token, bytes: total });
            }
            memory::append(&mut self.data, bytes);
            self.offsets.push(total);
        }
        Ok(())
    }

    /// The bytes of all ids in another order, back to back, and their n + 1 offsets.
    pub(crate) fn in_order(&self, order: &[usize]) -> (Vec<u8>, Vec<usize>) {
        let mut data = memory::with_capacity(self.data.len());
        let mut offsets = memory::with_capacity(order.len() + 1);
        offsets.push(0);
        for &id in order {
            data.extend_from_slice(&self.data[self.offsets[id]..self.offsets[id + 1]]);
            offsets.push(data.len());
        }
        (data, offsets)
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Always false: there are at least 256 ids.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Bytes of all ids back to back, and their n + 1 offsets.
    pub fn parts(&self) -> (&[u8], &[usize]) {
        (&self.data, &self.offsets)
    }

    /// Bytes of `id`, if it exists.
    pub fn get(&self, id: u32) -> Option<&[u8]> {
        ((id as usize) < self.len()).then(|| &self.data[self.range(id)])
    }

    /// (lowest id, other id) for ids with the same bytes, in the order of the other id.
    pub fn duplicates(&self) -> Vec<(u32, u32)> {
        let mut first: FxHashMap<&[u8], u32> = FxHashMap::default();
        let mut duplicates = Vec::new();
        for (window, id) in self.offsets.windows(2).zip(0..) {
            let lowest = *first.entry(&self.data[window[0]..window[1]]).or_insert(id);
            if lowest != id {
                duplicates.push((lowest, id));
            }
        }
        duplicates
    }

    fn range(&self, id: u32) -> std::ops::Range<usize> {
        self.offsets[id as usize]..self.offsets[id as usize + 1]
    }
}

/// Checks the bytes of an id.
pub(crate) fn check_length(token: usize, bytes: usize) -> Result<(), Error> {
    if bytes > MAX_TOKEN_BYTES { Err(Error::TokenTooLong { token, bytes }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(merges: &[Merge], expected: Result<&[&str], Error>) {
        let made = Vocabulary::new(merges).map(|vocabulary| {
            let ids = (256..).take(vocabulary.len() - 256);
            ids.map(|id| String::from_utf8_lossy(vocabulary.get(id).unwrap()).into_owned())
                .collect()
        });
        assert_eq!(
            made,
            expected.map(|tokens| tokens.iter().map(ToString::to_string).collect::<Vec<_>>())
        );
    }

    #[test]
    fn an_id_is_the_bytes_of_its_two_parts() {
        check(&[], Ok(&[]));
        check(&[(97, 98), (256, 256), (99, 257)], Ok(&["ab", "abab", "cabab"]));
    }

    #[test]
    fn a_merge_of_later_ids_is_an_error() {
        check(&[(97, 256)], Err(Error::UnknownMergePart { merge: 0, id: 256 }));
        check(&[(97, 98), (300, 1)], Err(Error::UnknownMergePart { merge: 1, id: 300 }));
    }

    #[test]
    fn tokens_that_double_without_end_are_an_error() {
        let doubling = |number| [(0, 0)].into_iter().chain((256..).map(|id| (id, id))).take(number);
        let merges: Vec<Merge> = doubling(17).collect();
        assert_eq!(Vocabulary::new(&merges).unwrap().get(272).unwrap().len(), MAX_TOKEN_BYTES);
        let merges: Vec<Merge> = doubling(60).collect();
        check(&merges, Err(Error::TokenTooLong { token: 273, bytes: 2 * MAX_TOKEN_BYTES }));
    }

    #[test]
    fn many_long_tokens_are_an_error() {
        let doubling = [(0, 0)].into_iter().chain((256..270).map(|id| (id, id)));
        let merges: Vec<Merge> = doubling.chain((270..).map(|_| (270, 270)).take(2000)).collect();
        let bytes = MAX_VOCABULARY_BYTES + 254;
        check(&merges, Err(Error::VocabularyTooLarge { token: 1293, bytes }));
    }

    #[test]
    fn ids_of_the_same_bytes_are_found() {
        let merges = [(97, 97), (256, 97), (97, 256), (258, 97), (257, 97)];
        assert_eq!(Vocabulary::new(&merges).unwrap().duplicates(), [(257, 258), (259, 260)]);
    }
}
