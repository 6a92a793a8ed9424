//! Conversations as arrays of messages with roles, in the formats of nanochat and of `OpenAI` with
//! tool calls. Reads JSON into turns.

use crate::declined::Declined;
use crate::json::{Object, Value};
use crate::tools;
use crate::turns::{Said, SaidKind, Turn, in_order};
use crate::unused::Unused;

/// An array of messages, or an object with it.
pub(crate) fn turns<'d>(
    document: Value<'d>,
    unused: &mut Unused<'_>,
) -> Result<Vec<Turn<'d>>, Declined> {
    let messages = match document {
        Value::Object(mut object) => {
            let messages = object.take("messages")?.ok_or(Declined)?;
            unused.row(&object);
            messages
        }
        list => list,
    };
    turns_of(messages, unused)
}

/// The array of messages.
pub(crate) fn turns_of<'d>(
    messages: Value<'d>,
    unused: &mut Unused<'_>,
) -> Result<Vec<Turn<'d>>, Declined> {
    let mut messages = messages.list()?.into_iter();
    let mut turns = Vec::new();
    let mut next = messages.next();
    while let Some(message) = next {
        let mut message = message.object()?;
        refuse_function_call(&mut message)?;
        let role = message.text("role")?;
        let calls = tools::calls(&mut message, unused)?;
        next = match &*role {
            "assistant" if !calls.is_empty() => {
                let (said, next) = tools::turn(message, calls, &mut messages, unused)?;
                turns.push(Turn::Assistant(said));
                next
            }
            _ if !calls.is_empty() => return Err(Declined),
            _ => {
                turns.push(plain(&role, message, unused)?);
                messages.next()
            }
        };
    }
    in_order(turns)
}

/// nanochat's `CustomJSON`: only an array of at least two messages, all of them strings, without a
/// system message.
pub(crate) fn custom_json<'d>(
    document: Value<'d>,
    unused: &mut Unused<'_>,
) -> Result<Vec<Turn<'d>>, Declined> {
    let messages = document.list()?;
    if messages.len() < 2 {
        return Err(Declined);
    }
    let turns = messages.into_iter().map(|message| {
        let mut message = message.object()?;
        let (role, content) = (message.text("role")?, message.text("content")?);
        unused.inner(&message);
        match &*role {
            "user" => Ok(Turn::User(content)),
            "assistant" => Ok(Turn::answer(content)),
            _ => Err(Declined),
        }
    });
    in_order(turns.collect::<Result<Vec<_>, _>>()?)
}

/// The parts of an assistant's content; a string is one part.
pub(crate) fn said<'d>(
    content: Value<'d>,
    unused: &mut Unused<'_>,
) -> Result<Vec<Said<'d>>, Declined> {
    match content {
        Value::Text(text) => Ok(vec![Said::text(text)]),
        Value::List(parts) => parts.into_iter().map(|each| part(each, unused)).collect(),
        _ => Err(Declined),
    }
}

/// Declines the predecessor of `tool_calls`.
pub(crate) fn refuse_function_call(message: &mut Object<'_>) -> Result<(), Declined> {
    if message.take("function_call")?.is_some() { Err(Declined) } else { Ok(()) }
}

fn plain<'d>(
    role: &str,
    mut message: Object<'d>,
    unused: &mut Unused<'_>,
) -> Result<Turn<'d>, Declined> {
    let content = message.take("content")?.ok_or(Declined)?;
    unused.inner(&message);
    match role {
        "system" => Ok(Turn::System(content.text()?)),
        "user" => Ok(Turn::User(content.text()?)),
        "assistant" => Ok(Turn::Assistant(said(content, unused)?)),
        _ => Err(Declined),
    }
}

fn part<'d>(part: Value<'d>, unused: &mut Unused<'_>) -> Result<Said<'d>, Declined> {
    let mut part = part.object()?;
    let kind = match &*part.text("type")? {
        "text" => SaidKind::Text,
        "python" => SaidKind::Python,
        "python_output" => SaidKind::Output,
        _ => return Err(Declined),
    };
    let text = part.text("text")?;
    unused.inner(&part);
    Ok(Said { kind, text })
}

#[cfg(test)]
mod tests {
    use crate::testing::{check, check_declined, settings};
    use crate::{Kind, Settings};

    fn messages() -> Settings {
        settings(Kind::Chat, "messages")
    }

    #[test]
    fn messages_are_an_array_or_in_an_object() {
        let array =
            r#"[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "a\nb"}]"#;
        let expected = "bos:0 user_start:2 \"hi\":2 user_end:2 assistant_start:4 \"a\\nb\":5 \
                        assistant_end:5";
        check(messages(), array, expected);
        check(messages(), &format!(r#" {{"id": {{}}, "messages": {array}}} "#), expected);
    }

    #[test]
    fn a_conversation_may_end_with_the_user_and_texts_may_be_empty() {
        check(
            messages(),
            r#"[{"role": "user", "content": ""}, {"role": "assistant", "content": ""},
               {"content": "x", "role": "user", "name": null, "tool_calls": [], "weight": 1}]"#,
            "bos:0 user_start:2 \"\":2 user_end:2 assistant_start:4 \"\":5 assistant_end:5 \
             user_start:2 \"x\":2 user_end:2",
        );
    }

    #[test]
    fn the_system_message_is_merged_into_the_first_user_message() {
        check(
            messages(),
            r#"[{"role": "system", "content": ""}, {"role": "user", "content": "hi"}]"#,
            r#"bos:0 user_start:2 "\n\nhi":2 user_end:2"#,
        );
    }

    #[test]
    fn an_answer_may_have_parts() {
        check(
            messages(),
            r#"[{"role": "user", "content": "q"}, {"role": "assistant", "content": [
                {"type": "text", "text": "a", "x": 1}, {"text": "1+1", "type": "python"},
                {"type": "python_output", "text": "2"}]},
               {"role": "user", "content": "q"}, {"role": "assistant", "content": []}]"#,
            "bos:0 user_start:2 \"q\":2 user_end:2 assistant_start:4 \"a\":5 python_start:7 \
             \"1+1\":7 python_end:7 output_start:8 \"2\":8 output_end:8 assistant_end:5 \
             user_start:2 \"q\":2 user_end:2 assistant_start:4 assistant_end:5",
        );
    }

    #[test]
    fn malformed_conversations_are_declined() {
        check_declined(
            &messages(),
            &[
                "[]",
                "{}",
                "7",
                r#"{"messages": null}"#,
                r#"{"messages": []}"#,
                r#"["hi"]"#,
                r#"[{"role": "system", "content": "s"}]"#,
                r#"[{"role": "system", "content": "s"}, {"role": "assistant", "content": "a"}]"#,
                r#"[{"role": "assistant", "content": "a"}]"#,
                r#"[{"role": "user", "content": "u"}, {"role": "user", "content": "u"}]"#,
                r#"[{"role": "user", "content": "u"}, {"role": "system", "content": "s"}]"#,
                r#"[{"role": "user", "content": "u"}, {"role": "tool", "content": "t"}]"#,
                r#"[{"role": "user"}]"#,
                r#"[{"content": "u"}]"#,
                r#"[{"role": "user", "content": null}]"#,
                r#"[{"role": "user", "content": [{"type": "text", "text": "u"}]}]"#,
                r#"[{"role": "user", "content": "u"}, {"role": "assistant", "content": null}]"#,
                r#"[{"role": "user", "content": "u"}, {"role": "assistant", "content": [7]}]"#,
                r#"[{"role": "user", "content": "u"},
                    {"role": "assistant", "content": [{"type": "image", "text": ""}]}]"#,
                r#"[{"role": "user", "content": "u"},
                    {"role": "assistant", "content": [{"type": "text"}]}]"#,
                r#"[{"role": "user", "content": "u"},
                    {"role": "assistant", "content": "", "function_call": {}}]"#,
            ],
        );
    }

    #[test]
    fn custom_json_is_an_array_of_at_least_two_messages() {
        let custom = settings(Kind::Chat, "customjson");
        check(
            custom.clone(),
            r#"[{"role":"user","content":"a","x":1},{"role":"assistant","content":"b"},
                {"role":"user","content":"c"}]"#,
            "bos:0 user_start:2 \"a\":2 user_end:2 assistant_start:4 \"b\":5 assistant_end:5 \
             user_start:2 \"c\":2 user_end:2",
        );
        check_declined(
            &custom,
            &[
                r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#,
                r#"[{"role":"user","content":"a"}]"#,
                r#"[{"role":"system","content":"s"},{"role":"user","content":"a"}]"#,
                r#"[{"role":"user","content":"a"},{"role":"user","content":"b"}]"#,
                r#"[{"role":"user"},{"role":"assistant","content":"b"}]"#,
                r#"[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"}]}]"#,
                "not json",
            ],
        );
    }
}
