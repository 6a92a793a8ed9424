//! Tool calls of `OpenAI`'s chat format, and the messages that answer them, as parts of one turn of the
//! assistant. Takes messages, understands calls of `python` with the one argument `code` and no others.

use crate::declined::Declined;
use crate::json::{Object, Text, Value};
use crate::messages::{refuse_function_call, said};
use crate::turns::Said;

/// A call of `python`.
#[derive(Debug)]
pub(crate) struct Call<'d> {
    id: Text<'d>,
    code: Text<'d>,
}

/// Takes the calls out of a message: none if `tool_calls` is absent, null or empty.
pub(crate) fn calls<'d>(message: &mut Object<'d>) -> Result<Vec<Call<'d>>, Declined> {
    let Some(calls) = message.take("tool_calls")? else { return Ok(Vec::new()) };
    calls.list()?.into_iter().map(call).collect()
}

/// Reads the turn that begins with a message of these calls: the answers to them, and what the assistant
/// says after them, perhaps with further calls. Gives also the message after the turn.
pub(crate) fn turn<'d>(
    message: Object<'d>,
    calls: Vec<Call<'d>>,
    messages: &mut impl Iterator<Item = Value<'d>>,
) -> Result<(Vec<Said<'d>>, Option<Value<'d>>), Declined> {
    let mut turn = before_calls(message)?;
    let mut calls = calls;
    loop {
        answers(calls, messages, &mut turn)?;
        let Some(next) = messages.next() else { return Ok((turn, None)) };
        let mut next = next.object()?;
        if next.peek_text("role")? != "assistant" {
            return Ok((turn, Some(Value::Object(next))));
        }
        refuse_function_call(&mut next)?;
        calls = self::calls(&mut next)?;
        turn.extend(after_answers(next)?);
        if calls.is_empty() {
            return Ok((turn, messages.next()));
        }
    }
}

/// What the first message with calls says: an empty string is nothing.
fn before_calls(mut message: Object<'_>) -> Result<Vec<Said<'_>>, Declined> {
    match message.take("content")? {
        None => Ok(Vec::new()),
        Some(Value::Text(text)) if text.is_empty() => Ok(Vec::new()),
        Some(content) => said(content),
    }
}

/// What a message after answers says: an empty string is a text.
fn after_answers(mut message: Object<'_>) -> Result<Vec<Said<'_>>, Declined> {
    message.take("content")?.map_or(Ok(Vec::new()), said)
}

/// Adds the calls, each with its answer: as many messages as calls, in their order.
fn answers<'d>(
    calls: Vec<Call<'d>>,
    messages: &mut impl Iterator<Item = Value<'d>>,
    turn: &mut Vec<Said<'d>>,
) -> Result<(), Declined> {
    for call in calls {
        let mut message = messages.next().ok_or(Declined)?.object()?;
        refuse_function_call(&mut message)?;
        let is_answer = message.text("role")? == "tool" && message.text("tool_call_id")? == call.id;
        if !is_answer || !self::calls(&mut message)?.is_empty() {
            return Err(Declined);
        }
        turn.push(Said::python(call.code));
        turn.push(Said::output(message.text("content")?));
    }
    Ok(())
}

fn call(call: Value<'_>) -> Result<Call<'_>, Declined> {
    let mut call = call.object()?;
    let id = call.text("id")?;
    let is_function = call.optional_text("type")?.is_none_or(|kind| kind == "function");
    let mut function = call.take("function")?.ok_or(Declined)?.object()?;
    let is_python = function.text("name")? == "python";
    let arguments = function.take("arguments")?.ok_or(Declined)?;
    if is_function && is_python { Ok(Call { id, code: code(arguments)? }) } else { Err(Declined) }
}

/// The one argument, of an object or of a string that says it as JSON.
fn code(arguments: Value<'_>) -> Result<Text<'_>, Declined> {
    match arguments {
        Value::Object(arguments) => only_code(arguments),
        Value::Text(json) => {
            let arguments = Value::read(json.as_bytes())?.object()?;
            Ok(only_code(arguments)?.into_owned().into())
        }
        _ => Err(Declined),
    }
}

fn only_code(mut arguments: Object<'_>) -> Result<Text<'_>, Declined> {
    if arguments.len() == 1 { arguments.text("code") } else { Err(Declined) }
}
