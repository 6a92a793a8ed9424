//! `json_rows` for Python.

use nanotok_json::{Fields, Problem, Rows, Strings, read_rows};
use nanotok_memory as memory;
use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::arrays::{Array, documents, position};
use crate::calls::detached;

/// Texts, their offsets, ids, their offsets, and the problems: line, kind and detail.
type RowArrays<'py> = (
    Array<'py, u8>,
    Array<'py, i64>,
    Array<'py, u8>,
    Array<'py, i64>,
    Vec<(usize, &'static str, usize)>,
);

/// Return the texts and ids of lines of JSON, and why lines have no text.
#[pyfunction]
#[pyo3(signature = (data, offsets, *, field, id_field))]
pub(crate) fn json_rows<'py>(
    py: Python<'py>,
    data: PyReadonlyArray1<'py, u8>,
    offsets: PyReadonlyArray1<'py, i64>,
    field: Option<&str>,
    id_field: Option<&str>,
) -> PyResult<RowArrays<'py>> {
    let lines = documents(&data, &offsets)?;
    let (texts, ids, problems) = detached(py, || {
        let fields = Fields { text: field, id: id_field };
        let Rows { texts, ids, problems } = read_rows(lines, fields);
        (arrays(texts), arrays(ids), memory::collected(problems.into_iter().map(described)))
    })?;
    Ok((
        texts.0.into_pyarray(py),
        texts.1.into_pyarray(py),
        ids.0.into_pyarray(py),
        ids.1.into_pyarray(py),
        problems,
    ))
}

/// The bytes, and the offsets.
fn arrays(strings: Strings) -> (Vec<u8>, Vec<i64>) {
    let mut offsets = memory::with_capacity(strings.ends.len() + 1);
    offsets.push(0);
    offsets.extend(strings.ends.into_iter().map(position));
    (strings.data, offsets)
}

fn described((line, problem): (usize, Problem)) -> (usize, &'static str, usize) {
    let (kind, detail) = match problem {
        Problem::Utf8(position) => ("utf8", position),
        Problem::Json(position) => ("json", position),
        Problem::Nested => ("nested", 0),
        Problem::Kind(first) => ("kind", first.into()),
        Problem::Missing => ("missing", 0),
        Problem::FieldKind(first) => ("field kind", first.into()),
    };
    (line, kind, detail)
}
