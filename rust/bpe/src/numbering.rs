//! The ids of tokens, if they are not the internal ids: bytes, merges, whole tokens, in this order.
//!
//! Merging needs internal ids, since it compares them. The ids of a new span are renamed once, when
//! they are complete, so that caches hold the final ids.

use nanotok_memory as memory;

use crate::{ByteOrder, Error};

/// Ids must be below this limit: 2**31.
pub const MAX_IDS: usize = 1 << 31;

/// The id of each internal id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbering {
    ids: Vec<u32>,
    num_ids: usize,
}

impl Numbering {
    /// Internal id i is `ids[i]`; there are `number` tokens.
    ///
    /// # Errors
    ///
    /// Fails if there are not as many ids as tokens, if an id is 2**31 or more, or if two are
    /// equal.
    pub(crate) fn new(ids: &[u32], number: usize) -> Result<Self, Error> {
        if ids.len() != number {
            return Err(Error::NumberingLength { ids: ids.len(), tokens: number });
        }
        if let Some(token) = ids.iter().position(|&id| id as usize >= MAX_IDS) {
            return Err(Error::IdTooLarge { token, id: ids[token] });
        }
        let ids = memory::copied(ids);
        let tokens = by_id(&ids);
        let twice = |pair: &[usize]| ids[pair[0]] == ids[pair[1]];
        if let Some(pair) = tokens.windows(2).filter(|pair| twice(pair)).min_by_key(|pair| pair[1])
        {
            let (first, token) = (pair[0], pair[1]);
            return Err(Error::RepeatedId { id: ids[token], token, first });
        }
        let num_ids = tokens.last().map_or(0, |&token| ids[token] as usize + 1);
        Ok(Self { ids, num_ids })
    }

    /// The ids of `number` tokens that begin with the bytes in the order `order`.
    pub(crate) fn ordered(order: &ByteOrder, number: usize) -> Self {
        let mut ids: Vec<u32> = memory::collected(0..u32::try_from(number).unwrap_or(u32::MAX));
        order.rename(&mut ids);
        Self { ids, num_ids: number }
    }

    /// Replaces internal ids by ids.
    #[inline]
    pub(crate) fn rename(&self, internal: &mut [u32]) {
        for id in internal {
            *id = self.ids[*id as usize];
        }
    }

    /// The highest id plus one.
    pub(crate) fn num_ids(&self) -> usize {
        self.num_ids
    }

    /// The internal ids in the order of the ids.
    pub(crate) fn by_id(&self) -> Vec<usize> {
        by_id(&self.ids)
    }
}

/// The positions of `ids` in increasing order of the numbers, of equal ones in their own order.
pub(crate) fn by_id(ids: &[u32]) -> Vec<usize> {
    let mut order: Vec<usize> = memory::collected(0..ids.len());
    order.sort_unstable_by_key(|&at| (ids[at], at));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_ids_are_renamed() {
        let numbering = Numbering::new(&[7, 0, 1 << 30], 3).unwrap();
        let mut ids = [2, 0, 1, 0];
        numbering.rename(&mut ids);
        assert_eq!(ids, [1 << 30, 7, 0, 7]);
        assert_eq!(numbering.num_ids(), (1 << 30) + 1);
        assert_eq!(numbering.by_id(), [1, 0, 2]);
    }

    #[test]
    fn ids_must_be_different_and_below_the_limit() {
        let error = |ids: &[u32]| Numbering::new(ids, 3).unwrap_err();
        assert_eq!(error(&[1, 2]), Error::NumberingLength { ids: 2, tokens: 3 });
        assert_eq!(error(&[4, 1 << 31, 4]), Error::IdTooLarge { token: 1, id: 1 << 31 });
        assert_eq!(error(&[4, 3, 4]), Error::RepeatedId { id: 4, token: 2, first: 0 });
        assert_eq!(error(&[4, 4, 4]), Error::RepeatedId { id: 4, token: 1, first: 0 });
        assert!(Numbering::new(&[(1 << 31) - 1, 0, 1], 3).is_ok());
    }
}
