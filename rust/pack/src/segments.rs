//! The segments of rows, in columns.

use nanotok_memory as memory;

/// The segments of documents in each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segments {
    /// Index of each segment's document.
    pub documents: Vec<u32>,
    /// Start of each segment in its document.
    pub starts: Vec<u32>,
    /// Tokens of each segment.
    pub lengths: Vec<u32>,
    /// The start of the segments of each row, and the end of the last row.
    pub rows: Vec<i64>,
}

impl Segments {
    /// No rows, with room for rows and their segments.
    pub(crate) fn with_capacity(rows: u64, segments: u64) -> Self {
        let number = |number| usize::try_from(number).unwrap_or(usize::MAX);
        let segments = number(segments);
        let mut rows = memory::with_capacity(number(rows.saturating_add(1)));
        rows.push(0);
        Self {
            documents: memory::with_capacity(segments),
            starts: memory::with_capacity(segments),
            lengths: memory::with_capacity(segments),
            rows,
        }
    }

    /// Adds a segment to the current row.
    pub(crate) fn push(&mut self, document: u32, start: u32, length: u32) {
        memory::push(&mut self.documents, document);
        memory::push(&mut self.starts, start);
        memory::push(&mut self.lengths, length);
    }

    /// Ends a row.
    pub(crate) fn end_row(&mut self) {
        memory::push(&mut self.rows, position(self.lengths.len()));
    }
}

/// A position in an array of numpy's.
pub(crate) fn position(index: usize) -> i64 {
    i64::try_from(index).expect("memory is smaller")
}

#[cfg(test)]
impl Segments {
    /// (document, start, length) of each segment of each row.
    pub(crate) fn by_row(&self) -> Vec<Vec<(u32, u32, u32)>> {
        let segment = |at: usize| (self.documents[at], self.starts[at], self.lengths[at]);
        let index = |end: i64| usize::try_from(end).unwrap();
        let rows = self.rows.windows(2);
        rows.map(|ends| (index(ends[0])..index(ends[1])).map(segment).collect()).collect()
    }
}
