//! Composed documents to ids: each text encoded on its own, special tokens between them, and for every
//! token its part's label. Knows neither roles nor images, and starts no thread.

use super::{Encoder, Source};
use crate::out::Out;
use crate::token_id::TokenId;
use crate::worker::Worker;
use crate::{Composition, Error, Part, Stretch};

/// The ids of composed documents, and what each of them is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded<I> {
    /// The ids of all documents back to back.
    pub ids: Vec<I>,
    /// The label of each id.
    pub labels: Vec<u8>,
    /// How many ids each document has.
    pub lengths: Vec<usize>,
    /// Where the tokens of marked parts are, in the order of the parts.
    pub marks: Vec<Mark>,
}

/// Where the tokens of a part are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The number of the document.
    pub document: usize,
    /// Its first token, by its position in the document.
    pub start: usize,
    /// The one after its last.
    pub end: usize,
}

impl Encoder {
    /// The ids of composed documents, in the calling thread.
    ///
    /// # Errors
    ///
    /// Ids that do not fit `I`, a composition whose numbers do not fit together, or a text that cannot be
    /// split: the offset is the one in the text.
    pub fn encode_composed<I: TokenId>(
        &self,
        composition: &Composition,
    ) -> Result<Encoded<I>, Error> {
        check(composition)?;
        let number = self.vocabulary().len().max(num_ids(&composition.parts));
        if number > I::LIMIT {
            return Err(Error::TooManyTokens { number, limit: I::LIMIT });
        }
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
        let source = Source { span_ids: &self.span_ids, table: self.table.as_ref() };
        let mut out = Out::with_room(composition.data.len() / 3 + composition.parts.len());
        let mut labels = Vec::with_capacity(composition.data.len() / 3 + composition.parts.len());
        let mut lengths = Vec::with_capacity(composition.ends.len());
        let mut marks = Vec::new();
        let mut first = 0;
        for (document, &end) in composition.ends.iter().enumerate() {
            let begin = out.len();
            for part in &composition.parts[first..end] {
                let start = out.len() - begin;
                match part.stretch {
                    Stretch::Text { start, end } => worker
                        .encode(source, &composition.data, (start, end), &mut out)
                        .map_err(|stuck| stuck.in_document(document))?,
                    Stretch::Special { id, count } => out.push_copies(id, count as usize),
                }
                labels.resize(out.len(), part.label);
                if part.is_marked {
                    marks.push(Mark { document, start, end: out.len() - begin });
                }
            }
            lengths.push(out.len() - begin);
            first = end;
        }
        Ok(Encoded { ids: out.finish(), labels, lengths, marks })
    }
}

/// That documents end among the parts, one after the other, and texts are within the data.
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

/// The highest id of a special token and one.
fn num_ids(parts: &[Part]) -> usize {
    let ids = parts.iter().map(|part| match part.stretch {
        Stretch::Special { id, .. } => id as usize + 1,
        Stretch::Text { .. } => 0,
    });
    ids.max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
