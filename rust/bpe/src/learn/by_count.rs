//! Which spans have pairs, the most frequent first. Takes spans and counts and returns their order.

use std::cmp::Reverse;

use crate::{Documents, Error};

/// Spans of lower counts are sorted by counting, for most counts are low.
const LOW: usize = 1 << 12;

/// Spans of two or more bytes that occur, sorted by their counts.
#[derive(Debug)]
pub(super) struct ByCount {
    pub(super) order: Vec<u32>,
    /// Bytes of these spans, one more for each, and one.
    pub(super) num_slots: usize,
}

impl ByCount {
    pub(super) fn new(spans: Documents<'_>, counts: &[u64]) -> Result<Self, Error> {
        if counts.len() != spans.len() {
            let (spans, length) = (spans.len(), counts.len());
            return Err(Error::LengthsDiffer { spans, what: "counts", length });
        }
        let with_pairs = || {
            let lengths = counts.iter().enumerate().map(|(span, &count)| (span, count));
            lengths.filter(|&(span, count)| count > 0 && spans.get(span).len() > 1)
        };
        let num_slots = 1 + with_pairs().map(|(span, _)| spans.get(span).len() + 1).sum::<usize>();
        if u32::try_from(num_slots.max(spans.len())).is_err() {
            return Err(Error::TooManySpans { bytes: num_slots });
        }
        let as_u32 = |(span, count)| (u32::try_from(span).expect("compared above"), count);
        Ok(Self { order: sorted(|| with_pairs().map(as_u32)), num_slots })
    }
}

/// The spans, those of the highest counts first; of equal counts as they come.
fn sorted<S: Iterator<Item = (u32, u64)>>(spans: impl Fn() -> S) -> Vec<u32> {
    let mut high = Vec::new();
    let mut numbers = vec![0; LOW];
    for (span, count) in spans() {
        match low(count) {
            Some(low) => numbers[low] += 1,
            None => high.push((Reverse(count), span)),
        }
    }
    high.sort_unstable();
    let mut order: Vec<u32> = high.into_iter().map(|(_, span)| span).collect();
    let mut next = vec![0; LOW];
    for count in (0..LOW).rev() {
        next[count] = order.len();
        order.resize(order.len() + numbers[count], 0);
    }
    for (span, count) in spans() {
        if let Some(low) = low(count) {
            order[next[low]] = span;
            next[low] += 1;
        }
    }
    order
}

fn low(count: u64) -> Option<usize> {
    usize::try_from(count).ok().filter(|&count| count < LOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_sorted_by_count() {
        let offsets = [0, 2, 4, 6, 7, 9, 9, 11];
        let spans = Documents::new(b"aabbccdeeff", &offsets).unwrap();
        let found = ByCount::new(spans, &[1, 5000, u64::MAX, 9, 0, 9, 4095]).unwrap();
        assert_eq!((found.order, found.num_slots), (vec![2, 1, 6, 0], 13));
    }
}
