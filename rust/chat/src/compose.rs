//! Composes batches of documents by their dialect; documents that are not certainly well formed are
//! declined.

use std::ops::Range;

use nanotok_bpe::{Composition, Documents};
use nanotok_memory as memory;

use crate::declined::Declined;
use crate::json::Value;
use crate::layout::{Page, Whole};
use crate::settings::Shape;
use crate::special_ids::Tokens;
use crate::turns::Turn;
use crate::unused::{Unused, UnusedText};
use crate::{Dialect, SpecialIds, alpaca, gsm8k, messages, pairs, sharegpt};

/// Composed documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Composed {
    /// The documents; declined ones have no parts. Texts are back to back, in the order of their
    /// parts.
    pub composition: Composition,
    /// The indexes of the declined documents in the batch.
    pub declined: Vec<usize>,
    /// Text of the other documents that is not rendered.
    pub unused: UnusedText,
}

impl Dialect {
    /// Composes the documents `range`. With `ids` of `None` only the texts are needed; special
    /// tokens then have id 0 and need not exist.
    ///
    /// # Panics
    ///
    /// If the documents do not exist.
    pub fn compose(
        &self,
        documents: Documents<'_>,
        range: Range<usize>,
        ids: Option<&SpecialIds>,
    ) -> Composed {
        let tokens = self.tokens(ids);
        let mut composed = Composed::default();
        memory::reserve(&mut composed.composition.data, documents.num_bytes(&range));
        let mut unused = Unused::new(self.metadata());
        for number in range {
            let document = documents.get(number);
            self.compose_one(document, number, &tokens, &mut composed, &mut unused);
        }
        composed.unused = unused.into_found();
        composed
    }

    fn compose_one(
        &self,
        document: &[u8],
        number: usize,
        tokens: &Tokens,
        to: &mut Composed,
        unused: &mut Unused<'_>,
    ) {
        let composition = &mut to.composition;
        let (bytes, parts) = (composition.data.len(), composition.parts.len());
        let is_rendered = self.write(document, &mut Page::new(tokens, composition), unused).is_ok();
        unused.end(number, is_rendered);
        if !is_rendered {
            composition.data.truncate(bytes);
            composition.parts.truncate(parts);
            memory::push(&mut to.declined, number);
        }
        let end = composition.parts.len();
        memory::push(&mut composition.ends, end);
    }

    fn write(
        &self,
        document: &[u8],
        page: &mut Page<'_>,
        unused: &mut Unused<'_>,
    ) -> Result<(), Declined> {
        let value = Value::read(document)?;
        match self.shape() {
            Shape::Messages => converse(page, &messages::turns(value, unused)?),
            Shape::CustomJson => converse(page, &messages::custom_json(value, unused)?),
            Shape::ShareGpt => converse(page, &sharegpt::turns(value, unused)?),
            Shape::Gsm8k => converse(page, &gsm8k::turns(value, unused)?),
            Shape::PromptResponse => converse(page, &pairs::turns(value, unused)?),
            Shape::Alpaca => converse(page, &alpaca::turns(value, unused)?),
            Shape::VisionMessages(vision) => vision.messages(page, value, unused),
            Shape::VisionPromptResponse(vision) => vision.pair(page, value, unused),
            Shape::VisionText(vision) => vision.text(page, value, unused),
            Shape::Unusable => Err(Declined),
        }
    }
}

fn converse(page: &mut Page<'_>, turns: &[Turn<'_>]) -> Result<(), Declined> {
    page.conversation(turns, &mut Whole)
}

#[cfg(test)]
mod tests {
    use nanotok_bpe::Stretch;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{batch, dialect, documents_of_any_dialect, every_dialect, special_ids};

    fn compose(dialect: &Dialect, documents: &[String], range: Range<usize>) -> Composed {
        let (data, offsets) = batch(documents);
        dialect.compose(Documents::new(&data, &offsets).unwrap(), range, Some(&special_ids()))
    }

    fn texts(composed: &Composed) -> Vec<&[u8]> {
        let Composition { data, parts, .. } = &composed.composition;
        let text = |stretch| match stretch {
            Stretch::Text { start, end } => Some(&data[start..end]),
            Stretch::Special { .. } => None,
        };
        parts.iter().filter_map(|part| text(part.stretch)).collect()
    }

    #[test]
    fn a_declined_document_leaves_no_output() {
        let good = r#"{"prompt": "<image>", "response": "r"}"#.to_owned();
        let bad =
            r#"{"prompt": "p<image>", "response": "r", "image_token_counts": [1, 1]}"#.to_owned();
        for settings in
            every_dialect().into_iter().filter(|settings| settings.name == "prompt-response")
        {
            let dialect = dialect(settings);
            let alone = compose(&dialect, std::slice::from_ref(&good), 0..1).composition;
            let among =
                compose(&dialect, &[bad[1..].to_owned(), good.clone(), "x".to_owned()], 0..3);
            assert_eq!(among.declined, [0, 2]);
            assert_eq!(
                (&among.composition.data, &among.composition.parts),
                (&alone.data, &alone.parts)
            );
            assert_eq!(among.composition.ends, [0, alone.parts.len(), alone.parts.len()]);
        }
        let settings =
            every_dialect().into_iter().rfind(|settings| settings.name == "prompt-response");
        let composed = compose(&dialect(settings.unwrap()), &[bad], 0..1);
        let expected = Composition { ends: vec![0], ..Composition::default() };
        assert_eq!((composed.composition, composed.declined), (expected, vec![0]));
    }

    #[test]
    fn a_document_without_a_required_token_is_declined() {
        let calls = r#"[{"role": "user", "content": "q"}, {"role": "assistant", "content":
            [{"type": "python", "text": "x"}]}]"#;
        let plain = r#"[{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]"#;
        let (data, offsets) = batch(&[calls, plain]);
        let documents = Documents::new(&data, &offsets).unwrap();
        let without = |name: &str| {
            let some = crate::testing::NAMES.into_iter().filter(|known| *known != name);
            SpecialIds::new(some.map(|name| (name.to_owned(), 7)))
        };
        let dialect = dialect(every_dialect().remove(0));
        for (missing, declined) in [
            ("<|python_end|>", vec![0]),
            ("<|output_end|>", vec![]),
            ("<image>", vec![]),
            ("<|bos|>", vec![0, 1]),
        ] {
            let composed = dialect.compose(documents, 0..2, Some(&without(missing)));
            assert_eq!(composed.declined, declined, "{missing}");
        }
        assert_eq!(dialect.compose(documents, 0..2, None).declined, Vec::<usize>::new());
    }

    proptest! {
        #[test]
        fn blocks_are_composed_like_the_whole(
            (settings, documents) in documents_of_any_dialect(), cut in 0usize..9,
        ) {
            let dialect = dialect(settings);
            let cut = cut.min(documents.len());
            let whole = compose(&dialect, &documents, 0..documents.len());
            let first = compose(&dialect, &documents, 0..cut);
            let second = compose(&dialect, &documents, cut..documents.len());
            prop_assert_eq!(texts(&whole), [texts(&first), texts(&second)].concat());
            prop_assert_eq!(&whole.declined, &[first.declined, second.declined].concat());
            let shifted = second.composition.ends.iter().map(|end| end + first.composition.parts.len());
            let ends: Vec<_> = first.composition.ends.iter().copied().chain(shifted).collect();
            prop_assert_eq!(&whole.composition.ends, &ends);
            let mut unused = first.unused;
            unused.append(&second.unused);
            prop_assert_eq!(&whole.unused, &unused);
        }

        #[test]
        fn texts_are_adjacent_and_the_same_without_ids(
            (settings, documents) in documents_of_any_dialect(),
        ) {
            let dialect = dialect(settings);
            let composed = compose(&dialect, &documents, 0..documents.len());
            prop_assert_eq!(texts(&composed).concat(), &composed.composition.data[..]);
            let (data, offsets) = batch(&documents);
            let all = Documents::new(&data, &offsets).unwrap();
            let only_texts = dialect.compose(all, 0..documents.len(), None);
            prop_assert_eq!(texts(&only_texts), texts(&composed));
            prop_assert_eq!(only_texts.declined, composed.declined);
        }

        #[test]
        fn any_bytes_are_composed_or_declined(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let (data, offsets) = batch(&[bytes]);
            for settings in every_dialect() {
                let documents = Documents::new(&data, &offsets).unwrap();
                let composed = dialect(settings).compose(documents, 0..1, None);
                prop_assert_eq!(composed.composition.ends.len(), 1);
            }
        }
    }
}
