//! Alpaca: an instruction with an optional input, and the output. Reads JSON into turns.

use std::borrow::Cow;

use crate::declined::Declined;
use crate::json::{Text, Value};
use crate::turns::{Turn, in_order};
use crate::unused::Unused;

pub(crate) fn turns<'d>(
    document: Value<'d>,
    unused: &mut Unused<'_>,
) -> Result<Vec<Turn<'d>>, Declined> {
    let mut document = document.object()?;
    let instruction = document.text("instruction")?;
    let input = document.optional_text("input")?;
    let output = document.text("output")?;
    let system = document.optional_text("system")?.filter(|text| !text.is_empty());
    let mut turns: Vec<_> = system.map(Turn::System).into_iter().collect();
    if let Some(pairs) = document.take("history")? {
        for pair in pairs.list()? {
            let [user, assistant] = <[Value<'_>; 2]>::try_from(pair.list()?).or(Err(Declined))?;
            turns.extend([Turn::User(user.text()?), Turn::answer(assistant.text()?)]);
        }
    }
    unused.row(&document);
    turns.extend([Turn::User(asked(instruction, input)), Turn::answer(output)]);
    in_order(turns)
}

/// The user's text: an empty line separates the instruction and the input.
fn asked<'d>(instruction: Text<'d>, input: Option<Text<'d>>) -> Text<'d> {
    match input {
        None => instruction,
        Some(input) if input.is_empty() => instruction,
        Some(input) if instruction.is_empty() => input,
        Some(input) => Cow::Owned([&*instruction, "\n\n", &*input].concat()),
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::testing::{check, check_declined, settings};

    #[test]
    fn the_input_follows_the_instruction_after_an_empty_line() {
        let answer = "user_end:2 assistant_start:4 \"o\":5 assistant_end:5";
        for (fields, asked) in [
            (r#""instruction": "i""#, "i"),
            (r#""instruction": "i", "input": null, "system": null, "history": null"#, "i"),
            (r#""instruction": "i", "input": "", "system": "", "history": []"#, "i"),
            (r#""input": "a\nb", "instruction": "i""#, "i\n\na\nb"),
            (r#""instruction": "", "input": "a""#, "a"),
            (r#""instruction": "", "input": """#, ""),
            (r#""instruction": "i", "input": "a", "system": "s""#, "s\n\ni\n\na"),
        ] {
            check(
                settings(Kind::Chat, "alpaca"),
                &format!(r#"{{{fields}, "output": "o"}}"#),
                &format!("bos:0 user_start:2 {asked:?}:2 {answer}"),
            );
        }
    }

    #[test]
    fn earlier_turns_come_first() {
        check(
            settings(Kind::Chat, "alpaca"),
            r#"{"instruction": "i", "output": "o", "history": [["a", "b"], ["", ""]], "system": "s"}"#,
            "bos:0 user_start:2 \"s\\n\\na\":2 user_end:2 assistant_start:4 \"b\":5 assistant_end:5 \
             user_start:2 \"\":2 user_end:2 assistant_start:4 \"\":5 assistant_end:5 \
             user_start:2 \"i\":2 user_end:2 assistant_start:4 \"o\":5 assistant_end:5",
        );
    }

    #[test]
    fn other_shapes_are_declined() {
        let declined =
            |document: &str| check_declined(&settings(Kind::Chat, "alpaca"), &[document]);
        declined("[]");
        declined(r#"{"instruction": "i"}"#);
        declined(r#"{"output": "o"}"#);
        for fields in [
            r#""output": null"#,
            r#""output": ["o", "p"]"#,
            r#""output": "o", "output": "p""#,
            r#""output": "o", "input": 1"#,
            r#""output": "o", "system": []"#,
            r#""output": "o", "history": "a""#,
            r#""output": "o", "history": ["ab"]"#,
            r#""output": "o", "history": [["a"]]"#,
            r#""output": "o", "history": [["a", "b", "c"]]"#,
            r#""output": "o", "history": [["a", null]]"#,
        ] {
            declined(&format!(r#"{{"instruction": "i", {fields}}}"#));
        }
    }
}
