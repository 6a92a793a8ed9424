//! The counts of several tables as one sorted run. Takes tables, gives their sum, sorted by (hash64, span):
//! rows are put where the first bits of their hash say, then the few that share these are sorted. Knows
//! no documents.

use std::mem;
use std::ops::Range;

use crate::SortedRun;
use crate::blocks::in_blocks_with;
use crate::counter::Table;
use crate::short::Short;

/// About so many rows share the first bits of their hash.
const BUCKET: usize = 8;

/// A span of a table.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    hash: u64,
    count: u64,
    /// The halves of a short span. Of a long one its number, then that of its table, which is smaller than
    /// any short span's upper half.
    span: [u64; 2],
}

/// The sum of `tables`, each of `threads` sorting a range of hashes.
pub(crate) fn sorted_run(tables: &[&Table], threads: usize) -> SortedRun {
    let rows: usize = tables.iter().map(|table| table.len()).sum();
    let tables = Tables { tables, bits: (rows / BUCKET).max(1).ilog2() };
    let buckets = 1 << tables.bits;
    let parts = threads.clamp(1, buckets);
    let start = |part: usize| buckets / parts * part + buckets % parts * part / parts;
    let ranges: Vec<_> = (0..parts).map(|part| start(part)..start(part + 1)).collect();
    joined(in_blocks_with(ranges, &mut vec![(); parts], |(), range| tables.run(&range)))
}

/// Tables, and how many bits of its hash are a row's bucket.
#[derive(Debug, Clone, Copy)]
struct Tables<'t> {
    tables: &'t [&'t Table],
    bits: u32,
}

impl Tables<'_> {
    /// The run of the rows in a range of buckets.
    fn run(&self, buckets: &Range<usize>) -> SortedRun {
        let (mut rows, ends, num_bytes) = self.rows(buckets);
        let mut run = SortedRun::with_capacity(rows.len(), num_bytes);
        let mut start = 0;
        for end in ends {
            let bucket = &mut rows[mem::replace(&mut start, end)..end];
            bucket.sort_unstable_by(|a, b| {
                a.hash.cmp(&b.hash).then_with(|| self.with(a, |a| self.with(b, |b| a.cmp(b))))
            });
            self.push_all(bucket, &mut run);
        }
        run
    }

    /// Rows by their buckets, where each bucket ends, and the bytes of all spans.
    fn rows(&self, buckets: &Range<usize>) -> (Vec<Row>, Vec<usize>, usize) {
        let mut places = vec![0; buckets.len()];
        let (mut number, mut num_bytes) = (0, 0);
        self.each(buckets, |bucket, row| {
            places[bucket] += 1;
            number += 1;
            num_bytes += self.with(&row, <[u8]>::len);
        });
        let mut start = 0;
        for place in &mut places {
            start += mem::replace(place, start);
        }
        let mut rows = vec![Row::default(); number];
        self.each(buckets, |bucket, row| {
            rows[places[bucket]] = row;
            places[bucket] += 1;
        });
        (rows, places, num_bytes)
    }

    /// Calls `visit` with each row whose count is not 0, and its bucket in the range.
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
            for (at, hash, count) in table.long.numbers() {
                check(Row { hash, count, span: [at as u64, number] });
            }
        }
    }

    #[inline]
    fn bucket(&self, hash: u64) -> usize {
        (hash >> 1 >> (63 - self.bits)) as usize
    }

    /// Appends sorted rows, those of the same span as one.
    #[inline]
    fn push_all(&self, rows: &[Row], run: &mut SortedRun) {
        let mut rows = rows.iter().peekable();
        while let Some(row) = rows.next() {
            let mut count = row.count;
            while let Some(same) = rows.next_if(|other| self.is_same(row, other)) {
                count += same.count;
            }
            self.with(row, |span| run.push(row.hash, span, count));
        }
    }

    #[inline]
    fn is_same(&self, row: &Row, other: &Row) -> bool {
        row.hash == other.hash && self.with(row, |a| self.with(other, |b| a == b))
    }

    /// What `work` makes of the row's span.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "they were indices")]
    fn with<T>(&self, row: &Row, work: impl FnOnce(&[u8]) -> T) -> T {
        let [low, high] = row.span;
        if let Some(table) = self.tables.get(high as usize) {
            return work(table.long.span(low as usize));
        }
        let (bytes, length) = Short::of_halves(row.span).bytes();
        work(&bytes[..length])
    }
}

/// Runs one after the other.
fn joined(runs: Vec<SortedRun>) -> SortedRun {
    let mut runs = runs.into_iter();
    let mut joined = runs.next().unwrap_or_default();
    runs.for_each(|run| joined.append(&run));
    joined
}
