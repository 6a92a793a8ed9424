//! Writes turns as parts: the special tokens around texts, and the role and mask of every token, as
//! in nanochat. All of these rules are in this module.

use nanotok_bpe::{Composition, Part, Stretch};
use nanotok_memory as memory;

use crate::declined::Declined;
use crate::special_ids::{Special, Tokens};
use crate::turns::{Said, SaidKind, Turn};

/// The owner of tokens, and whether they are trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label(u8);

impl Label {
    const BOS: Self = Self::new(0, false);
    const USER: Self = Self::new(1, false);
    const USER_TRAINED: Self = Self::new(1, true);
    const ASSISTANT_START: Self = Self::new(2, false);
    const ASSISTANT: Self = Self::new(2, true);
    const PYTHON: Self = Self::new(3, true);
    const OUTPUT: Self = Self::new(4, false);
    const IMAGE: Self = Self::new(5, false);

    const fn new(role: u8, is_trained: bool) -> Self {
        Self(role << 1 | is_trained as u8)
    }

    /// The label of the user's text, trained on or not.
    pub(crate) const fn user(is_trained: bool) -> Self {
        if is_trained { Self::USER_TRAINED } else { Self::USER }
    }
}

/// The rule by which texts become parts: as a whole, or divided.
pub(crate) trait Cut {
    /// Writes a user's text.
    fn user(&mut self, page: &mut Page<'_>, text: &str, label: Label) -> Result<(), Declined>;
    /// Writes an assistant's text.
    fn assistant(&self, page: &mut Page<'_>, text: &str, label: Label) -> Result<(), Declined>;
}

/// Every text becomes one part.
pub(crate) struct Whole;

impl Cut for Whole {
    fn user(&mut self, page: &mut Page<'_>, text: &str, label: Label) -> Result<(), Declined> {
        page.text(text, label);
        Ok(())
    }

    fn assistant(&self, page: &mut Page<'_>, text: &str, label: Label) -> Result<(), Declined> {
        page.text(text, label);
        Ok(())
    }
}

/// A document that is appended to a composition.
pub(crate) struct Page<'p> {
    tokens: &'p Tokens,
    composition: &'p mut Composition,
}

impl<'p> Page<'p> {
    pub(crate) fn new(tokens: &'p Tokens, composition: &'p mut Composition) -> Self {
        Self { tokens, composition }
    }

    /// Writes a conversation.
    pub(crate) fn conversation(
        &mut self,
        turns: &[Turn<'_>],
        cut: &mut impl Cut,
    ) -> Result<(), Declined> {
        self.bos()?;
        for turn in turns {
            match turn {
                Turn::System(_) => return Err(Declined),
                Turn::User(text) => self.user(text, cut)?,
                Turn::Assistant(said) => self.assistant(said, cut)?,
            }
        }
        Ok(())
    }

    fn user(&mut self, text: &str, cut: &mut impl Cut) -> Result<(), Declined> {
        self.special(Special::UserStart, Label::USER)?;
        cut.user(self, text, Label::USER)?;
        self.special(Special::UserEnd, Label::USER)
    }

    fn assistant(&mut self, said: &[Said<'_>], cut: &impl Cut) -> Result<(), Declined> {
        self.special(Special::AssistantStart, Label::ASSISTANT_START)?;
        for Said { kind, text } in said {
            let (start, end, label) = match kind {
                SaidKind::Text => {
                    cut.assistant(self, text, Label::ASSISTANT)?;
                    continue;
                }
                SaidKind::Python => (Special::PythonStart, Special::PythonEnd, Label::PYTHON),
                SaidKind::Output => (Special::OutputStart, Special::OutputEnd, Label::OUTPUT),
            };
            self.special(start, label)?;
            self.text(text, label);
            self.special(end, label)?;
        }
        self.assistant_end()
    }

    /// Writes the token that begins every document.
    pub(crate) fn bos(&mut self) -> Result<(), Declined> {
        self.special(Special::Bos, Label::BOS)
    }

    /// Writes the token that ends an assistant's message.
    pub(crate) fn assistant_end(&mut self) -> Result<(), Declined> {
        self.special(Special::AssistantEnd, Label::ASSISTANT)
    }

    /// Writes an assistant's text outside a conversation; nothing for an empty text.
    pub(crate) fn response(&mut self, text: &str, cut: &impl Cut) -> Result<(), Declined> {
        if !text.is_empty() {
            cut.assistant(self, text, Label::ASSISTANT)?;
        }
        self.assistant_end()
    }

    /// Writes a text that is encoded on its own.
    pub(crate) fn text(&mut self, text: &str, label: Label) {
        let start = self.composition.data.len();
        memory::append(&mut self.composition.data, text.as_bytes());
        let end = self.composition.data.len();
        self.part(Stretch::Text { start, end }, label, false);
    }

    /// Writes an image of `count` tokens.
    pub(crate) fn image(&mut self, count: u32) -> Result<(), Declined> {
        let id = self.tokens.image()?;
        self.part(Stretch::Special { id, count }, Label::IMAGE, true);
        Ok(())
    }

    /// Writes the grounding token with this index in the settings.
    pub(crate) fn grounding(&mut self, position: usize, label: Label) -> Result<(), Declined> {
        let id = self.tokens.grounding(position)?;
        self.part(Stretch::Special { id, count: 1 }, label, false);
        Ok(())
    }

    fn special(&mut self, special: Special, label: Label) -> Result<(), Declined> {
        let id = self.tokens.special(special)?;
        self.part(Stretch::Special { id, count: 1 }, label, false);
        Ok(())
    }

    fn part(&mut self, stretch: Stretch, label: Label, is_marked: bool) {
        memory::push(&mut self.composition.parts, Part { stretch, label: label.0, is_marked });
    }
}
