//! The byte of each of the ids 0 to 255. Learned vocabularies have them in order; those of other
//! tools often do not.
//!
//! Merging uses bytes as ids. Merges are renamed before it, ids after it: no merge depends on the
//! numbers of the bytes, since only higher ids are compared.

use crate::{Error, Merge};

/// A permutation of the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteOrder {
    bytes: [u8; 256],
    ids: [u32; 256],
}

impl ByteOrder {
    /// Id i is `bytes[i]`.
    ///
    /// # Errors
    ///
    /// Fails if there are not 256 bytes, or if a byte occurs twice.
    pub fn new(bytes: &[u8]) -> Result<Self, Error> {
        let wrong = |twice| Error::ByteOrder { number: bytes.len(), twice };
        let bytes: [u8; 256] = bytes.try_into().map_err(|_| wrong(None))?;
        let mut ids = [u32::MAX; 256];
        for (&byte, id) in bytes.iter().zip(0..) {
            if std::mem::replace(&mut ids[usize::from(byte)], id) != u32::MAX {
                return Err(wrong(Some(byte)));
            }
        }
        Ok(Self { bytes, ids })
    }

    /// The bytes of the ids 0 to 255.
    pub fn bytes(&self) -> &[u8; 256] {
        &self.bytes
    }

    /// `merges` of ids in this order as merges of bytes.
    pub fn of_bytes(&self, merges: &[Merge]) -> Vec<Merge> {
        let of_bytes = |id: u32| self.bytes.get(id as usize).map_or(id, |&byte| u32::from(byte));
        merges.iter().map(|&(left, right)| (of_bytes(left), of_bytes(right))).collect()
    }

    /// `merges` of bytes as merges of ids in this order.
    pub fn of_ids(&self, merges: &mut [Merge]) {
        for (left, right) in merges {
            (*left, *right) = (self.id(*left), self.id(*right));
        }
    }

    /// Replaces bytes by the ids in this order.
    pub(crate) fn rename(&self, ids: &mut [u32]) {
        for id in ids {
            *id = self.id(*id);
        }
    }

    fn id(&self, of_bytes: u32) -> u32 {
        self.ids.get(of_bytes as usize).copied().unwrap_or(of_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_renamed_both_ways_and_other_ids_stay() {
        let bytes: Vec<u8> = (0..=255).map(|id: u8| id.wrapping_add(3)).collect();
        let order = ByteOrder::new(&bytes).unwrap();
        let merges = [(97, 98), (256, 255), (3, 257)];
        let mut renamed = order.of_bytes(&merges);
        assert_eq!(renamed, [(100, 101), (256, 2), (6, 257)]);
        order.of_ids(&mut renamed);
        assert_eq!(renamed, merges);
        let mut ids = [2, 3, 256, 1000];
        order.rename(&mut ids);
        assert_eq!(ids, [255, 0, 256, 1000]);
    }

    #[test]
    fn an_invalid_order_is_an_error() {
        let error = |bytes: &[u8]| ByteOrder::new(bytes).unwrap_err();
        assert_eq!(error(b"ab"), Error::ByteOrder { number: 2, twice: None });
        assert_eq!(error(&[7; 256]), Error::ByteOrder { number: 256, twice: Some(7) });
    }
}
