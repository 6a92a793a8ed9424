//! Special tokens that a text can spell. The leftmost name is found first, and at a position the
//! longest.

use aho_corasick::{AhoCorasick, MatchKind};

use crate::declined::Declined;
use crate::layout::{Label, Page};

/// A searcher for the names; `None` without names.
#[derive(Debug, Clone)]
pub(crate) struct Grounding(Option<AhoCorasick>);

impl Grounding {
    /// Declines all documents if a name is empty or if there are too many names for one searcher.
    pub(crate) fn new(names: &[String]) -> Result<Self, Declined> {
        if names.is_empty() {
            return Ok(Self(None));
        }
        if names.iter().any(String::is_empty) {
            return Err(Declined);
        }
        let searcher = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(names);
        searcher.map(|searcher| Self(Some(searcher))).map_err(|_| Declined)
    }

    /// Writes a text: its names as special tokens, and the non-empty texts around them. A text
    /// without names is written unchanged.
    pub(crate) fn write(
        &self,
        page: &mut Page<'_>,
        text: &str,
        label: Label,
    ) -> Result<(), Declined> {
        let mut start = 0;
        for name in self.0.iter().flat_map(|searcher| searcher.find_iter(text)) {
            write_some(page, &text[start..name.start()], label);
            page.grounding(name.pattern().as_usize(), label)?;
            start = name.end();
        }
        if start == 0 {
            page.text(text, label);
        } else {
            write_some(page, &text[start..], label);
        }
        Ok(())
    }
}

fn write_some(page: &mut Page<'_>, text: &str, label: Label) {
    if !text.is_empty() {
        page.text(text, label);
    }
}
