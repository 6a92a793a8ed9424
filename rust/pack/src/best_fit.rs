//! Best fit for a whole group of documents, all of which are candidates from the start.

use crate::candidates::Candidates;
use crate::lengths::{numbered, of_documents, positive};
use crate::{Error, Segments};

/// Packs all documents into rows of at most `capacity` tokens.
///
/// Each place of a row gets the largest document that fits, of equal ones that with the smallest
/// index. If none fits, the row ends; with `keep_rest`, it is filled from the longest document,
/// whose rest stays a candidate. Documents without tokens are skipped.
///
/// # Errors
///
/// Fails if a length or the capacity is invalid, or if a document is longer than a row and
/// `keep_rest` is not set.
///
/// # Panics
///
/// Never: the number of documents is checked.
pub fn best_fit_rows(lengths: &[i64], capacity: i64, keep_rest: bool) -> Result<Segments, Error> {
    let most = positive("capacity", capacity)?;
    numbered(lengths.len())?;
    let lengths = of_documents(lengths, 0, 0)?;
    if !keep_rest {
        fitting(&lengths, most)?;
    }
    // A segment ends its document, or it fills a row, which happens only if documents are cut.
    let documents = lengths.len() as u64;
    let tokens: u64 = lengths.iter().copied().map(u64::from).sum();
    let full = if keep_rest { tokens / u64::from(most) } else { 0 };
    let mut segments = Segments::with_capacity(full, documents + full);
    Candidates::check_room(lengths.len());
    let mut candidates: Candidates =
        lengths.iter().copied().zip(0..).filter(|&(length, _)| length > 0).collect();
    while candidates.len() > 0 {
        let mut rest = most;
        while let Some((length, number)) = next(&mut candidates, rest, keep_rest) {
            let document = u32::try_from(number).expect("numbers were checked");
            let taken = length.min(rest);
            segments.push(document, lengths[document as usize] - length, taken);
            rest -= taken;
        }
        segments.end_row();
    }
    Ok(segments)
}

/// Returns the next content of a row with room for `rest`: a document, or a part of one. If a
/// document is longer than `rest`, its remaining tokens stay a candidate.
fn next(candidates: &mut Candidates, rest: u32, keep_rest: bool) -> Option<(u32, u64)> {
    if rest == 0 {
        return None;
    }
    let fitting = candidates.take_fitting(rest);
    if fitting.is_some() || !keep_rest {
        return fitting;
    }
    let (length, number) = candidates.take_longest()?;
    candidates.insert((length - rest, number));
    Some((length, number))
}

/// Returns an error for a document that is longer than a row.
fn fitting(lengths: &[u32], most: u32) -> Result<(), Error> {
    let Some((&length, document)) = lengths.iter().zip(0..).find(|&(&length, _)| length > most)
    else {
        return Ok(());
    };
    Err(Error::TooLong { document, length: length.into(), capacity: most.into() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reference;

    proptest! {
        #[test]
        fn rows_equal_the_reference(
            lengths in prop::collection::vec(0_u32..40, 0..60),
            capacity in 1_u32..50,
            keep_rest: bool,
        ) {
            let given: Vec<i64> = lengths.iter().copied().map(i64::from).collect();
            let found = best_fit_rows(&given, capacity.into(), keep_rest);
            match reference::best_fit(&lengths, capacity, keep_rest) {
                Some(expected) => prop_assert_eq!(found.unwrap().by_row(), expected),
                None => prop_assert!(matches!(found, Err(Error::TooLong { .. })), "{:?}", found),
            }
        }
    }

    #[test]
    fn lengths_up_to_32_bits_are_accepted() {
        let most = i64::from(u32::MAX);
        let found = best_fit_rows(&[most, 1, most], most, true).unwrap();
        assert_eq!((found.documents, found.rows), (vec![0, 2, 1], vec![0, 1, 2, 3]));
        for (lengths, capacity, message) in [
            ([1, -1], 9, "document 1 has -1 tokens: it must be 0 to 4294967295"),
            ([most + 1, 1], 9, "document 0 has 4294967296 tokens: it must be 0 to 4294967295"),
            ([1, 1], 0, "capacity is 0: it must be from 1 to 4294967295"),
        ] {
            let error = best_fit_rows(&lengths, capacity, true).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
