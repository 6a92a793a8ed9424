//! `nanotok_ray._core`: the core of `nanotok_ray` for Python.
//!
//! This crate only converts: it borrows arrays, releases the GIL, calls the core, passes its
//! vectors to numpy without copying, and converts its errors.

#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use pyo3::prelude::*;

mod arrays;
mod calls;
mod counts;
mod cpu;
mod decoder;
mod dialect;
mod encoder;
mod errors;
mod hash;
mod json;
mod merges;
mod normalizers;
mod pack;
mod splitter;
mod template;

/// The compiled core of `nanotok_ray`: bytes and numpy arrays in, numpy arrays out.
#[pymodule]
mod _core {
    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_export]
    use super::counts::{RunSums, SpanCounts, merge_runs};
    #[pymodule_export]
    use super::cpu::{cpu_level, cpu_levels};
    #[pymodule_export]
    use super::decoder::Decoder;
    #[pymodule_export]
    use super::dialect::Dialect;
    #[pymodule_export]
    use super::encoder::{Encoder, Recognizer};
    #[pymodule_export]
    use super::hash::{
        count_occurrences, fold_documents, hash_documents, hash64, is_utf8, num_json_values,
    };
    #[pymodule_export]
    use super::json::json_rows;
    #[pymodule_export]
    use super::merges::{learn, merges_of_pairs, merges_of_ranks, merges_of_tokens};
    #[pymodule_export]
    use super::pack::{BestFitBuffer, best_fit_rows, fill_rows, window_rows};
    #[pymodule_export]
    use super::splitter::Splitter;
    #[pymodule_export]
    use super::template::ChatTemplate;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
        module.add("__build__", format!("{} {profile} {arch}-{os}", env!("CARGO_PKG_VERSION")))?;
        module.add("UNICODE_VERSION", nanotok_bpe::UNICODE_VERSION)
    }
}
