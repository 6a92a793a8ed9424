//! `SpanCounts` and `merge_runs` for Python.

use nanotok_bpe::{RunView, SortedRun};
use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::arrays::{Array, documents, slice, splitter};
use crate::errors::to_python;

type Run<'py> = (Array<'py, u64>, Array<'py, u8>, Array<'py, i64>, Array<'py, u64>);

type BorrowedRun<'py> = (
    PyReadonlyArray1<'py, u64>,
    PyReadonlyArray1<'py, u8>,
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, u64>,
);

/// How often each span occurs in the documents seen so far.
#[pyclass(module = "nanotok_ray._core")]
pub(crate) struct SpanCounts(nanotok_bpe::SpanCounts);

#[pymethods]
impl SpanCounts {
    #[new]
    #[pyo3(signature = (pattern, *, gaps = "spans"))]
    fn new(py: Python<'_>, pattern: &str, gaps: &str) -> PyResult<Self> {
        Ok(Self(nanotok_bpe::SpanCounts::new(splitter(py, pattern, gaps)?)))
    }

    /// Count the spans of each document; after an error nothing of the call is counted.
    #[pyo3(signature = (data, offsets, *, threads = 1))]
    fn update<'py>(
        &mut self,
        py: Python<'py>,
        data: PyReadonlyArray1<'py, u8>,
        offsets: PyReadonlyArray1<'py, i64>,
        threads: usize,
    ) -> PyResult<()> {
        let documents = documents(&data, &offsets)?;
        py.detach(|| self.0.update(documents, threads)).map_err(|error| to_python(&error))
    }

    /// Return how many different spans there are.
    fn num_distinct(&self) -> usize {
        self.0.num_distinct()
    }

    /// Return how many spans were counted.
    fn total(&self) -> u64 {
        self.0.total()
    }

    /// Return how many of them the pattern did not match (invalid bytes left out).
    fn num_gaps(&self) -> u64 {
        self.0.num_gaps()
    }

    /// Return all spans with their counts, sorted by (hash64, span).
    #[pyo3(signature = (*, threads = 1))]
    fn sorted_run<'py>(&self, py: Python<'py>, threads: usize) -> Run<'py> {
        run_arrays(py, py.detach(|| self.0.sorted_run(threads)))
    }
}

/// Return the sum of sorted runs as one sorted run.
#[pyfunction]
pub(crate) fn merge_runs<'py>(py: Python<'py>, runs: Vec<BorrowedRun<'py>>) -> PyResult<Run<'py>> {
    let views: Vec<RunView<'_>> = runs.iter().map(view).collect::<PyResult<_>>()?;
    let merged =
        py.detach(|| nanotok_bpe::merge_runs(&views)).map_err(|error| to_python(&error))?;
    Ok(run_arrays(py, merged))
}

fn view<'a>((hashes, data, offsets, counts): &'a BorrowedRun<'_>) -> PyResult<RunView<'a>> {
    let spans = documents(data, offsets)?;
    RunView::new(slice(hashes, "hashes")?, spans, slice(counts, "counts")?)
        .map_err(|error| to_python(&error))
}

fn run_arrays(py: Python<'_>, run: SortedRun) -> Run<'_> {
    (
        run.hashes.into_pyarray(py),
        run.data.into_pyarray(py),
        run.offsets.into_pyarray(py),
        run.counts.into_pyarray(py),
    )
}
