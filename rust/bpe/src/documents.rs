//! A borrowed batch of documents or spans: all bytes back to back, and their offsets, which are
//! checked once. Spans can also be sequences of ids.

use std::ops::Range;

use crate::Error;

/// A checked batch of byte strings, or of sequences of ids.
#[derive(Debug, Clone, Copy)]
pub struct Documents<'a, T = u8> {
    data: &'a [T],
    offsets: &'a [i64],
}

impl<'a> Documents<'a> {
    /// Checks that `offsets` do not decrease and do not exceed `data`; the first need not be 0.
    ///
    /// # Errors
    ///
    /// Fails at the first wrong offset, or if there is none.
    pub fn new(data: &'a [u8], offsets: &'a [i64]) -> Result<Self, Error> {
        check_offsets(offsets, data.len(), "bytes of data")?;
        Ok(Self { data, offsets })
    }

    /// Whether every document is valid UTF-8.
    ///
    /// ```
    /// # use nanotok_bpe::Documents;
    /// let data = "aé".as_bytes();
    /// assert!(Documents::new(data, &[0, 1, 3])?.is_utf8());
    /// assert!(!Documents::new(data, &[0, 2, 3])?.is_utf8());
    /// # Ok::<(), nanotok_bpe::Error>(())
    /// ```
    pub fn is_utf8(&self) -> bool {
        let first = self.position(0);
        simdutf8::basic::from_utf8(self.all()).is_ok_and(|text| {
            self.offsets.iter().all(|&offset| text.is_char_boundary(as_position(offset) - first))
        })
    }
}

impl<'a> Documents<'a, u32> {
    /// The same for sequences of ids.
    ///
    /// # Errors
    ///
    /// Fails at the first wrong offset, or if there is none.
    pub fn of_ids(data: &'a [u32], offsets: &'a [i64]) -> Result<Self, Error> {
        check_offsets(offsets, data.len(), "ids")?;
        Ok(Self { data, offsets })
    }
}

impl<'a, T> Documents<'a, T> {
    /// Number of documents.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, or ids, of document `index`.
    ///
    /// # Panics
    ///
    /// If the document does not exist.
    pub fn get(&self, index: usize) -> &'a [T] {
        &self.data[self.position(index)..self.position(index + 1)]
    }

    /// The bytes of all documents, back to back.
    pub(crate) fn all(&self) -> &'a [T] {
        &self.data[self.position(0)..self.position(self.len())]
    }

    /// All data, including bytes around the documents.
    pub(crate) fn data(&self) -> &'a [T] {
        self.data
    }

    /// The position of document `index` in the data.
    pub(crate) fn start(&self, index: usize) -> usize {
        self.position(index)
    }

    /// Number of bytes in the documents `range`.
    pub fn num_bytes(&self, range: &Range<usize>) -> usize {
        self.position(range.end) - self.position(range.start)
    }

    /// At most `number` ranges of adjacent documents, of about the same number of bytes, that
    /// together are the batch. Documents are not divided; no range is empty.
    pub fn blocks(&self, number: usize) -> Vec<Range<usize>> {
        blocks(self.offsets, number)
    }

    /// The positions of the documents in the data, and the end of the last.
    pub(crate) fn offsets(&self) -> &'a [i64] {
        self.offsets
    }

    fn position(&self, index: usize) -> usize {
        as_position(self.offsets[index])
    }
}

/// At most `number` ranges of adjacent documents, of about the same number of bytes, that together
/// are the batch. Documents are not divided; no range is empty.
pub(crate) fn blocks(offsets: &[i64], number: usize) -> Vec<Range<usize>> {
    let length = offsets.len() - 1;
    let number = number.clamp(1, length.max(1));
    let first = as_position(offsets[0]);
    let total = as_position(offsets[length]) - first;
    let mut blocks = Vec::with_capacity(number);
    let mut start = 0;
    for block in 1..=number {
        let target = first + share(total, block, number);
        let stop = if block == number {
            length
        } else {
            let count = offsets[1..].partition_point(|&end| as_position(end) <= target);
            count.max(start)
        };
        if stop > start {
            blocks.push(start..stop);
            start = stop;
        }
    }
    blocks
}

/// Checks that `offsets` do not decrease and do not exceed `length`; the first need not be 0.
pub(crate) fn check_offsets(
    offsets: &[i64],
    length: usize,
    what: &'static str,
) -> Result<(), Error> {
    if offsets.is_empty() {
        return Err(Error::NoOffsets);
    }
    let mut before = 0;
    for (index, &offset) in offsets.iter().enumerate() {
        let inside = usize::try_from(offset).is_ok_and(|offset| offset <= length);
        if !inside {
            return Err(Error::OffsetOutOfRange { index, offset, length, what });
        }
        if offset < before {
            return Err(Error::OffsetsFall { index });
        }
        before = offset;
    }
    Ok(())
}

/// `total * part / parts` without overflow.
fn share(total: usize, part: usize, parts: usize) -> usize {
    total / parts * part + total % parts * part / parts
}

fn as_position(offset: i64) -> usize {
    usize::try_from(offset).expect("offsets were checked when the batch was made")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(length: usize, offsets: &[i64], expected: &Result<usize, Error>) {
        let data = vec![b'x'; length];
        assert_eq!(&Documents::new(&data, offsets).map(|documents| documents.len()), expected);
    }

    #[test]
    fn offsets_are_checked() {
        let outside = |index, offset| {
            Err(Error::OffsetOutOfRange { index, offset, length: 4, what: "bytes of data" })
        };
        check(0, &[], &Err(Error::NoOffsets));
        check(0, &[0], &Ok(0));
        check(4, &[1, 1, 4], &Ok(2));
        check(4, &[0, 5], &outside(1, 5));
        check(4, &[-1, 2], &outside(0, -1));
        check(4, &[i64::MAX], &outside(0, i64::MAX));
        check(4, &[0, 3, 2], &Err(Error::OffsetsFall { index: 2 }));
    }

    proptest! {
        #[test]
        fn utf8_is_checked_for_each_document(
            text in "[a\u{e9}\u{6f22}\u{1f600}]{0,8}", broken in 0usize..40, mut cuts in prop::collection::vec(0usize..33, 1..6),
        ) {
            let mut data = text.into_bytes();
            if let Some(byte) = data.get_mut(broken) {
                *byte = 0x80;
            }
            for cut in &mut cuts {
                *cut = (*cut).min(data.len());
            }
            cuts.sort_unstable();
            let offsets: Vec<i64> = cuts.iter().map(|&cut| i64::try_from(cut).unwrap()).collect();
            let documents = Documents::new(&data, &offsets).unwrap();
            let expected = (0..documents.len()).all(|at| std::str::from_utf8(documents.get(at)).is_ok());
            prop_assert_eq!(documents.is_utf8(), expected);
        }

        #[test]
        fn blocks_join_to_the_batch(lengths in prop::collection::vec(0i64..9, 0..40), n in 0usize..9) {
            let mut offsets = vec![3];
            for length in lengths {
                offsets.push(offsets[offsets.len() - 1] + length);
            }
            let data = vec![0; as_position(offsets[offsets.len() - 1])];
            let documents = Documents::new(&data, &offsets).unwrap();
            let blocks = documents.blocks(n);
            prop_assert!(blocks.len() <= n.max(1));
            prop_assert!(blocks.iter().all(|block| block.start < block.end));
            let joined: Vec<usize> = blocks.into_iter().flatten().collect();
            prop_assert_eq!(joined, (0..documents.len()).collect::<Vec<_>>());
        }
    }
}
