//! The ids of tokens, if they are not the internal ids: bytes, merges, whole tokens, in this order.
//!
//! Merging needs internal ids, since it compares them. The ids of a new span are renamed once, when
//! they are complete, so that caches hold the final ids.
//!
//! A token of several bytes can have no id: then it becomes the ids of its bytes. These are the
//! characters, and the parts of characters, that are no piece of a SentencePiece model with byte
//! fallback.

use nanotok_memory as memory;

use crate::{ByteOrder, Error, Vocabulary};

/// Ids must be below this limit: 2**31.
pub const MAX_IDS: usize = 1 << 31;

/// The number of a token without an id.
pub(crate) const WITHOUT_ID: u32 = u32::MAX;

/// The id of each internal id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbering {
    ids: Vec<u32>,
    num_ids: usize,
    /// Whether a token has no id.
    has_gaps: bool,
    /// The difference of the id and the internal id of every merge, if all have the same one. The
    /// table of a large vocabulary is not in the fastest caches: adding takes 0.89 to 0.96 of the
    /// first call with that of `DeepSeek`.
    shift: Option<u32>,
}

impl Numbering {
    /// Internal id i is `ids[i]`, or has no id if that is [`WITHOUT_ID`]; there are `number` tokens.
    ///
    /// # Errors
    ///
    /// Fails if there are not as many ids as tokens, if an id is 2**31 or more, if two are equal,
    /// or if a byte has no id.
    pub(crate) fn new(ids: &[u32], number: usize) -> Result<Self, Error> {
        if ids.len() != number {
            return Err(Error::NumberingLength { ids: ids.len(), tokens: number });
        }
        let may_lack = |token: usize, id: u32| token >= 256 && id == WITHOUT_ID;
        let is_wrong =
            |&(token, &id): &(usize, &u32)| id as usize >= MAX_IDS && !may_lack(token, id);
        if let Some((token, &id)) = ids.iter().enumerate().find(is_wrong) {
            return Err(Error::IdTooLarge { token, id });
        }
        let ids = memory::copied(ids);
        let tokens = numbered(&ids);
        let twice = |pair: &[usize]| ids[pair[0]] == ids[pair[1]];
        if let Some(pair) = tokens.windows(2).filter(|pair| twice(pair)).min_by_key(|pair| pair[1])
        {
            let (first, token) = (pair[0], pair[1]);
            return Err(Error::RepeatedId { id: ids[token], token, first });
        }
        let num_ids = tokens.last().map_or(0, |&token| ids[token] as usize + 1);
        let has_gaps = tokens.len() < ids.len();
        let shift = shift_of(&ids);
        Ok(Self { ids, num_ids, has_gaps, shift })
    }

    /// The ids of `number` tokens that begin with the bytes in the order `order`.
    pub(crate) fn ordered(order: &ByteOrder, number: usize) -> Self {
        let mut ids: Vec<u32> = memory::collected(0..u32::try_from(number).unwrap_or(u32::MAX));
        order.rename(&mut ids);
        let shift = shift_of(&ids);
        Self { ids, num_ids: number, has_gaps: false, shift }
    }

    /// Replaces internal ids by ids, and tokens without an id by the ids of their bytes.
    #[inline]
    pub(crate) fn rename(&self, internal: &mut Vec<u32>, vocabulary: &Vocabulary) {
        if self.has_gaps && internal.iter().any(|&id| self.ids[id as usize] == WITHOUT_ID) {
            self.divide(internal, vocabulary);
        }
        if let Some(shift) = self.shift {
            for id in internal {
                *id = if *id < 256 { self.ids[*id as usize] } else { id.wrapping_add(shift) };
            }
        } else {
            for id in internal {
                *id = self.ids[*id as usize];
            }
        }
    }

    /// Replaces tokens without an id by their bytes.
    #[cold]
    fn divide(&self, internal: &mut Vec<u32>, vocabulary: &Vocabulary) {
        let mut divided = memory::with_capacity(internal.len());
        for &id in &*internal {
            if self.ids[id as usize] == WITHOUT_ID {
                let bytes = vocabulary.get(id).unwrap_or_default();
                memory::reserve(&mut divided, bytes.len());
                divided.extend(bytes.iter().map(|&byte| u32::from(byte)));
            } else {
                memory::push(&mut divided, id);
            }
        }
        *internal = divided;
    }

    /// The highest id plus one.
    pub(crate) fn num_ids(&self) -> usize {
        self.num_ids
    }

    /// The internal ids in the order of the ids, without those that have none.
    pub(crate) fn by_id(&self) -> Vec<usize> {
        numbered(&self.ids)
    }
}

/// The difference of the ids and the internal ids of the tokens that are no single bytes, modulo
/// 2**32, if all have an id and the same difference.
fn shift_of(ids: &[u32]) -> Option<u32> {
    let mut shifts = (0..).zip(ids).skip(256).map(|(token, &id): (u32, _)| id.wrapping_sub(token));
    let first = shifts.next()?;
    let has_all = ids.iter().all(|&id| id != WITHOUT_ID);
    (has_all && shifts.all(|shift| shift == first)).then_some(first)
}

/// The positions of the ids in increasing order of the ids.
fn numbered(ids: &[u32]) -> Vec<usize> {
    let mut tokens = by_id(ids);
    tokens.retain(|&token| ids[token] != WITHOUT_ID);
    tokens
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
        let mut ids = vec![2, 0, 1, 0];
        numbering.rename(&mut ids, &Vocabulary::new(&[]).unwrap());
        assert_eq!(ids, [1 << 30, 7, 0, 7]);
        assert_eq!(numbering.num_ids(), (1 << 30) + 1);
        assert_eq!(numbering.by_id(), [1, 0, 2]);
    }

    #[test]
    fn merges_with_one_shift_are_renamed_as_by_the_table() {
        let vocabulary = Vocabulary::new(&[]).unwrap();
        let bytes: Vec<u32> = (0..256).map(|byte| byte ^ 5).collect();
        for shift in [0, 7, u32::MAX - 40] {
            let merges = (300..310).map(|token: u32| token.wrapping_add(shift));
            let ids: Vec<u32> = bytes.iter().map(|id| id + 1000).chain(merges).collect();
            let mut broken = ids.clone();
            broken.swap(258, 263);
            for (ids, is_one) in [(ids, true), (broken, false)] {
                let numbering = Numbering::new(&ids, ids.len()).unwrap();
                assert_eq!(numbering.shift.is_some(), is_one);
                let mut renamed: Vec<u32> = (0..266).rev().collect();
                numbering.rename(&mut renamed, &vocabulary);
                assert!(renamed.iter().eq(ids.iter().rev()));
            }
        }
    }

    #[test]
    fn a_token_without_an_id_becomes_its_bytes() {
        let vocabulary = Vocabulary::new(&[(97, 98), (256, 99), (97, 99)]).unwrap();
        let ids: Vec<u32> = (1000..1256).chain([WITHOUT_ID, 7, WITHOUT_ID]).collect();
        let numbering = Numbering::new(&ids, 259).unwrap();
        let mut ids = vec![258, 257, 256, 97];
        numbering.rename(&mut ids, &vocabulary);
        assert_eq!(ids, [1097, 1099, 7, 1097, 1098, 1097]);
        assert_eq!(numbering.num_ids(), 1256);
        assert_eq!(numbering.by_id().len(), 257);
        let bytes = vec![WITHOUT_ID; 256];
        let error = Error::IdTooLarge { token: 0, id: WITHOUT_ID };
        assert_eq!(Numbering::new(&bytes, 256).unwrap_err(), error);
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
