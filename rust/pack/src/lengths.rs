//! Validation of lengths from callers: tokens of documents and rows are u32 after it.

use nanotok_memory as memory;

use crate::Error;

/// The maximum number of tokens of a document, and of a row.
const MAX: i64 = u32::MAX as i64;

/// A number of tokens or documents that must be at least 1.
pub(crate) fn positive(what: &'static str, value: i64) -> Result<u32, Error> {
    within(value, 1).ok_or(Error::Number { what, value, least: 1, most: MAX })
}

/// The lengths of documents, of which the first has the index `first`.
pub(crate) fn of_documents(lengths: &[i64], least: i64, first: u64) -> Result<Vec<u32>, Error> {
    let checked = |(document, &length): (u64, &i64)| {
        within(length, least).ok_or(Error::Length { document, length, least, most: MAX })
    };
    let mut all = memory::with_capacity(lengths.len());
    for numbered in (first..).zip(lengths) {
        all.push(checked(numbered)?);
    }
    Ok(all)
}

/// Fails if there are too many documents for u32 indexes.
pub(crate) fn numbered(documents: usize) -> Result<(), Error> {
    u32::try_from(documents).map(|_| ()).map_err(|_| Error::Documents { number: documents })
}

fn within(value: i64, least: i64) -> Option<u32> {
    u32::try_from(value).ok().filter(|_| value >= least)
}
