//! The CPU levels of the core, for Python.

use nanotok_bpe::Level;
use pyo3::prelude::*;

use crate::errors::to_python;

/// Return the level in use: "portable", "avx2" or "avx512".
#[pyfunction]
pub(crate) fn cpu_level() -> PyResult<String> {
    Level::in_use().map(|level| level.to_string()).map_err(|error| to_python(&error))
}

/// Return the levels of this CPU in increasing order.
#[pyfunction]
pub(crate) fn cpu_levels() -> Vec<String> {
    let all = Level::ALL.into_iter().filter(|level| level.is_available());
    all.map(|level| level.to_string()).collect()
}
