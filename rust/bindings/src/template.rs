//! `ChatTemplate` for Python.

use std::ops::Range;

use nanotok_bpe::{Documents, in_threads};
use nanotok_template::{
    Anchors, Conversation, ConversationSettings, Conversations, DynObject, Limits, Refusal,
    Rendering, Settings, Shape, Template, TemplateError, TrainOn, Value, map_value,
    messages_for_templates, value_of_json,
};
use numpy::{IntoPyArray, PyArray2, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{Array, documents, position};
use crate::calls::{detached, max_threads};
use crate::dialect::rows as rows_of;
use crate::errors::{bad_argument, bad_template};

/// The text and the spans of generation blocks in characters.
type TextAndSpans = (String, Vec<(usize, usize)>);

/// Texts, lengths, turns, trained parts, numbers of names, unused members, declined rows, and
/// rows that the bounds refuse.
type TextArrays<'py> = (
    Array<'py, u8>,
    Array<'py, i64>,
    Bound<'py, PyArray2<i64>>,
    Bound<'py, PyArray2<i64>>,
    Array<'py, i64>,
    Vec<(usize, String)>,
    Array<'py, i64>,
    Vec<(usize, String)>,
);

/// A compiled chat template.
#[pyclass(frozen, module = "nanotok_ray._core")]
pub(crate) struct ChatTemplate(Template);

#[pymethods]
impl ChatTemplate {
    #[new]
    fn new(source: &str, special_tokens: &Bound<'_, PyDict>, now: i64) -> PyResult<Self> {
        let special_tokens = special_tokens
            .iter()
            .map(|(name, text)| Ok((name.extract()?, Value::from(text.extract::<String>()?))))
            .collect::<PyResult<_>>()?;
        let settings = Settings { special_tokens, now };
        Template::new(source, &settings).map(Self).map_err(|error| bad_template(&error))
    }

    /// Whether the template has generation blocks.
    #[getter]
    fn has_generation(&self) -> bool {
        self.0.has_generation()
    }

    /// Return the texts of rows back to back, their lengths, turns, trained parts, numbers of names,
    /// unused members, the declined rows, and those that the bounds refuse with the reason.
    #[pyo3(signature = (dialect, data, offsets, *, tools, arguments, names, declines_names, anchors, train_on, trains_reasoning, threads = 1))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn render_rows<'py>(
        &self,
        py: Python<'py>,
        dialect: &str,
        data: PyReadonlyArray1<'py, u8>,
        offsets: PyReadonlyArray1<'py, i64>,
        tools: Option<String>,
        arguments: &[u8],
        names: Vec<String>,
        declines_names: bool,
        anchors: Option<(String, String)>,
        train_on: &str,
        trains_reasoning: bool,
        #[pyo3(from_py_with = max_threads)] threads: usize,
    ) -> PyResult<TextArrays<'py>> {
        let shape = Shape::of(dialect)
            .ok_or_else(|| bad_argument(format!("{dialect:?} is no dialect of conversations")))?;
        let arguments = value_of_json(arguments).map_err(|error| bad_template(&error.into()))?;
        let anchors = anchors.map(|(start, end)| Anchors { start, end });
        let settings = ConversationSettings {
            shape,
            tools,
            arguments,
            names,
            declines_names,
            anchors,
            train_on: match train_on {
                "last" => TrainOn::Last,
                "all" => TrainOn::All,
                _ => TrainOn::Assistant,
            },
            trains_reasoning,
        };
        let rows = Conversations::new(&self.0, settings);
        let rows = rows.map_err(|error| bad_template(&error.into()))?;
        let documents = documents(&data, &offsets)?;
        let all = detached(py, || {
            let blocks =
                in_threads(documents.blocks(threads), |block| Texts::of(&rows, documents, block));
            let mut all = Texts::default();
            for block in blocks {
                all.append(block);
            }
            all
        })?;
        Ok((
            all.text.into_bytes().into_pyarray(py),
            all.offsets.into_pyarray(py),
            rows_of(py, all.turns)?,
            rows_of(py, all.trained)?,
            all.spelled.into_pyarray(py),
            all.unused,
            all.declined.into_pyarray(py),
            all.bounded,
        ))
    }

    /// Return the text, and the spans of generation blocks in characters.
    fn render(&self, py: Python<'_>, context: &[u8]) -> PyResult<TextAndSpans> {
        py.detach(|| render(&self.0, context)).map_err(|error| bad_template(&error))
    }
}

/// The texts of rows.
#[derive(Default)]
struct Texts {
    text: String,
    offsets: Vec<i64>,
    turns: Vec<[i64; 3]>,
    trained: Vec<[i64; 3]>,
    /// The number of names of special tokens in each row.
    spelled: Vec<i64>,
    unused: Vec<(usize, String)>,
    declined: Vec<i64>,
    bounded: Vec<(usize, String)>,
}

impl Texts {
    fn of(rows: &Conversations<'_>, documents: Documents<'_>, range: Range<usize>) -> Self {
        let mut own = Self::default();
        for number in range {
            let start = own.text.len();
            let row = rows.render(documents.get(number), &mut own.text);
            let row = row.unwrap_or_else(|refusal| {
                match refusal {
                    Refusal::Declined => own.declined.push(position(number)),
                    Refusal::Bounded(error) => own.bounded.push((number, error.to_string())),
                }
                Conversation::default()
            });
            let spans = |spans: &[Range<usize>]| -> Vec<[i64; 3]> {
                spans.iter().map(|span| [number, span.start, span.end].map(position)).collect()
            };
            own.turns.extend(spans(&row.turns));
            own.trained.extend(spans(&row.trained));
            own.spelled.push(position(row.spelled));
            own.unused.extend(row.unused.into_iter().map(|name| (number, name)));
            own.offsets.push(position(own.text.len() - start));
        }
        own
    }

    fn append(&mut self, other: Self) {
        self.text.push_str(&other.text);
        self.offsets.extend(other.offsets);
        self.turns.extend(other.turns);
        self.trained.extend(other.trained);
        self.spelled.extend(other.spelled);
        self.unused.extend(other.unused);
        self.declined.extend(other.declined);
        self.bounded.extend(other.bounded);
    }
}

fn render(template: &Template, context: &[u8]) -> Result<TextAndSpans, TemplateError> {
    let limits = Limits::of_input(context.len());
    let context = with_messages(&value_of_json(context)?);
    let mut out = Rendering::default();
    template.render(&context, limits, &mut out)?;
    let spans = out.spans.iter().map(|span| in_characters(&out.text, span)).collect();
    Ok((out.text, spans))
}

/// The context with its messages as transformers passes them to templates.
fn with_messages(context: &Value) -> Value {
    let members = context.as_object().and_then(DynObject::try_iter_pairs);
    map_value(members.into_iter().flatten().map(|(name, value)| {
        let is_messages = name.as_str() == Some("messages");
        (name, if is_messages { messages_for_templates(&value) } else { value })
    }))
}

fn in_characters(text: &str, span: &Range<usize>) -> (usize, usize) {
    let start = text[..span.start].chars().count();
    (start, start + text[span.clone()].chars().count())
}
