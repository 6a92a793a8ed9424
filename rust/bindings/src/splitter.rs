//! `Splitter` for Python.

use nanotok_bpe::Kind;
use nanotok_memory as memory;
use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::arrays::{Array, Pattern, position, slice, splitter, step_parts};
use crate::calls::detached;
use crate::errors::to_python;

/// Splits documents into spans.
#[pyclass(frozen, module = "nanotok_ray._core")]
pub(crate) struct Splitter {
    splitter: nanotok_bpe::Splitter,
    /// Whether it was made of steps.
    has_steps: bool,
}

#[pymethods]
impl Splitter {
    #[new]
    fn new(py: Python<'_>, pattern: Pattern) -> PyResult<Self> {
        let has_steps = matches!(pattern, Pattern::Steps(_));
        Ok(Self { splitter: splitter(py, &pattern, "spans")?, has_steps })
    }

    /// The pattern or the steps as they were passed.
    #[getter]
    fn pattern<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let steps: Vec<_> = self.splitter.steps().into_iter().map(step_parts).collect();
        match &steps[..] {
            [(pattern, ..)] if !self.has_steps => Ok(PyString::new(py, pattern).into_any()),
            _ => Ok(PyList::new(py, steps)?.into_any()),
        }
    }

    /// The implementation that splits text: "lexer", "table" or "regex".
    #[getter]
    fn engine(&self) -> &'static str {
        self.splitter.engine()
    }

    /// Return the spans, whose concatenation is the document.
    fn split<'py>(&self, py: Python<'py>, document: &[u8]) -> PyResult<Bound<'py, PyList>> {
        let mut spans = Vec::new();
        detached(py, || self.splitter.split(document, |span, _| memory::push(&mut spans, span)))?
            .map_err(|error| to_python(&error))?;
        PyList::new(py, spans.into_iter().map(|span| PyBytes::new(py, span)))
    }

    /// Return the number of maximal gaps of the pattern in the valid text.
    fn count_gaps(&self, py: Python<'_>, document: &[u8]) -> PyResult<u64> {
        let mut gaps = 0;
        detached(py, || {
            self.splitter.split(document, |_, kind| gaps += u64::from(kind == Kind::Gap))
        })?
        .map_err(|error| to_python(&error))?;
        Ok(gaps)
    }

    /// Return the boundaries of spans in a part of a document.
    fn boundaries<'py>(
        &self,
        py: Python<'py>,
        document: PyReadonlyArray1<'py, u8>,
        start: usize,
        most: usize,
    ) -> PyResult<Array<'py, i64>> {
        let document = slice(&document, "document")?;
        let found = detached(py, || {
            let found = self.splitter.boundaries(document, start, most)?;
            // In place, since both numbers have 64 bits.
            Ok(found.into_iter().map(position).collect::<Vec<_>>())
        });
        let found = found?.map_err(|error| to_python(&error))?;
        Ok(found.into_pyarray(py))
    }
}
