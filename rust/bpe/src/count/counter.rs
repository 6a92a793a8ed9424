//! Counting in one thread: counts of the spans of documents, in tables that are kept between calls.
//! Counts are modulo 2^64, so that a call can be undone. Threads and sums of tables are elsewhere.

use std::mem;
use std::ops::Range;

use crate::count::long_counts::LongCounts;
use crate::count::recount::{Items, Recount, Recounter};
use crate::count::short_counts::ShortCounts;
use crate::short::Short;
use crate::{Documents, Error, Splitter, hash64};

/// Number of spans that are found, then prefetched, then counted.
const WINDOW: usize = 256;

/// A splitter and its counts.
#[derive(Debug)]
pub(crate) struct Counter {
    splitter: Splitter,
    /// What is counted in place of spans.
    recounter: Option<Recounter>,
    /// Ends of the spans of a window.
    ends: Vec<usize>,
    pub(crate) table: Table,
}

/// Totals of a count.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    pub(crate) spans: u64,
    pub(crate) gaps: u64,
}

/// Counts of all spans, and buffers.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) short: ShortCounts,
    pub(crate) long: LongCounts,
    /// The short spans of a window.
    shorts: [Short; WINDOW],
    /// The lines in which they are searched.
    places: [usize; WINDOW],
    /// Hash, start and end of the long spans.
    longs: Vec<(u64, usize, usize)>,
}

impl Counter {
    pub(crate) fn new(splitter: Splitter, recount: Option<Recount>) -> Self {
        let recounter = recount.map(|it| Recounter::new(it, splitter.clone()));
        Self { splitter, recounter, ends: Vec::with_capacity(WINDOW), table: Table::new() }
    }

    /// Adds `times` to the count of each span of each document of `block`.
    ///
    /// After an error, the documents up to it are counted; the same call with `times` negated
    /// undoes this, and ends in the same error.
    pub(crate) fn count(
        &mut self,
        documents: Documents<'_>,
        block: Range<usize>,
        times: u64,
    ) -> Result<Sums, Error> {
        let Self { splitter, recounter, ends, table } = self;
        if let Some(recounter) = recounter {
            return table.count_items(recounter, documents, block, times);
        }
        let mut from = documents.start(block.start);
        let mut sums = Sums::default();
        ends.clear();
        for document in block {
            let start = documents.start(document);
            let visit = |end| {
                ends.push(start + end);
                if ends.len() == WINDOW {
                    let from = mem::replace(&mut from, start + end);
                    table.count_window(documents.data(), from, ends, times);
                    sums.spans += WINDOW as u64;
                    ends.clear();
                }
            };
            let gaps = splitter.visit_ends(documents.get(document), visit);
            sums.gaps += gaps.map_err(|stuck| stuck.in_document(document))?;
        }
        table.count_window(documents.data(), from, ends, times);
        sums.spans += ends.len() as u64;
        Ok(sums)
    }
}

impl Table {
    fn new() -> Self {
        let (shorts, places) = ([Short::default(); WINDOW], [0; WINDOW]);
        Self {
            short: ShortCounts::new(),
            long: LongCounts::new(),
            shorts,
            places,
            longs: Vec::new(),
        }
    }

    /// Adds `times` to the count of each item of each document of `block`.
    fn count_items(
        &mut self,
        recounter: &mut Recounter,
        documents: Documents<'_>,
        block: Range<usize>,
        times: u64,
    ) -> Result<Sums, Error> {
        let mut sums = Sums::default();
        let mut count = |items: &Items| {
            let mut start = 0;
            for ends in items.ends.chunks(WINDOW) {
                self.count_window(&items.data, start, ends, times);
                start = ends[ends.len() - 1];
            }
            sums.spans += items.ends.len() as u64;
        };
        let mut gaps = 0;
        for document in block {
            let place = (documents.start(document), documents.start(document + 1));
            let counted = recounter.visit(documents.data(), place, &mut count);
            gaps += counted.map_err(|stuck| stuck.in_document(document))?;
        }
        Ok(Sums { gaps, ..sums })
    }

    /// Adds `times` to the counts of the spans of `data` that begin at `start` and end at each of
    /// `ends`.
    #[inline(never)]
    fn count_window(&mut self, data: &[u8], start: usize, ends: &[usize], times: u64) {
        self.short.reserve(ends.len());
        let number = self.ask(data, start, ends);
        self.short.add_all(&self.shorts[..number], &self.places[..number], times);
        if !self.longs.is_empty() {
            self.count_longs(data, times);
        }
    }

    /// Finds the key of each span, and prefetches its table entry. Returns the number of short
    /// spans.
    #[inline(never)]
    fn ask(&mut self, data: &[u8], mut start: usize, ends: &[usize]) -> usize {
        let mut number = 0;
        for &end in &ends[..ends.len().min(WINDOW)] {
            let from = mem::replace(&mut start, end);
            let Some(short) = Short::within(data, from, end) else {
                let hash = hash64(&data[from..end]);
                self.long.prefetch(hash);
                self.longs.push((hash, from, end));
                continue;
            };
            let place = self.short.place(short);
            self.short.prefetch(place);
            (self.shorts[number], self.places[number]) = (short, place);
            number += 1;
        }
        number
    }

    #[inline(never)]
    fn count_longs(&mut self, data: &[u8], times: u64) {
        for &(hash, ..) in &self.longs {
            self.long.prefetch_bytes(hash);
        }
        for (hash, start, end) in self.longs.drain(..) {
            self.long.add(&data[start..end], hash, times);
        }
    }

    /// Number of spans that were ever added.
    pub(crate) fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    /// Number of spans with a count here and none in `others`.
    pub(crate) fn num_own(&self, others: &[Counter]) -> usize {
        let is_new = |count_in: &dyn Fn(&Self) -> u64| {
            others.iter().all(|other| count_in(&other.table) == 0)
        };
        let shorts = self
            .short
            .all()
            .filter(|&(span, _, count)| count != 0 && is_new(&|table| table.short.get(span)));
        let longs = self.long.spans().filter(|&(span, hash, count)| {
            count != 0 && is_new(&|table| table.long.get(span, hash))
        });
        shorts.count() + longs.count()
    }

    /// Adds `count` to that of `span`, which must not be empty.
    #[cfg(test)]
    pub(crate) fn add(&mut self, span: &[u8], hash: u64, count: u64) {
        let Some(short) = Short::new(span) else { return self.long.add(span, hash, count) };
        self.short.reserve(1);
        let place = self.short.place(short);
        self.short.add_all(&[short], &[place], count);
    }
}
