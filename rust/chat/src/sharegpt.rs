//! `ShareGPT`: an object whose `conversations` are turns with `from` and `value`. Reads JSON into
//! turns.

use crate::declined::Declined;
use crate::json::Value;
use crate::turns::{Turn, in_order};
use crate::unused::Unused;

pub(crate) fn turns<'d>(
    document: Value<'d>,
    unused: &mut Unused<'_>,
) -> Result<Vec<Turn<'d>>, Declined> {
    let mut document = document.object()?;
    let conversation = document.take("conversations")?.ok_or(Declined)?.list()?;
    let turns =
        conversation.into_iter().map(|each| turn(each, unused)).collect::<Result<Vec<_>, _>>()?;
    let system = document.optional_text("system")?.filter(|text| !text.is_empty());
    unused.row(&document);
    if turns.is_empty() {
        return Err(Declined);
    }
    // If there is another turn of the system, it is not the first, and is declined there.
    in_order(system.map(Turn::System).into_iter().chain(turns))
}

fn turn<'d>(turn: Value<'d>, unused: &mut Unused<'_>) -> Result<Turn<'d>, Declined> {
    let mut turn = turn.object()?;
    let (speaker, text) = (turn.text("from")?, turn.text("value")?);
    unused.inner(&turn);
    match &*speaker {
        "system" => Ok(Turn::System(text)),
        "human" | "user" => Ok(Turn::User(text)),
        "gpt" | "assistant" => Ok(Turn::answer(text)),
        _ => Err(Declined),
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::testing::{check, check_declined, settings};

    #[test]
    fn turns_have_from_and_value() {
        let expected = "bos:0 user_start:2 \"s\\n\\nhi\":2 user_end:2 assistant_start:4 \"yo\":5 \
                        assistant_end:5";
        for document in [
            r#"{"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "hi"},
                {"value": "yo", "from": "gpt", "weight": 1}], "system": null}"#,
            r#"{"conversations": [{"from": "user", "value": "hi"},
                {"from": "assistant", "value": "yo"}], "system": "s", "id": 3}"#,
        ] {
            check(settings(Kind::Chat, "sharegpt"), document, expected);
        }
    }

    #[test]
    fn other_shapes_are_declined() {
        let user = r#"{"from": "human", "value": "hi"}"#;
        check_declined(
            &settings(Kind::Chat, "sharegpt"),
            &[
                &format!("[{user}]"),
                r#"{"conversations": []}"#,
                r#"{"conversations": [], "system": "s"}"#,
                r#"{"conversations": [{"from": "human"}]}"#,
                r#"{"conversations": [{"from": "tool", "value": "x"}]}"#,
                r#"{"conversations": [{"from": "human", "value": ["x"]}]}"#,
                &format!(r#"{{"conversations": [{user}, {user}]}}"#),
                &format!(r#"{{"conversations": [{user}], "system": 7}}"#),
                &format!(
                    r#"{{"conversations": [{{"from": "system", "value": "s"}}, {user}], "system": "s"}}"#
                ),
            ],
        );
    }
}
