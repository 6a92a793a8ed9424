//! `learn` for Python.

use std::ops::ControlFlow;

use numpy::{IntoPyArray, PyArray2, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::arrays::{Array, documents, merges_array, slice};
use crate::errors::to_python;

/// Learn merges from spans and their counts.
#[pyfunction]
#[pyo3(signature = (data, offsets, counts, *, num_merges, on_progress = None))]
pub(crate) fn learn<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    offsets: PyReadonlyArray1<'py, i64>,
    counts: PyReadonlyArray1<'py, u64>,
    num_merges: usize,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyArray2<u32>>, Array<'py, u64>)> {
    let spans = documents(&data, &offsets)?;
    let counts = slice(&counts, "counts")?;
    let mut raised = None;
    let learned = py.detach(|| {
        nanotok_bpe::learn(spans, counts, num_merges, |done, total| {
            match report(on_progress.as_ref(), done, total) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    raised = Some(error);
                    ControlFlow::Break(())
                }
            }
        })
    });
    let learned = learned.map_err(|error| raised.unwrap_or_else(|| to_python(&error)))?;
    Ok((merges_array(py, &learned.merges)?, learned.counts.into_pyarray(py)))
}

/// Lets Ctrl-C through, then calls `on_progress`.
fn report(on_progress: Option<&Py<PyAny>>, done: usize, total: usize) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        on_progress.map_or(Ok(()), |callback| callback.call1(py, (done, total)).map(drop))
    })
}
