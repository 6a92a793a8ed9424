//! The core of `nanotok_ray`: byte-pair encoding without Python and without files.
//!
//! Everything here is a function of its arguments: bytes in, numbers out. Nothing depends on
//! Python, opens a file, logs, or starts a thread that outlives its call. The environment variable
//! `NANOTOK_CPU` selects vector instructions (`portable`, `avx2`, `avx512`), which changes the
//! speed but no result.
//!
//! Text is processed in one of two ways, and both begin with the splitter:
//!
//! * split, count, learn: the spans of all documents are counted, and merges are learned from the
//!   counts.
//! * split, encode: the spans of a document are encoded to token ids by the merges.
//!
//! The modules of these steps, each with its submodules in a folder of the same name. They are
//! private; `cargo doc --document-private-items` shows their documentation:
//!
//! * `normalize`: changes documents before they are encoded, for tokenizers of other tools.
//! * `split`: documents to spans. A [`Splitter`] splits by a pattern; the concatenated spans are
//!   the document.
//! * `count`: spans to counts. [`SpanCounts`] returns a [`SortedRun`]; [`merge_runs`] adds such
//!   runs, [`RunSums`] with weights and range after range.
//! * `learn`: spans and their counts to merges, with [`learn()`].
//! * `encode`: documents to ids. An [`Encoder`] uses the merges; [`Encoder::encode_composed`]
//!   encodes a [`Composition`] of texts and special tokens. [`merges_of_tokens`],
//!   [`merges_of_ranks`] and [`merges_of_pairs`] derive the merges of another tool's vocabulary.
//! * `decode`: ids to bytes or text, with a [`Decoder`].
//!
//! Modules that several of them use:
//!
//! * `documents`: [`Documents`] borrows a batch: bytes back to back and their offsets.
//! * `vocabulary`: the bytes of each id; `byte_order`: the ids of the bytes; `numbering`: the ids of
//!   all tokens of another tool; `token_id`: the integer types of ids.
//! * `short`: spans of up to 15 bytes as one number; `hash`: the hash of spans and documents.
//! * `special`: counts the names of special tokens in text.
//! * `cpu`: the level of vector instructions, with the instructions and their portable equivalents;
//!   `cpu::simd` has all unsafe code of the workspace, with the reason why each block is sound.
//! * `threads`: work in threads that end with the call; `zeros`: large arrays of zeros.
//! * `error`: all errors.
//! * `reference`: plain implementations of the rules, with which tests compare the others.
//!
//! # Examples
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use nanotok_bpe::{
//!     Decoder, Documents, Encoder, GapRule, Goal, SpanCounts, Splitter, Vocabulary, learn,
//! };
//!
//! # fn main() -> Result<(), nanotok_bpe::Error> {
//! let splitter = Splitter::new(r" ?\p{L}+|\s+|[^\s\p{L}]+", GapRule::Spans)?;
//! let mut counts = SpanCounts::new(splitter.clone());
//! counts.update(Documents::new(b"low lower lowest", &[0, 16])?, 1)?;
//!
//! let run = counts.sorted_run(1);
//! let spans = Documents::new(&run.data, &run.offsets)?;
//! let learned = learn(spans, &run.counts, Goal::merges(3), |_| ControlFlow::Continue(()))?;
//!
//! let encoder = Encoder::new(splitter, &learned.merges)?;
//! let ids = encoder.encode(b"slow")?;
//! assert_eq!(ids, [u32::from(b's'), 257]); // 256 is "lo", 257 is "low"
//!
//! let decoder = Decoder::new(&Vocabulary::new(&learned.merges)?, &[])?;
//! assert_eq!(decoder.decode(&ids)?, b"slow");
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("positions and ids are stored as usize of 64 bits, by vector instructions too");

mod byte_order;
mod count;
mod cpu;
mod decode;
mod documents;
mod encode;
mod error;
mod hash;
mod learn;
mod normalize;
mod numbering;
mod recognize;
mod short;
mod span_mask;
mod special;
mod split;
mod threads;
mod token_id;
mod vocabulary;
mod zeros;

#[cfg(test)]
mod reference;

pub use byte_order::ByteOrder;
pub use count::{
    FrequentPairs, Recount, RunSums, RunView, SortedRun, SpanCounts, SpanTotals, merge_runs,
};
pub use cpu::Level;
pub use decode::{Decoder, Rows, replace_invalid};
pub use documents::Documents;
pub use encode::{
    CACHE_BYTES, Composition, Encoded, Encoder, Frame, Mark, Part, Ranked, Stretch, Tokens,
    merges_of_pairs, merges_of_ranks, merges_of_tokens,
};
pub use error::{Error, GaveUp, RunProblem};
pub use hash::{hash_documents, hash64};
pub use learn::{Base, Goal, Learned, Measured, Merge, Progress, Stop, Superwords, Text, learn};
pub use normalize::{Normalizer, folded};
pub use numbering::MAX_IDS;
pub use recognize::Recognizer;
pub use span_mask::{SpanMask, TextSpan};
pub use special::{Needles, count_occurrences};
pub use split::{Behavior, GapRule, Kind, Splitter, Step, UNICODE_VERSION};
pub use threads::{MAX_THREADS, in_threads};
pub use token_id::TokenId;
pub use vocabulary::{MAX_NAME_BYTES, MAX_TOKEN_BYTES, MAX_VOCABULARY_BYTES, Vocabulary};
