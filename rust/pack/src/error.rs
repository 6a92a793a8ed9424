//! The error type of packing. Each variant has the values of its message; messages name the value
//! and the limit. Python's classes are chosen elsewhere.

use std::fmt;

/// All errors of this crate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A number is out of its range.
    Number {
        /// The name of the number.
        what: &'static str,
        /// The number.
        value: i64,
        /// The minimum.
        least: i64,
        /// The maximum.
        most: i64,
    },
    /// The length of a document is out of its range.
    Length {
        /// Index of the document.
        document: u64,
        /// Its length.
        length: i64,
        /// The minimum.
        least: i64,
        /// The maximum.
        most: i64,
    },
    /// There are more documents than indexes.
    Documents {
        /// The number of documents.
        number: usize,
    },
    /// A document does not fit a row, and must not be cut.
    TooLong {
        /// Index of the document.
        document: u64,
        /// Its length.
        length: i64,
        /// Tokens of a row.
        capacity: i64,
    },
    /// Arrays differ in their number of entries.
    Entries {
        /// The name of the entries.
        what: &'static str,
        /// The number of entries.
        number: usize,
        /// The expected number.
        expected: usize,
    },
    /// The end of a row precedes its start or exceeds the segments.
    RowEnds {
        /// Index of the row.
        row: usize,
        /// Start and end of the row.
        ends: (i64, i64),
        /// The number of segments.
        segments: usize,
    },
    /// A row has more tokens than its inputs and one target.
    RowTooLong {
        /// Index of the row.
        row: usize,
        /// Index of the segment with which the row exceeds the limit.
        segment: usize,
        /// Tokens up to the end of this segment.
        tokens: u64,
        /// Inputs of a row.
        length: usize,
    },
    /// A segment is in an array that does not exist.
    NoArray {
        /// Index of the segment.
        segment: usize,
        /// Index of the array.
        array: i64,
        /// The number of arrays.
        arrays: usize,
    },
    /// A segment exceeds its array.
    OutOfArray {
        /// Index of the segment.
        segment: usize,
        /// Its first element.
        offset: i64,
        /// Its length.
        length: i64,
        /// Index of the array.
        array: usize,
        /// Elements of the array.
        elements: usize,
    },
    /// An id does not fit the type of the rows.
    IdTooLarge {
        /// Index of its segment.
        segment: usize,
        /// The id.
        id: u32,
    },
    /// An id does not exist.
    NoId {
        /// Index of its segment.
        segment: usize,
        /// The id.
        id: u32,
        /// The number of ids, which each id must be below.
        num_ids: u64,
    },
    /// The mask of an array differs from the array in its number of entries.
    Mask {
        /// Index of the array.
        array: usize,
        /// Entries of the mask.
        entries: usize,
        /// Elements of the array.
        elements: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { what, value, least, most } => {
                write!(f, "{what} is {value}: it must be from {least} to {most}")
            }
            Self::Length { document, length, least, most } => {
                write!(f, "document {document} has {length} tokens: it must be {least} to {most}")
            }
            Self::Documents { number } => {
                write!(f, "{number} documents: no more than {} can be packed together", u32::MAX)
            }
            Self::TooLong { document, length, capacity } => write!(
                f,
                "document {document} has {length} tokens and a row holds {capacity}: leave it out, \
                 cut it before, or keep the rest of what is cut"
            ),
            _ => self.of_a_fill(f),
        }
    }
}

impl Error {
    /// The message of an error of filling.
    fn of_a_fill(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entries { what, number, expected } => {
                write!(f, "{number} {what} and not {expected}")
            }
            Self::RowEnds { row, ends: (start, end), segments } => write!(
                f,
                "row {row} has segments {start} to {end}: they must rise, and there are {segments}"
            ),
            Self::RowTooLong { row, segment, tokens, length } => write!(
                f,
                "segment {segment} makes row {row} {tokens} tokens long: a row of {length} inputs \
                 takes one more at most"
            ),
            Self::NoArray { segment, array, arrays } => {
                write!(f, "segment {segment} is in array {array}: there are {arrays} arrays")
            }
            Self::OutOfArray { segment, offset, length, array, elements } => write!(
                f,
                "segment {segment} is {length} ids from {offset} on: array {array} has {elements}"
            ),
            Self::IdTooLarge { segment, id } => write!(
                f,
                "segment {segment} has the id {id}: rows of int32 hold up to {}, use int64",
                i32::MAX
            ),
            Self::NoId { segment, id, num_ids } => {
                write!(f, "segment {segment} has the id {id}: there are ids below {num_ids}")
            }
            Self::Mask { array, entries, elements } => {
                write!(
                    f,
                    "the mask of array {array} has {entries} entries: the array has {elements}"
                )
            }
            _ => unreachable!("all others are worded above"),
        }
    }
}

impl std::error::Error for Error {}
