//! Documents to compositions, each by its dialect. Takes a batch, declines what is not surely well formed
//! and goes on with the next; knows no encoder.

use std::ops::Range;

use nanotok_bpe::{Composition, Documents};

use crate::declined::Declined;
use crate::json::Value;
use crate::layout::{Page, Whole};
use crate::settings::Shape;
use crate::special_ids::Tokens;
use crate::turns::Turn;
use crate::{Dialect, SpecialIds, gsm8k, messages, pairs, sharegpt};

/// Documents that were composed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Composed {
    /// The documents; those that were declined have no parts. Texts are back to back, in the order of their
    /// parts.
    pub composition: Composition,
    /// The numbers, in the batch, of those that were declined.
    pub declined: Vec<usize>,
}

impl Dialect {
    /// Composes the documents `range`. `ids`: `None` if only the texts are wanted; special tokens then
    /// have id 0 and need not exist.
    ///
    /// # Panics
    ///
    /// If there are no such documents.
    pub fn compose(
        &self,
        documents: Documents<'_>,
        range: Range<usize>,
        ids: Option<&SpecialIds>,
    ) -> Composed {
        let tokens = self.tokens(ids);
        let mut composed = Composed::default();
        composed.composition.data.reserve(documents.num_bytes(&range));
        for number in range {
            self.compose_one(documents.get(number), number, &tokens, &mut composed);
        }
        composed
    }

    fn compose_one(&self, document: &[u8], number: usize, tokens: &Tokens, to: &mut Composed) {
        let composition = &mut to.composition;
        let (bytes, parts) = (composition.data.len(), composition.parts.len());
        if self.write(document, &mut Page::new(tokens, composition)).is_err() {
            composition.data.truncate(bytes);
            composition.parts.truncate(parts);
            to.declined.push(number);
        }
        composition.ends.push(composition.parts.len());
    }

    fn write(&self, document: &[u8], page: &mut Page<'_>) -> Result<(), Declined> {
        let value = Value::read(document)?;
        match self.shape() {
            Shape::Messages => converse(page, &messages::turns(value)?),
            Shape::CustomJson => converse(page, &messages::custom_json(value)?),
            Shape::ShareGpt => converse(page, &sharegpt::turns(value)?),
            Shape::Gsm8k => converse(page, &gsm8k::turns(value)?),
            Shape::PromptResponse => converse(page, &pairs::turns(value)?),
            Shape::VisionMessages(vision) => vision.messages(page, value),
            Shape::VisionPromptResponse(vision) => vision.pair(page, value),
            Shape::VisionText(vision) => vision.text(page, value),
            Shape::Unusable => Err(Declined),
        }
    }
}

fn converse(page: &mut Page<'_>, turns: &[Turn<'_>]) -> Result<(), Declined> {
    page.conversation(turns, &mut Whole)
}
