//! Rows of inputs and targets from the ids of their segments.

use std::ops::Range;

use crate::{Error, Target};

/// Ids of 16 or 32 bits.
#[derive(Debug, Clone, Copy)]
pub enum Ids<'a> {
    /// Of 16 bits.
    Narrow(&'a [u16]),
    /// Of 32 bits.
    Wide(&'a [u32]),
}

/// An array that contains segments.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The ids.
    pub ids: Ids<'a>,
    /// 0 for each id that is not a target; without a mask all are targets.
    pub mask: Option<&'a [u8]>,
}

/// The positions of the segments, in columns.
#[derive(Debug, Clone, Copy)]
pub struct Stretches<'a> {
    /// Index of each segment's array.
    pub which: &'a [i64],
    /// The first element of each segment in its array.
    pub offsets: &'a [i64],
    /// Tokens of each segment.
    pub lengths: &'a [i64],
    /// The start of the segments of each row, and the end of the last row.
    pub rows: &'a [i64],
}

/// The output: rows of `length` inputs and as many targets, back to back.
#[derive(Debug)]
pub struct Batch<'a, T> {
    /// The tokens of each row up to its length.
    pub inputs: &'a mut [T],
    /// The token after each input.
    pub targets: &'a mut [T],
    /// Inputs of a row.
    pub length: usize,
    /// The input for places without a token.
    pub pad: T,
    /// The number of ids, which each id must be below.
    pub num_ids: u64,
}

/// Fills rows. The tokens of a row are those of its segments, at most one more than its inputs; the
/// target of an input is the next token, or -1 if there is none or if its mask is 0.
///
/// # Errors
///
/// Fails if the columns do not match, if a segment exceeds its array, if a row is too long, or if
/// an id does not exist or does not fit `T`. Nothing is written.
pub fn fill_rows<T: Target>(
    sources: &[Source<'_>],
    stretches: &Stretches<'_>,
    batch: &mut Batch<'_, T>,
) -> Result<(), Error> {
    check_batch(stretches, batch)?;
    check_masks(sources)?;
    for row in 0..stretches.rows.len() - 1 {
        check_row(sources, stretches, row, batch)?;
    }
    let inputs = batch.inputs.chunks_exact_mut(batch.length);
    let targets = batch.targets.chunks_exact_mut(batch.length);
    for (number, (inputs, targets)) in inputs.zip(targets).enumerate() {
        let mut row = Row { inputs, targets, filled: 0 };
        for segment in stretches.segments(number)? {
            row.add(stretches.of(segment, sources)?);
        }
        row.end(batch.pad);
    }
    Ok(())
}

fn check_batch<T>(stretches: &Stretches<'_>, batch: &Batch<'_, T>) -> Result<(), Error> {
    let rows = batch.inputs.len().checked_div(batch.length);
    let rows = rows.filter(|rows| rows * batch.length == batch.inputs.len());
    let Some(rows) = rows else {
        return Err(Error::Number { what: "length", value: 0, least: 1, most: i64::MAX });
    };
    let segments = stretches.lengths.len();
    let entries = |what, number, expected| {
        let fits = number == expected;
        fits.then_some(()).ok_or(Error::Entries { what, number, expected })
    };
    entries("targets", batch.targets.len(), batch.inputs.len())?;
    entries("ends of rows", stretches.rows.len(), rows + 1)?;
    entries("numbers of arrays", stretches.which.len(), segments)?;
    entries("offsets", stretches.offsets.len(), segments)
}

fn check_masks(sources: &[Source<'_>]) -> Result<(), Error> {
    for (array, source) in sources.iter().enumerate() {
        let elements = source.ids.len();
        if let Some(mask) = source.mask.filter(|mask| mask.len() != elements) {
            return Err(Error::Mask { array, entries: mask.len(), elements });
        }
    }
    Ok(())
}

fn check_row<T: Target>(
    sources: &[Source<'_>],
    stretches: &Stretches<'_>,
    row: usize,
    batch: &Batch<'_, T>,
) -> Result<(), Error> {
    let mut tokens = 0;
    for segment in stretches.segments(row)? {
        let source = stretches.of(segment, sources)?;
        tokens += source.ids.len();
        if tokens > batch.length + 1 {
            let tokens = tokens as u64;
            return Err(Error::RowTooLong { row, segment, tokens, length: batch.length });
        }
        if let Some(id) = source.ids.above(T::MAX) {
            return Err(Error::IdTooLarge { segment, id });
        }
        if let Some(id) = source.ids.above(largest(batch.num_ids)) {
            return Err(Error::NoId { segment, id, num_ids: batch.num_ids });
        }
    }
    Ok(())
}

/// The largest of `num_ids` ids.
fn largest(num_ids: u64) -> u32 {
    u32::try_from(num_ids.saturating_sub(1)).unwrap_or(u32::MAX)
}

impl Stretches<'_> {
    /// The segments of a row.
    fn segments(&self, row: usize) -> Result<Range<usize>, Error> {
        let segments = self.lengths.len();
        let ends = (self.rows[row], self.rows[row + 1]);
        match (usize::try_from(ends.0), usize::try_from(ends.1)) {
            (Ok(start), Ok(end)) if start <= end && end <= segments => Ok(start..end),
            _ => Err(Error::RowEnds { row, ends, segments }),
        }
    }

    /// The part of an array that is a segment.
    fn of<'a>(&self, segment: usize, sources: &[Source<'a>]) -> Result<Source<'a>, Error> {
        let array = self.which[segment];
        let found =
            usize::try_from(array).ok().and_then(|array| Some((array, sources.get(array)?)));
        let Some((array, source)) = found else {
            return Err(Error::NoArray { segment, array, arrays: sources.len() });
        };
        let (offset, length) = (self.offsets[segment], self.lengths[segment]);
        range(offset, length).and_then(|range| source.get(range)).ok_or(Error::OutOfArray {
            segment,
            offset,
            length,
            array,
            elements: source.ids.len(),
        })
    }
}

fn range(offset: i64, length: i64) -> Option<Range<usize>> {
    let (start, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
    Some(start..start.checked_add(length)?)
}

impl Source<'_> {
    fn get(&self, range: Range<usize>) -> Option<Self> {
        let ids = match self.ids {
            Ids::Narrow(ids) => Ids::Narrow(ids.get(range.clone())?),
            Ids::Wide(ids) => Ids::Wide(ids.get(range.clone())?),
        };
        Some(Self { ids, mask: self.mask.map(|mask| &mask[range]) })
    }
}

impl Ids<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Narrow(ids) => ids.len(),
            Self::Wide(ids) => ids.len(),
        }
    }

    /// The largest id, if it is larger than `most`.
    fn above(&self, most: u32) -> Option<u32> {
        let largest = match self {
            Self::Narrow(ids) if most < u16::MAX.into() => {
                ids.iter().fold(0, |all, &id| all.max(id)).into()
            }
            Self::Wide(ids) if most < u32::MAX => ids.iter().fold(0, |all, &id| all.max(id)),
            _ => return None,
        };
        (largest > most).then_some(largest)
    }
}

/// The current row.
struct Row<'a, T> {
    inputs: &'a mut [T],
    targets: &'a mut [T],
    filled: usize,
}

impl<T: Target> Row<'_, T> {
    /// Appends a segment, for which there must be room.
    fn add(&mut self, segment: Source<'_>) {
        match segment.ids {
            Ids::Narrow(ids) => self.add_ids(ids, segment.mask, T::from),
            Ids::Wide(ids) => self.add_ids(ids, segment.mask, T::from_wide),
        }
    }

    fn add_ids<I: Copy>(&mut self, ids: &[I], mask: Option<&[u8]>, convert: impl Fn(I) -> T) {
        let Some(&first) = ids.first() else { return };
        if self.filled == 0 {
            // The first token is not a target.
            self.inputs[0] = convert(first);
            self.filled = 1;
            self.add_more(&ids[1..], mask.map(|mask| &mask[1..]), convert);
        } else {
            self.add_more(ids, mask, convert);
        }
    }

    /// Appends ids to a non-empty row: each is an input and the target of the previous one; the one
    /// after the last input is only a target.
    fn add_more<I: Copy>(&mut self, ids: &[I], mask: Option<&[u8]>, convert: impl Fn(I) -> T) {
        let targets = &mut self.targets[self.filled - 1..][..ids.len()];
        let both = ids.len().min(self.inputs.len() - self.filled);
        let inputs = &mut self.inputs[self.filled..][..both];
        self.filled += ids.len();
        let (shared, last) = targets.split_at_mut(both);
        let both = inputs.iter_mut().zip(shared).zip(ids);
        if let Some(mask) = mask {
            for (((input, target), &id), &mask) in both.zip(mask) {
                *input = convert(id);
                *target = input.masked(mask);
            }
        } else {
            for ((input, target), &id) in both {
                *input = convert(id);
                *target = *input;
            }
        }
        if let (Some(last), Some(&id)) = (last.first_mut(), ids.last()) {
            let mask = mask.and_then(<[u8]>::last).copied();
            *last = convert(id).masked(mask.unwrap_or(1));
        }
    }

    /// Fills the remaining places.
    fn end(self, pad: T) {
        let inputs = self.filled.min(self.inputs.len());
        self.inputs[inputs..].fill(pad);
        self.targets[self.filled.saturating_sub(1)..].fill(T::IGNORED);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reference;

    /// A document: ids, their width, and the mask.
    fn documents() -> impl Strategy<Value = Vec<(Vec<u16>, bool, Option<Vec<u8>>)>> {
        let document = (0_usize..12).prop_flat_map(|length| {
            let ids = prop::collection::vec(any::<u16>(), length);
            let mask = prop::collection::vec(0_u8..3, length);
            (ids, any::<bool>(), prop::option::of(mask))
        });
        prop::collection::vec(document, 1..6)
    }

    proptest! {
        #[test]
        fn rows_equal_the_reference(
            documents in documents(),
            picks in prop::collection::vec((any::<u16>(), any::<u16>(), any::<u16>()), 0..20),
            length in 1_usize..9,
            pad in -2_i32..9,
        ) {
            let wide: Vec<Vec<u32>> =
                documents.iter().map(|(ids, ..)| ids.iter().copied().map(u32::from).collect()).collect();
            let sources: Vec<Source> = documents.iter().zip(&wide).map(|((ids, is_wide, mask), wide)| Source {
                ids: if *is_wide { Ids::Wide(wide) } else { Ids::Narrow(ids) },
                mask: mask.as_deref(),
            }).collect();
            // Segments are added to a row as long as they fit.
            let (mut which, mut offsets, mut lengths, mut rows) = (vec![], vec![], vec![], vec![0]);
            let mut filled = 0;
            for (array, offset, most) in picks {
                let array = usize::from(array) % wide.len();
                let offset = usize::from(offset) % (wide[array].len() + 1);
                let taken = usize::from(most) % (wide[array].len() - offset + 1).min(length + 2);
                if filled + taken > length + 1 {
                    rows.push(i64::try_from(which.len()).unwrap());
                    filled = 0;
                }
                filled += taken;
                which.push(i64::try_from(array).unwrap());
                offsets.push(i64::try_from(offset).unwrap());
                lengths.push(i64::try_from(taken).unwrap());
            }
            rows.push(i64::try_from(which.len()).unwrap());
            let mut inputs = vec![-7_i32; length * (rows.len() - 1)];
            let mut targets = inputs.clone();
            let mut batch = Batch { inputs: &mut inputs, targets: &mut targets, length, pad, num_ids: 1 << 32 };
            let stretches =
                Stretches { which: &which, offsets: &offsets, lengths: &lengths, rows: &rows };
            fill_rows(&sources, &stretches, &mut batch).unwrap();
            let masks: Vec<Option<Vec<u8>>> = documents.iter().map(|(.., mask)| mask.clone()).collect();
            let expected =
                reference::fill(&wide, &masks, [&which, &offsets, &lengths, &rows], length, pad.into());
            let widened = |found: Vec<i32>| found.into_iter().map(i64::from).collect::<Vec<_>>();
            prop_assert_eq!((widened(inputs), widened(targets)), expected);
        }
    }

    fn refused<T: Target + PartialEq + std::fmt::Debug>(
        columns: [&[i64]; 4],
        length: usize,
        num_ids: u64,
    ) -> String {
        let sources = [
            Source { ids: Ids::Narrow(&[1, 2, 3]), mask: None },
            Source { ids: Ids::Wide(&[4, u32::MAX]), mask: None },
        ];
        let [which, offsets, lengths, rows] = columns;
        let mut inputs = [T::from(9); 4];
        let mut targets = inputs;
        let mut batch =
            Batch { inputs: &mut inputs, targets: &mut targets, length, pad: T::IGNORED, num_ids };
        let stretches = Stretches { which, offsets, lengths, rows };
        let error = fill_rows(&sources, &stretches, &mut batch).unwrap_err();
        assert_eq!((inputs, targets), ([T::from(9); 4], [T::from(9); 4]));
        error.to_string()
    }

    #[test]
    fn an_invalid_fill_is_refused_and_writes_nothing() {
        for (columns, length, message) in [
            (
                [&[0_i64, 0][..], &[0, 1], &[3, 3], &[0, 1, 2]],
                2,
                "segment 1 is 3 ids from 1 on: array 0 has 3",
            ),
            (
                [&[0], &[i64::MAX], &[i64::MAX], &[0, 0, 1]],
                2,
                "segment 0 is 9223372036854775807 ids from 9223372036854775807 on: array 0 has 3",
            ),
            ([&[0], &[-1], &[1], &[0, 0, 1]], 2, "segment 0 is 1 ids from -1 on: array 0 has 3"),
            ([&[2], &[0], &[1], &[0, 0, 1]], 2, "segment 0 is in array 2: there are 2 arrays"),
            ([&[-1], &[0], &[1], &[0, 0, 1]], 2, "segment 0 is in array -1: there are 2 arrays"),
            (
                [&[0, 0], &[0, 0], &[2, 2], &[0, 2, 2]],
                2,
                "segment 1 makes row 0 4 tokens long: a row of 2 inputs takes one more at most",
            ),
            (
                [&[0], &[0], &[1], &[0, 2, 1]],
                2,
                "row 0 has segments 0 to 2: they must rise, and there are 1",
            ),
            (
                [&[0], &[0], &[1], &[-1, 0, 1]],
                2,
                "row 0 has segments -1 to 0: they must rise, and there are 1",
            ),
            ([&[0], &[0], &[1], &[0, 1]], 2, "2 ends of rows and not 3"),
            ([&[0], &[0], &[1], &[]], 4, "0 ends of rows and not 2"),
            ([&[], &[0], &[1], &[0, 1]], 4, "0 numbers of arrays and not 1"),
            ([&[0], &[0, 0], &[1], &[0, 1]], 4, "2 offsets and not 1"),
            (
                [&[0], &[0], &[1], &[0, 1]],
                0,
                "length is 0: it must be from 1 to 9223372036854775807",
            ),
        ] {
            assert_eq!(refused::<i64>(columns, length, 1 << 32), message);
        }
        let columns = [&[1_i64][..], &[0], &[2], &[0, 0, 1]];
        let message =
            "segment 0 has the id 4294967295: rows of int32 hold up to 2147483647, use int64";
        assert_eq!(refused::<i32>(columns, 2, 1 << 32), message);
        let message = "segment 0 has the id 4294967295: there are ids below 9";
        assert_eq!(refused::<i64>(columns, 2, 9), message);
        let columns = [&[0_i64][..], &[0], &[3], &[0, 0, 1]];
        assert_eq!(refused::<i32>(columns, 2, 3), "segment 0 has the id 3: there are ids below 3");
    }
}
