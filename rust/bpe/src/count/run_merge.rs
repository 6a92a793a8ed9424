//! The loop over many sorted runs: yields every span once, in order, with the rows that contain it.
//! The runs are sorted by (hash64, span), which the loop checks.
//!
//! Hashes are uniformly distributed, so every window of them has about the same number of rows. The
//! rows of a window are collected from all runs and distributed to buckets by hash: this takes a
//! few instructions per row and no branch that depends on the number of runs, whereas a heap takes
//! a step for each doubling of that number. Meanwhile the spans and counts of the window, which are
//! at a few places of each run, are fetched into the cache.

use std::{cmp::Ordering, mem};

use nanotok_memory as memory;

use crate::error::RunProblem;
use crate::{Error, RunView};

/// Rows of a window: the rows and their data fit the cache.
const WINDOW_ROWS: usize = 2048;

/// Rows of a window for each run, so that visiting a run pays.
const ROWS_PER_RUN: usize = 2;

/// A row of one of the runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Row {
    hash: u64,
    run: u32,
    /// Its index among the run's rows in the window.
    place: u32,
}

/// A span that the loop yields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a, 'm> {
    pub(crate) hash: u64,
    pub(crate) span: &'a [u8],
    same: &'m [Row],
    runs: &'m [RunView<'a>],
    starts: &'m [usize],
}

impl<'m> Rows<'_, 'm> {
    /// The number of the run, and the count, of each row of the span.
    #[inline]
    pub(crate) fn counts(self) -> impl Iterator<Item = (usize, u64)> + 'm {
        let (runs, starts) = (self.runs, self.starts);
        self.same.iter().map(move |row| {
            let run = row.run as usize;
            (run, runs[run].counts()[starts[run] + row.place as usize])
        })
    }
}

/// How often a run can contain a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// Any number of times.
    Allowed,
    /// Once: a repeated row is out of order.
    Refused,
}

/// Calls `each` for every span of all runs, in order.
///
/// Time: linear in the number of rows for uniform hashes, at most n log n for n rows. Memory: 48
/// bytes for each row of a window, which has about 2,048 rows or two for each run; windows are
/// larger if hashes are not uniform.
///
/// # Errors
///
/// Fails if the rows of a run are out of order, or if `each` fails.
pub(crate) fn merge<'a>(
    runs: &[RunView<'a>],
    repeats: Repeats,
    mut each: impl FnMut(Rows<'a, '_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut starts = vec![0; runs.len()];
    let mut ends = starts.clone();
    let (mut rows, mut sorter) = (Vec::new(), Sorter::default());
    for last in windows(runs) {
        rows.clear();
        for (number, run) in runs.iter().enumerate() {
            starts[number] = ends[number];
            ends[number] = gather((number, *run), starts[number], last, repeats, &mut rows)?;
            run.prefetch_places(starts[number]..ends[number]);
        }
        for (number, run) in runs.iter().enumerate() {
            run.prefetch_spans(starts[number]..ends[number]);
        }
        sorter.sort(&mut rows);
        for same in rows.chunk_by_mut(|one, next| one.hash == next.hash) {
            visit(runs, &starts, same, &mut each)?;
        }
    }
    Ok(())
}

/// Sorts the rows of a window by hash, in linear time for uniform hashes.
#[derive(Debug, Default)]
struct Sorter {
    /// The end of the rows of each bucket.
    ends: Vec<usize>,
    sorted: Vec<Row>,
}

impl Sorter {
    /// Sorts `rows` by hash; the sort is stable.
    ///
    /// Each row is put into one of about as many buckets as rows, and each bucket is sorted.
    #[expect(clippy::cast_possible_truncation, reason = "buckets are at most twice the rows")]
    fn sort(&mut self, rows: &mut Vec<Row>) {
        let hashes = || rows.iter().map(|row| row.hash);
        let (Some(first), Some(last)) = (hashes().min(), hashes().max()) else { return };
        let bucket_bits = usize::BITS - rows.len().leading_zeros();
        let shift = (u64::BITS - (last - first).leading_zeros()).saturating_sub(bucket_bits);
        let bucket = |hash: u64| ((hash - first) >> shift) as usize;
        self.ends.clear();
        memory::resize(&mut self.ends, 1 + bucket(last), 0);
        for row in &*rows {
            self.ends[bucket(row.hash)] += 1;
        }
        let mut start = 0;
        for end in &mut self.ends {
            start += mem::replace(end, start);
        }
        self.sorted.clear();
        memory::resize(&mut self.sorted, rows.len(), Row::default());
        for row in &*rows {
            let end = &mut self.ends[bucket(row.hash)];
            self.sorted[*end] = *row;
            *end += 1;
        }
        mem::swap(rows, &mut self.sorted);
        let mut start = 0;
        for &end in &self.ends {
            rows[mem::replace(&mut start, end)..end].sort_by_key(|row| row.hash);
        }
    }
}

/// The last hash of each window; the last value is `u64::MAX`.
fn windows(runs: &[RunView<'_>]) -> impl Iterator<Item = u64> + use<> {
    let hashes = || runs.iter().map(|run| run.hashes());
    let first = hashes().filter_map(|own| own.first().copied()).min().unwrap_or(0);
    let last = hashes().filter_map(|own| own.last().copied()).max().unwrap_or(0);
    let rows: usize = hashes().map(<[u64]>::len).sum();
    let number = rows / WINDOW_ROWS.max(ROWS_PER_RUN * runs.len());
    let step = last.saturating_sub(first) / (number as u64 + 1);
    (1..=number as u64)
        .map(move |window| first.saturating_add(step.saturating_mul(window)))
        .chain([u64::MAX])
}

/// Appends the rows of a run from `start` on that belong to the window; returns their end.
fn gather(
    (number, run): (usize, RunView<'_>),
    start: usize,
    last: u64,
    repeats: Repeats,
    rows: &mut Vec<Row>,
) -> Result<usize, Error> {
    let hashes = run.hashes();
    let number_32 = u32::try_from(number).expect("runs lie in memory, each has 48 bytes and more");
    let mut before = start.checked_sub(1).map_or(0, |row| hashes[row]);
    let mut end = start;
    for &hash in hashes[start..].iter().take_while(|&&hash| hash <= last) {
        if hash <= before && end > 0 && is_out_of_order(run, end, repeats) {
            return Err(Error::Run { run: number, problem: RunProblem::OutOfOrder { row: end } });
        }
        let place =
            u32::try_from(end - start).expect("a window has fewer than 2**32 rows of a run");
        memory::push(rows, Row { hash, run: number_32, place });
        (before, end) = (hash, end + 1);
    }
    Ok(end)
}

/// Whether a row is smaller than the previous one, or equal if repeats are refused.
#[cold]
fn is_out_of_order(run: RunView<'_>, row: usize, repeats: Repeats) -> bool {
    match run.row(row).cmp(&run.row(row - 1)) {
        Ordering::Less => true,
        Ordering::Equal => repeats == Repeats::Refused,
        Ordering::Greater => false,
    }
}

/// Visits the rows of one hash, usually of one span; two spans can have the same hash.
#[inline]
fn visit<'a>(
    runs: &[RunView<'a>],
    starts: &[usize],
    rows: &mut [Row],
    each: &mut impl FnMut(Rows<'a, '_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let span_of = |row: &Row| -> &'a [u8] {
        let run = row.run as usize;
        runs[run].spans().get(starts[run] + row.place as usize)
    };
    let (hash, span) = (rows[0].hash, span_of(&rows[0]));
    if rows[1..].iter().all(|row| span_of(row) == span) {
        return each(Rows { hash, span, same: rows, runs, starts });
    }
    rows.sort_by_key(span_of);
    for same in rows.chunk_by(|one, next| span_of(one) == span_of(next)) {
        each(Rows { hash, span: span_of(&same[0]), same, runs, starts })?;
    }
    Ok(())
}
