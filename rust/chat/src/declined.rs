//! The answer to a document that is not surely well formed. Says no more: another reads it again and words
//! what is wrong.

/// Left to the plain reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Declined;
