//! Documents with images: a prompt and its response, one text, or a conversation. `<image>` stands for an
//! image in what is asked, and is text in what is answered. Takes JSON, writes parts.

use crate::declined::Declined;
use crate::grounding::Grounding;
use crate::images::Images;
use crate::json::Value;
use crate::layout::{Cut, Label, Page};
use crate::messages;

/// What stands for an image in a text, whatever the special token is called.
const PLACEHOLDER: &str = "<image>";

/// What is the special token at the end of a text.
const END: &str = "<|assistant_end|>";

/// The key of the counts of a document's images.
const COUNTS: &str = "image_token_counts";

/// What must be known to read documents with images.
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
    ) -> Result<(), Declined> {
        let (messages, counts) = match document {
            Value::Object(mut object) => {
                (object.take("messages")?.ok_or(Declined)?, object.take(COUNTS)?)
            }
            list => (list, None),
        };
        let turns = messages::turns_of(messages)?;
        let mut said = self.said(counts)?;
        page.conversation(&turns, &mut said)?;
        said.images.finish()
    }

    /// Writes a prompt and its response.
    pub(crate) fn pair(&self, page: &mut Page<'_>, document: Value<'_>) -> Result<(), Declined> {
        let mut document = document.object()?;
        let prompt = document.text_of_any(&["prompt", "text"])?;
        let response = document.text("response")?;
        let mut said = self.said(document.take(COUNTS)?)?;
        page.bos()?;
        said.around_images(page, &prompt, Label::user(self.train_prompt))?;
        said.images.finish()?;
        page.response(&response, &said)
    }

    /// Writes one text.
    pub(crate) fn text(&self, page: &mut Page<'_>, document: Value<'_>) -> Result<(), Declined> {
        let mut document = document.object()?;
        let text = document.text("text")?;
        let mut said = self.said(document.take(COUNTS)?)?;
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

/// Texts are cut at images and grounding tokens.
struct WithImages<'v> {
    images: Images,
    grounding: &'v Grounding,
}

impl WithImages<'_> {
    /// Writes the images of a text, and what is around them unless it is empty.
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
