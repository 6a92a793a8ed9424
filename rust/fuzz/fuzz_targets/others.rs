//! Tokenizers of others: any list of pairs, in any order and repeated, whole tokens, a numbering, and
//! any steps. The ids equal those of plain implementations, one by one, in a batch, and again from
//! the cache.

#![no_main]

use std::collections::HashMap;

use libfuzzer_sys::fuzz_target;
use nanotok_bpe::{
    Behavior, Documents, Encoder, Frame, GapRule, Splitter, Step, Tokens, merges_of_pairs,
};
use nanotok_fuzz::{patterns, program::Program, reference};

/// Longer documents take too long.
const MAX_BYTES: usize = 4000;

const BEHAVIORS: [Behavior; 4] = [
    Behavior::Isolated,
    Behavior::Contiguous,
    Behavior::MergedWithPrevious,
    Behavior::MergedWithNext,
];

type Pair = (Vec<u8>, Vec<u8>);

fuzz_target!(|bytes: &[u8]| {
    let mut program = Program::new(bytes);
    let steps: Vec<Step> = (0..1 + program.byte() % 3).map(|_| step(&mut program)).collect();
    let (swaps, num_whole, factor) = (program.byte() % 8, program.byte() % 4, program.byte());
    let mut pairs = pairs(&mut program);
    for _ in 0..swaps {
        let [one, other] = [program.byte(), program.byte()].map(usize::from);
        if !pairs.is_empty() {
            let (one, other) = (one % pairs.len(), other % pairs.len());
            let pair = pairs.remove(one);
            pairs.insert(other.min(pairs.len()), pair);
        }
    }
    let mut documents = program.documents(&[]);
    documents.iter_mut().for_each(|document| document.truncate(MAX_BYTES));
    check(&steps, &pairs, (num_whole, factor), &documents);
});

fn step(program: &mut Program<'_>) -> Step {
    let (pattern, kind) = (usize::from(program.byte()), program.byte());
    Step {
        pattern: patterns::OF_STEPS[pattern % patterns::OF_STEPS.len()].to_owned(),
        behavior: BEHAVIORS[usize::from(kind) % 4],
        invert: kind & 4 != 0,
    }
}

/// The merges of the program as pairs of bytes.
fn pairs(program: &mut Program<'_>) -> Vec<Pair> {
    let merges = program.merges();
    let tokens = reference::spell(&merges);
    let few = merges.into_iter().take(120);
    let spelled = few.map(|(left, right)| [left, right].map(|id| tokens[id as usize].clone()));
    let short = spelled.filter(|pair| pair.concat().len() <= 64);
    short.map(|[left, right]| (left, right)).collect()
}

/// Items back to back, and their offsets.
fn packed<'a>(items: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, Vec<i64>) {
    let (mut data, mut offsets) = (Vec::new(), vec![0]);
    for item in items {
        data.extend_from_slice(item);
        offsets.push(i64::try_from(data.len()).expect("it is small"));
    }
    (data, offsets)
}

fn check(steps: &[Step], pairs: &[Pair], (num_whole, factor): (u8, u8), documents: &[Vec<u8>]) {
    let (data, offsets) =
        packed(pairs.iter().flat_map(|(left, right)| [left.as_slice(), right.as_slice()]));
    let parts = Documents::new(&data, &offsets).expect("a batch");
    let (merges, positions) = merges_of_pairs(parts).expect("every list has merges");
    let mut tokens = reference::spell(&merges);
    let pieces: Vec<Vec<u8>> = documents.iter().flat_map(|it| split(steps, it)).collect();
    for piece in pieces.iter().step_by(3).take(num_whole.into()) {
        if !tokens.contains(piece) {
            tokens.push(piece.clone());
        }
    }
    let numbering: Vec<u32> =
        (0..).take(tokens.len()).map(|id: u32| (id + 1) * (u32::from(factor) + 1)).collect();
    let (data, offsets) = packed(tokens[256 + merges.len()..].iter().map(Vec::as_slice));
    let encoder = Encoder::of_tokens(
        Splitter::of_steps(steps, GapRule::Spans).expect("the patterns are known"),
        Tokens {
            merges: &merges,
            priorities: Some(&positions),
            whole: Some(Documents::new(&data, &offsets).expect("a batch")),
            numbering: Some(&numbering),
            space_runs: None,
        },
    );
    let encoder = encoder.expect("the tokens are different");
    let id_of: HashMap<&[u8], u32> = tokens.iter().map(Vec::as_slice).zip(numbering).collect();
    let list = reference::Listed::new(pairs);
    let ids_of = |piece: &Vec<u8>| match id_of.get(piece.as_slice()) {
        Some(&id) if tokens[256 + merges.len()..].contains(piece) => vec![id],
        _ => {
            let made = list.merge(piece);
            made.iter().map(|token| id_of[token.as_slice()]).collect()
        }
    };
    let expected: Vec<Vec<u32>> = documents
        .iter()
        .map(|document| split(steps, document).iter().flat_map(&ids_of).collect())
        .collect();
    let slices: Vec<&[u8]> = documents.iter().map(Vec::as_slice).collect();
    for _ in 0..2 {
        for (document, expected) in documents.iter().zip(&expected) {
            assert_eq!(&encoder.encode(document).expect("it is split"), expected);
        }
        let batch = encoder.encode_slices::<u32>(&slices, Frame::default(), 2);
        assert_eq!(batch.expect("it is split").0, expected.concat());
    }
}

/// The pieces of a document, in which invalid bytes are pieces.
fn split(steps: &[Step], document: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    for chunk in document.utf8_chunks() {
        let mut texts = vec![chunk.valid().as_bytes().to_vec()];
        for step in steps {
            let regex = patterns::of_step(&step.pattern);
            let split = |text: &Vec<u8>| {
                let found = reference::step(step, regex, text);
                found.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>()
            };
            texts = texts.iter().flat_map(split).collect();
        }
        pieces.extend(texts.into_iter().filter(|text| !text.is_empty()));
        pieces.extend(chunk.invalid().chunks(1).map(<[u8]>::to_vec));
    }
    pieces
}
