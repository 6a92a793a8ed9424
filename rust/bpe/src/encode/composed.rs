//! Encodes composed documents: each text on its own, special tokens between the texts, and for
//! every token the label of its part.

use nanotok_memory as memory;

use super::Encoder;
use crate::Error;
use crate::encode::out::Out;
use crate::encode::worker::Worker;
use crate::normalize::Normalizers;
use crate::token_id::TokenId;

/// The content of a part of a composed document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stretch {
    /// The ids of the text `data[start..end]`.
    Text {
        /// Start of the text.
        start: usize,
        /// End of the text.
        end: usize,
    },
    /// Copies of one id.
    Special {
        /// The id.
        id: u32,
        /// Number of copies.
        count: u32,
    },
}

/// A part of a composed document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The content.
    pub stretch: Stretch,
    /// The label of each of its tokens.
    pub label: u8,
    /// Whether the positions of its tokens are returned.
    pub is_marked: bool,
}

/// Composed documents: all their texts back to back, and the parts of each document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Composition {
    /// The texts.
    pub data: Vec<u8>,
    /// The parts of all documents.
    pub parts: Vec<Part>,
    /// The number of parts up to the end of each document.
    pub ends: Vec<usize>,
}

impl Composition {
    /// The same with changed texts, if any text changes.
    fn normalized(&self, normalizers: &Normalizers) -> Option<Self> {
        if normalizers.is_empty() {
            return None;
        }
        let mut own =
            Self { data: Vec::new(), parts: memory::copied(&self.parts), ends: Vec::new() };
        memory::append(&mut own.ends, &self.ends);
        for part in &mut own.parts {
            if let Stretch::Text { start, end } = &mut part.stretch {
                let text = &self.data[*start..*end];
                let changed = normalizers.changed(text);
                *start = own.data.len();
                memory::append(&mut own.data, changed.as_deref().unwrap_or(text));
                *end = own.data.len();
            }
        }
        Some(own)
    }
}

/// The ids of composed documents, with labels and positions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded<I> {
    /// The ids of all documents back to back.
    pub ids: Vec<I>,
    /// The label of each id.
    pub labels: Vec<u8>,
    /// The number of ids of each document.
    pub lengths: Vec<usize>,
    /// The positions of the tokens of marked parts, in the order of the parts.
    pub marks: Vec<Mark>,
}

/// The position of the tokens of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The index of the document.
    pub document: usize,
    /// The position of its first token in the document.
    pub start: usize,
    /// The position after its last token.
    pub end: usize,
}

impl Encoder {
    /// The ids of composed documents, in the calling thread.
    ///
    /// # Errors
    ///
    /// Fails if ids do not fit `I`, if the numbers of the composition are inconsistent, or if a
    /// text cannot be split; the offset of the error is that in the text.
    pub fn encode_composed<I: TokenId>(
        &self,
        composition: &Composition,
    ) -> Result<Encoded<I>, Error> {
        check(composition)?;
        let number = self.num_ids().max(num_ids(&composition.parts));
        if number > I::LIMIT {
            return Err(Error::TooManyTokens { number, limit: I::LIMIT });
        }
        let changed = composition.normalized(&self.normalizers);
        let composition = changed.as_ref().unwrap_or(composition);
        let mut worker = self.take_worker();
        let encoded = self.encode_parts(composition, &mut worker);
        self.put_back(worker);
        encoded
    }

    fn encode_parts<I: TokenId>(
        &self,
        composition: &Composition,
        worker: &mut Worker,
    ) -> Result<Encoded<I>, Error> {
        let Composition { data, parts, ends } = composition;
        let room = (data.len() / 3 + parts.len()).saturating_add(num_special(parts));
        let mut out = Out::with_room(room);
        let mut assembly = Assembly::with_room(composition, room);
        assembly.go_on(&mut out);
        let mut encoding = self.encoding(worker, data, &mut out, |out| {
            assembly.end_part(out.len());
            assembly.go_on(out);
        });
        for (number, part) in parts.iter().enumerate() {
            if let Stretch::Text { start, end } = part.stretch {
                encoding.add((start, end)).map_err(|stuck| {
                    stuck.in_document(ends.partition_point(|&end| end <= number))
                })?;
            }
        }
        encoding.finish();
        let Assembly { labels, lengths, marks, .. } = assembly;
        Ok(Encoded { ids: out.finish(), labels, lengths, marks })
    }
}

/// Documents that are assembled from ids.
struct Assembly<'c> {
    composition: &'c Composition,
    /// Number of parts that have their ids.
    parts: usize,
    /// The position of the document in the ids.
    begin: usize,
    labels: Vec<u8>,
    lengths: Vec<usize>,
    marks: Vec<Mark>,
}

impl<'c> Assembly<'c> {
    fn with_room(composition: &'c Composition, number: usize) -> Self {
        Self {
            composition,
            parts: 0,
            begin: 0,
            labels: memory::with_capacity(number),
            lengths: memory::with_capacity(composition.ends.len()),
            marks: Vec::new(),
        }
    }

    /// Ends documents and appends special tokens, up to the next text.
    fn go_on<I: TokenId>(&mut self, out: &mut Out<I>) {
        loop {
            while self.composition.ends.get(self.lengths.len()) == Some(&self.parts) {
                self.lengths.push(out.len() - self.begin);
                self.begin = out.len();
            }
            let part = self.composition.parts.get(self.parts);
            let Some(Stretch::Special { id, count }) = part.map(|part| part.stretch) else {
                return;
            };
            out.push_copies(id, count as usize);
            self.end_part(out.len());
        }
    }

    /// Ends the next part; `number` is the number of ids so far.
    fn end_part(&mut self, number: usize) {
        let part = &self.composition.parts[self.parts];
        if part.is_marked {
            let (start, end) = (self.labels.len() - self.begin, number - self.begin);
            memory::push(&mut self.marks, Mark { document: self.lengths.len(), start, end });
        }
        memory::resize(&mut self.labels, number, part.label);
        self.parts += 1;
    }
}

/// Checks that the ends of documents are increasing and within the parts, and that texts are within
/// the data.
fn check(composition: &Composition) -> Result<(), Error> {
    let (number, length) = (composition.parts.len(), composition.data.len());
    let mut before = 0;
    for (document, &end) in composition.ends.iter().enumerate() {
        if end < before || end > number {
            return Err(Error::PartsEnd { document, end, before, number });
        }
        for part in &composition.parts[before..end] {
            if let Stretch::Text { start, end } = part.stretch
                && (start > end || end > length)
            {
                return Err(Error::TextOutOfRange { document, start, end, length });
            }
        }
        before = end;
    }
    if before < number {
        return Err(Error::PartsLeft { before, number });
    }
    Ok(())
}

/// The number of special tokens.
fn num_special(parts: &[Part]) -> usize {
    let counts = parts.iter().map(|part| match part.stretch {
        Stretch::Special { count, .. } => count as usize,
        Stretch::Text { .. } => 0,
    });
    counts.fold(0, usize::saturating_add)
}

/// The highest id of a special token plus one.
fn num_ids(parts: &[Part]) -> usize {
    let ids = parts.iter().map(|part| match part.stretch {
        Stretch::Special { id, .. } => id as usize + 1,
        Stretch::Text { .. } => 0,
    });
    ids.max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
