//! The error for a document that is not certainly well formed. It has no details, since the plain
//! implementation reads the document again and reports the problem.

/// The document is left to the reference implementation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Declined;
