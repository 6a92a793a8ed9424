//! `best_fit_rows`, `window_rows`, `BestFitBuffer` and `fill_rows` for Python.

use nanotok_pack::{Batch, Error, Ids, Segments, Source, Stretches, Target};
use numpy::{
    BorrowError, Element, IntoPyArray, PyArray2, PyArrayMethods, PyReadonlyArray1,
    PyReadwriteArray2, PyUntypedArrayMethods,
};
use pyo3::prelude::*;

use crate::arrays::Array;
use crate::calls::{Changing, detached};
use crate::errors::{bad_rows, packing};

/// Indexes, starts and lengths of segments, and the boundaries of rows among the segments.
type SegmentArrays<'py> = (Array<'py, u32>, Array<'py, u32>, Array<'py, u32>, Array<'py, i64>);
/// Indexes and lengths of segments, and the boundaries of rows among the segments.
type BufferArrays<'py> = (Array<'py, u64>, Array<'py, u32>, Array<'py, i64>);

/// Pack documents into rows of at most `capacity` tokens, the largest that fits first.
#[pyfunction]
#[pyo3(signature = (lengths, capacity, *, keep_rest))]
pub(crate) fn best_fit_rows<'py>(
    py: Python<'py>,
    lengths: PyReadonlyArray1<'py, i64>,
    capacity: i64,
    keep_rest: bool,
) -> PyResult<SegmentArrays<'py>> {
    let lengths = slice(&lengths, "lengths")?;
    let found = detached(py, || nanotok_pack::best_fit_rows(lengths, capacity, keep_rest))?;
    segments(py, found)
}

/// Cut the concatenated documents into rows that overlap by one token.
#[pyfunction]
pub(crate) fn window_rows<'py>(
    py: Python<'py>,
    lengths: PyReadonlyArray1<'py, i64>,
    length: i64,
) -> PyResult<SegmentArrays<'py>> {
    let lengths = slice(&lengths, "lengths")?;
    segments(py, detached(py, || nanotok_pack::window_rows(lengths, length))?)
}

fn segments(py: Python<'_>, found: Result<Segments, Error>) -> PyResult<SegmentArrays<'_>> {
    let found = found.map_err(|error| packing(&error))?;
    Ok((
        found.documents.into_pyarray(py),
        found.starts.into_pyarray(py),
        found.lengths.into_pyarray(py),
        found.rows.into_pyarray(py),
    ))
}

fn slice<'a, T: Element>(array: &'a PyReadonlyArray1<'_, T>, name: &str) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|_| bad_rows(format!("{name} must be a contiguous, aligned array")))
}

/// Buffered documents and the current row, by the rule of nanochat's loader.
#[pyclass(module = "nanotok_ray._core")]
pub(crate) struct BestFitBuffer(Changing<nanotok_pack::BestFitBuffer>);

#[pymethods]
impl BestFitBuffer {
    #[new]
    fn new(capacity: i64, buffer_size: i64) -> PyResult<Self> {
        nanotok_pack::BestFitBuffer::new(capacity, buffer_size)
            .map(|buffer| Self(Changing::new(buffer)))
            .map_err(|error| packing(&error))
    }

    /// Add documents; after an error no document is added.
    fn push<'py>(&mut self, py: Python<'py>, lengths: PyReadonlyArray1<'py, i64>) -> PyResult<()> {
        let lengths = slice(&lengths, "lengths")?;
        self.0.change(py, |buffer| buffer.push(lengths))?.map_err(|error| packing(&error))
    }

    /// Pack up to `max_rows` complete rows.
    fn pack<'py>(&mut self, py: Python<'py>, max_rows: i64) -> PyResult<BufferArrays<'py>> {
        let most = not_negative(max_rows)?;
        let found = self.0.change(py, |buffer| buffer.pack(most))?;
        Ok((
            found.documents.into_pyarray(py),
            found.lengths.into_pyarray(py),
            found.rows.into_pyarray(py),
        ))
    }

    /// Pack up to `max_rows` complete rows, and return their number.
    fn skip(&mut self, py: Python<'_>, max_rows: i64) -> PyResult<u64> {
        let most = not_negative(max_rows)?;
        self.0.change(py, |buffer| buffer.skip(most))
    }

    /// Whether the buffer needs documents, so that no row can continue.
    #[getter]
    fn needs_documents(&self) -> PyResult<bool> {
        Ok(self.0.get()?.needs_documents())
    }

    /// Number of complete rows so far.
    #[getter]
    fn num_rows(&self) -> PyResult<u64> {
        Ok(self.0.get()?.totals().rows)
    }

    /// Number of tokens in rows so far, including an incomplete row.
    #[getter]
    fn num_tokens(&self) -> PyResult<u64> {
        Ok(self.0.get()?.totals().tokens)
    }

    /// Number of discarded tokens so far.
    #[getter]
    fn cropped_tokens(&self) -> PyResult<u64> {
        Ok(self.0.get()?.totals().cropped_tokens)
    }

    /// Number of documents with discarded tokens so far.
    #[getter]
    fn cropped_documents(&self) -> PyResult<u64> {
        Ok(self.0.get()?.totals().cropped_documents)
    }
}

fn not_negative(max_rows: i64) -> PyResult<u64> {
    u64::try_from(max_rows)
        .map_err(|_| bad_rows(format!("max_rows is {max_rows}: it must be 0 or more")))
}

/// Ids of 16 or 32 bits.
#[derive(FromPyObject)]
pub(crate) enum IdArray<'py> {
    Narrow(PyReadonlyArray1<'py, u16>),
    Wide(PyReadonlyArray1<'py, u32>),
}

/// The masks of arrays, if any.
type MaskArrays<'py> = Option<Vec<Option<PyReadonlyArray1<'py, u8>>>>;

/// Rows of int32 or int64.
enum RowArray<'py> {
    Narrow(Bound<'py, PyArray2<i32>>),
    Wide(Bound<'py, PyArray2<i64>>),
}

/// Fill inputs and targets with the ids of the segments of each row.
#[pyfunction]
#[pyo3(signature = (ids, masks, which, offsets, lengths, rows, inputs, targets, *, pad, num_ids = 1 << 32))]
#[expect(clippy::too_many_arguments, reason = "columns cross as arrays")]
pub(crate) fn fill_rows<'py>(
    py: Python<'py>,
    ids: Vec<IdArray<'py>>,
    masks: MaskArrays<'py>,
    which: PyReadonlyArray1<'py, i64>,
    offsets: PyReadonlyArray1<'py, i64>,
    lengths: PyReadonlyArray1<'py, i64>,
    rows: PyReadonlyArray1<'py, i64>,
    inputs: Bound<'py, PyAny>,
    targets: Bound<'py, PyAny>,
    pad: i64,
    num_ids: u64,
) -> PyResult<()> {
    let sources = sources(&ids, masks.as_deref())?;
    let stretches = Stretches {
        which: slice(&which, "which")?,
        offsets: slice(&offsets, "offsets")?,
        lengths: slice(&lengths, "lengths")?,
        rows: slice(&rows, "rows")?,
    };
    match (row_array(&inputs, "inputs")?, row_array(&targets, "targets")?) {
        (RowArray::Narrow(inputs), RowArray::Narrow(targets)) => {
            let small = i32::try_from(pad);
            let pad = small.map_err(|_| bad_rows(format!("pad is {pad}: rows are int32")))?;
            fill(py, &sources, &stretches, (&inputs, &targets), (pad, num_ids))
        }
        (RowArray::Wide(inputs), RowArray::Wide(targets)) => {
            fill(py, &sources, &stretches, (&inputs, &targets), (pad, num_ids))
        }
        _ => Err(bad_rows("inputs and targets must be of one type, int32 or int64".to_owned())),
    }
}

fn row_array<'py>(array: &Bound<'py, PyAny>, name: &str) -> PyResult<RowArray<'py>> {
    if let Ok(array) = array.cast::<PyArray2<i32>>() {
        return Ok(RowArray::Narrow(array.clone()));
    }
    let wide = array.cast::<PyArray2<i64>>();
    let wide = wide.map_err(|_| {
        bad_rows(format!("{name} must be an array of rows, int32 or int64, and of two dimensions"))
    })?;
    Ok(RowArray::Wide(wide.clone()))
}

/// The arrays of the segments.
fn sources<'a>(
    ids: &'a [IdArray<'_>],
    masks: Option<&'a [Option<PyReadonlyArray1<'_, u8>>]>,
) -> PyResult<Vec<Source<'a>>> {
    if let Some(masks) = masks.filter(|masks| masks.len() != ids.len()) {
        return Err(bad_rows(format!("{} masks and {} arrays of ids", masks.len(), ids.len())));
    }
    let mut sources = Vec::with_capacity(ids.len());
    for (number, ids) in ids.iter().enumerate() {
        let mask = masks.and_then(|masks| masks[number].as_ref());
        sources.push(Source {
            ids: match ids {
                IdArray::Narrow(ids) => Ids::Narrow(slice(ids, "ids")?),
                IdArray::Wide(ids) => Ids::Wide(slice(ids, "ids")?),
            },
            mask: mask.map(|mask| slice(mask, "masks")).transpose()?,
        });
    }
    Ok(sources)
}

fn fill<T: Element + Target>(
    py: Python<'_>,
    sources: &[Source<'_>],
    stretches: &Stretches<'_>,
    (inputs, targets): (&Bound<'_, PyArray2<T>>, &Bound<'_, PyArray2<T>>),
    (pad, num_ids): (T, u64),
) -> PyResult<()> {
    if inputs.shape() != targets.shape() {
        let (one, other) = (inputs.shape(), targets.shape());
        return Err(bad_rows(format!("inputs are of shape {one:?}, targets of shape {other:?}")));
    }
    let length = inputs.shape()[1];
    let (mut inputs, mut targets) = (writable(inputs, "inputs")?, writable(targets, "targets")?);
    let mut batch = Batch {
        inputs: in_order(&mut inputs, "inputs")?,
        targets: in_order(&mut targets, "targets")?,
        length,
        pad,
        num_ids,
    };
    detached(py, || nanotok_pack::fill_rows(sources, stretches, &mut batch))?
        .map_err(|error| packing(&error))
}

fn writable<'py, T: Element>(
    array: &Bound<'py, PyArray2<T>>,
    name: &str,
) -> PyResult<PyReadwriteArray2<'py, T>> {
    array.try_readwrite().map_err(|error| {
        bad_rows(match error {
            BorrowError::NotWriteable => format!("{name} cannot be written to"),
            _ => format!("{name} share memory with another array in use"),
        })
    })
}

fn in_order<'a, T: Element>(
    array: &'a mut PyReadwriteArray2<'_, T>,
    name: &str,
) -> PyResult<&'a mut [T]> {
    let ordered = array.is_c_contiguous();
    let slice = array.as_slice_mut().ok().filter(|_| ordered);
    slice.ok_or_else(|| bad_rows(format!("{name} must be a C-contiguous, aligned array")))
}
