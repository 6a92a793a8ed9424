//! `Encoder` for Python.

use std::sync::Arc;

use nanotok_bpe::{Documents, Frame, TokenId, Tokens};
use nanotok_memory as memory;
use numpy::{Element, IntoPyArray, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::arrays::{Array, Pattern, byte_order, documents, merges, position, slice, splitter};
use crate::calls::{detached, max_threads};
use crate::dialect::{Dialect, RenderedArrays, render};
use crate::errors::{bad_argument, to_python};
use crate::normalizers::normalizers;

/// Bytes of tokens back to back, and their n + 1 offsets.
type TokenArrays<'py> = (PyReadonlyArray1<'py, u8>, PyReadonlyArray1<'py, i64>);

/// Finds the names of special tokens in texts, pass by pass; each name has an id.
#[pyclass(frozen, module = "nanotok_ray._core")]
pub(crate) struct Recognizer(nanotok_bpe::Recognizer);

#[pymethods]
impl Recognizer {
    #[new]
    fn new(py: Python<'_>, passes: Vec<Vec<(String, u32)>>) -> PyResult<Self> {
        detached(py, || nanotok_bpe::Recognizer::new(&passes))?
            .map(Self)
            .map_err(|error| to_python(&error))
    }
}

/// Encodes documents to token ids. Internal ids are bytes, merges and whole tokens in this order;
/// `numbering` has the ids.
#[pyclass(frozen, module = "nanotok_ray._core")]
pub(crate) struct Encoder(pub(crate) Arc<nanotok_bpe::Encoder>);

#[pymethods]
impl Encoder {
    #[new]
    #[pyo3(signature = (pattern, merges, *, gaps = "spans", byte_order = None, priorities = None, whole = None, numbering = None, space_runs = None, normalizers = vec![], cache_bytes = 134_217_728))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn new(
        py: Python<'_>,
        pattern: Pattern,
        merges: PyReadonlyArray2<'_, u32>,
        gaps: &str,
        byte_order: Option<&[u8]>,
        priorities: Option<PyReadonlyArray1<'_, u32>>,
        whole: Option<TokenArrays<'_>>,
        numbering: Option<PyReadonlyArray1<'_, u32>>,
        space_runs: Option<PyReadonlyArray1<'_, u32>>,
        normalizers: Vec<Bound<'_, PyTuple>>,
        cache_bytes: usize,
    ) -> PyResult<Self> {
        let splitter = splitter(py, &pattern, gaps)?;
        let (merges, order) = (self::merges(py, &merges)?, self::byte_order(byte_order)?);
        let whole = whole.as_ref().map(|(data, offsets)| documents(data, offsets)).transpose()?;
        let numbering = numbering.as_ref().map(|ids| slice(ids, "numbering")).transpose()?;
        let space_runs = space_runs.as_ref().map(|ids| slice(ids, "space_runs")).transpose()?;
        let priorities = priorities.as_ref().map(|it| slice(it, "priorities")).transpose()?;
        if order.is_some() && (priorities.is_some() || whole.is_some() || numbering.is_some()) {
            let others = "priorities, whole or numbering";
            return Err(bad_argument(format!("byte_order cannot be used with {others}")));
        }
        let normalizers = self::normalizers(&normalizers)?;
        let encoder = detached(py, || {
            let encoder = if let Some(order) = order {
                nanotok_bpe::Encoder::ordered(splitter, &merges, &order)?
            } else {
                let tokens = Tokens { merges: &merges, priorities, whole, numbering, space_runs };
                nanotok_bpe::Encoder::of_tokens(splitter, tokens)?
            };
            encoder.with_cache_bytes(cache_bytes).with_normalizers(normalizers)
        })?;
        encoder.map(|encoder| Self(Arc::new(encoder))).map_err(|error| to_python(&error))
    }

    /// Return the ids of one document.
    fn encode<'py>(&self, py: Python<'py>, document: &[u8]) -> PyResult<Array<'py, u32>> {
        let ids = detached(py, || self.0.encode(document))?.map_err(|error| to_python(&error))?;
        Ok(ids.into_pyarray(py))
    }

    /// Return the ids of one text as a list.
    fn encode_text<'py>(
        &self,
        py: Python<'py>,
        text: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyList>> {
        let document = text.to_str()?.as_bytes();
        let ids = detached(py, || self.0.encode(document))?.map_err(|error| to_python(&error))?;
        PyList::new(py, ids)
    }

    /// Return all ids back to back, uint16 (uint32 if `wide`), and n + 1 offsets.
    #[pyo3(signature = (data, offsets, *, before = vec![], after = vec![], threads = 1, wide = false))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn encode_batch<'py>(
        &self,
        py: Python<'py>,
        data: PyReadonlyArray1<'py, u8>,
        offsets: PyReadonlyArray1<'py, i64>,
        before: Vec<u32>,
        after: Vec<u32>,
        #[pyo3(from_py_with = max_threads)] threads: usize,
        wide: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Array<'py, i64>)> {
        let encode = if wide { Self::batch::<u32> } else { Self::batch::<u16> };
        let frame = Frame { before: &before, after: &after };
        encode(self, py, &data, &offsets, frame, threads)
    }

    /// Return all ids of texts back to back, like `encode_batch`; a text with lone surrogates is an
    /// error.
    #[pyo3(signature = (texts, *, threads = 1, wide = false))]
    fn encode_strings<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<PyBackedStr>,
        #[pyo3(from_py_with = max_threads)] threads: usize,
        wide: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Array<'py, i64>)> {
        let encode = if wide { Self::strings::<u32> } else { Self::strings::<u16> };
        encode(self, py, &texts, threads)
    }

    /// Return the ids of documents like `encode_batch`, with the special tokens that they spell.
    #[pyo3(signature = (recognizer, data, offsets, *, before = vec![], after = vec![], threads = 1, wide = false))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn encode_recognized<'py>(
        &self,
        py: Python<'py>,
        recognizer: &Recognizer,
        data: PyReadonlyArray1<'py, u8>,
        offsets: PyReadonlyArray1<'py, i64>,
        before: Vec<u32>,
        after: Vec<u32>,
        #[pyo3(from_py_with = max_threads)] threads: usize,
        wide: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Array<'py, i64>)> {
        let encode = if wide { Self::recognized::<u32> } else { Self::recognized::<u16> };
        let frame = Frame { before: &before, after: &after };
        encode(self, py, recognizer, documents(&data, &offsets)?, frame, threads)
    }

    /// Return the ids of spans, which are not split, back to back, and n + 1 offsets.
    #[pyo3(signature = (data, offsets, *, threads = 1))]
    fn encode_spans<'py>(
        &self,
        py: Python<'py>,
        data: PyReadonlyArray1<'py, u8>,
        offsets: PyReadonlyArray1<'py, i64>,
        #[pyo3(from_py_with = max_threads)] threads: usize,
    ) -> PyResult<(Array<'py, u32>, Array<'py, i64>)> {
        let spans = documents(&data, &offsets)?;
        let (ids, offsets) = detached(py, || self.0.encode_spans(spans, threads))?;
        Ok((ids.into_pyarray(py), offsets.into_pyarray(py)))
    }

    /// Return ids, labels, offsets, declined documents, images and sizes of a dialect's documents.
    #[pyo3(signature = (dialect, special_tokens, data, offsets, *, threads = 1, wide = false))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn render<'py>(
        &self,
        py: Python<'py>,
        dialect: &Dialect,
        special_tokens: Vec<(String, u32)>,
        data: PyReadonlyArray1<'py, u8>,
        offsets: PyReadonlyArray1<'py, i64>,
        #[pyo3(from_py_with = max_threads)] threads: usize,
        wide: bool,
    ) -> PyResult<RenderedArrays<'py>> {
        let render = if wide { render::<u32> } else { render::<u16> };
        render(py, &self.0, dialect, special_tokens, (&data, &offsets), threads)
    }

    /// Return 256 + the number of merges + the number of whole tokens.
    fn num_tokens(&self) -> usize {
        self.0.vocabulary().len()
    }

    /// Return the highest id + 1.
    fn num_ids(&self) -> usize {
        self.0.num_ids()
    }

    /// Return the bytes of every token in the order of ids, back to back, and their offsets.
    fn token_bytes<'py>(&self, py: Python<'py>) -> PyResult<(Array<'py, u8>, Array<'py, i64>)> {
        let (data, offsets) = detached(py, || {
            let (data, offsets) = self.0.token_bytes();
            (data, memory::collected(offsets.into_iter().map(position)))
        })?;
        Ok((data.into_pyarray(py), offsets.into_pyarray(py)))
    }
}

impl Encoder {
    fn batch<'py, I: TokenId + Element>(
        &self,
        py: Python<'py>,
        data: &PyReadonlyArray1<'py, u8>,
        offsets: &PyReadonlyArray1<'py, i64>,
        frame: Frame<'_>,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Array<'py, i64>)> {
        let documents = documents(data, offsets)?;
        let (ids, offsets) = detached(py, || self.0.encode_batch::<I>(documents, frame, threads))?
            .map_err(|error| to_python(&error))?;
        Ok((ids.into_pyarray(py).into_any(), offsets.into_pyarray(py)))
    }

    fn recognized<'py, I: TokenId + Element>(
        &self,
        py: Python<'py>,
        recognizer: &Recognizer,
        documents: Documents<'_>,
        frame: Frame<'_>,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Array<'py, i64>)> {
        let work = || self.0.encode_recognized::<I>(&recognizer.0, documents, frame, threads);
        let (ids, offsets) = detached(py, work)?.map_err(|error| to_python(&error))?;
        Ok((ids.into_pyarray(py).into_any(), offsets.into_pyarray(py)))
    }

    fn strings<'py, I: TokenId + Element>(
        &self,
        py: Python<'py>,
        texts: &[PyBackedStr],
        threads: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Array<'py, i64>)> {
        let documents: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        let (ids, offsets) =
            detached(py, || self.0.encode_slices::<I>(&documents, Frame::default(), threads))?
                .map_err(|error| to_python(&error))?;
        Ok((ids.into_pyarray(py).into_any(), offsets.into_pyarray(py)))
    }
}
