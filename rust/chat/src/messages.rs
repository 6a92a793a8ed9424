//! Conversations as arrays of messages, each of a role: nanochat's, and those of
//! `OpenAI` with their tool calls.
//! Takes JSON, gives turns.

use crate::declined::Declined;
use crate::json::{Object, Value};
use crate::tools;
use crate::turns::{Said, SaidKind, Turn, in_order};

/// An array of messages, or an object with it.
pub(crate) fn turns(document: Value<'_>) -> Result<Vec<Turn<'_>>, Declined> {
    turns_of(match document {
        Value::Object(mut object) => object.take("messages")?.ok_or(Declined)?,
        list => list,
    })
}

/// The array of messages.
pub(crate) fn turns_of(messages: Value<'_>) -> Result<Vec<Turn<'_>>, Declined> {
    let mut messages = messages.list()?.into_iter();
    let mut turns = Vec::new();
    let mut next = messages.next();
    while let Some(message) = next {
        let mut message = message.object()?;
        refuse_function_call(&mut message)?;
        let role = message.text("role")?;
        let calls = tools::calls(&mut message)?;
        next = match &*role {
            "assistant" if !calls.is_empty() => {
                let (said, next) = tools::turn(message, calls, &mut messages)?;
                turns.push(Turn::Assistant(said));
                next
            }
            _ if !calls.is_empty() => return Err(Declined),
            _ => {
                turns.push(plain(&role, message)?);
                messages.next()
            }
        };
    }
    in_order(turns)
}

/// nanochat's `CustomJSON`: an array and nothing else, of two messages at least, all of them strings, none of
/// them the system's.
pub(crate) fn custom_json(document: Value<'_>) -> Result<Vec<Turn<'_>>, Declined> {
    let messages = document.list()?;
    if messages.len() < 2 {
        return Err(Declined);
    }
    let turns = messages.into_iter().map(|message| {
        let mut message = message.object()?;
        let (role, content) = (message.text("role")?, message.text("content")?);
        match &*role {
            "user" => Ok(Turn::User(content)),
            "assistant" => Ok(Turn::answer(content)),
            _ => Err(Declined),
        }
    });
    in_order(turns.collect::<Result<Vec<_>, _>>()?)
}

/// The parts that an assistant's content is: a string is one.
pub(crate) fn said(content: Value<'_>) -> Result<Vec<Said<'_>>, Declined> {
    match content {
        Value::Text(text) => Ok(vec![Said::text(text)]),
        Value::List(parts) => parts.into_iter().map(part).collect(),
        _ => Err(Declined),
    }
}

/// Declines what came before `tool_calls`.
pub(crate) fn refuse_function_call(message: &mut Object<'_>) -> Result<(), Declined> {
    if message.take("function_call")?.is_some() { Err(Declined) } else { Ok(()) }
}

fn plain<'d>(role: &str, mut message: Object<'d>) -> Result<Turn<'d>, Declined> {
    let content = message.take("content")?.ok_or(Declined)?;
    match role {
        "system" => Ok(Turn::System(content.text()?)),
        "user" => Ok(Turn::User(content.text()?)),
        "assistant" => Ok(Turn::Assistant(said(content)?)),
        _ => Err(Declined),
    }
}

fn part(part: Value<'_>) -> Result<Said<'_>, Declined> {
    let mut part = part.object()?;
    let kind = match &*part.text("type")? {
        "text" => SaidKind::Text,
        "python" => SaidKind::Python,
        "python_output" => SaidKind::Output,
        _ => return Err(Declined),
    };
    Ok(Said { kind, text: part.text("text")? })
}
