//! Sequences: examples of every behavior, and the comparison with plain splitting.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::split::{Plan, Splitter};
use crate::{Error, GaveUp, reference};

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const DEEPSEEK: &str = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";

/// Patterns with every engine, of which some look around.
const PATTERNS: [&str; 12] = [
    r"\p{N}{1,3}",
    r"\p{N}",
    "[\u{4e00}-\u{9fa5}]+",
    DEEPSEEK,
    GPT2,
    r"\s+(?!\S)|\s+",
    r"(?<=a)b|\s",
    "a+",
    " ",
    r"(a)\1|1",
    r"\p{L}(?=\p{N})",
    "a*",
];

const BEHAVIORS: [Behavior; 4] = [
    Behavior::Isolated,
    Behavior::Contiguous,
    Behavior::MergedWithPrevious,
    Behavior::MergedWithNext,
];

fn step(pattern: &str, behavior: Behavior, invert: bool) -> Step {
    Step { pattern: pattern.to_owned(), behavior, invert }
}

fn spans(steps: &[Step], document: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let mut spans = Vec::new();
    let splitter = Splitter::of_steps(steps, GapRule::Refuse)?;
    splitter.split(document, |span, _| spans.push(span.to_vec()))?;
    Ok(spans)
}

fn check(behavior: Behavior, invert: bool, text: &str, expected: &str) {
    let steps = [step("-", behavior, invert), step(r"\S+", Behavior::Contiguous, false)];
    for steps in [&steps[..1], &steps[..]] {
        let found = spans(steps, text.as_bytes()).unwrap().join(&b'|');
        assert_eq!(String::from_utf8(found).unwrap(), expected, "{behavior:?} {invert}");
    }
}

/// The examples of the documentation of `tokenizers`, and those at the ends.
#[test]
fn behaviors_join_parts() {
    check(Behavior::Isolated, true, "the-final--countdown", "the|-|final|-|-|countdown");
    check(Behavior::Contiguous, false, "the-final--countdown", "the|-|final|--|countdown");
    check(Behavior::MergedWithPrevious, false, "the-final--countdown", "the-|final-|-|countdown");
    check(Behavior::MergedWithNext, false, "the-final--countdown", "the|-final|-|-countdown");
    check(Behavior::MergedWithPrevious, false, "--a--", "-|-|a-|-");
    check(Behavior::MergedWithNext, false, "--a--", "-|-a|-|-");
    check(Behavior::MergedWithPrevious, true, "--a--b", "-|-a|-|-b");
    check(Behavior::MergedWithNext, true, "a--b--", "a-|-|b-|-");
    check(Behavior::Contiguous, true, "--a--", "--|a|--");
    check(Behavior::Isolated, true, "", "");
}

#[test]
fn a_later_step_sees_only_its_piece() {
    let ends = |pattern| {
        let steps =
            [step("-", Behavior::Isolated, false), step(pattern, Behavior::Isolated, false)];
        let found = spans(&steps, b"a  -  b").unwrap().join(&b'|');
        String::from_utf8(found).unwrap()
    };
    assert_eq!(ends(r"\s+(?!\S)|\s+"), "a|  |-| | |b");
    assert_eq!(ends(r"(?<=-) | +"), "a|  |-|  |b");
}

#[test]
fn steps_are_named_by_the_slowest_engine() {
    let engine = |patterns: &[&str]| {
        let steps: Vec<Step> = patterns.iter().map(|pattern| Step::plain(pattern)).collect();
        Splitter::of_steps(&steps, GapRule::Spans).unwrap().engine()
    };
    assert_eq!(engine(&PATTERNS[..3]), "lexer");
    assert_eq!(engine(&[PATTERNS[0], GPT2]), "lexer");
    assert_eq!(engine(&PATTERNS[..4]), "table");
    assert_eq!(engine(&[r"(a)\1", PATTERNS[0]]), "regex");
}

#[test]
fn steps_are_returned_and_limited() {
    let steps = [step("a", Behavior::Contiguous, true), step("b", Behavior::Isolated, false)];
    for steps in [&steps[..], &steps[..1], &steps[1..]] {
        assert_eq!(Splitter::of_steps(steps, GapRule::Spans).unwrap().steps(), steps);
    }
    for number in [0, MAX_STEPS + 1] {
        let many = vec![step("a", Behavior::Contiguous, false); number];
        let reason = format!("there are {number} steps: it must be 1 to 16");
        let error = Splitter::of_steps(&many, GapRule::Spans).unwrap_err();
        assert_eq!(error, Error::Pattern { reason });
    }
    let bad = [step("a", Behavior::Isolated, false), step("(", Behavior::Isolated, false)];
    assert!(matches!(spans(&bad, b""), Err(Error::Pattern { .. })));
}

/// The work of all pieces counts, and an error names the position in the document.
#[test]
fn the_work_of_a_document_is_limited_over_all_steps() {
    let hard = r"(?:a?){12}a{12}(?=z)|\s+|\S";
    let steps = [step("[0-9]", Behavior::Isolated, false), step(hard, Behavior::Isolated, false)];
    let piece = b"1aaaaaaaaaaaaaaaaaaaaaaa\xff";
    let document = piece.repeat(9999);
    let found = spans(&steps, &document).unwrap_err();
    let Error::Split { document: 0, offset, reason: GaveUp::Backtracking } = found else {
        panic!("{found:?}");
    };
    assert!(offset > piece.len(), "{offset}");
    assert!(spans(&steps, &document[..piece.len()]).is_ok());
}

fn text() -> impl Strategy<Value = String> {
    let characters = prop_oneof![
        8 => prop::sample::select(vec![
            'a', 'b', 's', 'L', ' ', '\n', '\r', '\t', '1', '2', '\'', '!', '/', '\u{17f}',
            '\u{e9}', '\u{301}', '\u{a0}', '\u{3000}', '\u{4e2d}', '\u{bd}', '\u{85}', '\u{1f600}',
        ]),
        1 => any::<char>(),
    ];
    prop::collection::vec(characters, 0..40).prop_map(String::from_iter)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => (text(), 1usize..9).prop_map(|(text, times)| text.repeat(times).into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

/// Compiled once, since compiling takes longer than a thousand cases.
static COMPILED: LazyLock<Vec<(Stage, fancy_regex::Regex)>> = LazyLock::new(|| {
    let compiled = |pattern: &&str| {
        let stage = Stage::new(&Step::plain(pattern)).unwrap();
        (stage, fancy_regex::Regex::new(pattern).unwrap())
    };
    PATTERNS.iter().map(compiled).collect()
});

/// The splitter of the steps, and the regular expression of each.
fn compiled(steps: &[Step]) -> (Splitter, Vec<fancy_regex::Regex>) {
    let of = |step: &Step| PATTERNS.iter().position(|&pattern| pattern == step.pattern).unwrap();
    let stages =
        steps.iter().map(|step| Stage { step: step.clone(), ..COMPILED[of(step)].0.clone() });
    let sequence = Sequence { stages: stages.collect() };
    let splitter = Splitter { plan: Plan::Steps(sequence), gaps: GapRule::Spans };
    (splitter, steps.iter().map(|step| COMPILED[of(step)].1.clone()).collect())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any_step = (
        prop::sample::select(PATTERNS.to_vec()),
        prop::sample::select(BEHAVIORS.to_vec()),
        any::<bool>(),
    )
        .prop_map(|(pattern, behavior, invert)| step(pattern, behavior, invert));
    let plain = prop::sample::select(PATTERNS.to_vec()).prop_map(Step::plain);
    prop::collection::vec(prop_oneof![any_step, plain], 1..4)
}

proptest! {
    #[test]
    fn pieces_equal_the_reference(steps in steps(), documents in prop::collection::vec(bytes(), 1..9)) {
        let (splitter, regexes) = compiled(&steps);
        for document in &documents {
            let (mut found, mut ends) = (Vec::new(), Vec::new());
            splitter.split(document, |span, _| found.push(span.to_vec())).unwrap();
            prop_assert_eq!(&found, &reference::split_by_steps(&steps, &regexes, document), "{:?}", steps);
            splitter.visit_ends(document, |end| ends.push(end)).unwrap();
            prop_assert_eq!(ends.last().copied().unwrap_or(0), document.len());
            prop_assert_eq!(ends.len(), found.len());
            prop_assert_eq!(found.concat(), &document[..]);
        }
    }
}
