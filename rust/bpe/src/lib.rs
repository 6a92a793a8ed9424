//! The core of `nanotok_ray`: documents to spans, spans to counts, counts to merges, and documents
//! to token ids.
//!
//! Everything here is a function of its arguments: bytes in, numbers out. Nothing knows Python,
//! opens a file, logs, or starts a thread that outlives the call that asked for it. In the order
//! the data flows:
//!
//! * [`Documents`] borrows a batch: bytes back to back and their offsets.
//! * [`Splitter`] cuts a document into spans by a pattern; joined, they are the document.
//! * [`SpanCounts`] counts spans; [`SortedRun`] is what it leaves behind, and [`merge_runs`] adds
//!   such runs up, [`RunSums`] with weights and range after range.
//! * [`learn`] turns spans and their counts into merges.
//! * [`Encoder`] turns documents into ids by those merges, [`Decoder`] ids into bytes or text.
//! * [`merges_of_tokens`] finds the merges of a vocabulary from elsewhere; a [`ByteOrder`] says how it
//!   numbers the bytes.
//! * A [`Composition`] is documents of texts and special tokens, for [`Encoder::encode_composed`].

#![deny(unsafe_code)]

mod byte_order;
mod composition;
mod count;
mod cpu;
mod decode;
mod documents;
mod encode;
mod error;
mod hash;
mod learn;
mod short;
mod special;
mod split;
mod threads;
mod token_id;
mod vocabulary;
mod zeros;

#[cfg(test)]
mod naive;

pub use byte_order::ByteOrder;
pub use composition::{Composition, Part, Stretch};
pub use count::{RunSums, RunView, SortedRun, SpanCounts, SpanTotals, merge_runs};
pub use cpu::Level;
pub use decode::{Decoder, Rows, replace_invalid};
pub use documents::Documents;
pub use encode::{CACHE_BYTES, Encoded, Encoder, Frame, Mark, Sha256, SpanTable, merges_of_tokens};
pub use error::{Error, GaveUp};
pub use hash::{hash_documents, hash64};
pub use learn::{Goal, Learned, Merge, Progress, Stop, learn};
pub use special::{Needles, count_occurrences};
pub use split::{GapRule, Kind, Splitter, UNICODE_VERSION};
pub use threads::in_threads;
pub use token_id::TokenId;
pub use vocabulary::Vocabulary;
