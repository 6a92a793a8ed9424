//! `Dialect` for Python, and the result of `Encoder.render`.

use nanotok_bpe::{Composition, Needles, Stretch, TokenId};
use nanotok_chat::{Composed, Kind, Rendered, Settings, SpecialIds};
use nanotok_memory as memory;
use numpy::{Element, IntoPyArray, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::arrays::{Array, documents, position};
use crate::calls::detached;
use crate::errors::{bad_argument, to_python};

type Texts<'py> = (Array<'py, u8>, Array<'py, i64>, Array<'py, i64>, Array<'py, i64>);

/// Ids, labels, offsets, declined documents, images, sizes, names and counts of unused text.
pub(crate) type RenderedArrays<'py> = (
    Bound<'py, PyAny>,
    Array<'py, u8>,
    Array<'py, i64>,
    Array<'py, i64>,
    Bound<'py, PyArray2<i64>>,
    Bound<'py, PyArray2<i64>>,
    Vec<String>,
    Bound<'py, PyArray2<i64>>,
);

/// A reader of the documents of one kind and dialect, which yields texts and special tokens.
#[pyclass(frozen, module = "nanotok_ray._core")]
pub(crate) struct Dialect(nanotok_chat::Dialect);

#[pymethods]
impl Dialect {
    #[new]
    #[pyo3(signature = (kind, name, *, image_token = None, image_tokens = None, grounding = vec![], train_prompt = true, metadata = vec![]))]
    fn new(
        kind: &str,
        name: String,
        image_token: Option<String>,
        image_tokens: Option<u32>,
        grounding: Vec<String>,
        train_prompt: bool,
        metadata: Vec<String>,
    ) -> PyResult<Self> {
        let kind = match kind {
            "chat" => Kind::Chat,
            "vision" => Kind::Vision,
            _ => {
                let message = format!("kind is {kind:?}: it must be \"chat\" or \"vision\"");
                return Err(bad_argument(message));
            }
        };
        let settings =
            Settings { kind, name, image_token, image_tokens, grounding, train_prompt, metadata };
        nanotok_chat::Dialect::new(settings)
            .map(Self)
            .map_err(|unknown| bad_argument(unknown.to_string()))
    }

    /// Return the texts back to back, their offsets, the first text of each document, and the
    /// declined documents.
    fn texts<'py>(
        &self,
        py: Python<'py>,
        data: PyReadonlyArray1<'py, u8>,
        offsets: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<Texts<'py>> {
        let documents = documents(&data, &offsets)?;
        let (texts, offsets, firsts, declined) = detached(py, || {
            let Composed { composition, declined, .. } =
                self.0.compose(documents, 0..documents.len(), None);
            let (texts, offsets, firsts) = texts_of(&composition);
            (texts, offsets, firsts, declined.into_iter().map(position).collect::<Vec<_>>())
        })?;
        Ok((
            texts.into_pyarray(py),
            offsets.into_pyarray(py),
            firsts.into_pyarray(py),
            declined.into_pyarray(py),
        ))
    }
}

/// The result of `Encoder.render`.
pub(crate) fn render<'py, I: TokenId + Element>(
    py: Python<'py>,
    encoder: &nanotok_bpe::Encoder,
    dialect: &Dialect,
    special_tokens: Vec<(String, u32)>,
    (data, offsets): (&PyReadonlyArray1<'py, u8>, &PyReadonlyArray1<'py, i64>),
    threads: usize,
) -> PyResult<RenderedArrays<'py>> {
    let documents = documents(data, offsets)?;
    let rendered = detached(py, || {
        let names: Vec<&str> = special_tokens.iter().map(|(name, _)| name.as_str()).collect();
        let needles = Needles::new(&names)?;
        let ids = SpecialIds::new(special_tokens);
        dialect.0.render::<I>(encoder, &ids, &needles, documents, threads)
    })?;
    let Rendered { ids, labels, offsets, declined, images, sizes, unused } =
        rendered.map_err(|error| to_python(&error))?;
    Ok((
        ids.into_pyarray(py).into_any(),
        labels.into_pyarray(py),
        offsets.into_pyarray(py),
        declined.into_pyarray(py),
        rows(py, images)?,
        rows(py, sizes)?,
        unused.names,
        rows(py, unused.counts)?,
    ))
}

/// The texts back to back, their offsets, and the offsets of documents among the texts.
fn texts_of(composition: &Composition) -> (Vec<u8>, Vec<i64>, Vec<i64>) {
    let mut texts = memory::with_capacity(composition.data.len());
    let (mut offsets, mut firsts) = (vec![0], vec![0]);
    let mut first = 0;
    for &end in &composition.ends {
        for part in &composition.parts[first..end] {
            if let Stretch::Text { start, end } = part.stretch {
                texts.extend_from_slice(&composition.data[start..end]);
                memory::push(&mut offsets, position(texts.len()));
            }
        }
        memory::push(&mut firsts, position(offsets.len() - 1));
        first = end;
    }
    (texts, offsets, firsts)
}

/// An array of shape (m, N).
pub(crate) fn rows<const N: usize>(
    py: Python<'_>,
    rows: Vec<[i64; N]>,
) -> PyResult<Bound<'_, PyArray2<i64>>> {
    let shape = [rows.len(), N];
    rows.into_flattened().into_pyarray(py).reshape(shape)
}
