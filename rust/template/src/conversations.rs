//! Renders rows with conversations to texts, with the turns of the assistant.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use minijinja::Value;

use crate::error::{Declined, Kind, TemplateError};
use crate::messages::messages_for_templates;
use crate::render::{Limits, Rendering, Template};
use crate::rows::{Row, Shape, each_text, row};
use crate::turns::{Anchors, MAX_MESSAGES, Places, has_marks, marked};
use crate::values::{List, Map, map_value};

/// What is trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainOn {
    /// All turns of the assistant.
    Assistant,
    /// The last turn of the assistant.
    Last,
    /// Every token.
    All,
}

/// How the rows of a source are rendered.
#[derive(Debug, Clone)]
pub struct ConversationSettings {
    /// How a row holds a conversation.
    pub shape: Shape,
    /// The member of a row with the tools.
    pub tools: Option<String>,
    /// The other variables of the template, a map.
    pub arguments: Value,
    /// The names of special tokens, which are counted in messages.
    pub names: Vec<String>,
    /// Whether conversations whose messages have such names are declined.
    pub declines_names: bool,
    /// What locates the turns if the template has no generation blocks.
    pub anchors: Option<Anchors>,
    /// What is trained on.
    pub train_on: TrainOn,
    /// Whether the reasoning of messages is trained on.
    pub trains_reasoning: bool,
}

/// Renders rows of one shape with one template.
#[derive(Debug)]
pub struct Conversations<'t> {
    template: &'t Template,
    settings: ConversationSettings,
    names: AhoCorasick,
}

/// What is known of the text of a conversation. Ranges are in bytes of the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversation {
    /// The turns of the assistant.
    pub turns: Vec<Range<usize>>,
    /// What is trained on.
    pub trained: Vec<Range<usize>>,
    /// The number of names of special tokens in its messages.
    pub spelled: usize,
    /// The members of the row that hold text and are not rendered.
    pub unused: Vec<String>,
}

/// Why a row has no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The row is not certainly well formed, or a turn cannot be located.
    Declined,
    /// The template takes more steps, or writes a longer text, than is allowed.
    Bounded(TemplateError),
}

impl From<Declined> for Refusal {
    fn from(_: Declined) -> Self {
        Self::Declined
    }
}

impl From<TemplateError> for Refusal {
    fn from(error: TemplateError) -> Self {
        match error.kind {
            Kind::TooManySteps | Kind::TooLong => Self::Bounded(error),
            Kind::Raised | Kind::Syntax | Kind::Failed => Self::Declined,
        }
    }
}

impl<'t> Conversations<'t> {
    /// Stores the settings.
    ///
    /// # Errors
    ///
    /// Declined if the names are too many to search for.
    pub fn new(template: &'t Template, settings: ConversationSettings) -> Result<Self, Declined> {
        let names = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(settings.names.iter().filter(|name| !name.is_empty()))
            .map_err(|_| Declined(0))?;
        Ok(Self { template, settings, names })
    }

    /// Appends the text of a row.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; the text is then as it was.
    pub fn render(&self, document: &[u8], out: &mut String) -> Result<Conversation, Refusal> {
        let settings = &self.settings;
        let Row { messages, tools, unused } =
            row(document, settings.shape, settings.tools.as_deref())?;
        let mut spelled = 0;
        for value in [&messages, &tools] {
            each_text(value, &mut |text| spelled += self.names.find_iter(text).count());
        }
        if spelled > 0 && settings.declines_names {
            return Err(Refusal::Declined);
        }
        let limits = Limits::of_input(document.len());
        let mut rendering = Rendering::default();
        let context = self.context(&messages, &tools);
        self.template.render(&context, limits, &mut rendering)?;
        let Rendering { text, spans } = rendering;
        let text = text.as_str();
        let assistant = assistant(&messages);
        let mut turns = spans;
        let mut reasoning = Vec::new();
        let has_generation = self.template.has_generation();
        if !has_generation || !settings.trains_reasoning {
            let places = self.places(&messages, &tools, text, limits)?;
            if !has_generation {
                let anchors = settings.anchors.as_ref().ok_or(Refusal::Declined)?;
                if anchors.end.is_empty() && has_calls(&messages) {
                    return Err(Refusal::Declined); // the end of the calls is not known
                }
                turns = places.turns(&assistant, anchors, text).ok_or(Refusal::Declined)?;
            }
            if !settings.trains_reasoning {
                reasoning.extend(places.reasoning());
                reasoning.sort_unstable_by_key(|span| (span.start, span.end));
            }
        }
        let whole = 0..text.len();
        let trained = match settings.train_on {
            TrainOn::Assistant => &turns[..],
            TrainOn::All => std::slice::from_ref(&whole),
            TrainOn::Last if turns.len() == assistant.len() => {
                &turns[turns.len().saturating_sub(1)..]
            }
            TrainOn::Last => return Err(Refusal::Declined),
        };
        let trained = without(trained, &reasoning);
        out.push_str(text);
        Ok(Conversation { turns, trained, spelled, unused })
    }

    fn context(&self, messages: &Value, tools: &Value) -> Value {
        let arguments = self.settings.arguments.downcast_object_ref::<Map>();
        let arguments = arguments.into_iter().flat_map(|map| map.0.iter().cloned());
        map_value(arguments.chain([
            ("messages".into(), messages_for_templates(messages)),
            ("tools".into(), tools.clone()),
            ("add_generation_prompt".into(), false.into()),
        ]))
    }

    fn places(
        &self,
        messages: &Value,
        tools: &Value,
        text: &str,
        limits: Limits,
    ) -> Result<Places, Refusal> {
        let number = messages.downcast_object_ref::<List>().map_or(0, |list| list.0.len());
        if number > MAX_MESSAGES || has_marks(text) {
            return Err(Refusal::Declined);
        }
        let mut marks = Rendering::default();
        let context = self.context(&marked(messages), tools);
        self.template.render(&context, limits, &mut marks)?;
        Places::of(&marks.text, text, number).ok_or(Refusal::Declined)
    }
}

/// The parts of spans that are not in others, which are sorted.
fn without(spans: &[Range<usize>], others: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut parts = Vec::with_capacity(spans.len());
    for span in spans {
        let mut position = span.start;
        for other in others {
            if other.start < span.end && other.end > position {
                if other.start > position {
                    parts.push(position..other.start);
                }
                position = position.max(other.end);
            }
        }
        if position < span.end || span.is_empty() {
            parts.push(position..span.end);
        }
    }
    parts
}

/// Whether a message has tool calls.
fn has_calls(messages: &Value) -> bool {
    let list = messages.downcast_object_ref::<List>().into_iter().flat_map(|list| &list.0);
    list.filter_map(|message| message.downcast_object_ref::<Map>())
        .any(|message| message.get("tool_calls").is_some_and(Value::is_true))
}

/// The numbers of the messages of the assistant.
fn assistant(messages: &Value) -> Vec<usize> {
    let list = messages.downcast_object_ref::<List>().into_iter().flat_map(|list| &list.0);
    let is_answer = |message: &Value| {
        let map = message.downcast_object_ref::<Map>();
        map.and_then(|map| map.get("role")?.as_str()) == Some("assistant")
    };
    list.enumerate().filter(|(_, message)| is_answer(message)).map(|(number, _)| number).collect()
}
