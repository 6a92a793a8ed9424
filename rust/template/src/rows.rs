//! Rows of the dialects of conversations as messages with all of their members.

use minijinja::Value;

use crate::error::Declined;
use crate::json::value_of_json;
use crate::values::{List, Map, list_value, map_value};

/// How a row holds a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// An array of messages, or an object with it as `messages`.
    Messages,
    /// `conversations`, an array of `from` and `value`.
    ShareGpt,
    /// `prompt`, and `response` or `completion`.
    PromptResponse,
    /// `instruction`, `input` and `output`.
    Alpaca,
    /// `question` and `answer`.
    Gsm8k,
}

impl Shape {
    /// The shape of a dialect, or `None` for another name.
    pub fn of(dialect: &str) -> Option<Self> {
        Some(match dialect {
            "messages" | "customjson" => Self::Messages,
            "sharegpt" => Self::ShareGpt,
            "prompt-response" => Self::PromptResponse,
            "alpaca" => Self::Alpaca,
            "gsm8k" => Self::Gsm8k,
            _ => return None,
        })
    }

    /// The members of a row that hold its conversation.
    fn members(self) -> &'static [&'static str] {
        match self {
            Self::Messages => &["messages"],
            Self::ShareGpt => &["conversations", "system"],
            Self::PromptResponse => &["prompt", "response", "completion", "system"],
            Self::Alpaca => &["instruction", "input", "output", "system", "history"],
            Self::Gsm8k => &["question", "answer"],
        }
    }
}

/// A conversation.
#[derive(Debug)]
pub(crate) struct Row {
    /// The messages, a list of maps with a string as `role`; at least one.
    pub(crate) messages: Value,
    /// The tools, a list; or none.
    pub(crate) tools: Value,
    /// The other members of the row that hold text.
    pub(crate) unused: Vec<String>,
}

const DECLINED: Declined = Declined(0);

/// The types of parts of a message that are not text.
const MEDIA: [&str; 5] = ["image", "image_url", "video", "audio", "input_audio"];

/// Reads a row, of which `tools` is the member with the tools.
pub(crate) fn row(text: &[u8], shape: Shape, tools: Option<&str>) -> Result<Row, Declined> {
    let value = value_of_json(text)?;
    let map = value.downcast_object_ref::<Map>();
    let messages = match (shape, map) {
        (Shape::Messages, None) => value.clone(),
        (_, None) => return Err(DECLINED),
        (Shape::Messages, Some(map)) => map.get("messages").ok_or(DECLINED)?.clone(),
        (Shape::ShareGpt, Some(map)) => share_gpt(map)?,
        (Shape::PromptResponse, Some(map)) => {
            let response = match map.present("response") {
                Some(response) => response,
                None => map.present("completion").ok_or(DECLINED)?,
            };
            let pair =
                [message("user", map.text("prompt")?), message("assistant", text_of(response)?)];
            after_system(map, pair.into())?
        }
        (Shape::Alpaca, Some(map)) => alpaca(map)?,
        (Shape::Gsm8k, Some(map)) => list_value([
            message("user", map.text("question")?),
            message("assistant", map.text("answer")?),
        ]),
    };
    check(&messages)?;
    let is_used = |name: &str| shape.members().contains(&name) || tools == Some(name);
    let unused = map.map(|map| map.names_with_text(is_used)).unwrap_or_default();
    let tools = map.zip(tools).and_then(|(map, tools)| map.present(tools));
    let tools = tools.map_or(Ok(Value::from(())), described)?;
    Ok(Row { messages, tools, unused })
}

impl Map {
    /// A member that is not null.
    fn present(&self, name: &str) -> Option<&Value> {
        self.get(name).filter(|value| !value.is_none())
    }

    fn text(&self, name: &str) -> Result<Value, Declined> {
        text_of(self.get(name).ok_or(DECLINED)?)
    }

    fn names_with_text(&self, is_used: impl Fn(&str) -> bool) -> Vec<String> {
        let members = self.0.iter().filter_map(|(name, value)| Some((name.as_str()?, value)));
        let unused = members.filter(|(name, value)| !is_used(name) && holds_text(value));
        unused.map(|(name, _)| name.to_owned()).collect()
    }
}

fn text_of(value: &Value) -> Result<Value, Declined> {
    value.as_str().map(|_| value.clone()).ok_or(DECLINED)
}

fn holds_text(value: &Value) -> bool {
    let mut holds = false;
    each_text(value, &mut |text| holds |= !text.is_empty());
    holds
}

/// Calls `visit` with every string of a value, except names of members.
pub(crate) fn each_text(value: &Value, visit: &mut impl FnMut(&str)) {
    if let Some(text) = value.as_str() {
        visit(text);
    } else if let Some(list) = value.downcast_object_ref::<List>() {
        list.0.iter().for_each(|item| each_text(item, visit));
    } else if let Some(map) = value.downcast_object_ref::<Map>() {
        map.0.iter().for_each(|(_, item)| each_text(item, visit));
    }
}

fn message(role: &str, content: Value) -> Value {
    map_value([("role".into(), role.into()), ("content".into(), content)])
}

/// The messages, after that of the member `system` unless it is empty.
fn after_system(row: &Map, messages: Vec<Value>) -> Result<Value, Declined> {
    let system = row.present("system").map(text_of).transpose()?;
    let system = system.filter(|text| text.as_str() != Some(""));
    Ok(list_value(system.map(|text| message("system", text)).into_iter().chain(messages)))
}

fn alpaca(row: &Map) -> Result<Value, Declined> {
    let instruction = row.text("instruction")?;
    let input = row.present("input").map(text_of).transpose()?;
    let asked = [Some(&instruction), input.as_ref()].into_iter().flatten();
    let asked: Vec<_> = asked.filter_map(Value::as_str).filter(|text| !text.is_empty()).collect();
    let mut messages = Vec::new();
    if let Some(history) = row.present("history") {
        for pair in &history.downcast_object_ref::<List>().ok_or(DECLINED)?.0 {
            let pair = pair.downcast_object_ref::<List>().ok_or(DECLINED)?;
            let [said, answered] = &pair.0[..] else { return Err(DECLINED) };
            messages.push(message("user", text_of(said)?));
            messages.push(message("assistant", text_of(answered)?));
        }
    }
    messages.push(message("user", asked.join("\n\n").into()));
    messages.push(message("assistant", row.text("output")?));
    after_system(row, messages)
}

fn share_gpt(row: &Map) -> Result<Value, Declined> {
    let turns = row.get("conversations").ok_or(DECLINED)?;
    let turns = turns.downcast_object_ref::<List>().ok_or(DECLINED)?;
    let messages = turns.0.iter().map(turn).collect::<Result<Vec<_>, _>>()?;
    let has_system = row.present("system").is_some_and(|text| text.as_str() != Some(""));
    let is_system = |message: &Value| {
        message.downcast_object_ref::<Map>().and_then(|map| map.get("role")?.as_str())
            == Some("system")
    };
    if has_system && messages.iter().any(is_system) {
        return Err(DECLINED);
    }
    after_system(row, messages)
}

fn turn(turn: &Value) -> Result<Value, Declined> {
    let turn = turn.downcast_object_ref::<Map>().ok_or(DECLINED)?;
    let (speaker, said) = (turn.text("from")?, turn.text("value")?);
    let role = match speaker.as_str() {
        Some("system") => "system",
        Some("human" | "user") => "user",
        Some("gpt" | "assistant") => "assistant",
        Some("observation" | "tool") => "tool",
        Some("function_call") => return calls(said.as_str().unwrap_or_default()),
        _ => return Err(DECLINED),
    };
    Ok(message(role, said))
}

/// The message of a turn whose text is the JSON of one call or of an array of calls.
fn calls(said: &str) -> Result<Value, Declined> {
    let value = value_of_json(said.as_bytes())?;
    let calls = match value.downcast_object_ref::<List>() {
        Some(list) => list.0.iter().map(call).collect::<Result<Vec<_>, _>>()?,
        None => vec![call(&value)?],
    };
    Ok(map_value([
        ("role".into(), "assistant".into()),
        ("content".into(), "".into()),
        ("tool_calls".into(), list_value(calls)),
    ]))
}

fn call(call: &Value) -> Result<Value, Declined> {
    let call = call.downcast_object_ref::<Map>().ok_or(DECLINED)?;
    let arguments = call.get("arguments").cloned().unwrap_or_else(|| Value::from(()));
    let function =
        map_value([("name".into(), call.text("name")?), ("arguments".into(), arguments)]);
    Ok(map_value([("type".into(), "function".into()), ("function".into(), function)]))
}

/// Declines what is not a list of messages with roles, or has images.
fn check(messages: &Value) -> Result<(), Declined> {
    let messages = messages.downcast_object_ref::<List>().ok_or(DECLINED)?;
    for message in &messages.0 {
        let message = message.downcast_object_ref::<Map>().ok_or(DECLINED)?;
        message.text("role")?;
        let parts = message.get("content").and_then(Value::downcast_object_ref::<List>);
        for part in parts.into_iter().flat_map(|parts| &parts.0) {
            let kind = part.downcast_object_ref::<Map>().and_then(|part| part.get("type"));
            if kind.and_then(Value::as_str).is_some_and(|kind| MEDIA.contains(&kind)) {
                return Err(DECLINED);
            }
        }
    }
    if messages.0.is_empty() { Err(DECLINED) } else { Ok(()) }
}

/// The tools of a row: a list, or the JSON of one; none if it is empty.
fn described(tools: &Value) -> Result<Value, Declined> {
    let tools = match tools.as_str() {
        Some(text) if text.trim().is_empty() => return Ok(Value::from(())),
        Some(text) => value_of_json(text.as_bytes())?,
        None => tools.clone(),
    };
    if tools.is_none() {
        return Ok(tools);
    }
    let list = tools.downcast_object_ref::<List>().ok_or(DECLINED)?;
    Ok(if list.0.is_empty() { Value::from(()) } else { tools.clone() })
}
