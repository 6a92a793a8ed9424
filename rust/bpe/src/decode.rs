//! Decodes token ids to bytes and text, for many rows at once.

use nanotok_memory as memory;
use rustc_hash::FxHashMap;

use crate::documents::check_offsets;
use crate::numbering::by_id;
use crate::vocabulary::check_length;
use crate::{Documents, Error, MAX_NAME_BYTES, Vocabulary};

/// Tokens are copied in steps of this number of bytes: most are shorter, and a copy of fixed length
/// takes two instructions instead of a call.
const STEP: usize = 16;

/// Entries of the table for each token, above which ids are looked up in another way.
const MAX_GAPS: usize = 8;

/// What replaces invalid bytes.
const REPLACEMENT: &str = "\u{fffd}";

/// Bytes of rows back to back, and n + 1 offsets.
pub type Rows = (Vec<u8>, Vec<i64>);

/// Decodes ids. Can be shared between threads.
#[derive(Debug)]
pub struct Decoder {
    /// The bytes of all ids back to back, with one more step.
    data: Vec<u8>,
    /// The position of the bytes of each id up to some id.
    places: Vec<Place>,
    /// The same for higher ids.
    scattered: FxHashMap<u32, Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    start: u32,
    length: u32,
}

impl Decoder {
    /// Stores the bytes of `vocabulary` and, for each special token, its id and its name. A special
    /// token with the id of another one is skipped.
    ///
    /// # Errors
    ///
    /// Fails if a name has too many bytes, or if the bytes of all ids are 4 GiB or more.
    pub fn new(vocabulary: &Vocabulary, special_tokens: &[(u32, &str)]) -> Result<Self, Error> {
        let (data, offsets) = vocabulary.parts();
        let mut own = Self {
            data: memory::copied(data),
            places: Vec::new(),
            scattered: FxHashMap::default(),
        };
        memory::reserve(&mut own.places, offsets.len());
        for window in offsets.windows(2) {
            own.places.push(Place::new(window[0], window[1])?);
        }
        for &(id, name) in special_tokens {
            let bytes = name.len();
            if bytes > MAX_NAME_BYTES {
                return Err(Error::NameTooLong { token: id, bytes });
            }
            let start = own.data.len();
            memory::append(&mut own.data, name.as_bytes());
            let place = Place::new(start, own.data.len())?;
            if id as usize == own.places.len() {
                memory::push(&mut own.places, place);
            } else if own.place(id).is_none() {
                memory::room_for_one(&mut own.scattered);
                own.scattered.insert(id, place);
            }
        }
        own.data.extend([0; STEP]);
        Ok(own)
    }

    /// Stores the bytes of explicit tokens: token i is `ids[i]`, in any order and with any gaps.
    ///
    /// # Errors
    ///
    /// Fails if the numbers of ids and tokens differ, if an id is repeated, if a token has too many
    /// bytes, or if the bytes of all tokens are 4 GiB or more.
    pub fn of_tokens(ids: &[u32], tokens: Documents<'_>) -> Result<Self, Error> {
        if ids.len() != tokens.len() {
            return Err(Error::NumberingLength { ids: ids.len(), tokens: tokens.len() });
        }
        let order = by_id(ids);
        if let Some(pair) = order.windows(2).find(|pair| ids[pair[0]] == ids[pair[1]]) {
            let (first, token) = (pair[0], pair[1]);
            return Err(Error::RepeatedId { id: ids[token], token, first });
        }
        let limit = ids.len().saturating_mul(MAX_GAPS);
        let dense = order.iter().rev().find(|&&token| (ids[token] as usize) < limit);
        let mut own = Self {
            data: memory::copied(tokens.all()),
            places: memory::filled(
                Place::ABSENT,
                dense.map_or(0, |&token| ids[token] as usize + 1),
            ),
            scattered: FxHashMap::default(),
        };
        for (token, &id) in ids.iter().enumerate() {
            check_length(token, tokens.get(token).len())?;
            let from = tokens.start(0);
            let place = Place::new(tokens.start(token) - from, tokens.start(token + 1) - from)?;
            if let Some(known) = own.places.get_mut(id as usize) {
                *known = place;
            } else {
                memory::room_for_one(&mut own.scattered);
                own.scattered.insert(id, place);
            }
        }
        memory::resize(&mut own.data, tokens.all().len() + STEP, 0);
        Ok(own)
    }

    /// The bytes of all `ids`, concatenated.
    ///
    /// # Errors
    ///
    /// Fails at the first id that is not a token.
    pub fn decode<I: Copy + Into<u32>>(&self, ids: &[I]) -> Result<Vec<u8>, Error> {
        let length = self.length(ids).map_err(|id| Error::UnknownToken { id, row: None })?;
        Ok(self.spell(ids, length))
    }

    /// The bytes of each row of ids; `offsets` has n + 1 positions in `ids`, of which the first
    /// need not be 0.
    ///
    /// # Errors
    ///
    /// Fails if offsets decrease or exceed the ids, or at the first id that is not a token; the
    /// error names its row.
    pub fn decode_rows<I: Copy + Into<u32>>(
        &self,
        ids: &[I],
        offsets: &[i64],
    ) -> Result<Rows, Error> {
        check_offsets(offsets, ids.len(), "ids")?;
        let mut end = 0;
        let mut ends = memory::with_capacity(offsets.len());
        ends.push(0);
        for (row, window) in offsets.windows(2).enumerate() {
            end += self
                .length(&ids[as_index(window[0])..as_index(window[1])])
                .map_err(|id| Error::UnknownToken { id, row: Some(row) })?;
            ends.push(as_offset(end));
        }
        let all = as_index(offsets[0])..as_index(offsets[offsets.len() - 1]);
        Ok((self.spell(&ids[all], end), ends))
    }

    /// The number of bytes of `ids`, or the first id that is not a token.
    fn length<I: Copy + Into<u32>>(&self, ids: &[I]) -> Result<usize, u32> {
        ids.iter().try_fold(0, |length, &id| {
            let id = id.into();
            self.place(id).map(|place| length + place.length as usize).ok_or(id)
        })
    }

    /// The `length` bytes of `ids`, which must be tokens.
    fn spell<I: Copy + Into<u32>>(&self, ids: &[I], length: usize) -> Vec<u8> {
        let mut out = memory::zeros(length + STEP);
        let mut end = 0;
        for place in ids.iter().filter_map(|&id| self.place(id.into())) {
            let (start, length) = (place.start as usize, place.length as usize);
            if length <= STEP {
                out[end..end + STEP].copy_from_slice(&self.data[start..start + STEP]);
            } else {
                out[end..end + length].copy_from_slice(&self.data[start..start + length]);
            }
            end += length;
        }
        out.truncate(length);
        out
    }

    /// The bytes of an id, or `None` if it is not a token.
    #[inline]
    pub(crate) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let Place { start, length } = self.place(id)?;
        Some(&self.data[start as usize..(start + length) as usize])
    }

    #[inline]
    fn place(&self, id: u32) -> Option<Place> {
        match self.places.get(id as usize) {
            Some(&place) => Some(place).filter(|place| place.length != Place::ABSENT.length),
            None => self.scattered.get(&id).copied(),
        }
    }
}

impl Place {
    /// No token has this length.
    const ABSENT: Self = Self { start: 0, length: u32::MAX };

    fn new(start: usize, end: usize) -> Result<Self, Error> {
        let place = |number| u32::try_from(number).map_err(|_| Error::SpellingsTooLarge);
        Ok(Self { start: place(start)?, length: place(end)? - place(start)? })
    }
}

/// The same rows as valid UTF-8: invalid bytes become U+FFFD, row by row, once for each longest
/// start of a character (as the Unicode standard recommends and Python does).
pub fn replace_invalid((data, offsets): Rows) -> Rows {
    let boundaries = |text: &str| offsets.iter().all(|&end| text.is_char_boundary(as_index(end)));
    if str::from_utf8(&data).is_ok_and(boundaries) {
        return (data, offsets);
    }
    let mut text = memory::with_capacity(data.len());
    let mut ends = memory::with_capacity(offsets.len());
    ends.push(0);
    for window in offsets.windows(2) {
        for chunk in data[as_index(window[0])..as_index(window[1])].utf8_chunks() {
            memory::append(&mut text, chunk.valid().as_bytes());
            if !chunk.invalid().is_empty() {
                memory::append(&mut text, REPLACEMENT.as_bytes());
            }
        }
        ends.push(as_offset(text.len()));
    }
    (text, ends)
}

fn as_offset(position: usize) -> i64 {
    i64::try_from(position).expect("memory is below 2**63 bytes")
}

fn as_index(offset: i64) -> usize {
    usize::try_from(offset).expect("offsets were checked, or made here")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// ab is 256, a token longer than a step 260, special tokens 261 and, after a gap, 300.
    fn decoder() -> Decoder {
        let merges = [(97, 98), (256, 256), (257, 257), (258, 258), (259, 256)];
        let vocabulary = Vocabulary::new(&merges).unwrap();
        Decoder::new(&vocabulary, &[(261, "<é>"), (300, "<|end|>"), (97, "never")]).unwrap()
    }

    fn rows(data: &[u8], offsets: &[i64]) -> Rows {
        (data.to_vec(), offsets.to_vec())
    }

    #[test]
    fn ids_decode_and_special_tokens_by_name() {
        let decoder = decoder();
        assert_eq!(
            decoder.decode(&[300_u32, 97, 260, 261, 0xff, 256]),
            Ok([b"<|end|>a".as_slice(), &b"ab".repeat(9), "<é>".as_bytes(), b"\xffab"].concat())
        );
        assert_eq!(decoder.decode::<u16>(&[]), Ok(vec![]));
        assert_eq!(decoder.decode(&[97_u16, 262]), Err(Error::UnknownToken { id: 262, row: None }));
    }

    #[test]
    fn a_name_of_too_many_bytes_is_an_error() {
        let name = "a".repeat(MAX_NAME_BYTES + 1);
        let decoder = Decoder::new(&Vocabulary::new(&[]).unwrap(), &[(300, &name)]);
        assert_eq!(decoder.unwrap_err(), Error::NameTooLong { token: 300, bytes: name.len() });
    }

    fn of_tokens(ids: &[u32], tokens: &[&[u8]]) -> Result<Decoder, Error> {
        let mut offsets = vec![2];
        offsets.extend(tokens.iter().scan(2, |end, token| {
            *end += as_offset(token.len());
            Some(*end)
        }));
        let data = [b"xx", &tokens.concat()[..], b"yy"].concat();
        Decoder::of_tokens(ids, Documents::new(&data, &offsets)?)
    }

    #[test]
    fn explicit_tokens_decode_with_any_ids() {
        let long = b"b".repeat(40);
        let tokens: [&[u8]; 5] = [b"a", &long, "<\u{e9}>".as_bytes(), b"", b"c"];
        let decoder = of_tokens(&[7, 0, u32::MAX, 39, 40], &tokens).unwrap();
        assert_eq!((decoder.places.len(), decoder.scattered.len()), (40, 2));
        let expected = [b"a", &long[..], b"<\xc3\xa9>c"].concat();
        assert_eq!(decoder.decode(&[7, 0, 39, u32::MAX, 40]), Ok(expected));
        for id in [1, 38, 41, u32::MAX - 1] {
            assert_eq!(decoder.decode(&[7, id]), Err(Error::UnknownToken { id, row: None }));
        }
        assert_eq!(of_tokens(&[], &[]).unwrap().decode::<u32>(&[]), Ok(vec![]));
    }

    #[test]
    fn wrong_explicit_tokens_are_an_error() {
        let error = |ids: &[u32], tokens: &[&[u8]]| of_tokens(ids, tokens).unwrap_err();
        assert_eq!(error(&[1], &[]), Error::NumberingLength { ids: 1, tokens: 0 });
        let (id, token, first) = (5, 2, 0);
        assert_eq!(error(&[5, 4, 5], &[b"a", b"b", b"c"]), Error::RepeatedId { id, token, first });
        let (token, bytes) = (1, 1 << 18);
        let long = vec![97; bytes];
        assert_eq!(error(&[5, 4], &[b"a", &long]), Error::TokenTooLong { token, bytes });
    }

    #[test]
    fn rows_may_be_empty_and_a_window_of_the_ids() {
        let ids = [999_u32, 97, 256, 98, 999];
        let decode = |offsets: &[i64]| decoder().decode_rows(&ids, offsets);
        assert_eq!(decode(&[1, 1, 3, 4, 4]), Ok(rows(b"aabb", &[0, 0, 3, 4, 4])));
        assert_eq!(decode(&[2]), Ok(rows(b"", &[0])));
        assert_eq!(decode(&[1, 2, 5]), Err(Error::UnknownToken { id: 999, row: Some(1) }));
        assert_eq!(decode(&[]), Err(Error::NoOffsets));
        assert_eq!(decode(&[2, 1]), Err(Error::OffsetsFall { index: 1 }));
        let outside = Error::OffsetOutOfRange { index: 1, offset: 6, length: 5, what: "ids" };
        assert_eq!(decode(&[0, 6]), Err(outside));
    }

    #[test]
    fn a_character_across_two_rows_is_replaced_in_both() {
        let cut = (vec![b'a', 0xc3, 0xa9], vec![0, 2, 3]);
        let replaced = replace_invalid(cut);
        assert_eq!(replaced, ("a\u{fffd}\u{fffd}".as_bytes().to_vec(), vec![0, 4, 7]));
    }

    proptest! {
        #[test]
        fn rows_are_decoded_one_by_one(
            ids in prop::collection::vec(prop::collection::vec(0u32..262, 0..9), 0..9)
        ) {
            let mut offsets = vec![0];
            offsets.extend(ids.iter().scan(0, |end, row| {
                *end += row.len();
                Some(as_offset(*end))
            }));
            let decoder = decoder();
            let (data, ends) = decoder.decode_rows(&ids.concat(), &offsets).unwrap();
            let (text, bounds) = replace_invalid((data.clone(), ends.clone()));
            prop_assert_eq!(ends.len(), ids.len() + 1);
            for (number, row) in ids.iter().enumerate() {
                let of = |offsets: &[i64]| as_index(offsets[number])..as_index(offsets[number + 1]);
                let alone = decoder.decode(row).unwrap();
                prop_assert_eq!(&data[of(&ends)], &alone);
                prop_assert_eq!(
                    str::from_utf8(&text[of(&bounds)]).unwrap(),
                    String::from_utf8_lossy(&alone)
                );
            }
        }
    }
}
