//! The settings for reading the documents of one file. Unknown dialects are refused; documents are
//! read elsewhere.

use std::fmt;

use crate::grounding::Grounding;
use crate::special_ids::{SpecialIds, Tokens};
use crate::unused::Metadata;
use crate::vision::Vision;

/// The kind of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Conversations.
    Chat,
    /// Documents with images.
    Vision,
}

/// The settings for reading the documents of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The kind of the documents.
    pub kind: Kind,
    /// The name of the dialect.
    pub name: String,
    /// Vision: the special token of each part of an image.
    pub image_token: Option<String>,
    /// Vision: the number of tokens of every image; `None`: as stated by each document.
    pub image_tokens: Option<u32>,
    /// Vision: special tokens that texts can spell.
    pub grounding: Vec<String>,
    /// Vision: whether the text of the prompt is also trained on.
    pub train_prompt: bool,
    /// Names of members of a document whose text is not counted as unused; one that begins with `*`
    /// stands for all names with that end.
    pub metadata: Vec<String>,
}

/// A name that is not a dialect of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownDialect {
    /// The kind.
    pub kind: Kind,
    /// The name.
    pub name: String,
}

impl fmt::Display for UnknownDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, names) = match self.kind {
            Kind::Chat => {
                ("chat", "messages, customjson, sharegpt, gsm8k, prompt-response, alpaca")
            }
            Kind::Vision => ("vision", "messages, prompt-response, text"),
        };
        write!(f, "{:?} is no dialect of kind {kind}: there are {names}", self.name)
    }
}

impl std::error::Error for UnknownDialect {}

/// A reader of documents of one dialect. Can be shared between threads.
#[derive(Debug, Clone)]
pub struct Dialect {
    image_token: Option<String>,
    grounding: Vec<String>,
    metadata: Metadata,
    shape: Shape,
}

/// The shape of documents.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Messages,
    CustomJson,
    ShareGpt,
    Gsm8k,
    PromptResponse,
    Alpaca,
    VisionMessages(Vision),
    VisionPromptResponse(Vision),
    VisionText(Vision),
    /// Settings with which no document can be read; the reference implementation reports the
    /// reason.
    Unusable,
}

impl Dialect {
    /// The dialect of these settings. Without an image token, or with an empty grounding token,
    /// every document with images is declined.
    ///
    /// # Errors
    ///
    /// Fails if the name is not a dialect of its kind.
    pub fn new(settings: Settings) -> Result<Self, UnknownDialect> {
        let shape = match (settings.kind, settings.name.as_str()) {
            (Kind::Chat, "messages") => Shape::Messages,
            (Kind::Chat, "customjson") => Shape::CustomJson,
            (Kind::Chat, "sharegpt") => Shape::ShareGpt,
            (Kind::Chat, "gsm8k") => Shape::Gsm8k,
            (Kind::Chat, "prompt-response") => Shape::PromptResponse,
            (Kind::Chat, "alpaca") => Shape::Alpaca,
            (Kind::Vision, "messages") => with_images(&settings, Shape::VisionMessages),
            (Kind::Vision, "prompt-response") => {
                with_images(&settings, Shape::VisionPromptResponse)
            }
            (Kind::Vision, "text") => with_images(&settings, Shape::VisionText),
            _ => return Err(UnknownDialect { kind: settings.kind, name: settings.name }),
        };
        let Settings { kind, image_token, grounding, metadata, .. } = settings;
        let metadata = Metadata::new(metadata);
        Ok(match kind {
            Kind::Chat => Self { image_token: None, grounding: Vec::new(), metadata, shape },
            Kind::Vision => Self { image_token, grounding, metadata, shape },
        })
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The special tokens that documents can need.
    pub(crate) fn tokens(&self, ids: Option<&SpecialIds>) -> Tokens {
        Tokens::new(ids, self.image_token.as_deref(), &self.grounding)
    }
}

fn with_images(settings: &Settings, shape: fn(Vision) -> Shape) -> Shape {
    match Grounding::new(&settings.grounding) {
        Ok(grounding) if settings.image_token.is_some() => {
            let Settings { image_tokens, train_prompt, .. } = *settings;
            shape(Vision { image_tokens, grounding, train_prompt })
        }
        _ => Shape::Unusable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_name_belongs_to_a_kind() {
        let text = Dialect::new(testing::settings(Kind::Chat, "text"));
        assert_eq!(
            text.unwrap_err().to_string(),
            "\"text\" is no dialect of kind chat: there are messages, customjson, sharegpt, gsm8k, \
             prompt-response, alpaca"
        );
        let gsm8k = Dialect::new(testing::settings(Kind::Vision, "gsm8k"));
        assert_eq!(
            gsm8k.unwrap_err().to_string(),
            "\"gsm8k\" is no dialect of kind vision: there are messages, prompt-response, text"
        );
        for settings in testing::every_dialect() {
            assert!(Dialect::new(settings).is_ok());
        }
    }
}
