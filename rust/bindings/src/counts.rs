//! `SpanCounts`, `merge_runs` and `RunSums` for Python.

use std::sync::Arc;

use nanotok_bpe::{Error, FrequentPairs, Recount, RunProblem, RunView, SortedRun, SpanTotals};
use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arrays::{Array, Pattern, documents, slice, splitter};
use crate::calls::{Changing, detached, max_threads};
use crate::encoder::Encoder;
use crate::errors::{bad_argument, to_python};
use crate::normalizers::normalizers;

type Run<'py> = (Array<'py, u64>, Array<'py, u8>, Array<'py, i64>, Array<'py, u64>);

type BorrowedRun<'py> = (
    PyReadonlyArray1<'py, u64>,
    PyReadonlyArray1<'py, u8>,
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, u64>,
);

/// The count of each span in the documents so far.
#[pyclass(module = "nanotok_ray._core")]
pub(crate) struct SpanCounts(Changing<nanotok_bpe::SpanCounts>);

#[pymethods]
impl SpanCounts {
    #[new]
    #[pyo3(signature = (pattern, *, gaps = "spans", normalizers = vec![], base = None, frequent = None))]
    fn new(
        py: Python<'_>,
        pattern: Pattern,
        gaps: &str,
        normalizers: Vec<Bound<'_, PyTuple>>,
        base: Option<PyRef<'_, Encoder>>,
        frequent: Option<PyReadonlyArray1<'_, u64>>,
    ) -> PyResult<Self> {
        let mut counts = nanotok_bpe::SpanCounts::new(splitter(py, &pattern, gaps)?);
        if let Some(base) = base {
            let base = Arc::clone(&base.0);
            let frequent = frequent.as_ref().map(|pairs| slice(pairs, "frequent")).transpose()?;
            let frequent = detached(py, || frequent.map(FrequentPairs::new))?;
            counts = counts.with_recount(match frequent {
                Some(frequent) => Recount::Segments(base, Arc::new(frequent)),
                None => Recount::Pairs(base),
            });
        }
        let counts = counts.with_normalizers(self::normalizers(&normalizers)?);
        counts.map(|counts| Self(Changing::new(counts))).map_err(|error| to_python(&error))
    }

    /// Count the spans of each document; after an error, no document of the call is counted.
    #[pyo3(signature = (data, offsets, *, threads = 1))]
    fn update<'py>(
        &mut self,
        py: Python<'py>,
        data: PyReadonlyArray1<'py, u8>,
        offsets: PyReadonlyArray1<'py, i64>,
        #[pyo3(from_py_with = max_threads)] threads: usize,
    ) -> PyResult<()> {
        let documents = documents(&data, &offsets)?;
        self.0
            .change(py, |counts| counts.update(documents, threads))?
            .map_err(|error| to_python(&error))
    }

    /// Return the number of different spans.
    fn num_distinct(&self) -> PyResult<usize> {
        Ok(self.0.get()?.num_distinct())
    }

    /// Return the number of counted spans.
    fn total(&self) -> PyResult<u64> {
        Ok(self.0.get()?.total())
    }

    /// Return the number of spans that the pattern did not match, without invalid bytes.
    fn num_gaps(&self) -> PyResult<u64> {
        Ok(self.0.get()?.num_gaps())
    }

    /// Return all spans with their counts, sorted by (hash64, span).
    #[pyo3(signature = (*, threads = 1))]
    fn sorted_run<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = max_threads)] threads: usize,
    ) -> PyResult<Run<'py>> {
        let counts = self.0.get()?;
        Ok(run_arrays(py, detached(py, || counts.sorted_run(threads))?))
    }
}

/// Return the sum of sorted runs as one sorted run.
#[pyfunction]
pub(crate) fn merge_runs<'py>(py: Python<'py>, runs: Vec<BorrowedRun<'py>>) -> PyResult<Run<'py>> {
    let views: Vec<RunView<'_>> = runs.iter().map(view).collect::<PyResult<_>>()?;
    let merged = detached(py, || nanotok_bpe::merge_runs(&views))?;
    let merged = merged.map_err(|error| to_python(&error))?;
    Ok(run_arrays(py, merged))
}

/// Sums of sorted runs, which are added one hash range after the other.
#[pyclass(module = "nanotok_ray._core")]
pub(crate) struct RunSums(Changing<nanotok_bpe::RunSums>);

#[pymethods]
impl RunSums {
    #[new]
    #[pyo3(signature = (*, min_count = 1, hashes = false))]
    fn new(min_count: u64, hashes: bool) -> Self {
        Self(Changing::new(nanotok_bpe::RunSums::new(min_count, hashes)))
    }

    /// Add runs of one range, each with its name for messages and the weight of its counts.
    fn add<'py>(
        &mut self,
        py: Python<'py>,
        runs: Vec<BorrowedRun<'py>>,
        names: Vec<String>,
        weights: Vec<u64>,
    ) -> PyResult<()> {
        if names.len() != runs.len() {
            return Err(bad_argument(format!("{} runs, {} names", runs.len(), names.len())));
        }
        let mut views = Vec::with_capacity(runs.len());
        for (run, name) in runs.iter().zip(&names) {
            views.push(
                view(run).map_err(|error| bad_argument(format!("{name}: {}", error.value(py))))?,
            );
        }
        check_order(&views, &names)?;
        let added = self.0.change(py, |sums| sums.add(&views, &weights))?;
        added.map_err(|error| match error {
            Error::Run { run, problem } => bad_argument(format!("{}: {problem}", names[run])),
            error => to_python(&error),
        })
    }

    /// Return (spans, their bytes, distinct spans) of all runs, and of dropped spans.
    fn totals(&self) -> PyResult<([u128; 3], [u128; 3])> {
        let sums = self.0.get()?;
        Ok((numbers(sums.all()), numbers(sums.dropped())))
    }

    /// Return the sums, and clear them.
    fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Run<'py>> {
        let sums = self.0.take()?;
        Ok(run_arrays(py, detached(py, || sums.into_run())?))
    }
}

/// Checks that adjacent runs of one name, which are parts of one file, follow each other.
fn check_order(runs: &[RunView<'_>], names: &[String]) -> PyResult<()> {
    let mut before: Option<(&RunView<'_>, &String)> = None;
    for part in runs.iter().zip(names).filter(|(run, _)| !run.is_empty()) {
        let is_next = before.is_none_or(|(run, name)| name != part.1 || part.0.follows(run));
        if !is_next {
            let problem = RunProblem::OutOfOrder { row: 0 };
            return Err(bad_argument(format!("{}: {problem}", part.1)));
        }
        before = Some(part);
    }
    Ok(())
}

fn numbers(totals: SpanTotals) -> [u128; 3] {
    [totals.spans, totals.bytes, u128::from(totals.distinct)]
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
