//! Shared code of the fuzz targets: patterns, programs that write documents, JSON documents, and
//! reference implementations of the core.

pub mod documents;
pub mod patterns;
pub mod program;
pub mod reference;
