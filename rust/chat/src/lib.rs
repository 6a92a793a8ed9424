//! Conversations and documents with images: JSON to compositions, and to token ids.
//!
//! A [`Dialect`] turns a batch of JSON documents into a [`Composition`](nanotok_bpe::Composition) of
//! texts and special tokens. It declines what is not surely well formed: whoever calls knows a plain
//! way that says what is wrong. Nothing here knows Python, opens a file, or words an error about a
//! document.

#![forbid(unsafe_code)]

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
mod vision;

#[cfg(test)]
mod testing;

pub use compose::Composed;
pub use render::Rendered;
pub use settings::{Dialect, Kind, Settings, UnknownDialect};
pub use special_ids::SpecialIds;
