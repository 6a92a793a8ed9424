//! Training rows: which stretch of which document lies where, and the rows themselves.
//!
//! Packing knows lengths alone: [`best_fit_rows`], [`window_rows`] and [`BestFitBuffer`] say which
//! segments a row has. [`fill_rows`] then takes the ids of the segments and writes inputs and targets.
//! Nothing here knows Python, opens a file, or decides which documents are packed together.

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
mod naive;

pub use best_fit::best_fit_rows;
pub use buffer::{BestFitBuffer, BufferRows, Totals};
pub use error::Error;
pub use fill::{Batch, Ids, Source, Stretches, fill_rows};
pub use segments::Segments;
pub use target::Target;
pub use windows::window_rows;
