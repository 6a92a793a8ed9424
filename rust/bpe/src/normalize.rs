//! Changes texts before they are split, exactly as the normalizers of the library `tokenizers`.
//!
//! For the forms of Unicode and for lower case, a character is *calm* if it does not change on its
//! own, nor by what precedes it. Only runs of other characters, each with the calm character before
//! it, which can combine with what follows, are given to the library; everything else is copied, or
//! not even that if nothing changes.
//!
//! This is exact. A form decomposes characters, sorts runs of characters whose combining class is
//! not 0 and, for NFC and NFKC, combines characters with the last character of class 0 before them.
//! The decomposition of a calm character begins with a character of class 0 that combines with none
//! before it. So no step looks across the start of a calm character, and a text can be divided
//! there. Between two calm characters nothing changes, since each is unchanged on its own.
//!
//! A *quiet mark* is unchanged on its own, but its class is not 0, so that it can be sorted; it
//! combines with nothing before it. A calm character with a single quiet mark is unchanged: only the
//! marks of its own decomposition can be sorted behind the quiet one, and they combine with their
//! character all the same, since a mark of a lower class that does not combine is not in the way. A
//! test compares all such pairs with the library.

use nanotok_memory as memory;

use crate::normalize::forms::Form;
use crate::{Documents, Error};

mod forms;

/// The version of the tables for lower case.
const LOWERCASE_UNICODE: u8 = 17;

/// A change of a text. Every change of an empty text is the empty text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Normalizer {
    /// The canonical composition of Unicode.
    Nfc,
    /// The canonical decomposition.
    Nfd,
    /// The compatibility composition.
    Nfkc,
    /// The compatibility decomposition.
    Nfkd,
    /// Every character in lower case, on its own.
    Lowercase,
    /// A space before a text that does not begin with one.
    PrefixSpace,
    /// A text before the text.
    Prepend(String),
    /// Another text for every occurrence of a text, from left to right.
    Replace {
        /// What is replaced; not empty.
        text: String,
        /// What replaces it.
        by: String,
    },
    /// The text without white space at its ends.
    Strip {
        /// Whether at the start.
        left: bool,
        /// Whether at the end.
        right: bool,
    },
}

impl Normalizer {
    /// The changed text, if it differs. The text must not be empty.
    fn changed(&self, text: &str) -> Option<String> {
        match self {
            Self::Nfc => Form::Nfc.changed(text),
            Self::Nfd => Form::Nfd.changed(text),
            Self::Nfkc => Form::Nfkc.changed(text),
            Self::Nfkd => Form::Nfkd.changed(text),
            Self::Lowercase => Form::Lower.changed(text),
            Self::PrefixSpace => (!text.starts_with(' ')).then(|| joined(&[" ", text])),
            Self::Prepend(before) => (!before.is_empty()).then(|| joined(&[before, text])),
            Self::Replace { text: old, by } => replaced(text, old, by),
            Self::Strip { left, right } => {
                let rest = if *left { text.trim_start() } else { text };
                let rest = if *right { rest.trim_end() } else { rest };
                (rest.len() < text.len()).then(|| joined(&[rest]))
            }
        }
    }
}

/// Normalizers, one after the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Normalizers(Vec<Normalizer>);

impl Normalizers {
    /// # Errors
    ///
    /// Fails if a normalizer replaces an empty text, or if the tables for lower case are others than
    /// those of `tokenizers`.
    pub(crate) fn new(normalizers: Vec<Normalizer>) -> Result<Self, Error> {
        for normalizer in &normalizers {
            match normalizer {
                Normalizer::Replace { text, .. } if text.is_empty() => {
                    return Err(Error::EmptyReplaced);
                }
                Normalizer::Lowercase if char::UNICODE_VERSION.0 != LOWERCASE_UNICODE => {
                    let (found, wanted) = (char::UNICODE_VERSION.0, LOWERCASE_UNICODE);
                    return Err(Error::LowercaseTables { found, wanted });
                }
                _ => {}
            }
        }
        Ok(Self(normalizers))
    }

    /// Whether nothing changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The changed document, if it may differ. Each maximal run of valid UTF-8 is changed on its own,
    /// like a document.
    pub(crate) fn changed(&self, document: &[u8]) -> Option<Vec<u8>> {
        if self.is_empty() {
            return None;
        }
        if let Ok(text) = simdutf8::basic::from_utf8(document) {
            return self.changed_text(text).map(String::into_bytes);
        }
        let mut out = memory::with_capacity(document.len());
        for chunk in document.utf8_chunks() {
            let text = chunk.valid();
            let changed = self.changed_text(text);
            memory::append(&mut out, changed.as_deref().unwrap_or(text).as_bytes());
            memory::append(&mut out, chunk.invalid());
        }
        Some(out)
    }

    /// The changed documents back to back, and their offsets; none if nothing can change.
    pub(crate) fn changed_batch(&self, documents: Documents<'_>) -> Option<(Vec<u8>, Vec<i64>)> {
        if self.is_empty() {
            return None;
        }
        let mut data = memory::with_capacity(documents.all().len());
        let mut offsets = memory::with_capacity(documents.len() + 1);
        offsets.push(0);
        for document in (0..documents.len()).map(|number| documents.get(number)) {
            let changed = self.changed(document);
            memory::append(&mut data, changed.as_deref().unwrap_or(document));
            offsets.push(i64::try_from(data.len()).expect("memory is below 2**63 bytes"));
        }
        Some((data, offsets))
    }

    fn changed_text(&self, text: &str) -> Option<String> {
        let mut current: Option<String> = None;
        for normalizer in &self.0 {
            let text = current.as_deref().unwrap_or(text);
            if text.is_empty() {
                break;
            }
            current = normalizer.changed(text).or(current);
        }
        current
    }
}

/// The documents in NFC and lower case, their words with one space between them; back to back, with
/// their offsets. Words are the parts between characters of `White_Space`. Each character is in lower
/// case on its own. A document that is not UTF-8 is unchanged.
///
/// # Panics
///
/// If memory runs out, as `nanotok_memory` says.
///
/// ```
/// # use nanotok_bpe::{Documents, folded};
/// let data = " A\n\tCafe\u{301} ".as_bytes();
/// let (words, offsets) = folded(Documents::new(data, &[0, data.len() as i64])?);
/// assert_eq!((words, offsets), ("a caf\u{e9}".into(), vec![0, 7]));
/// # Ok::<(), nanotok_bpe::Error>(())
/// ```
#[must_use]
pub fn folded(documents: Documents<'_>) -> (Vec<u8>, Vec<i64>) {
    let mut data = memory::with_capacity(documents.all().len());
    let mut offsets = memory::with_capacity(documents.len() + 1);
    offsets.push(0);
    for document in (0..documents.len()).map(|number| documents.get(number)) {
        if let Ok(text) = simdutf8::basic::from_utf8(document) {
            let composed = if text.is_ascii() { None } else { Form::Nfc.changed(text) };
            fold(&mut data, composed.as_deref().unwrap_or(text));
        } else {
            memory::append(&mut data, document);
        }
        offsets.push(i64::try_from(data.len()).expect("memory is below 2**63 bytes"));
    }
    (data, offsets)
}

/// Appends a text in lower case, its words with one space between them.
fn fold(out: &mut Vec<u8>, text: &str) {
    memory::reserve(out, text.len());
    let start = out.len();
    for character in text.chars() {
        if character.is_whitespace() {
            if out.len() > start && out.last() != Some(&b' ') {
                out.push(b' ');
            }
        } else if character.is_ascii() {
            out.push(character.to_ascii_lowercase() as u8);
        } else {
            for lower in character.to_lowercase() {
                memory::append(out, lower.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
    if out.len() > start && out.last() == Some(&b' ') {
        out.pop();
    }
}

/// Every occurrence of `old` replaced, if there is one.
fn replaced(text: &str, old: &str, by: &str) -> Option<String> {
    let finder = memchr::memmem::Finder::new(old);
    let (mut out, mut done) = (None, 0);
    for at in finder.find_iter(text.as_bytes()) {
        let out = out.get_or_insert_with(String::new);
        append(out, &text[done..at]);
        append(out, by);
        done = at + old.len();
    }
    out.map(|mut out| {
        append(&mut out, &text[done..]);
        out
    })
}

fn joined(parts: &[&str]) -> String {
    let mut out = String::new();
    reserve(&mut out, parts.iter().map(|part| part.len()).sum());
    for part in parts {
        out.push_str(part);
    }
    out
}

/// Appends a text; a failed allocation is an error.
fn append(out: &mut String, text: &str) {
    reserve(out, text.len());
    out.push_str(text);
}

fn reserve(out: &mut String, additional: usize) {
    if out.try_reserve(additional).is_err() {
        memory::fail::<u8>(out.len().saturating_add(additional));
    }
}

#[cfg(test)]
mod tests;
