//! `learn`, and the merges of other tools' vocabularies, for Python.

use std::ops::ControlFlow;

use nanotok_bpe::{Base, Documents, Error, Goal, Measured, Progress, Stop, Superwords, Text};
use nanotok_memory as memory;
use numpy::{Element, IntoPyArray, PyArray2, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::{Array, documents, merges_array, position, slice};
use crate::calls::{detached, max_threads};
use crate::errors::to_python;

type Learned<'py> = (Bound<'py, PyArray2<u32>>, Array<'py, u64>, Array<'py, u64>, &'static str);

type Arrays<'py, T> =
    (PyReadonlyArray1<'py, T>, PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, u64>);

type TokenArrays<'py> = (PyReadonlyArray1<'py, u8>, PyReadonlyArray1<'py, i64>);

type RankedArrays<'py> =
    (Bound<'py, PyArray2<u32>>, (Array<'py, u8>, Array<'py, i64>), Array<'py, u32>);

/// Learn merges from batches of spans and their counts, which are iterated over twice.
#[pyfunction]
#[pyo3(signature = (
    batches, *, num_merges, min_pair_count = 1, max_token_bytes = None, threads = 1, base = None,
    superwords = None, on_progress = None,
))]
#[expect(clippy::too_many_arguments, reason = "Python's keywords")]
pub(crate) fn learn<'py>(
    py: Python<'py>,
    batches: &Bound<'py, PyAny>,
    num_merges: usize,
    min_pair_count: u64,
    max_token_bytes: Option<usize>,
    #[pyo3(from_py_with = max_threads)] threads: usize,
    base: Option<TokenArrays<'py>>,
    superwords: Option<(usize, Vec<u8>)>,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<Learned<'py>> {
    let max_token_bytes = max_token_bytes.unwrap_or(usize::MAX);
    let goal = Goal { num_merges, min_pair_count, max_token_bytes, threads };
    let text = if let Some((data, offsets)) = &base {
        let superwords = superwords
            .as_ref()
            .map(|(max_words, forbidden)| Superwords { max_words: *max_words, forbidden });
        let base = Base { tokens: documents(data, offsets)?, superwords };
        text_of(batches, goal, Some(base), |data, offsets| Documents::of_ids(data, offsets))?
    } else {
        text_of(batches, goal, None, |data, offsets| Documents::new(data, offsets))?
    };
    let mut raised = None;
    let learned = detached(py, || {
        text.learn(|progress| match report(on_progress.as_ref(), progress) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                raised = Some(error);
                ControlFlow::Break(())
            }
        })
    })?;
    let learned = learned.map_err(|error| raised.unwrap_or_else(|| to_python(&error)))?;
    Ok((
        merges_array(py, &learned.merges)?,
        learned.counts.into_pyarray(py),
        learned.applied.into_pyarray(py),
        reason(learned.stop),
    ))
}

/// Creates `Documents` of an array and its offsets.
type NewDocuments<T> = for<'a> fn(&'a [T], &'a [i64]) -> Result<Documents<'a, T>, Error>;

/// The text of the learner, from spans of bytes or, with a base, of its ids.
fn text_of<T: Element + Copy + Into<u32> + Sync>(
    batches: &Bound<'_, PyAny>,
    goal: Goal,
    base: Option<Base<'_>>,
    new: NewDocuments<T>,
) -> PyResult<Text> {
    let py = batches.py();
    let mut measured = Measured::default();
    each_batch(batches, new, |spans, counts| detached(py, || measured.add(spans, counts)))?;
    let text = detached(py, || measured.text(goal, base))?;
    let mut text = text.map_err(|error| to_python(&error))?;
    each_batch(batches, new, |spans, counts| detached(py, || text.add(spans, counts)))?;
    Ok(text)
}

/// Calls `add` with the spans and counts of each batch of a Python iterable.
fn each_batch<T: Element>(
    batches: &Bound<'_, PyAny>,
    new: NewDocuments<T>,
    mut add: impl FnMut(Documents<'_, T>, &[u64]) -> PyResult<Result<(), Error>>,
) -> PyResult<()> {
    for batch in batches.try_iter()? {
        let (data, offsets, counts): Arrays<'_, T> = batch?.extract()?;
        let spans = new(slice(&data, "data")?, slice(&offsets, "offsets")?);
        let spans = spans.map_err(|error| to_python(&error))?;
        add(spans, slice(&counts, "counts")?)?.map_err(|error| to_python(&error))?;
    }
    Ok(())
}

/// Return the bytes of ids 0 to 255 and the merges of a vocabulary, from the bytes of each id.
#[pyfunction]
pub(crate) fn merges_of_tokens<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    offsets: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyArray2<u32>>)> {
    let tokens = documents(&data, &offsets)?;
    let found = detached(py, || nanotok_bpe::merges_of_tokens(tokens))?;
    let (order, merges) = found.map_err(|error| to_python(&error))?;
    Ok((PyBytes::new(py, order.bytes()), merges_array(py, &merges)?))
}

/// Return merges, the bytes of whole tokens with their offsets, and the position of each internal
/// id, from the bytes of each token in the order of ranks.
#[pyfunction]
pub(crate) fn merges_of_ranks<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    offsets: PyReadonlyArray1<'py, i64>,
) -> PyResult<RankedArrays<'py>> {
    let tokens = documents(&data, &offsets)?;
    let found = detached(py, || {
        let found = nanotok_bpe::merges_of_ranks(tokens)?;
        let whole = joined(found.whole.iter().map(|&token| tokens.get(token)));
        Ok((found.merges, whole, found.numbering))
    })?;
    let (merges, (data, offsets), numbering) = found.map_err(|error| to_python(&error))?;
    Ok((
        merges_array(py, &merges)?,
        (data.into_pyarray(py), offsets.into_pyarray(py)),
        numbering.into_pyarray(py),
    ))
}

/// Return the merges of a list of pairs of byte strings, and the position of each in the list.
#[pyfunction]
pub(crate) fn merges_of_pairs<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    offsets: PyReadonlyArray1<'py, i64>,
) -> PyResult<(Bound<'py, PyArray2<u32>>, Array<'py, u32>)> {
    let parts = documents(&data, &offsets)?;
    let found = detached(py, || nanotok_bpe::merges_of_pairs(parts))?;
    let (merges, positions) = found.map_err(|error| to_python(&error))?;
    Ok((merges_array(py, &merges)?, positions.into_pyarray(py)))
}

/// Items back to back, and their n + 1 offsets.
fn joined<'a>(items: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, Vec<i64>) {
    let (mut data, mut offsets) = (Vec::new(), vec![0]);
    for item in items {
        memory::append(&mut data, item);
        memory::push(&mut offsets, position(data.len()));
    }
    (data, offsets)
}

/// The reason why learning ended, as used in files and messages.
fn reason(stop: Stop) -> &'static str {
    match stop {
        Stop::Reached => "vocabulary size reached",
        Stop::NoPairLeft => "no pair left",
        Stop::BelowMinPairCount => "below min_pair_count",
    }
}

/// Handles Ctrl-C, then calls `on_progress`.
fn report(on_progress: Option<&Py<PyAny>>, progress: Progress<'_>) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        let Some(callback) = on_progress else { return Ok(()) };
        let last = progress
            .last()
            .map(|(pair, count)| (pair, PyBytes::new(py, &progress.spelling(pair)), count));
        callback.call1(py, (progress.merges.len(), progress.total, last)).map(drop)
    })
}
