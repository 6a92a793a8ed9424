//! Tool calls of `OpenAI`'s chat format, and the messages with their results, as parts of one turn
//! of the assistant. Only calls of `python` with the single argument `code` are supported.

use crate::declined::Declined;
use crate::json::{Object, Text, Value};
use crate::messages::{refuse_function_call, said};
use crate::turns::Said;
use crate::unused::Unused;

/// A call of `python`.
#[derive(Debug)]
pub(crate) struct Call<'d> {
    id: Text<'d>,
    code: Text<'d>,
}

/// Removes and returns the calls of a message: none if `tool_calls` is missing, null or empty.
pub(crate) fn calls<'d>(
    message: &mut Object<'d>,
    unused: &mut Unused<'_>,
) -> Result<Vec<Call<'d>>, Declined> {
    let Some(calls) = message.take("tool_calls")? else { return Ok(Vec::new()) };
    calls.list()?.into_iter().map(|each| call(each, unused)).collect()
}

/// Reads the turn that begins with a message with these calls: their results, and the assistant's
/// text after them, possibly with more calls. Also returns the message after the turn.
pub(crate) fn turn<'d>(
    message: Object<'d>,
    calls: Vec<Call<'d>>,
    messages: &mut impl Iterator<Item = Value<'d>>,
    unused: &mut Unused<'_>,
) -> Result<(Vec<Said<'d>>, Option<Value<'d>>), Declined> {
    let mut turn = before_calls(message, unused)?;
    let mut calls = calls;
    loop {
        answers(calls, messages, &mut turn, unused)?;
        let Some(next) = messages.next() else { return Ok((turn, None)) };
        let mut next = next.object()?;
        if next.peek_text("role")? != "assistant" {
            return Ok((turn, Some(Value::Object(next))));
        }
        next.text("role")?;
        refuse_function_call(&mut next)?;
        calls = self::calls(&mut next, unused)?;
        turn.extend(after_answers(next, unused)?);
        if calls.is_empty() {
            return Ok((turn, messages.next()));
        }
    }
}

/// The text of the first message with calls: an empty string is no text.
fn before_calls<'d>(
    mut message: Object<'d>,
    unused: &mut Unused<'_>,
) -> Result<Vec<Said<'d>>, Declined> {
    let content = message.take("content")?;
    unused.inner(&message);
    match content {
        None => Ok(Vec::new()),
        Some(Value::Text(text)) if text.is_empty() => Ok(Vec::new()),
        Some(content) => said(content, unused),
    }
}

/// The text of a message after results: an empty string is a text.
fn after_answers<'d>(
    mut message: Object<'d>,
    unused: &mut Unused<'_>,
) -> Result<Vec<Said<'d>>, Declined> {
    let content = message.take("content")?;
    unused.inner(&message);
    content.map_or(Ok(Vec::new()), |content| said(content, unused))
}

/// Adds the calls, each with its result: there must be as many messages as calls, in the same
/// order.
fn answers<'d>(
    calls: Vec<Call<'d>>,
    messages: &mut impl Iterator<Item = Value<'d>>,
    turn: &mut Vec<Said<'d>>,
    unused: &mut Unused<'_>,
) -> Result<(), Declined> {
    for call in calls {
        let mut message = messages.next().ok_or(Declined)?.object()?;
        refuse_function_call(&mut message)?;
        let is_answer = message.text("role")? == "tool" && message.text("tool_call_id")? == call.id;
        if !is_answer || !self::calls(&mut message, unused)?.is_empty() {
            return Err(Declined);
        }
        turn.push(Said::python(call.code));
        turn.push(Said::output(message.text("content")?));
        unused.inner(&message);
    }
    Ok(())
}

fn call<'d>(call: Value<'d>, unused: &mut Unused<'_>) -> Result<Call<'d>, Declined> {
    let mut call = call.object()?;
    let id = call.text("id")?;
    let is_function = call.optional_text("type")?.is_none_or(|kind| kind == "function");
    let mut function = call.take("function")?.ok_or(Declined)?.object()?;
    let is_python = function.text("name")? == "python";
    let arguments = function.take("arguments")?.ok_or(Declined)?;
    unused.inner(&call);
    unused.inner(&function);
    if is_function && is_python { Ok(Call { id, code: code(arguments)? }) } else { Err(Declined) }
}

/// The single argument of an object, or of a string with JSON.
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

#[cfg(test)]
mod tests {
    use crate::testing::{check, check_declined, settings};
    use crate::{Kind, Settings};

    fn messages() -> Settings {
        settings(Kind::Chat, "messages")
    }

    /// A conversation: a question, then these messages.
    fn asked(rest: &str) -> String {
        format!(r#"[{{"role": "user", "content": "q"}}, {rest}]"#)
    }

    fn call(id: &str, arguments: &str) -> String {
        format!(
            r#"{{"id": "{id}", "type": "function",
                 "function": {{"name": "python", "arguments": {arguments}}}}}"#
        )
    }

    fn calling(content: &str, calls: &[String]) -> String {
        let calls = calls.join(", ");
        format!(r#"{{"role": "assistant", {content} "tool_calls": [{calls}]}}"#)
    }

    fn answer(id: &str, content: &str) -> String {
        format!(r#"{{"role": "tool", "tool_call_id": "{id}", "content": "{content}"}}"#)
    }

    const SAID: &str = r#"{"role": "assistant", "content": "so"}"#;
    const START: &str = "bos:0 user_start:2 \"q\":2 user_end:2 assistant_start:4";

    fn tool(code: &str, output: &str) -> String {
        format!("python_start:7 {code:?}:7 python_end:7 output_start:8 {output:?}:8 output_end:8")
    }

    #[test]
    fn a_call_its_answer_and_the_following_text_are_one_turn() {
        let arguments = [r#"{"code": "1+1"}"#, r#""{\"code\": \"1+1\"}""#];
        for arguments in arguments {
            let calling = calling(r#""content": null,"#, &[call("a", arguments)]);
            let document = asked(&[&calling, &*answer("a", "2"), SAID].join(", "));
            let expected = format!("{START} {} \"so\":5 assistant_end:5", tool("1+1", "2"));
            check(messages(), &document, &expected);
        }
    }

    #[test]
    fn calls_of_one_message_are_answered_in_order_and_more_may_follow() {
        let code = r#"{"code": "x"}"#;
        let both = calling(r#""content": "I","#, &[call("a", code), call("b", code)]);
        let third = calling(r#""content": "","#, &[call("c", code)]);
        let document =
            asked(&[both, answer("a", "1"), answer("b", "2"), third, answer("c", "3")].join(", "));
        let [one, two, three] = ["1", "2", "3"].map(|output| tool("x", output));
        check(
            messages(),
            &document,
            &format!("{START} \"I\":5 {one} {two} \"\":5 {three} assistant_end:5"),
        );
    }

    #[test]
    fn an_empty_text_counts_only_after_answers() {
        let calling = calling(r#""content": "","#, &[call("a", r#"{"code": ""}"#)]);
        let document = asked(
            &[
                &calling,
                &*answer("a", ""),
                r#"{"role": "assistant", "content": ""},
               {"role": "user", "content": "u"}"#,
            ]
            .join(", "),
        );
        let turn = format!("{START} {} \"\":5 assistant_end:5", tool("", ""));
        check(messages(), &document, &format!("{turn} user_start:2 \"u\":2 user_end:2"));
    }

    #[test]
    fn a_list_of_parts_may_be_beside_calls() {
        let content = r#""content": [{"type": "text", "text": "I"}],"#;
        let calling = calling(content, &[call("a", r#"{"code": "x"}"#)]);
        let document = asked(&[calling, answer("a", "1")].join(", "));
        let expected = format!("{START} \"I\":5 {} assistant_end:5", tool("x", "1"));
        check(messages(), &document, &expected);
    }

    #[test]
    fn inconsistent_calls_are_declined() {
        let code = r#"{"code": "x"}"#;
        let good = calling("", &[call("a", code)]);
        let answered = |calling: &str| asked(&[calling, &*answer("a", "1")].join(", "));
        assert!(crate::testing::shown(messages(), &answered(&good)).is_some());
        let replaced = [("python", "weather"), ("function\",", "tool\","), ("\"id\"", "\"no\"")];
        for (from, to) in replaced {
            check_declined(&messages(), &[&answered(&good.replace(from, to))]);
        }
        let arguments = [
            "{}",
            "null",
            "[]",
            r#"{"code": 1}"#,
            r#"{"code": "x", "b": 1}"#,
            r#"{"b": "x"}"#,
            r#""x""#,
            r#""{\"code\": \"x\"} x""#,
            r#"{"code": "x", "code": "y"}"#,
        ];
        for arguments in arguments {
            let calling = calling("", &[call("a", arguments)]);
            check_declined(&messages(), &[&answered(&calling)]);
        }
        let two = calling("", &[call("a", code), call("b", code)]);
        let swapped = [&two, &answer("b", "1"), &answer("a", "1")].map(String::as_str).join(", ");
        let extra = [&good, &answer("a", "1"), &answer("a", "1")].map(String::as_str).join(", ");
        check_declined(
            &messages(),
            &[
                &asked(&good),
                &asked(&answer("a", "1")),
                &answered(&two),
                &asked(&swapped),
                &asked(&extra),
                &asked(&[&good, SAID].join(", ")),
                &answered(&good).replace(r#""content": "1""#, r#""content": ["1"]"#),
                &answered(&good.replace("assistant", "user")),
                &answered(&calling(r#""content": 7,"#, &[call("a", code)])),
            ],
        );
    }
}
