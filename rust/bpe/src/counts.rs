//! Spans to counts. Takes batches of documents, keeps a table span -> u64, gives a sorted run. The
//! result depends on the documents alone: not on their order, their batches, or the threads.

use std::ops::Range;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::blocks::in_blocks;
use crate::cache::Cache;
use crate::short::Short;
use crate::split::Kind;
use crate::{Documents, Error, SortedRun, Splitter, hash64};

/// How often each span occurs in the documents seen so far.
///
/// Memory: 33 to 66 bytes per distinct span, and its bytes once.
#[derive(Debug, Clone)]
pub struct SpanCounts {
    splitter: Splitter,
    table: Table,
}

impl SpanCounts {
    /// Starts empty.
    pub fn new(splitter: Splitter) -> Self {
        Self { splitter, table: Table::default() }
    }

    /// Counts the spans of each document. After an error nothing of this call is counted.
    ///
    /// Each of `threads` counts a block of neighbouring documents in a table of its own.
    ///
    /// # Errors
    ///
    /// The first document that cannot be split, or a count past `u64::MAX`.
    pub fn update(&mut self, documents: Documents<'_>, threads: usize) -> Result<(), Error> {
        let splitter = &self.splitter;
        let tables =
            in_blocks(documents, threads, |block| Table::of(&splitter.clone(), documents, block))?;
        tables.iter().try_for_each(|table| self.table.check_absorb(table))?;
        tables.into_iter().try_for_each(|table| self.table.absorb(&table))
    }

    /// Number of different spans.
    pub fn num_distinct(&self) -> usize {
        self.table.entries.len()
    }

    /// Number of spans counted.
    pub fn total(&self) -> u64 {
        self.table.total
    }

    /// Number of them that the pattern did not match; invalid bytes are not among them.
    pub fn num_gaps(&self) -> u64 {
        self.table.gaps
    }

    /// All spans and their counts, sorted by (hash64, span).
    pub fn sorted_run(&self) -> SortedRun {
        let mut entries: Vec<&Counted> = self.table.entries.iter().collect();
        entries.sort_unstable_by(|a, b| {
            a.hash.cmp(&b.hash).then_with(|| self.table.span(a).cmp(self.table.span(b)))
        });
        let mut run = SortedRun::with_capacity(entries.len(), self.table.bytes.len());
        for entry in entries {
            run.push(entry.hash, self.table.span(entry), entry.count);
        }
        run
    }
}

/// Spans back to back in one buffer, found through a table of where they are: no allocation per span.
#[derive(Debug, Clone, Default)]
struct Table {
    entries: HashTable<Counted>,
    bytes: Vec<u8>,
    total: u64,
    gaps: u64,
}

#[derive(Debug, Clone, Copy)]
struct Counted {
    hash: u64,
    start: usize,
    end: usize,
    count: u64,
}

impl Table {
    fn of(
        splitter: &Splitter,
        documents: Documents<'_>,
        block: Range<usize>,
    ) -> Result<Self, Error> {
        let mut counter = Counter::new(documents.num_bytes(&block));
        for document in block {
            let mut added = Ok(());
            let visit = |span: &[u8], kind| {
                if added.is_ok() {
                    added = counter.add(span, kind);
                }
            };
            splitter
                .visit(documents.get(document), visit)
                .map_err(|stuck| stuck.in_document(document))?;
            added?;
        }
        counter.finish()
    }

    fn span(&self, entry: &Counted) -> &[u8] {
        &self.bytes[entry.start..entry.end]
    }

    #[inline]
    fn add(&mut self, hash: u64, span: &[u8], count: u64) -> Result<(), Error> {
        self.total = self.total.checked_add(count).ok_or(Error::SpanCountOverflow)?;
        let bytes = &self.bytes;
        let same = |entry: &Counted| entry.hash == hash && &bytes[entry.start..entry.end] == span;
        match self.entries.entry(hash, same, |entry| entry.hash) {
            Entry::Occupied(mut occupied) => {
                let entry = occupied.get_mut();
                entry.count = entry.count.checked_add(count).ok_or(Error::SpanCountOverflow)?;
            }
            Entry::Vacant(vacant) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(span);
                vacant.insert(Counted { hash, start, end: self.bytes.len(), count });
            }
        }
        Ok(())
    }

    fn add_short(&mut self, short: Short, count: u64) -> Result<(), Error> {
        let (bytes, length) = short.bytes();
        self.add(hash64(&bytes[..length]), &bytes[..length], count)
    }

    /// Adding up totals bounds every count, so nothing can overflow half-way through `absorb`.
    fn check_absorb(&self, other: &Self) -> Result<(), Error> {
        self.total.checked_add(other.total).map(|_| ()).ok_or(Error::SpanCountOverflow)
    }

    fn absorb(&mut self, other: &Self) -> Result<(), Error> {
        self.gaps += other.gaps;
        // Sums do not depend on the order of this table.
        for entry in &other.entries {
            self.add(entry.hash, other.span(entry), entry.count)?;
        }
        Ok(())
    }
}

/// One thread's counting: short spans that come again soon are counted in a cache, and reach the table
/// when another span needs their place.
#[derive(Debug)]
struct Counter {
    table: Table,
    recent: Cache<u64>,
}

impl Counter {
    fn new(num_bytes: usize) -> Self {
        Self { table: Table::default(), recent: Cache::for_bytes(num_bytes) }
    }

    #[inline]
    fn add(&mut self, span: &[u8], kind: Kind) -> Result<(), Error> {
        self.table.gaps += u64::from(kind == Kind::Gap);
        let Some(short) = Short::new(span) else { return self.table.add(hash64(span), span, 1) };
        match self.recent.get_mut(short) {
            Some(count) => *count += 1,
            None => {
                if let Some((short, count)) = self.recent.put(short, 1) {
                    self.table.add_short(short, count)?;
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Table, Error> {
        for (short, count) in self.recent.into_values() {
            self.table.add_short(short, count)?;
        }
        Ok(self.table)
    }
}

#[cfg(test)]
mod tests;
