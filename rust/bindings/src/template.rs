//! `ChatTemplate` for Python.

use std::ops::Range;

use nanotok_template::{
    DynObject, Limits, Rendering, Settings, Template, TemplateError, Value, map_value,
    messages_for_templates,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::bad_template;

/// The text and the spans of generation blocks in characters.
type TextAndSpans = (String, Vec<(usize, usize)>);

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

    /// Return the text, and the spans of generation blocks in characters.
    fn render(&self, py: Python<'_>, context: &[u8]) -> PyResult<TextAndSpans> {
        py.detach(|| render(&self.0, context)).map_err(|error| bad_template(&error))
    }
}

fn render(template: &Template, context: &[u8]) -> Result<TextAndSpans, TemplateError> {
    let limits = Limits::of_input(context.len());
    let context = with_messages(&nanotok_template::value_of_json(context)?);
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
