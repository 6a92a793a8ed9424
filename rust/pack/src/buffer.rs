//! Best fit for a buffer of documents that is refilled while rows are packed: the rule of
//! nanochat's loader.

use nanotok_memory as memory;

use crate::Error;
use crate::candidates::Candidates;
use crate::lengths::{of_documents, positive};
use crate::segments::position;

/// The documents of each row, each from its first token on, in columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferRows {
    /// Index of each segment's document: 0, 1, 2, ... in the order of `push`.
    pub documents: Vec<u64>,
    /// Tokens of each segment.
    pub lengths: Vec<u32>,
    /// The start of the segments of each row, and the end of the last row.
    pub rows: Vec<i64>,
}

/// Totals of the packing so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Complete rows.
    pub rows: u64,
    /// Tokens in rows, including an incomplete row.
    pub tokens: u64,
    /// Discarded tokens of these documents.
    pub cropped_tokens: u64,
    /// Documents with discarded tokens.
    pub cropped_documents: u64,
}

/// Buffered documents, and the current row.
///
/// Each choice requires `buffer_size` documents: with fewer, packing stops, and continues when more
/// documents were added. The largest document that fits the rest of the row is used; if none fits,
/// the shortest is cropped and its rest is discarded. Of equal ones, the document that was added
/// first is used.
#[derive(Debug, Clone)]
pub struct BestFitBuffer {
    capacity: u32,
    buffer_size: usize,
    candidates: Candidates,
    pushed: u64,
    rest: u32,
    row: Vec<(u64, u32)>,
    totals: Totals,
}

impl BestFitBuffer {
    /// Creates an empty buffer and an empty row.
    ///
    /// # Errors
    ///
    /// Fails if a number is less than 1.
    pub fn new(capacity: i64, buffer_size: i64) -> Result<Self, Error> {
        let capacity = positive("capacity", capacity)?;
        Ok(Self {
            capacity,
            buffer_size: positive("buffer_size", buffer_size)? as usize,
            candidates: Candidates::default(),
            pushed: 0,
            rest: capacity,
            row: Vec::new(),
            totals: Totals::default(),
        })
    }

    /// Adds documents.
    ///
    /// # Errors
    ///
    /// Fails if a length is less than 1; no document is added.
    pub fn push(&mut self, lengths: &[i64]) -> Result<(), Error> {
        let lengths = of_documents(lengths, 1, self.pushed)?;
        Candidates::check_room(lengths.len());
        for length in lengths {
            self.candidates.insert((length, self.pushed));
            self.pushed += 1;
        }
        Ok(())
    }

    /// Packs up to `most` complete rows.
    pub fn pack(&mut self, most: u64) -> BufferRows {
        let mut found = BufferRows { documents: vec![], lengths: vec![], rows: vec![0] };
        self.each_row(most, |row| {
            memory::reserve(&mut found.documents, row.len());
            memory::reserve(&mut found.lengths, row.len());
            found.documents.extend(row.iter().map(|&(number, _)| number));
            found.lengths.extend(row.iter().map(|&(_, length)| length));
            memory::push(&mut found.rows, position(found.lengths.len()));
        });
        found
    }

    /// Packs up to `most` complete rows, and returns their number.
    pub fn skip(&mut self, most: u64) -> u64 {
        self.each_row(most, |_| {})
    }

    /// Whether there are fewer documents than a choice requires.
    pub fn needs_documents(&self) -> bool {
        self.candidates.len() < self.buffer_size
    }

    /// Totals of the packing so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    fn each_row(&mut self, most: u64, mut see: impl FnMut(&[(u64, u32)])) -> u64 {
        let before = self.totals.rows;
        while self.totals.rows - before < most && !self.needs_documents() {
            self.add_one();
            if self.rest == 0 {
                see(&self.row);
                self.row.clear();
                self.rest = self.capacity;
                self.totals.rows += 1;
            }
        }
        self.totals.rows - before
    }

    /// Chooses a document; there must be one.
    fn add_one(&mut self) {
        let fitting = self.candidates.take_fitting(self.rest);
        let Some((length, number)) = fitting.or_else(|| self.candidates.take_shortest()) else {
            return;
        };
        let taken = length.min(self.rest);
        memory::push(&mut self.row, (number, taken));
        self.rest -= taken;
        self.totals.tokens += u64::from(taken);
        self.totals.cropped_tokens += u64::from(length - taken);
        self.totals.cropped_documents += u64::from(length > taken);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reference;

    fn by_row(found: &BufferRows) -> Vec<Vec<(u64, u32)>> {
        let index = |end: i64| usize::try_from(end).unwrap();
        let segment = |at: usize| (found.documents[at], found.lengths[at]);
        let rows = found.rows.windows(2);
        rows.map(|ends| (index(ends[0])..index(ends[1])).map(segment).collect()).collect()
    }

    proptest! {
        #[test]
        fn rows_equal_the_reference(
            pushes in prop::collection::vec(
                (prop::collection::vec(1_u32..30, 0..20), 0_u64..5, any::<bool>()), 0..12),
            capacity in 1_u32..40,
            buffer_size in 1_usize..25,
        ) {
            let mut plain = reference::Buffer::new(capacity, buffer_size);
            let size = i64::try_from(buffer_size).unwrap();
            let mut buffer = BestFitBuffer::new(capacity.into(), size).unwrap();
            for (lengths, most, skipped) in pushes {
                plain.push(&lengths);
                buffer.push(&lengths.into_iter().map(i64::from).collect::<Vec<_>>()).unwrap();
                prop_assert_eq!(buffer.needs_documents(), plain.needs_documents());
                let expected = plain.pack(most);
                if skipped {
                    prop_assert_eq!(buffer.skip(most), expected.len() as u64);
                } else {
                    prop_assert_eq!(by_row(&buffer.pack(most)), expected);
                }
                let totals = buffer.totals();
                let sums = [totals.rows, totals.tokens, totals.cropped_tokens, totals.cropped_documents];
                prop_assert_eq!(sums, plain.totals);
            }
        }
    }

    #[test]
    fn a_refused_push_adds_nothing() {
        let mut buffer = BestFitBuffer::new(4, 1).unwrap();
        buffer.push(&[1]).unwrap();
        let error = buffer.push(&[3, 0]).unwrap_err();
        assert_eq!(error.to_string(), "document 2 has 0 tokens: it must be 1 to 4294967295");
        buffer.push(&[2]).unwrap();
        assert_eq!(buffer.skip(9), 0);
        buffer.push(&[9]).unwrap();
        let found = buffer.pack(9);
        assert_eq!((found.documents, found.lengths), (vec![1, 0, 2], vec![2, 1, 1]));
        assert_eq!((buffer.totals().rows, buffer.totals().cropped_tokens), (1, 8));
    }
}
