//! The sum of several tables as one run sorted by (hash64, span): rows are distributed by the first
//! bits of their hash, then the few rows of each bucket are sorted.

use std::cmp::Ordering;
use std::mem;
use std::ops::Range;

use nanotok_memory as memory;

use crate::SortedRun;
use crate::count::counter::Table;
use crate::count::long_counts::LongCounts;
use crate::short::Short;
use crate::threads::in_threads;

/// Approximate number of rows that share the first bits of their hash.
const BUCKET: usize = 8;

/// Number of rows by which a long span is prefetched before it is written.
const AHEAD: usize = 24;

/// A span of a table.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    hash: u64,
    count: u64,
    /// The halves of a short span. For a long span, its start, then its length and the number of
    /// its table: the upper half of a short span is always larger.
    span: [u64; 2],
}

/// Bits of the number of a table, below the length.
const TABLE_BITS: u32 = 16;

/// Limit of the number of tables.
pub(crate) const MAX_TABLES: usize = 1 << TABLE_BITS;

/// Limit of the length of a long span.
const MAX_LONG: u64 = 1 << 56;

/// The sum of at most `MAX_TABLES` tables; each of `threads` threads sorts a range of hashes.
pub(crate) fn sorted_run(tables: &[&Table], threads: usize) -> SortedRun {
    let rows: usize = tables.iter().map(|table| table.len()).sum();
    let tables = Tables { tables, bits: (rows / BUCKET).max(1).ilog2() };
    let buckets = 1 << tables.bits;
    let parts = threads.clamp(1, buckets);
    let start = |part: usize| buckets / parts * part + buckets % parts * part / parts;
    let ranges = (0..parts).map(|part| start(part)..start(part + 1));
    joined(in_threads(ranges, |range| tables.run(&range)))
}

/// Tables, and the number of bits of a hash that select the bucket.
#[derive(Debug, Clone, Copy)]
struct Tables<'t> {
    tables: &'t [&'t Table],
    bits: u32,
}

impl Tables<'_> {
    /// The run of the rows in a range of buckets.
    fn run(&self, buckets: &Range<usize>) -> SortedRun {
        let (mut rows, ends, num_bytes) = self.rows(buckets);
        let mut run = SortedRun::with_capacity(rows.len(), num_bytes + Short::ROOM);
        let mut start = 0;
        for end in ends {
            self.ask(rows.get(end + AHEAD..2 * end - start + AHEAD).unwrap_or_default());
            let bucket = &mut rows[mem::replace(&mut start, end)..end];
            bucket.sort_unstable_by(|a, b| a.hash.cmp(&b.hash).then_with(|| self.compare(a, b)));
            self.push_all(bucket, &mut run);
        }
        run
    }

    /// Rows by their buckets, the end of each bucket, and the bytes of all spans.
    fn rows(&self, buckets: &Range<usize>) -> (Vec<Row>, Vec<usize>, usize) {
        let mut places = memory::zeros(buckets.len());
        let (mut number, mut num_bytes) = (0, 0);
        self.each(buckets, |bucket, row| {
            places[bucket] += 1;
            number += 1;
            num_bytes += self.length(&row);
        });
        let mut start = 0;
        for place in &mut places {
            start += mem::replace(place, start);
        }
        let mut rows = memory::filled(Row::default(), number);
        self.each(buckets, |bucket, row| {
            rows[places[bucket]] = row;
            places[bucket] += 1;
        });
        (rows, places, num_bytes)
    }

    /// Calls `visit` with each row with a count above 0, and its bucket in the range.
    #[inline]
    fn each(&self, buckets: &Range<usize>, mut visit: impl FnMut(usize, Row)) {
        let mut check = |row: Row| {
            let bucket = self.bucket(row.hash).wrapping_sub(buckets.start);
            if bucket < buckets.len() && row.count != 0 {
                visit(bucket, row);
            }
        };
        for (table, number) in self.tables.iter().zip(0..) {
            for (span, hash, count) in table.short.all() {
                check(Row { hash, count, span: span.halves() });
            }
            for (start, length, hash, count) in table.long.places() {
                check(Row { hash, count, span: [start, length << TABLE_BITS | number] });
            }
        }
    }

    #[inline]
    fn bucket(&self, hash: u64) -> usize {
        (hash >> 1 >> (63 - self.bits)) as usize
    }

    /// Appends sorted rows, combining those of the same span.
    #[inline]
    fn push_all(&self, rows: &[Row], run: &mut SortedRun) {
        let mut rows = rows.iter().peekable();
        while let Some(row) = rows.next() {
            let mut count = row.count;
            while let Some(same) = rows.next_if(|other| self.is_same(row, other)) {
                count += same.count;
            }
            if self.long(row).is_some() {
                self.with(row, |span| run.push(row.hash, span, count));
            } else {
                run.push_short(row.hash, Short::of_halves(row.span), count);
            }
        }
    }

    #[inline]
    fn is_same(&self, row: &Row, other: &Row) -> bool {
        row.hash == other.hash && self.compare(row, other).is_eq()
    }

    /// Compares spans; those of two tables are usually equal.
    #[inline]
    fn compare(&self, row: &Row, other: &Row) -> Ordering {
        if row.span == other.span {
            return Ordering::Equal;
        }
        self.with(row, |a| self.with(other, |b| a.cmp(b)))
    }

    fn ask(&self, rows: &[Row]) {
        for (spans, start, _) in rows.iter().filter_map(|row| self.long(row)) {
            spans.prefetch_at(start);
        }
    }

    /// The location of a long span.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "they were indices")]
    fn long(&self, row: &Row) -> Option<(&LongCounts, usize, usize)> {
        let [start, high] = row.span;
        let table = self.tables.get(high as usize % MAX_TABLES);
        let table = table.filter(|_| high < MAX_LONG)?;
        Some((&table.long, start as usize, (high >> TABLE_BITS) as usize))
    }

    #[inline]
    fn length(&self, row: &Row) -> usize {
        self.long(row).map_or(Short::of_halves(row.span).bytes().1, |(_, _, length)| length)
    }

    /// The result of `work` for the row's span.
    #[inline]
    fn with<T>(&self, row: &Row, work: impl FnOnce(&[u8]) -> T) -> T {
        if let Some((spans, start, length)) = self.long(row) {
            return work(spans.bytes_at(start, length));
        }
        let (bytes, length) = Short::of_halves(row.span).bytes();
        work(&bytes[..length])
    }
}

/// Concatenates runs.
fn joined(runs: Vec<SortedRun>) -> SortedRun {
    let mut runs = runs.into_iter();
    let mut joined = runs.next().unwrap_or_default();
    runs.for_each(|run| joined.append(&run));
    joined
}
