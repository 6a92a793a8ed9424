//! What must be known to read the documents of one file. Takes names and settings, refuses names of
//! dialects that do not exist; reads no document.

use std::fmt;

/// What documents are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Conversations.
    Chat,
    /// Documents with images.
    Vision,
}

/// How the documents of one file are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What the documents are.
    pub kind: Kind,
    /// The name of the dialect.
    pub name: String,
    /// Vision: the special token that stands for a part of an image.
    pub image_token: Option<String>,
    /// Vision: tokens of every image; `None`: as each document says.
    pub image_tokens: Option<u32>,
    /// Vision: special tokens that are recognised where texts spell them out.
    pub grounding: Vec<String>,
    /// Vision: whether the prompt's text is trained on too.
    pub train_prompt: bool,
}

/// A name that is no dialect of its kind.
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
            Kind::Chat => ("chat", "messages, customjson, sharegpt, gsm8k, prompt-response"),
            Kind::Vision => ("vision", "messages, prompt-response, text"),
        };
        write!(f, "{:?} is no dialect of kind {kind}: there are {names}", self.name)
    }
}

impl std::error::Error for UnknownDialect {}

/// Reads documents of one dialect. Can be shared between threads.
#[derive(Debug, Clone)]
pub struct Dialect {
    #[expect(dead_code, reason = "a skeleton that declines everything")]
    settings: Settings,
}

impl Dialect {
    /// The dialect of these settings.
    ///
    /// # Errors
    ///
    /// A name that is no dialect of its kind.
    pub fn new(settings: Settings) -> Result<Self, UnknownDialect> {
        let names: &[&str] = match settings.kind {
            Kind::Chat => &["messages", "customjson", "sharegpt", "gsm8k", "prompt-response"],
            Kind::Vision => &["messages", "prompt-response", "text"],
        };
        if names.contains(&settings.name.as_str()) {
            Ok(Self { settings })
        } else {
            Err(UnknownDialect { kind: settings.kind, name: settings.name })
        }
    }
}
