//! The segments of rows, in columns.

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
    /// No rows, with room for segments.
    pub(crate) fn with_capacity(segments: usize) -> Self {
        Self {
            documents: Vec::with_capacity(segments),
            starts: Vec::with_capacity(segments),
            lengths: Vec::with_capacity(segments),
            rows: vec![0],
        }
    }

    /// Adds a segment to the current row.
    pub(crate) fn push(&mut self, document: u32, start: u32, length: u32) {
        self.documents.push(document);
        self.starts.push(start);
        self.lengths.push(length);
    }

    /// Ends a row.
    pub(crate) fn end_row(&mut self) {
        self.rows.push(position(self.lengths.len()));
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
