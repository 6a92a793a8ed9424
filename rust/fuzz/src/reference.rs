//! Plain implementations of splitting, decoding, merging and learning, which share no code with the
//! core.

use std::collections::HashMap;

use nanotok_bpe::{Behavior, Kind, Merge, Step};

/// The spans of a document from the regex engine, with their kinds.
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

/// The pieces of a step in a text: its parts, with whether each is a match, joined by its behavior.
pub fn step<'t>(step: &Step, regex: &fancy_regex::Regex, text: &'t [u8]) -> Vec<&'t [u8]> {
    let mut parts: Vec<(usize, bool)> = split(regex, text)
        .into_iter()
        .map(|(part, kind)| (part.len(), (kind == Kind::Match) != step.invert))
        .collect();
    // A match is joined with the part after it as, in reverse order, with the part before it.
    let reversed = step.behavior == Behavior::MergedWithNext;
    if reversed {
        parts.reverse();
    }
    let mut lengths: Vec<usize> = Vec::new();
    let mut before = false;
    for (length, is_match) in parts {
        let joins = match step.behavior {
            Behavior::Isolated => false,
            Behavior::Contiguous => is_match == before,
            Behavior::MergedWithPrevious | Behavior::MergedWithNext => is_match && !before,
        };
        match lengths.last_mut() {
            Some(last) if joins => *last += length,
            _ => lengths.push(length),
        }
        before = is_match;
    }
    if reversed {
        lengths.reverse();
    }
    let mut rest = text;
    let cut = |length: usize| {
        let (piece, after) = rest.split_at(length);
        rest = after;
        piece
    };
    lengths.into_iter().map(cut).collect()
}

/// A list of pairs, of which those with the lowest position are merged first.
#[derive(Debug)]
pub struct Listed {
    ranks: HashMap<(Vec<u8>, Vec<u8>), usize>,
}

impl Listed {
    /// Of equal pairs, the last one counts.
    pub fn new(pairs: &[(Vec<u8>, Vec<u8>)]) -> Self {
        Self { ranks: pairs.iter().cloned().zip(0..).collect() }
    }

    /// The tokens of a span: always the neighbors with the lowest position are merged, the leftmost
    /// first.
    pub fn merge(&self, span: &[u8]) -> Vec<Vec<u8>> {
        let mut tokens: Vec<Vec<u8>> = span.iter().map(|&byte| vec![byte]).collect();
        let rank = |pair: &[Vec<u8>]| self.ranks.get(&(pair[0].clone(), pair[1].clone())).copied();
        let mut found: Vec<Option<usize>> = tokens.windows(2).map(rank).collect();
        while let Some((_, at)) =
            found.iter().enumerate().filter_map(|(at, rank)| Some(((*rank)?, at))).min()
        {
            let right = tokens.remove(at + 1);
            tokens[at].extend(right);
            found.remove(at);
            for place in [at.checked_sub(1), Some(at)].into_iter().flatten() {
                if place < found.len() {
                    found[place] = rank(&tokens[place..place + 2]);
                }
            }
        }
        tokens
    }
}

/// The bytes of every id.
pub fn spell(merges: &[Merge]) -> Vec<Vec<u8>> {
    let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    for &(left, right) in merges {
        tokens.push([tokens[left as usize].as_slice(), &tokens[right as usize]].concat());
    }
    tokens
}

/// Encodes spans one after the other.
#[derive(Debug)]
pub struct Merger {
    new_ids: HashMap<Merge, u32>,
    whole: HashMap<Vec<u8>, u32>,
    known: HashMap<Vec<u8>, Vec<u32>>,
}

impl Merger {
    /// Stores merges and the bytes of their tokens.
    pub fn new(merges: &[Merge], tokens: &[Vec<u8>]) -> Self {
        let mut whole = HashMap::new();
        for (id, token) in (0..).zip(tokens) {
            whole.entry(token.clone()).or_insert(id);
        }
        let new_ids = merges.iter().copied().zip(256..).collect();
        Self { new_ids, whole, known: HashMap::new() }
    }

    /// The ids of a span, which are cached.
    pub fn encode(&mut self, span: &[u8]) -> &[u32] {
        if !self.known.contains_key(span) {
            let ids = self.whole.get(span).map_or_else(|| self.merge(span), |&id| vec![id]);
            self.known.insert(span.to_vec(), ids);
        }
        &self.known[span]
    }

    /// Always applies the lowest merge, the leftmost first, until none is left.
    ///
    /// All places of the lowest merge are merged in one pass: a merge makes only pairs with its new
    /// id, which come later in the list, so the next lowest merge is the same one further right.
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

/// Learns merges by recounting everything before each.
#[derive(Debug)]
pub struct Learner {
    spans: Vec<(Vec<u32>, u64)>,
    lengths: Vec<usize>,
}

impl Learner {
    /// Stores spans and their counts.
    pub fn new(spans: Vec<(Vec<u8>, u64)>) -> Self {
        let as_ids = |span: Vec<u8>| span.into_iter().map(u32::from).collect();
        let spans = spans.into_iter().map(|(span, count)| (as_ids(span), count)).collect();
        Self { spans, lengths: vec![1; 256] }
    }

    /// The pair with the highest count, of equal counts the smallest, among those that are not too
    /// long.
    pub fn best(&self, max_token_bytes: usize) -> Option<(Merge, u64)> {
        let mut counts: HashMap<Merge, u64> = HashMap::new();
        for (ids, count) in &self.spans {
            for pair in ids.windows(2) {
                *counts.entry((pair[0], pair[1])).or_default() += count;
            }
        }
        let length = |id: u32| self.lengths[id as usize];
        counts.retain(|pair, _| length(pair.0) + length(pair.1) <= max_token_bytes);
        counts.into_iter().min_by_key(|&(pair, count)| (std::cmp::Reverse(count), pair))
    }

    /// Makes the pair the next id, from left to right; returns the number of applications.
    pub fn merge(&mut self, pair: Merge) -> u64 {
        let new = u32::try_from(self.lengths.len()).expect("ids are few");
        self.lengths.push(self.lengths[pair.0 as usize] + self.lengths[pair.1 as usize]);
        let mut times = 0;
        for (ids, count) in &mut self.spans {
            let mut at = 0;
            while at + 1 < ids.len() {
                if (ids[at], ids[at + 1]) == pair {
                    ids.splice(at..at + 2, [new]);
                    times += *count;
                }
                at += 1;
            }
        }
        times
    }
}
