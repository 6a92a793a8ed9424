//! What the fuzz targets share: patterns, programs that write documents, JSON documents, and plain twins of
//! the core.

pub mod documents;
pub mod naive;
pub mod patterns;
pub mod program;
