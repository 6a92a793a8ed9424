//! A string for each speaker: a prompt and its response. Reads JSON into turns.

use crate::declined::Declined;
use crate::json::Value;
use crate::turns::{Turn, in_order};
use crate::unused::Unused;

pub(crate) fn turns<'d>(
    document: Value<'d>,
    unused: &mut Unused<'_>,
) -> Result<Vec<Turn<'d>>, Declined> {
    let mut document = document.object()?;
    let prompt = document.text("prompt")?;
    let response = document.text_of_any(&["response", "completion"])?;
    let system = document.optional_text("system")?.filter(|text| !text.is_empty());
    let system = system.map(Turn::System).into_iter();
    unused.row(&document);
    in_order(system.chain([Turn::User(prompt), Turn::answer(response)]))
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::testing::{check, check_declined, settings};

    #[test]
    fn a_prompt_has_a_response_or_a_completion() {
        let expected =
            "bos:0 user_start:2 \"p\":2 user_end:2 assistant_start:4 \"r\":5 assistant_end:5";
        for document in [
            r#"{"prompt": "p", "response": "r", "system": ""}"#,
            r#"{"completion": "r", "prompt": "p", "response": null}"#,
            r#"{"prompt": "p", "response": "r", "completion": "c"}"#,
        ] {
            check(settings(Kind::Chat, "prompt-response"), document, expected);
        }
        check(
            settings(Kind::Chat, "prompt-response"),
            r#"{"prompt": "p", "response": "", "system": "s"}"#,
            "bos:0 user_start:2 \"s\\n\\np\":2 user_end:2 assistant_start:4 \"\":5 assistant_end:5",
        );
    }

    #[test]
    fn other_shapes_are_declined() {
        check_declined(
            &settings(Kind::Chat, "prompt-response"),
            &[
                "[]",
                r#"{"prompt": "p"}"#,
                r#"{"response": "r"}"#,
                r#"{"prompt": null, "response": "r"}"#,
                r#"{"prompt": "p", "response": 1, "completion": "c"}"#,
                r#"{"prompt": "p", "response": "r", "system": 1}"#,
            ],
        );
    }
}
