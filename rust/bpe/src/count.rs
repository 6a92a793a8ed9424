//! Spans to counts. Takes batches of documents, keeps tables span -> u64 and returns a sorted run. The
//! result depends on the documents alone: not on their order, their batches, or the threads.

use crate::count::counter::{Counter, Sums};
use crate::count::sorting::{MAX_TABLES, sorted_run};
use crate::threads::in_threads;
use crate::{Documents, Error, Splitter};

mod counter;
mod long_counts;
mod run_merge;
mod run_sums;
mod runs;
mod short_counts;
mod sorting;

pub use run_sums::{RunSums, SpanTotals, merge_runs};
pub use runs::{RunView, SortedRun};

/// How often each span occurs in the documents seen so far.
///
/// Memory: for each thread that counted, 43 to 85 bytes per distinct span of up to 15 bytes that it met;
/// of longer ones 51 to 102, and their bytes once. While a table grows, half as much again.
#[derive(Debug)]
pub struct SpanCounts {
    splitter: Splitter,
    /// One a thread. The sum of all counts is `total`, so that none of them can be past `u64::MAX`.
    counters: Vec<Counter>,
    total: u64,
    gaps: u64,
}

impl SpanCounts {
    /// Starts empty.
    pub fn new(splitter: Splitter) -> Self {
        Self { splitter, counters: Vec::new(), total: 0, gaps: 0 }
    }

    /// Counts the spans of each document. After an error nothing of this call is counted.
    ///
    /// Each of `threads` counts a block of neighbouring documents in a table of its own.
    ///
    /// # Errors
    ///
    /// The first document that cannot be split, or a total past `u64::MAX`.
    pub fn update(&mut self, documents: Documents<'_>, threads: usize) -> Result<(), Error> {
        let counted = self.count(documents, threads, 1);
        let checked = counted.and_then(|sums| Ok((self.total_with(sums.spans)?, sums.gaps)));
        match checked {
            Ok((total, gaps)) => {
                self.total = total;
                self.gaps += gaps;
                Ok(())
            }
            Err(error) => {
                // The same spans up to the same errors, once less each.
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

    /// Number of different spans. Looks at all of them.
    pub fn num_distinct(&self) -> usize {
        let counters = self.counters.iter().enumerate();
        counters.map(|(number, one)| one.table.num_own(&self.counters[..number])).sum()
    }

    /// Number of spans counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Number of them that the pattern did not match; invalid bytes are not among them.
    pub fn num_gaps(&self) -> u64 {
        self.gaps
    }

    /// All spans and their counts, sorted by (hash64, span); each of `threads` sorts a range of hashes.
    ///
    /// Memory beside the result: 32 bytes for each distinct span of each thread's table, and 1 more;
    /// with several threads up to half the result.
    pub fn sorted_run(&self, threads: usize) -> SortedRun {
        let tables: Vec<_> = self.counters.iter().map(|counter| &counter.table).collect();
        sorted_run(&tables, threads)
    }

    fn total_with(&self, spans: u64) -> Result<u64, Error> {
        self.total.checked_add(spans).ok_or(Error::SpanCountOverflow)
    }

    fn make_counters(&mut self, number: usize) {
        while self.counters.len() < number {
            self.counters.push(Counter::new(self.splitter.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
