//! Concatenated documents, cut into windows of one length.

use crate::lengths::{numbered, of_documents, positive};
use crate::{Error, Segments};

/// Cuts the concatenated documents into rows: row k has `length` + 1 tokens from position `k *
/// length` on, of which the last is the first of the next row, so each token is an input once. The
/// last row can be shorter.
///
/// # Errors
///
/// Fails if a length is invalid.
///
/// # Panics
///
/// Never: the number of documents is checked.
pub fn window_rows(lengths: &[i64], length: i64) -> Result<Segments, Error> {
    let length = u64::from(positive("length", length)?);
    numbered(lengths.len())?;
    let lengths = of_documents(lengths, 0, 0)?;
    let mut left: u64 = lengths.iter().copied().map(u64::from).sum();
    // A row adds one segment, and one more for each document that begins within it.
    let rows = left.div_ceil(length);
    let mut segments = Segments::with_capacity(rows, rows + lengths.len() as u64);
    let mut at = Place { lengths: &lengths, document: 0, start: 0 };
    while left > 0 {
        at.take((length + 1).min(left), &mut segments);
        segments.end_row();
        left -= length.min(left);
        at.step_back();
    }
    Ok(segments)
}

/// A position in the concatenated documents.
struct Place<'a> {
    lengths: &'a [u32],
    document: usize,
    start: u32,
}

impl Place<'_> {
    /// Appends the next `tokens` tokens, which must exist, as segments.
    fn take(&mut self, mut tokens: u64, segments: &mut Segments) {
        loop {
            let there = self.lengths[self.document] - self.start;
            let taken = u32::try_from(tokens).map_or(there, |tokens| tokens.min(there));
            if taken > 0 {
                let number = u32::try_from(self.document).expect("numbers were checked");
                segments.push(number, self.start, taken);
            }
            tokens -= u64::from(taken);
            self.start += taken;
            if tokens == 0 {
                return;
            }
            self.document += 1;
            self.start = 0;
        }
    }

    /// Moves back by one token.
    fn step_back(&mut self) {
        self.start -= 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reference;

    proptest! {
        #[test]
        fn rows_equal_the_reference(
            lengths in prop::collection::vec(0_u32..12, 0..30),
            length in 1_u32..15,
        ) {
            let given: Vec<i64> = lengths.iter().copied().map(i64::from).collect();
            let found = window_rows(&given, length.into()).unwrap();
            prop_assert_eq!(found.by_row(), reference::windows(&lengths, length));
        }
    }

    #[test]
    fn lengths_up_to_32_bits_are_accepted() {
        let most = i64::from(u32::MAX);
        let found = window_rows(&[most, most], most).unwrap();
        assert_eq!((found.documents, found.starts), (vec![0, 1, 1], vec![0, 0, 0]));
        assert_eq!(found.lengths, [u32::MAX, 1, u32::MAX]);
        let error = window_rows(&[1], most + 1).unwrap_err();
        assert_eq!(error.to_string(), "length is 4294967296: it must be from 1 to 4294967295");
    }
}
