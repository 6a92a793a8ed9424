//! Any lengths, pushed and packed in any order: the segments equal those of the plain
//! implementations. Any columns: the rows equal those of the reference implementation, or are
//! refused without writing anything.

#![no_main]

use std::ops::Range;

use libfuzzer_sys::fuzz_target;
use nanotok_fuzz::program::Program;
use nanotok_pack::{
    Batch, BestFitBuffer, BufferRows, Ids, Segments, Source, Stretches, best_fit_rows, fill_rows,
    window_rows,
};

#[path = "../../pack/src/reference.rs"]
mod reference;

fuzz_target!(|bytes: &[u8]| {
    let mut program = Program::new(bytes);
    let (kind, size) = (program.byte(), 1 + program.byte() % 100);
    match kind % 4 {
        0 => check_best_fit(&lengths(&mut program, 0), size.into(), kind >= 128),
        1 => check_windows(&lengths(&mut program, 0), size.into()),
        2 => check_buffer(&mut program, size.into()),
        _ => check_fill(&mut program, usize::from(size % 16)),
    }
});

/// Up to 63 lengths, many of them equal.
fn lengths(program: &mut Program, least: u32) -> Vec<u32> {
    let number = program.byte() % 64;
    let length = |byte: u8| if byte < 128 { u32::from(byte % 8) } else { u32::from(byte) - 120 };
    (0..number).map(|_| length(program.byte()).max(least)).collect()
}

fn widened(lengths: &[u32]) -> Vec<i64> {
    lengths.iter().copied().map(i64::from).collect()
}

/// The segments of each row.
fn by_row<T>(rows: &[i64], segment: impl Fn(usize) -> T) -> Vec<Vec<T>> {
    let index = |end: i64| usize::try_from(end).expect("it is an index");
    let range = |ends: &[i64]| -> Range<usize> { index(ends[0])..index(ends[1]) };
    rows.windows(2).map(|ends| range(ends).map(&segment).collect()).collect()
}

fn rows_of(found: &Segments) -> reference::Rows {
    let segment = |at: usize| (found.documents[at], found.starts[at], found.lengths[at]);
    by_row(&found.rows, segment)
}

fn rows_of_buffer(found: &BufferRows) -> Vec<Vec<(u64, u32)>> {
    by_row(&found.rows, |at| (found.documents[at], found.lengths[at]))
}

fn check_best_fit(lengths: &[u32], capacity: u32, keep_rest: bool) {
    let found = best_fit_rows(&widened(lengths), capacity.into(), keep_rest);
    let found = found.ok().map(|found| rows_of(&found));
    assert_eq!(found, reference::best_fit(lengths, capacity, keep_rest));
}

fn check_windows(lengths: &[u32], length: u32) {
    let found = window_rows(&widened(lengths), length.into()).expect("lengths are right");
    assert_eq!(rows_of(&found), reference::windows(lengths, length));
}

fn check_buffer(program: &mut Program, capacity: u32) {
    let size = 1 + program.byte() % 40;
    let mut plain = reference::Buffer::new(capacity, size.into());
    let mut buffer = BestFitBuffer::new(capacity.into(), size.into()).expect("numbers are right");
    for _ in 0..program.byte() % 12 {
        let lengths = lengths(program, 1);
        plain.push(&lengths);
        buffer.push(&widened(&lengths)).expect("lengths are right");
        assert_eq!(buffer.needs_documents(), plain.needs_documents());
        let most = u64::from(program.byte() % 9);
        assert_eq!(rows_of_buffer(&buffer.pack(most)), plain.pack(most));
        let totals = buffer.totals();
        let sums = [totals.rows, totals.tokens, totals.cropped_tokens, totals.cropped_documents];
        assert_eq!(sums, plain.totals);
    }
}

/// Fills rows of `length` inputs. Columns are usually valid, so that some fills are not refused.
fn check_fill(program: &mut Program, length: usize) {
    let sizes = [program.byte() % 40, program.byte() % 40];
    let narrow: Vec<u16> = (0..sizes[0]).map(|at| u16::from(at) * 1700).collect();
    let wide: Vec<u32> = (0..sizes[1]).map(|at| u32::from(at) * 110_000_000).collect();
    let mask: Vec<u8> = (0..sizes[1]).map(|_| program.byte() % 2).collect();
    let [mut which, mut offsets, mut lengths, mut rows] = [vec![], vec![], vec![], vec![0]];
    for _ in 0..program.byte() % 16 {
        let (array, taken) = (program.byte(), program.byte());
        which.push(if array < 250 { i64::from(array % 2) } else { i64::from(array) - 252 });
        offsets.push(i64::from(program.byte() % 32) - i64::from(array == 249));
        lengths.push(if taken < 250 { i64::from(taken % 8) } else { i64::from(taken) - 252 });
        if taken % 4 == 0 {
            rows.push(i64::try_from(which.len()).expect("it is small") - i64::from(taken == 248));
        }
    }
    let sources = [
        Source { ids: Ids::Narrow(&narrow), mask: None },
        Source { ids: Ids::Wide(&wide), mask: Some(&mask) },
    ];
    let stretches = Stretches { which: &which, offsets: &offsets, lengths: &lengths, rows: &rows };
    let mut inputs = vec![-9_i32; length * (rows.len() - 1)];
    let mut targets = inputs.clone();
    let num_ids = 1 << 32;
    let mut batch = Batch { inputs: &mut inputs, targets: &mut targets, length, pad: -5, num_ids };
    if fill_rows(&sources, &stretches, &mut batch).is_err() {
        assert!(inputs.iter().chain(&targets).all(|&value| value == -9));
        return;
    }
    let ids = [narrow.into_iter().map(u32::from).collect(), wide];
    let columns = [&which[..], &offsets, &lengths, &rows];
    let expected = reference::fill(&ids, &[None, Some(mask)], columns, length, -5);
    let widened = |found: Vec<i32>| found.into_iter().map(i64::from).collect::<Vec<_>>();
    assert_eq!((widened(inputs), widened(targets)), expected);
}
