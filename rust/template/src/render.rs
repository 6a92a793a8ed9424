//! Compiles and renders templates.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Range;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Value};

use crate::error::{Kind, TemplateError};
use crate::print::print;
use crate::source::{FILTER, rewrite};
use crate::values::{Map, Variables};
use crate::{filters, methods, time};

/// The name of the only template of an environment.
const NAME: &str = "chat_template";

/// What all renders of a template have in common.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Names and values of the special tokens, such as `bos_token`.
    pub special_tokens: Vec<(String, Value)>,
    /// The time of `strftime_now`: seconds since 1970, printed in UTC.
    pub now: i64,
}

/// Bounds of one render.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Steps: one for each instruction, and one for 64 bytes that are written or copied.
    pub fuel: u64,
    /// The longest text in bytes.
    pub output_bytes: usize,
}

impl Limits {
    /// Generous bounds for a context whose JSON has this many bytes.
    pub fn of_input(bytes: usize) -> Self {
        Self { fuel: 1_000_000 + 100 * bytes as u64, output_bytes: 1 << 20 | (16 * bytes) }
    }
}

/// Rendered text, and where the bodies of generation blocks are in it, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendering {
    /// The text; each render appends to it.
    pub text: String,
    /// The spans, in the order in which the blocks were rendered.
    pub spans: Vec<Range<usize>>,
}

/// A compiled chat template.
#[derive(Debug)]
pub struct Template {
    environment: Environment<'static>,
    has_generation: bool,
}

impl Template {
    /// Compiles a template.
    ///
    /// # Errors
    ///
    /// A [`TemplateError`] with the line if it is not a template, or uses what is not supported.
    ///
    /// ```
    /// use nanotok_template::{Limits, Rendering, Settings, Template, value_of_json};
    ///
    /// let source = "{% for message in messages %}{% generation %}{{ message.content }}\
    ///               {% endgeneration %}{% endfor %}";
    /// let template = Template::new(source, &Settings::default()).unwrap();
    /// let context = value_of_json(br#"{"messages": [{"content": "Hi"}]}"#).unwrap();
    /// let mut out = Rendering::default();
    /// template.render(&context, Limits::of_input(33), &mut out).unwrap();
    /// assert_eq!((out.text.as_str(), out.spans[0].clone()), ("Hi", 0..2));
    /// ```
    pub fn new(source: &str, settings: &Settings) -> Result<Self, TemplateError> {
        let (source, blocks) = rewrite(source)?;
        let mut environment = environment(settings)?;
        environment.add_template_owned(NAME, source)?;
        Ok(Self { environment, has_generation: blocks > 0 })
    }

    /// Whether the template has generation blocks.
    pub fn has_generation(&self) -> bool {
        self.has_generation
    }

    /// Renders the template with a map of variables, and appends the text and the spans to `out`.
    ///
    /// `tools`, `documents` and `add_generation_prompt` are `None`, `None` and `False` unless the
    /// context has them.
    ///
    /// # Errors
    ///
    /// A [`TemplateError`]; `out` is then as it was.
    pub fn render(
        &self,
        context: &Value,
        limits: Limits,
        out: &mut Rendering,
    ) -> Result<(), TemplateError> {
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(limits.fuel));
        let template = environment.get_template(NAME)?;
        let start = out.text.len();
        let mut sink = Sink::new(std::mem::take(&mut out.text), limits.output_bytes);
        RECORD.with(Record::clear);
        let result = template.render_captured_to(variables(context), &mut sink).map(drop);
        let is_full = sink.is_full;
        let mut text = sink.text;
        if result.is_err() {
            text.truncate(start);
        }
        // The engine writes only whole characters.
        out.text = String::from_utf8(text).unwrap_or_default();
        if is_full {
            let message = format!("the text has more than {} bytes", limits.output_bytes);
            return Err(TemplateError { kind: Kind::TooLong, line: None, message });
        }
        result?;
        let added = RECORD.with(|record| record.take_spans(start, &mut out.spans));
        added.inspect_err(|_| out.text.truncate(start))
    }
}

/// Every member of the context is a variable, also those that have the name of a method.
fn variables(context: &Value) -> Value {
    match context.downcast_object::<Map>() {
        Some(map) => Value::from_object(Variables(map)),
        None => context.clone(),
    }
}

/// The environment of transformers' chat templates.
fn environment(settings: &Settings) -> Result<Environment<'static>, TemplateError> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    environment.set_syntax(syntax);
    environment.set_formatter(|out, _, value| match value.as_str() {
        Some(text) => Ok(out.write_str(text)?),
        None => print(out, value),
    });
    environment.set_unknown_method_callback(methods::call);
    filters::add(&mut environment);
    environment.add_filter(FILTER, filters::generation);
    environment.add_function("raise_exception", filters::raise_exception);
    let now = settings.now;
    environment.add_function("strftime_now", move |format: &str| time::strftime(now, format));
    environment.remove_global("debug");
    environment.add_global("tools", Value::from(()));
    environment.add_global("documents", Value::from(()));
    environment.add_global("add_generation_prompt", false);
    for (name, value) in &settings.special_tokens {
        environment.add_global(name.clone(), value.clone());
    }
    Ok(environment)
}

/// What the render of this thread has written so far.
#[derive(Default)]
struct Record {
    written: Cell<usize>,
    spans: RefCell<Vec<Range<usize>>>,
    /// The body of a generation block that must be written next.
    next: RefCell<Option<Value>>,
    is_misplaced: Cell<bool>,
    is_unprinted: Cell<bool>,
}

impl Record {
    fn clear(&self) {
        self.written.set(0);
        self.spans.borrow_mut().clear();
        self.next.replace(None);
        self.is_misplaced.set(false);
        self.is_unprinted.set(false);
    }

    fn write(&self, bytes: &[u8]) {
        if let Some(body) = self.next.take()
            && body.as_str().map(str::as_bytes) != Some(bytes)
        {
            self.is_misplaced.set(true);
        }
        self.written.set(self.written.get() + bytes.len());
    }

    fn block(&self, body: &Value) {
        let length = body.as_str().map_or(0, str::len);
        let start = self.written.get();
        self.spans.borrow_mut().push(start..start + length);
        let next = Some(body).filter(|_| length > 0);
        if self.next.replace(next.cloned()).is_some() {
            self.is_misplaced.set(true);
        }
    }

    fn take_spans(&self, start: usize, out: &mut Vec<Range<usize>>) -> Result<(), TemplateError> {
        if self.is_misplaced.get() || self.next.take().is_some() {
            let message = "a generation block is in a macro, in a block that is captured, or in \
                           another generation block: its place is not known";
            return Err(TemplateError { kind: Kind::Failed, line: None, message: message.into() });
        }
        if self.is_unprinted.get() {
            let message =
                "a value that cannot be printed is joined to a text, or a map has no item \
                           that has the name of a method such as 'items'"
                    .into();
            return Err(TemplateError { kind: Kind::Failed, line: None, message });
        }
        let spans = self.spans.borrow();
        out.extend(spans.iter().map(|span| start + span.start..start + span.end));
        Ok(())
    }
}

thread_local! {
    // Filters get no access to the output, and a render stays on its thread.
    static RECORD: Record = Record::default();
}

/// Records a generation block with this body, which the engine writes next.
pub(crate) fn record(body: &Value) {
    RECORD.with(|record| record.block(body));
}

/// Lets the render of this thread fail at its end.
pub(crate) fn fail() {
    RECORD.with(|record| record.is_unprinted.set(true));
}

/// A bounded text that is appended to.
struct Sink {
    text: Vec<u8>,
    most: usize,
    is_full: bool,
}

impl Sink {
    fn new(text: String, output_bytes: usize) -> Self {
        let most = text.len().saturating_add(output_bytes);
        Self { text: text.into_bytes(), most, is_full: false }
    }
}

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.most - self.text.len() {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.text.extend_from_slice(bytes);
        RECORD.with(|record| record.write(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
