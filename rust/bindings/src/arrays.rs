//! Conversion of numpy arrays to slices, and of vectors to numpy arrays.

use nanotok_bpe::{Behavior, ByteOrder, Documents, Error, GapRule, Merge, Splitter, Step};
use nanotok_memory as memory;
use numpy::{
    Element, IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

use crate::calls::detached;
use crate::errors::{bad_argument, to_python};

pub(crate) type Array<'py, T> = Bound<'py, PyArray1<T>>;

/// The elements of a contiguous array.
pub(crate) fn slice<'a, T: Element>(
    array: &'a PyReadonlyArray1<'_, T>,
    name: &str,
) -> PyResult<&'a [T]> {
    array
        .as_slice()
        .map_err(|_| bad_argument(format!("{name} must be a contiguous, aligned array")))
}

/// A position as numpy stores it.
pub(crate) fn position(number: usize) -> i64 {
    i64::try_from(number).expect("memory is below 2**63 bytes")
}

/// A batch of documents from its two arrays.
pub(crate) fn documents<'a>(
    data: &'a PyReadonlyArray1<'_, u8>,
    offsets: &'a PyReadonlyArray1<'_, i64>,
) -> PyResult<Documents<'a>> {
    Documents::new(slice(data, "data")?, slice(offsets, "offsets")?)
        .map_err(|error| to_python(&error))
}

/// Merges from an array of shape (m, 2).
pub(crate) fn merges(py: Python<'_>, array: &PyReadonlyArray2<'_, u32>) -> PyResult<Vec<Merge>> {
    let rows = array.as_slice().ok().filter(|_| array.shape()[1] == 2 && array.is_c_contiguous());
    let rows = rows.ok_or_else(|| {
        bad_argument(format!("merges must be a C-contiguous (m, 2) array, not {:?}", array.shape()))
    })?;
    let pairs = rows.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    detached(py, || memory::collected(pairs))
}

/// The byte order of ids 0 to 255, if any.
pub(crate) fn byte_order(bytes: Option<&[u8]>) -> PyResult<Option<ByteOrder>> {
    bytes.map(ByteOrder::new).transpose().map_err(|error| to_python(&error))
}

/// Merges as an array of shape (m, 2).
pub(crate) fn merges_array<'py>(
    py: Python<'py>,
    merges: &[Merge],
) -> PyResult<Bound<'py, PyArray2<u32>>> {
    let ids = detached(py, || {
        let mut ids: Vec<u32> = memory::with_capacity(2 * merges.len());
        ids.extend(merges.iter().flat_map(|&(left, right)| [left, right]));
        ids
    })?;
    ids.into_pyarray(py).reshape([merges.len(), 2])
}

/// A pattern, or steps of pattern, behavior and whether it is inverted.
#[derive(FromPyObject)]
pub(crate) enum Pattern {
    Text(PyBackedStr),
    Steps(Vec<(String, String, bool)>),
}

/// A compiled pattern or sequence of steps; `gaps` is "spans" or "error".
pub(crate) fn splitter(py: Python<'_>, pattern: &Pattern, gaps: &str) -> PyResult<Splitter> {
    let rule = match gaps {
        "spans" => GapRule::Spans,
        "error" => GapRule::Refuse,
        _ => {
            return Err(bad_argument(format!(
                "gaps is {gaps:?}: it must be \"spans\" or \"error\""
            )));
        }
    };
    let splitter = match pattern {
        Pattern::Text(pattern) => detached(py, || Splitter::new(pattern, rule)),
        Pattern::Steps(steps) => {
            let steps = steps.iter().map(step).collect::<PyResult<Vec<_>>>()?;
            detached(py, || Splitter::of_steps(&steps, rule))
        }
    };
    splitter?.map_err(|error| to_python(&error))
}

/// The names of behaviors.
const BEHAVIORS: [(&str, Behavior); 4] = [
    ("isolated", Behavior::Isolated),
    ("contiguous", Behavior::Contiguous),
    ("merged_with_previous", Behavior::MergedWithPrevious),
    ("merged_with_next", Behavior::MergedWithNext),
];

fn step((pattern, behavior, invert): &(String, String, bool)) -> PyResult<Step> {
    let named = BEHAVIORS.iter().find(|(name, _)| name == behavior);
    let (_, behavior) = named.ok_or_else(|| {
        let known = BEHAVIORS.map(|(name, _)| name).join(", ");
        to_python(&Error::Pattern { reason: format!("{behavior:?} is none of {known}") })
    })?;
    Ok(Step { pattern: pattern.clone(), behavior: *behavior, invert: *invert })
}

/// A step as pattern, behavior and whether it is inverted.
pub(crate) fn step_parts(step: Step) -> (String, &'static str, bool) {
    let named = BEHAVIORS.iter().find(|(_, behavior)| *behavior == step.behavior);
    (step.pattern, named.map_or("isolated", |(name, _)| name), step.invert)
}
