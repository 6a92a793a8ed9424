//! Plain twins: the obvious way to split, to spell and to merge. Shares no code with the core.

use std::collections::HashMap;

use nanotok_bpe::{Kind, Merge};

/// The spans of a document by the regex engine alone, and what each is.
pub fn split<'d>(regex: &fancy_regex::Regex, document: &'d [u8]) -> Vec<(&'d [u8], Kind)> {
    let mut spans = Vec::new();
    for chunk in document.utf8_chunks() {
        let text = chunk.valid();
        let mut done = 0;
        for found in regex.find_iter(text).map(|found| found.expect("the limit is high enough")) {
            if !found.as_str().is_empty() {
                spans.push((&text.as_bytes()[done..found.start()], Kind::Gap));
                spans.push((found.as_str().as_bytes(), Kind::Match));
                done = found.end();
            }
        }
        spans.push((&text.as_bytes()[done..], Kind::Gap));
        spans.extend(chunk.invalid().chunks(1).map(|byte| (byte, Kind::InvalidByte)));
    }
    spans.retain(|(span, _)| !span.is_empty());
    spans
}

/// The bytes of every id.
pub fn spell(merges: &[Merge]) -> Vec<Vec<u8>> {
    let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    for &(left, right) in merges {
        tokens.push([tokens[left as usize].as_slice(), &tokens[right as usize]].concat());
    }
    tokens
}

/// Encodes spans, one after the other.
#[derive(Debug)]
pub struct Merger {
    new_ids: HashMap<Merge, u32>,
    whole: HashMap<Vec<u8>, u32>,
    known: HashMap<Vec<u8>, Vec<u32>>,
}

impl Merger {
    /// Takes merges, and the tokens they spell.
    pub fn new(merges: &[Merge], tokens: &[Vec<u8>]) -> Self {
        let mut whole = HashMap::new();
        for (id, token) in (0..).zip(tokens) {
            whole.entry(token.clone()).or_insert(id);
        }
        let new_ids = merges.iter().copied().zip(256..).collect();
        Self { new_ids, whole, known: HashMap::new() }
    }

    /// The ids of a span, made once.
    pub fn encode(&mut self, span: &[u8]) -> &[u32] {
        if !self.known.contains_key(span) {
            let ids = self.whole.get(span).map_or_else(|| self.merge(span), |&id| vec![id]);
            self.known.insert(span.to_vec(), ids);
        }
        &self.known[span]
    }

    /// Always the lowest merge, the leftmost first, until there is none.
    ///
    /// Wherever the lowest stands is merged in one go: a merge makes only pairs with its new id, and who
    /// joins that comes later in the list, so that the next lowest is the same merge further right.
    fn merge(&self, span: &[u8]) -> Vec<u32> {
        let mut ids: Vec<u32> = span.iter().map(|&byte| byte.into()).collect();
        loop {
            let found = |pair: &[u32]| self.new_ids.get(&(pair[0], pair[1])).copied();
            let Some(lowest) = ids.windows(2).filter_map(found).min() else { return ids };
            let mut merged = Vec::with_capacity(ids.len());
            let mut at = 0;
            while at < ids.len() {
                let here = ids.get(at..at + 2).and_then(found) == Some(lowest);
                merged.push(if here { lowest } else { ids[at] });
                at += if here { 2 } else { 1 };
            }
            ids = merged;
        }
    }
}
