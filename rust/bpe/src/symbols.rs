//! Spans as sequences of ids that shrink as pairs are merged: the learner's text. Takes spans and
//! counts, tells which neighbours changed. Does not know which pair is best.

use crate::{Documents, Error, Merge};

/// All spans of two or more bytes, back to back; each shrinks in place.
#[derive(Debug)]
pub(crate) struct Symbols {
    ids: Vec<u32>,
    spans: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    start: usize,
    length: u32,
    count: u64,
}

/// Is told what merging a pair (a, b) to n did to the neighbours.
pub(crate) trait Changes {
    /// (`x`, a) became (`x`, n) in `span`, `count` times.
    fn left(&mut self, x: u32, span: u32, count: u64);
    /// (b, `y`) became (n, `y`) in `span`, `count` times.
    fn right(&mut self, y: u32, span: u32, count: u64);
}

impl Symbols {
    pub(crate) fn new(spans: Documents<'_>, counts: &[u64]) -> Result<Self, Error> {
        if counts.len() != spans.len() {
            let (spans, length) = (spans.len(), counts.len());
            return Err(Error::LengthsDiffer { spans, what: "counts", length });
        }
        if u32::try_from(spans.len()).is_err() {
            return Err(Error::TooManySpans { number: spans.len() });
        }
        let mut symbols = Self { ids: Vec::new(), spans: Vec::new() };
        for (index, &count) in counts.iter().enumerate() {
            let span = spans.get(index);
            if span.len() < 2 || count == 0 {
                continue;
            }
            let length = u32::try_from(span.len())
                .map_err(|_| Error::TooManySpans { number: span.len() })?;
            symbols.spans.push(Place { start: symbols.ids.len(), length, count });
            symbols.ids.extend(span.iter().map(|&byte| u32::from(byte)));
        }
        Ok(symbols)
    }

    /// Calls `visit(span, ids, count)` for every span in order.
    pub(crate) fn try_for_each<E>(
        &self,
        mut visit: impl FnMut(u32, &[u32], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        self.spans.iter().zip(0..).try_for_each(|(place, span)| {
            let ids = &self.ids[place.start..place.start + place.length as usize];
            visit(span, ids, place.count)
        })
    }

    /// Replaces `pair` by `new` in `span`, from left to right.
    pub(crate) fn merge(&mut self, span: u32, pair: Merge, new: u32, changes: &mut impl Changes) {
        let place = &mut self.spans[span as usize];
        let ids = &mut self.ids[place.start..place.start + place.length as usize];
        let Some(first) = ids.windows(2).position(|ids| (ids[0], ids[1]) == pair) else { return };
        let (mut read, mut write) = (first, first);
        while read < ids.len() {
            let next = ids.get(read + 1);
            if ids[read] == pair.0 && next == Some(&pair.1) {
                if write > 0 {
                    changes.left(ids[write - 1], span, place.count);
                }
                if let Some(&y) = ids.get(read + 2) {
                    changes.right(y, span, place.count);
                }
                ids[write] = new;
                read += 2;
                place.length -= 1;
            } else {
                ids[write] = ids[read];
                read += 1;
            }
            write += 1;
        }
    }
}
