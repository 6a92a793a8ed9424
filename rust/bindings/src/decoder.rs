//! `Decoder` for Python.

use nanotok_bpe::{Documents, Error, Rows, SpanMask, TextSpan, Vocabulary, replace_invalid};
use numpy::{Element, IntoPyArray, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use crate::arrays::{Array, byte_order, documents, merges, slice};
use crate::calls::{detached, python_bytes};
use crate::errors::{bad_argument, to_python};

/// Ids of 16 or 32 bits.
#[derive(FromPyObject)]
enum Ids<'py> {
    Narrow(PyReadonlyArray1<'py, u16>),
    Wide(PyReadonlyArray1<'py, u32>),
}

/// Decodes token ids: 0..255 are bytes, in `byte_order`, 256 + k is the token of merge k, and
/// special tokens are decoded to their names.
#[pyclass(frozen, module = "nanotok_ray._core")]
pub(crate) struct Decoder(nanotok_bpe::Decoder);

#[pymethods]
impl Decoder {
    #[new]
    #[pyo3(signature = (merges, special_tokens, *, byte_order = None))]
    fn new(
        py: Python<'_>,
        merges: PyReadonlyArray2<'_, u32>,
        special_tokens: Vec<(u32, String)>,
        byte_order: Option<&[u8]>,
    ) -> PyResult<Self> {
        let (merges, order) = (self::merges(py, &merges)?, self::byte_order(byte_order)?);
        let names: Vec<(u32, &str)> =
            special_tokens.iter().map(|(id, name)| (*id, name.as_str())).collect();
        let vocabulary = || match order {
            Some(order) => Vocabulary::ordered(&merges, &order),
            None => Vocabulary::new(&merges),
        };
        detached(py, || nanotok_bpe::Decoder::new(&vocabulary()?, &names))?
            .map(Self)
            .map_err(|error| to_python(&error))
    }

    /// Build the table of bytes of explicit tokens.
    #[classmethod]
    fn of_tokens(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        ids: PyReadonlyArray1<'_, u32>,
        data: PyReadonlyArray1<'_, u8>,
        offsets: PyReadonlyArray1<'_, i64>,
    ) -> PyResult<Self> {
        let (ids, tokens) = (slice(&ids, "ids")?, documents(&data, &offsets)?);
        detached(py, || nanotok_bpe::Decoder::of_tokens(ids, tokens))?
            .map(Self)
            .map_err(|error| to_python(&error))
    }

    /// Return the bytes of `ids`.
    fn decode<'py>(&self, py: Python<'py>, ids: Ids<'py>) -> PyResult<Bound<'py, PyBytes>> {
        match ids {
            Ids::Narrow(ids) => self.joined(py, slice(&ids, "ids")?),
            Ids::Wide(ids) => self.joined(py, slice(&ids, "ids")?),
        }
    }

    /// Return the bytes of each row of ids back to back, and n + 1 offsets.
    #[pyo3(signature = (ids, offsets, *, replace = false))]
    fn decode_batch<'py>(
        &self,
        py: Python<'py>,
        ids: Ids<'py>,
        offsets: PyReadonlyArray1<'py, i64>,
        replace: bool,
    ) -> PyResult<(Array<'py, u8>, Array<'py, i64>)> {
        let offsets = slice(&offsets, "offsets")?;
        let decoded = match ids {
            Ids::Narrow(ids) => self.rows(py, slice(&ids, "ids")?, offsets, replace)?,
            Ids::Wide(ids) => self.rows(py, slice(&ids, "ids")?, offsets, replace)?,
        };
        let (data, offsets) = decoded.map_err(|error| to_python(&error))?;
        Ok((data.into_pyarray(py), offsets.into_pyarray(py)))
    }

    /// Return the mask of rows of ids, 1 where an id overlaps a span of the row's text, and the
    /// texts that their ids do not decode to.
    #[pyo3(signature = (ids, offsets, texts, spans))]
    fn mask_of_spans<'py>(
        &self,
        py: Python<'py>,
        ids: Ids<'py>,
        offsets: PyReadonlyArray1<'py, i64>,
        texts: (PyReadonlyArray1<'py, u8>, PyReadonlyArray1<'py, i64>),
        spans: PyReadonlyArray2<'py, i64>,
    ) -> PyResult<(Array<'py, u8>, Array<'py, i64>)> {
        let (offsets, texts) = (slice(&offsets, "offsets")?, documents(&texts.0, &texts.1)?);
        let spans = text_spans(&spans)?;
        let own = match ids {
            Ids::Narrow(ids) => self.masked(py, slice(&ids, "ids")?, offsets, texts, spans)?,
            Ids::Wide(ids) => self.masked(py, slice(&ids, "ids")?, offsets, texts, spans)?,
        };
        Ok((own.mask.into_pyarray(py), own.unaligned.into_pyarray(py)))
    }
}

/// Rows of text, start and end.
fn text_spans<'a>(spans: &'a PyReadonlyArray2<'_, i64>) -> PyResult<&'a [TextSpan]> {
    let wrong = || bad_argument("spans must be a contiguous array of shape (n, 3)".to_owned());
    let (rows, []) = spans.as_slice().map_err(|_| wrong())?.as_chunks() else {
        return Err(wrong());
    };
    if spans.as_array().ncols() == 3 { Ok(rows) } else { Err(wrong()) }
}

impl Decoder {
    fn masked<I: Element + Copy + Into<u32>>(
        &self,
        py: Python<'_>,
        ids: &[I],
        offsets: &[i64],
        texts: Documents<'_>,
        spans: &[TextSpan],
    ) -> PyResult<SpanMask> {
        detached(py, || self.0.mask_of_spans(ids, offsets, texts, spans))?
            .map_err(|error| to_python(&error))
    }

    fn joined<'py, I: Element + Copy + Into<u32>>(
        &self,
        py: Python<'py>,
        ids: &[I],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = detached(py, || self.0.decode(ids))?.map_err(|error| to_python(&error))?;
        python_bytes(py, &bytes)
    }

    fn rows<I: Element + Copy + Into<u32>>(
        &self,
        py: Python<'_>,
        ids: &[I],
        offsets: &[i64],
        replace: bool,
    ) -> PyResult<Result<Rows, Error>> {
        detached(py, || {
            let rows = self.0.decode_rows(ids, offsets)?;
            Ok(if replace { replace_invalid(rows) } else { rows })
        })
    }
}
