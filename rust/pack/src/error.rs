//! The one error type of packing. Each variant holds the values a message needs; the message is
//! written here once, and names the value and the limit. Knows nothing of Python's classes.

use std::fmt;

/// Everything that can go wrong in this crate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A number lies outside what it may be.
    Number {
        /// What it is the number of.
        what: &'static str,
        /// The number.
        value: i64,
        /// The least it may be.
        least: i64,
        /// The most it may be.
        most: i64,
    },
    /// The length of a document lies outside what it may be.
    Length {
        /// Number of the document.
        document: u64,
        /// Its length.
        length: i64,
        /// The least it may be.
        least: i64,
        /// The most it may be.
        most: i64,
    },
    /// There are more documents than numbers for them.
    Documents {
        /// How many.
        number: usize,
    },
    /// A document does not fit a row, and may not be cut.
    TooLong {
        /// Number of the document.
        document: u64,
        /// Its length.
        length: i64,
        /// Tokens of a row.
        capacity: i64,
    },
    /// Arrays that must have as many entries as others have not.
    Entries {
        /// What they hold.
        what: &'static str,
        /// How many there are.
        number: usize,
        /// How many there must be.
        expected: usize,
    },
    /// A row ends before it begins, or beyond the segments.
    RowEnds {
        /// Number of the row.
        row: usize,
        /// Where it begins and ends.
        ends: (i64, i64),
        /// How many segments there are.
        segments: usize,
    },
    /// A row has more tokens than inputs and one.
    RowTooLong {
        /// Number of the row.
        row: usize,
        /// Number of the segment with which it passes the limit.
        segment: usize,
        /// Tokens up to the end of this segment.
        tokens: u64,
        /// Inputs of a row.
        length: usize,
    },
    /// A segment is in an array that does not exist.
    NoArray {
        /// Number of the segment.
        segment: usize,
        /// Number of the array.
        array: i64,
        /// How many arrays there are.
        arrays: usize,
    },
    /// A segment lies outside its array.
    OutOfArray {
        /// Number of the segment.
        segment: usize,
        /// Its first element.
        offset: i64,
        /// Its length.
        length: i64,
        /// Number of the array.
        array: usize,
        /// Elements of the array.
        elements: usize,
    },
    /// An id does not fit the type of the rows.
    IdTooLarge {
        /// Number of the segment it is in.
        segment: usize,
        /// The id.
        id: u32,
    },
    /// An id is none of those that there are.
    NoId {
        /// Number of the segment it is in.
        segment: usize,
        /// The id.
        id: u32,
        /// Each id is below it.
        num_ids: u64,
    },
    /// The mask of an array has not as many entries as the array.
    Mask {
        /// Number of the array.
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
    /// What filling says.
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
