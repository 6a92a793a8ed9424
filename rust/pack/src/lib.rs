//! Training rows: the segments of documents in each row, and the rows themselves.
//!
//! Packing uses only lengths: [`best_fit_rows`], [`window_rows`] and [`BestFitBuffer`] return the
//! segments of each row. [`fill_rows`] then reads the ids of the segments and writes inputs and
//! targets. Nothing in this crate depends on Python, opens a file, or decides which documents are
//! packed together.

#![forbid(unsafe_code)]

mod best_fit;
mod buffer;
mod candidates;
mod error;
mod fill;
mod lengths;
mod segments;
mod target;
mod windows;

#[cfg(test)]
mod reference;

pub use best_fit::best_fit_rows;
pub use buffer::{BestFitBuffer, BufferRows, Totals};
pub use error::Error;
pub use fill::{Batch, Ids, Source, Stretches, fill_rows};
pub use segments::Segments;
pub use target::Target;
pub use windows::window_rows;
