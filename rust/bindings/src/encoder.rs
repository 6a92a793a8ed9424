//! `Encoder` for Python.

use nanotok_bpe::TokenId;
use numpy::{Element, IntoPyArray, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::arrays::{Array, documents, merges, slice, splitter};
use crate::errors::to_python;

/// Turns documents into token ids: 0..255 are bytes, 256 + k is merge k.
#[pyclass(frozen, module = "nanotok_ray._core")]
pub(crate) struct Encoder(nanotok_bpe::Encoder);

#[pymethods]
impl Encoder {
    #[new]
    #[pyo3(signature = (pattern, merges, *, gaps = "spans"))]
    fn new(
        py: Python<'_>,
        pattern: &str,
        merges: PyReadonlyArray2<'_, u32>,
        gaps: &str,
    ) -> PyResult<Self> {
        let splitter = splitter(py, pattern, gaps)?;
        let merges = self::merges(&merges)?;
        py.detach(|| nanotok_bpe::Encoder::new(splitter, &merges))
            .map(Self)
            .map_err(|error| to_python(&error))
    }

    /// Return the ids of one document.
    fn encode<'py>(&self, py: Python<'py>, document: &[u8]) -> PyResult<Array<'py, u32>> {
        let ids = py.detach(|| self.0.encode(document)).map_err(|error| to_python(&error))?;
        Ok(ids.into_pyarray(py))
    }

    /// Return the ids of one text as a list.
    fn encode_text<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyList>> {
        let document = text.to_str()?.as_bytes();
        let ids = py.detach(|| self.0.encode(document)).map_err(|error| to_python(&error))?;
        PyList::new(py, ids)
    }

    /// Return all ids back to back, uint16 (uint32 if `wide`), and n + 1 offsets.
    #[pyo3(signature = (data, offsets, *, threads = 1, wide = false))]
    fn encode_batch<'py>(
        &self,
        py: Python<'py>,
        data: PyReadonlyArray1<'py, u8>,
        offsets: PyReadonlyArray1<'py, i64>,
        threads: usize,
        wide: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Array<'py, i64>)> {
        let encode = if wide { Self::batch::<u32> } else { Self::batch::<u16> };
        encode(self, py, &data, &offsets, threads)
    }

    /// Return 256 + the number of merges.
    fn num_tokens(&self) -> usize {
        self.0.vocabulary().len()
    }

    /// Return the bytes of every id back to back, and their offsets.
    fn token_bytes<'py>(&self, py: Python<'py>) -> PyResult<(Array<'py, u8>, Array<'py, i64>)> {
        let (data, offsets) = self.0.vocabulary().parts();
        let offsets = offsets.iter().map(|&offset| i64::try_from(offset));
        let offsets: Vec<i64> = offsets.collect::<Result<_, _>>()?;
        Ok((data.to_vec().into_pyarray(py), offsets.into_pyarray(py)))
    }

    /// Return (lowest id, other id) wherever two ids stand for the same bytes.
    fn duplicate_tokens(&self, py: Python<'_>) -> Vec<(u32, u32)> {
        py.detach(|| self.0.vocabulary().duplicates())
    }

    /// Return the bytes of `ids`.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        ids: PyReadonlyArray1<'py, u32>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let ids = slice(&ids, "ids")?;
        let bytes = py.detach(|| self.0.vocabulary().decode(ids));
        Ok(PyBytes::new(py, &bytes.map_err(|error| to_python(&error))?))
    }
}

impl Encoder {
    fn batch<'py, I: TokenId + Element>(
        &self,
        py: Python<'py>,
        data: &PyReadonlyArray1<'py, u8>,
        offsets: &PyReadonlyArray1<'py, i64>,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Array<'py, i64>)> {
        let documents = documents(data, offsets)?;
        let (ids, offsets) = py
            .detach(|| self.0.encode_batch::<I>(documents, threads))
            .map_err(|error| to_python(&error))?;
        Ok((ids.into_pyarray(py).into_any(), offsets.into_pyarray(py)))
    }
}
