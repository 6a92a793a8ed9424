//! Counts of spans of batches of documents, in tables from span to u64, and as a sorted run. The
//! result depends only on the documents, not on their order, their batches or the threads.
//!
//! * `counter`: counting in one thread; `short_counts` and `long_counts`: its tables.
//! * `sorting`: the sum of several tables as one sorted run; `runs`: sorted runs.
//! * `recount`: pairs and segments of ids in place of spans.
//! * `run_sums`: sums of sorted runs with weights; `run_merge`: the loop over many runs.

use crate::count::counter::{Counter, Sums};
use crate::count::sorting::{MAX_TABLES, sorted_run};
use crate::normalize::Normalizers;
use crate::threads::in_threads;
use crate::{Documents, Error, Normalizer, Splitter};

mod counter;
mod long_counts;
mod recount;
mod run_merge;
mod run_sums;
mod runs;
mod short_counts;
mod sorting;

pub use recount::{FrequentPairs, Recount};
pub use run_sums::{RunSums, SpanTotals, merge_runs};
pub use runs::{RunView, SortedRun};

/// The count of each span in the documents so far.
///
/// Memory: for each thread that counted, 43 to 85 bytes per distinct span of up to 15 bytes that it
/// met; 51 to 102 bytes for longer ones, and their bytes once. While a table grows, half as much
/// again.
#[derive(Debug)]
pub struct SpanCounts {
    splitter: Splitter,
    normalizers: Normalizers,
    recount: Option<Recount>,
    /// One per thread. The sum of all counts is `total`, so that none of them can exceed
    /// `u64::MAX`.
    counters: Vec<Counter>,
    total: u64,
    gaps: u64,
}

impl SpanCounts {
    /// Creates empty counts.
    pub fn new(splitter: Splitter) -> Self {
        let normalizers = Normalizers::default();
        Self { splitter, normalizers, recount: None, counters: Vec::new(), total: 0, gaps: 0 }
    }

    /// Counts something else of the spans, which `total` and the run then have in place of spans.
    #[must_use]
    pub fn with_recount(self, recount: Recount) -> Self {
        Self { recount: Some(recount), ..self }
    }

    /// Changes every document by `normalizers` before it is split. Positions in errors are those in
    /// the changed text.
    ///
    /// # Errors
    ///
    /// As for [`Encoder::with_normalizers`](crate::Encoder::with_normalizers).
    pub fn with_normalizers(self, normalizers: Vec<Normalizer>) -> Result<Self, Error> {
        Ok(Self { normalizers: Normalizers::new(normalizers)?, ..self })
    }

    /// Counts the spans of each document. After an error, no document of this call is counted.
    ///
    /// Each of `threads` threads counts a block of adjacent documents in its own table.
    ///
    /// # Errors
    ///
    /// Fails at the first document that cannot be split, or if the total exceeds `u64::MAX`.
    pub fn update(&mut self, documents: Documents<'_>, threads: usize) -> Result<(), Error> {
        match self.normalizers.changed_batch(documents) {
            Some((data, offsets)) => self.update_as_is(Documents::new(&data, &offsets)?, threads),
            None => self.update_as_is(documents, threads),
        }
    }

    fn update_as_is(&mut self, documents: Documents<'_>, threads: usize) -> Result<(), Error> {
        let counted = self.count(documents, threads, 1);
        let checked = counted.and_then(|sums| Ok((self.total_with(sums.spans)?, sums.gaps)));
        match checked {
            Ok((total, gaps)) => {
                self.total = total;
                self.gaps += gaps;
                Ok(())
            }
            Err(error) => {
                // The same spans up to the same errors, each subtracted.
                let _ = self.count(documents, threads, 1_u64.wrapping_neg());
                Err(error)
            }
        }
    }

    /// Adds `times` to the count of each span of each document, modulo 2^64.
    fn count(
        &mut self,
        documents: Documents<'_>,
        threads: usize,
        times: u64,
    ) -> Result<Sums, Error> {
        let blocks = documents.blocks(threads.min(MAX_TABLES));
        self.make_counters(blocks.len());
        let parts = self.counters.iter_mut().zip(blocks);
        let sums = in_threads(parts, |(counter, block)| counter.count(documents, block, times));
        let sums = sums.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Sums {
            spans: sums.iter().map(|sums| sums.spans).sum(),
            gaps: sums.iter().map(|sums| sums.gaps).sum(),
        })
    }

    /// Number of different spans, which takes time linear in it.
    pub fn num_distinct(&self) -> usize {
        let counters = self.counters.iter().enumerate();
        counters.map(|(number, one)| one.table.num_own(&self.counters[..number])).sum()
    }

    /// Number of counted spans.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Number of spans that the pattern did not match, without invalid bytes.
    pub fn num_gaps(&self) -> u64 {
        self.gaps
    }

    /// All spans and their counts, sorted by (hash64, span); each of `threads` threads sorts a
    /// range of hashes.
    ///
    /// Memory besides the result: 33 bytes for each distinct span of each thread's table; with
    /// several threads up to half of the result in addition.
    pub fn sorted_run(&self, threads: usize) -> SortedRun {
        let tables: Vec<_> = self.counters.iter().map(|counter| &counter.table).collect();
        sorted_run(&tables, threads)
    }

    fn total_with(&self, spans: u64) -> Result<u64, Error> {
        self.total.checked_add(spans).ok_or(Error::SpanCountOverflow)
    }

    fn make_counters(&mut self, number: usize) {
        while self.counters.len() < number {
            self.counters.push(Counter::new(self.splitter.clone(), self.recount.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
