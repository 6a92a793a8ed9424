//! Renders Jinja chat templates as transformers does, and records the spans of generation blocks.
//!
//! The engine is `minijinja`. Filters, tests, methods and printing follow Jinja2 and Python where
//! the engine differs. What is not supported is an error, so that a text is never wrong: except that
//! `~` prints floats below 1e-4 and from 1e16 on without an exponent, and that some operations that
//! Python refuses, such as a loop over none, succeed. Nothing in this crate opens a file: `include`,
//! `import` and `extends` are unknown tags.

#![forbid(unsafe_code)]

mod conversations;
mod error;
mod filters;
mod json;
mod messages;
mod methods;
mod print;
mod render;
mod rows;
mod source;
mod time;
mod tojson;
mod turns;
mod values;

#[cfg(test)]
mod tests;

pub use conversations::{Conversation, ConversationSettings, Conversations, Refusal, TrainOn};
pub use error::{Declined, Kind, TemplateError};
pub use json::value_of_json;
pub use messages::messages_for_templates;
pub use minijinja::Value;
pub use minijinja::value::DynObject;
pub use render::{Limits, Rendering, Settings, Template};
pub use rows::Shape;
pub use turns::Anchors;
pub use values::{list_value, map_value};
