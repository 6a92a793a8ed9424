//! Documents with images: a prompt and its response, one text, or a conversation. `<image>` is an
//! image in questions, and text in answers. Reads JSON and writes parts.

use crate::declined::Declined;
use crate::grounding::Grounding;
use crate::images::Images;
use crate::json::Value;
use crate::layout::{Cut, Label, Page};
use crate::messages;
use crate::unused::Unused;

/// The placeholder of an image in a text, whatever the name of the special token.
const PLACEHOLDER: &str = "<image>";

/// The special token at the end of a text.
const END: &str = "<|assistant_end|>";

/// The key of the numbers of tokens of a document's images.
const COUNTS: &str = "image_token_counts";

/// The settings for reading documents with images.
#[derive(Debug, Clone)]
pub(crate) struct Vision {
    pub(crate) image_tokens: Option<u32>,
    pub(crate) grounding: Grounding,
    pub(crate) train_prompt: bool,
}

impl Vision {
    /// Writes a conversation: an array of messages, or an object with it.
    pub(crate) fn messages(
        &self,
        page: &mut Page<'_>,
        document: Value<'_>,
        unused: &mut Unused<'_>,
    ) -> Result<(), Declined> {
        let (messages, counts) = match document {
            Value::Object(mut object) => {
                let parts = (object.take("messages")?.ok_or(Declined)?, object.take(COUNTS)?);
                unused.row(&object);
                parts
            }
            list => (list, None),
        };
        let turns = messages::turns_of(messages, unused)?;
        let mut said = self.said(counts)?;
        page.conversation(&turns, &mut said)?;
        said.images.finish()
    }

    /// Writes a prompt and its response.
    pub(crate) fn pair(
        &self,
        page: &mut Page<'_>,
        document: Value<'_>,
        unused: &mut Unused<'_>,
    ) -> Result<(), Declined> {
        let mut document = document.object()?;
        let prompt = document.text_of_any(&["prompt", "text"])?;
        let response = document.text("response")?;
        let mut said = self.said(document.take(COUNTS)?)?;
        unused.row(&document);
        page.bos()?;
        said.around_images(page, &prompt, Label::user(self.train_prompt))?;
        said.images.finish()?;
        page.response(&response, &said)
    }

    /// Writes one text.
    pub(crate) fn text(
        &self,
        page: &mut Page<'_>,
        document: Value<'_>,
        unused: &mut Unused<'_>,
    ) -> Result<(), Declined> {
        let mut document = document.object()?;
        let text = document.text("text")?;
        let mut said = self.said(document.take(COUNTS)?)?;
        unused.row(&document);
        let body = text.strip_suffix(END);
        page.bos()?;
        said.around_images(page, body.unwrap_or(&text), Label::user(true))?;
        said.images.finish()?;
        if body.is_some() { page.assistant_end() } else { Ok(()) }
    }

    fn said(&self, counts: Option<Value<'_>>) -> Result<WithImages<'_>, Declined> {
        let images = Images::new(counts, self.image_tokens)?;
        Ok(WithImages { images, grounding: &self.grounding })
    }
}

/// Divides texts at images and grounding tokens.
struct WithImages<'v> {
    images: Images,
    grounding: &'v Grounding,
}

impl WithImages<'_> {
    /// Writes the images of a text, and the non-empty texts around them.
    fn around_images(
        &mut self,
        page: &mut Page<'_>,
        text: &str,
        label: Label,
    ) -> Result<(), Declined> {
        for (position, part) in text.split(PLACEHOLDER).enumerate() {
            if position > 0 {
                page.image(self.images.next()?)?;
            }
            if !part.is_empty() {
                self.grounding.write(page, part, label)?;
            }
        }
        Ok(())
    }
}

impl Cut for WithImages<'_> {
    fn user(&mut self, page: &mut Page<'_>, text: &str, label: Label) -> Result<(), Declined> {
        if text.is_empty() {
            page.text(text, label); // as in a conversation without images
            return Ok(());
        }
        self.around_images(page, text, label)
    }

    fn assistant(&self, page: &mut Page<'_>, text: &str, label: Label) -> Result<(), Declined> {
        self.grounding.write(page, text, label)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check, check_declined, settings};
    use crate::{Kind, Settings};

    fn vision(name: &str) -> Settings {
        settings(Kind::Vision, name)
    }

    fn grounded(name: &str) -> Settings {
        let grounding = ["<|ref|>", "<|grounding|>", "<|ref|>x"].map(str::to_owned).to_vec();
        Settings { grounding, ..vision(name) }
    }

    #[test]
    fn placeholders_are_images_in_a_prompt_and_text_in_a_response() {
        let document =
            r#"{"prompt": "<image>\nOCR", "response": "<image>", "image_token_counts": [5]}"#;
        let rest = "\"<image>\":5 assistant_end:5";
        check(
            vision("prompt-response"),
            document,
            &format!("bos:0 image*5:10! \"\\nOCR\":3 {rest}"),
        );
        let settings = Settings { train_prompt: false, ..vision("prompt-response") };
        check(settings, document, &format!("bos:0 image*5:10! \"\\nOCR\":2 {rest}"));
    }

    #[test]
    fn empty_texts_of_a_pair_are_omitted() {
        let settings = Settings { image_tokens: Some(2), ..vision("prompt-response") };
        let document = r#"{"text": "<image><image>", "response": ""}"#;
        check(settings, document, "bos:0 image*2:10! image*2:10! assistant_end:5");
        let document = r#"{"prompt": "", "response": "", "image_token_counts": []}"#;
        check(vision("prompt-response"), document, "bos:0 assistant_end:5");
    }

    #[test]
    fn a_text_ends_with_the_special_token_if_set() {
        let end = "<|assistant_end|>";
        for (text, expected) in [
            ("", "bos:0".to_owned()),
            (end, "bos:0 assistant_end:5".to_owned()),
            ("docu<image>ment", r#"bos:0 "docu":3 image:10! "ment":3"#.to_owned()),
            (
                "a<|assistant_end|>b<|assistant_end|>",
                format!("bos:0 \"a{end}b\":3 assistant_end:5"),
            ),
            ("x<|assistant_end|> ", format!("bos:0 \"x{end} \":3")),
        ] {
            check(vision("text"), &format!(r#"{{"text": "{text}"}}"#), &expected);
        }
    }

    #[test]
    fn grounding_is_recognized_only_where_enabled() {
        let text = r#"{"text": "<|grounding|>L <|ref|>xy<|ref|><|gr<|assistant_end|>"}"#;
        check(
            grounded("text"),
            text,
            "bos:0 grounding:3 \"L \":3 ref|>x:3 \"y\":3 ref:3 \"<|gr\":3 assistant_end:5",
        );
        let parts = "\"<|grounding|>L <|ref|>xy<|ref|><|gr\":3 assistant_end:5";
        check(vision("text"), text, &format!("bos:0 {parts}"));
        let pair = r#"{"prompt": "<|ref|>", "response": "<|ref|>"}"#;
        check(grounded("prompt-response"), pair, "bos:0 ref:3 ref:5 assistant_end:5");
    }

    #[test]
    fn images_of_a_conversation_belong_to_the_user() {
        let document = r#"{"messages": [{"role": "system", "content": "<image>"},
            {"role": "user", "content": "<image> a"}, {"role": "assistant", "content": [
            {"type": "text", "text": "<image><|ref|>"}, {"type": "python", "text": "<|ref|>"}]},
            {"role": "user", "content": ""}], "image_token_counts": [2, 3]}"#;
        check(
            grounded("messages"),
            document,
            "bos:0 user_start:2 image*2:10! \"\\n\\n\":2 image*3:10! \" a\":2 user_end:2 \
             assistant_start:4 \"<image>\":5 ref:5 python_start:7 \"<|ref|>\":7 python_end:7 \
             assistant_end:5 user_start:2 \"\":2 user_end:2",
        );
        let array = r#"[{"role": "user", "content": "<image>"}]"#;
        check(vision("messages"), array, "bos:0 user_start:2 image:10! user_end:2");
    }

    #[test]
    fn counts_that_do_not_match_the_images_are_declined() {
        for counts in ["[2]", "[2, 2, 2]", "[2, 0]", "2", "[]", "[2, null]"] {
            let pair = format!(
                r#"{{"prompt": "<image> <image>", "response": "", "image_token_counts": {counts}}}"#
            );
            let text = format!(r#"{{"text": "<image> <image>", "image_token_counts": {counts}}}"#);
            let messages = format!(
                r#"{{"messages": [{{"role": "user", "content": "<image> <image>"}}],
                    "image_token_counts": {counts}}}"#
            );
            check_declined(&vision("prompt-response"), &[&pair]);
            check_declined(&vision("text"), &[&text]);
            check_declined(&vision("messages"), &[&messages]);
        }
        check_declined(&vision("text"), &[r#"{"text": "x", "image_token_counts": [4]}"#]);
    }

    #[test]
    fn unusable_settings_decline_every_document() {
        let document = [r#"{"text": "x"}"#];
        check_declined(&Settings { image_token: None, ..vision("text") }, &document);
        check_declined(&Settings { image_tokens: Some(0), ..vision("text") }, &document);
        check_declined(&Settings { grounding: vec![String::new()], ..vision("text") }, &document);
    }
}
