//! Shared code of the fuzz targets: patterns, programs that write documents, JSON documents, and
//! plain implementations of the core.

pub mod documents;
pub mod naive;
pub mod patterns;
pub mod program;
