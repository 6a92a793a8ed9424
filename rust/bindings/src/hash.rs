//! `hash64`, `hash_documents`, `fold_documents`, `is_utf8`, `count_occurrences` and
//! `num_json_values` for Python.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::arrays::{Array, documents};
use crate::calls::detached;
use crate::errors::to_python;

/// Return `xxh3_64` of `data` with seed 0.
#[pyfunction]
pub(crate) fn hash64(data: &[u8]) -> u64 {
    nanotok_bpe::hash64(data)
}

/// Return the hash64 of each document.
#[pyfunction]
pub(crate) fn hash_documents<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    offsets: PyReadonlyArray1<'py, i64>,
) -> PyResult<Array<'py, u64>> {
    let documents = documents(&data, &offsets)?;
    Ok(detached(py, || nanotok_bpe::hash_documents(documents))?.into_pyarray(py))
}

/// Return the documents in NFC and lower case, their words with one space between them.
#[pyfunction]
pub(crate) fn fold_documents<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    offsets: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Array<'py, u8>, Array<'py, i64>)> {
    let documents = documents(&data, &offsets)?;
    let (data, offsets) = detached(py, || nanotok_bpe::folded(documents))?;
    Ok((data.into_pyarray(py), offsets.into_pyarray(py)))
}

/// Return whether every document is valid UTF-8.
#[pyfunction]
pub(crate) fn is_utf8<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    offsets: PyReadonlyArray1<'py, i64>,
) -> PyResult<bool> {
    let documents = documents(&data, &offsets)?;
    Ok(py.detach(|| documents.is_utf8()))
}

/// Return the number of occurrences of needles in the documents: leftmost, longest, never
/// overlapping.
#[pyfunction]
pub(crate) fn count_occurrences<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    offsets: PyReadonlyArray1<'py, i64>,
    needles: Vec<String>,
) -> PyResult<u64> {
    let documents = documents(&data, &offsets)?;
    detached(py, || nanotok_bpe::count_occurrences(documents, &needles))?
        .map_err(|error| to_python(&error))
}

/// Return an upper bound of the number of values in a document of JSON.
#[pyfunction]
pub(crate) fn num_json_values(py: Python<'_>, data: PyReadonlyArray1<'_, u8>) -> PyResult<usize> {
    let document = data.as_slice()?;
    Ok(py.detach(|| nanotok_chat::num_values(document)))
}
