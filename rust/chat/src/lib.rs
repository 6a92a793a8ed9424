//! Conversations and documents with images: converts JSON to compositions and to token ids.
//!
//! A [`Dialect`] converts a batch of JSON documents to a [`Composition`](nanotok_bpe::Composition)
//! of texts and special tokens. It declines documents that are not certainly well formed: the
//! caller has a reference implementation that reports the problem. Nothing in this crate depends on
//! Python, opens a file, or contains the text of error messages.

#![forbid(unsafe_code)]

mod alpaca;
mod compose;
mod declined;
mod grounding;
mod gsm8k;
mod images;
mod json;
mod layout;
mod messages;
mod pairs;
mod render;
mod settings;
mod sharegpt;
mod special_ids;
mod tools;
mod turns;
mod unused;
mod vision;

#[cfg(test)]
mod testing;

pub use compose::Composed;
pub use json::num_values;
pub use render::Rendered;
pub use settings::{Dialect, Kind, Settings, UnknownDialect};
pub use special_ids::SpecialIds;
pub use unused::UnusedText;
