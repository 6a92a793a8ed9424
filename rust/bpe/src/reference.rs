//! Plain implementations of the other modules for tests, simple and slow.

use std::collections::BTreeMap;

use crate::{Behavior, Goal, Kind, Learned, Merge, Step, Stop, Superwords, hash64};

/// A pattern of superwords.
pub(crate) const SUPERWORDS: &str = r"\p{N}{1,2}| ?[^\s\p{L}\p{M}\p{N}]{2,}+[\r\n/]*|(?>(?: ?(?:[\p{L}\p{M}]{1,16}|[^\s\p{L}\p{M}\p{N}](?![^\s\p{L}\p{M}\p{N}]))| (?=\p{N})){1,256})|\s*[\r\n]|\s+(?!\S)|\s+";

/// Spans of the regex engine, with their kinds.
pub(crate) fn split(regex: &fancy_regex::Regex, document: &[u8]) -> Vec<(Vec<u8>, Kind)> {
    let mut spans = Vec::new();
    for chunk in document.utf8_chunks() {
        let text = chunk.valid();
        let mut done = 0;
        for found in
            regex.find_iter(text).map(Result::unwrap).filter(|found| !found.as_str().is_empty())
        {
            spans.push((&text.as_bytes()[done..found.start()], Kind::Gap));
            spans.push((found.as_str().as_bytes(), Kind::Match));
            done = found.end();
        }
        spans.push((&text.as_bytes()[done..], Kind::Gap));
        spans.extend(chunk.invalid().chunks(1).map(|byte| (byte, Kind::InvalidByte)));
    }
    let spans = spans.into_iter().filter(|(span, _)| !span.is_empty());
    spans.map(|(span, kind)| (span.to_vec(), kind)).collect()
}

/// The pieces of steps, each of which splits the pieces of the one before; invalid bytes are pieces.
pub(crate) fn split_by_steps(
    steps: &[Step],
    regexes: &[fancy_regex::Regex],
    document: &[u8],
) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    for chunk in document.utf8_chunks() {
        let mut texts = vec![chunk.valid().as_bytes().to_vec()];
        texts.retain(|text| !text.is_empty());
        for (step, regex) in steps.iter().zip(regexes) {
            texts = texts.iter().flat_map(|text| split_by_step(step, regex, text)).collect();
        }
        pieces.extend(texts);
        pieces.extend(chunk.invalid().chunks(1).map(<[u8]>::to_vec));
    }
    pieces
}

/// The pieces of one step, joined as by `tokenizers`.
fn split_by_step(step: &Step, regex: &fancy_regex::Regex, text: &[u8]) -> Vec<Vec<u8>> {
    let parts = split(regex, text).into_iter();
    let mut parts: Vec<_> =
        parts.map(|(part, kind)| (part, (kind == Kind::Match) != step.invert)).collect();
    let from_the_end = step.behavior == Behavior::MergedWithNext;
    if from_the_end {
        parts.reverse();
    }
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let mut was_match = false;
    for (part, is_match) in parts {
        let joins = match step.behavior {
            Behavior::Isolated => false,
            Behavior::Contiguous => is_match == was_match,
            Behavior::MergedWithPrevious | Behavior::MergedWithNext => is_match && !was_match,
        };
        match pieces.last_mut().filter(|_| joins) {
            Some(last) if from_the_end => *last = [part, last.clone()].concat(),
            Some(last) => last.extend(part),
            None => pieces.push(part),
        }
        was_match = is_match;
    }
    if from_the_end {
        pieces.reverse();
    }
    pieces
}

/// Spans and their counts, sorted by (hash64, span).
pub(crate) fn count(pattern: &str, documents: &[Vec<u8>]) -> Vec<(u64, Vec<u8>, u64)> {
    let regex = fancy_regex::Regex::new(pattern).unwrap();
    let mut counts = BTreeMap::new();
    for (span, _) in documents.iter().flat_map(|document| split(&regex, document)) {
        *counts.entry((hash64(&span), span)).or_insert(0) += 1;
    }
    counts.into_iter().map(|((hash, span), count)| (hash, span, count)).collect()
}

/// The result of `learn`: recounts everything before each merge.
pub(crate) fn learn(spans: &[(Vec<u8>, u64)], goal: Goal) -> Learned {
    let sequences = spans.iter().map(|(span, count)| (as_ids(span), *count)).collect();
    let bytes: Vec<_> = (0..=255).map(|byte| vec![byte]).collect();
    learn_on(sequences, &bytes, None, goal)
}

/// The same for spans as ids, of which `base` has the bytes. No merge makes these bytes again.
pub(crate) fn learn_on(
    mut sequences: Vec<(Vec<u32>, u64)>,
    base: &[Vec<u8>],
    superwords: Option<Superwords<'_>>,
    goal: Goal,
) -> Learned {
    let mut tokens = base.to_vec();
    let (mut merges, mut counts, mut applied) = (Vec::new(), Vec::new(), Vec::new());
    let stop = loop {
        if merges.len() == goal.num_merges {
            break Stop::Reached;
        }
        let mut pairs: BTreeMap<Merge, u64> = BTreeMap::new();
        for (ids, count) in &sequences {
            for pair in ids.windows(2) {
                *pairs.entry((pair[0], pair[1])).or_insert(0) += count;
            }
        }
        let bytes = |pair: Merge| [&tokens[pair.0 as usize][..], &tokens[pair.1 as usize]].concat();
        pairs.retain(|&pair, count| {
            let token = bytes(pair);
            let words = token.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).count();
            let is_allowed = superwords.is_none_or(|it| {
                let length = it.forbidden.len().max(1);
                let has_forbidden = token.windows(length).any(|part| part == it.forbidden);
                words <= it.max_words && !has_forbidden
            });
            *count > 0
                && token.len() <= goal.max_token_bytes
                && !base.contains(&token)
                && is_allowed
        });
        // Of equal maxima `max_by_key` returns the last: the smallest pair in reverse order.
        let Some((pair, count)) = pairs.into_iter().rev().max_by_key(|&(_, count)| count) else {
            break Stop::NoPairLeft;
        };
        if count < goal.min_pair_count {
            break Stop::BelowMinPairCount;
        }
        let new = u32::try_from(tokens.len()).unwrap();
        tokens.push(bytes(pair));
        let mut times = 0;
        for (ids, count) in &mut sequences {
            let shorter = replace(ids, pair, new);
            times += *count * (ids.len() - shorter.len()) as u64;
            *ids = shorter;
        }
        merges.push(pair);
        counts.push(count);
        applied.push(times);
    };
    Learned { merges, counts, applied, stop }
}

/// Ids of one span: the whole span if it is a token, otherwise always the lowest merge, leftmost
/// first.
pub(crate) fn encode_span(merges: &[Merge], span: &[u8]) -> Vec<u32> {
    let priorities: Vec<u32> = (0..).take(merges.len()).collect();
    encode_span_by(merges, &priorities, span)
}

/// The same for merges with priorities, of which the lowest comes first.
pub(crate) fn encode_span_by(merges: &[Merge], priorities: &[u32], span: &[u8]) -> Vec<u32> {
    let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    for &(left, right) in merges {
        tokens.push([tokens[left as usize].clone(), tokens[right as usize].clone()].concat());
    }
    if let Some(id) = (0..).zip(&tokens).find_map(|(id, token)| (token == span).then_some(id)) {
        return vec![id];
    }
    let mut ids = as_ids(span);
    let merge_of = |pair: &[u32]| merges.iter().position(|&merge| merge == (pair[0], pair[1]));
    while let Some((_, at, merge)) = ids
        .windows(2)
        .enumerate()
        .filter_map(|(at, pair)| merge_of(pair).map(|merge| (priorities[merge], at, merge)))
        .min()
    {
        ids.splice(at..at + 2, [256 + u32::try_from(merge).unwrap()]);
    }
    ids
}

/// The tokens of one span: of all adjacent pairs in the list, always the one with the lowest position
/// is merged, leftmost first. Of equal pairs, the last one counts.
pub(crate) fn merge_pairs(pairs: &[(Vec<u8>, Vec<u8>)], span: &[u8]) -> Vec<Vec<u8>> {
    let mut tokens: Vec<Vec<u8>> = span.iter().map(|&byte| vec![byte]).collect();
    let rank = |pair: &[Vec<u8>]| {
        pairs.iter().rposition(|(left, right)| *left == pair[0] && *right == pair[1])
    };
    while let Some((_, at)) =
        tokens.windows(2).enumerate().filter_map(|(at, pair)| Some((rank(pair)?, at))).min()
    {
        let joined = tokens[at..at + 2].concat();
        tokens.splice(at..at + 2, [joined]);
    }
    tokens
}

/// The ranks of one span, as by tiktoken: the whole span if it is a token, otherwise always the
/// neighbors are joined whose joined bytes have the lowest rank, leftmost first.
pub(crate) fn join_ranks(tokens: &[&[u8]], span: &[u8]) -> Vec<usize> {
    let rank = |bytes: &[u8]| tokens.iter().position(|&token| token == bytes);
    if let Some(whole) = rank(span) {
        return vec![whole];
    }
    let mut parts: Vec<Vec<u8>> = span.iter().map(|&byte| vec![byte]).collect();
    while let Some((_, at)) = parts
        .windows(2)
        .enumerate()
        .filter_map(|(at, pair)| Some((rank(&pair.concat())?, at)))
        .min()
    {
        let joined = parts[at..at + 2].concat();
        parts.splice(at..at + 2, [joined]);
    }
    parts.iter().map(|part| rank(part).unwrap()).collect()
}

fn as_ids(span: &[u8]) -> Vec<u32> {
    span.iter().map(|&byte| u32::from(byte)).collect()
}

fn replace(ids: &[u32], pair: Merge, new: u32) -> Vec<u32> {
    let mut replaced = Vec::new();
    let mut at = 0;
    while at < ids.len() {
        let found = ids[at..].starts_with(&[pair.0, pair.1]);
        replaced.push(if found { new } else { ids[at] });
        at += if found { 2 } else { 1 };
    }
    replaced
}
