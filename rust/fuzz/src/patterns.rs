//! The fuzzed patterns, each with its splitters and its reference implementation. Patterns with a
//! name in `nanotok_ray/counts/patterns.py` have the same spelling, which
//! `tests/core/test_processes.py` checks.

use std::sync::LazyLock;

use nanotok_bpe::{GapRule, Splitter};

/// nanochat, rustbpe (GPT-4), cl100k, r50k; GPT-2, Qwen 2, o200k; one with gaps; superwords.
pub const PATTERNS: [&str; 10] = [
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\p{L}+|\s+",
    r"\p{N}{1,2}| ?[^\s\p{L}\p{M}\p{N}]{2,}+[\r\n/]*|(?>(?: ?(?:[\p{L}\p{M}]{1,16}|[^\s\p{L}\p{M}\p{N}](?![^\s\p{L}\p{M}\p{N}]))| (?=\p{N})){1,256})|\s*[\r\n]|\s+(?!\S)|\s+",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{M}\p{N}]{2,}+[\r\n/]*|(?>(?: ?(?:[\p{L}\p{M}]{1,16}|[^\s\p{L}\p{M}\p{N}](?![^\s\p{L}\p{M}\p{N}]))| (?=\p{N})){1,256})|\s*[\r\n]|\s+(?!\S)|\s+",
];

/// Limit of backtracking steps of a search, as in the core: long documents need more than the
/// default.
const BACKTRACK_LIMIT: usize = 200_000_000;

/// A pattern with its splitters.
#[derive(Debug)]
pub struct Case {
    /// The reference implementation.
    pub regex: fancy_regex::Regex,
    /// The splitter that users get, then one for each other engine that supports the pattern.
    pub splitters: Vec<Splitter>,
}

impl Case {
    fn new(pattern: &str) -> Self {
        let mut splitters: Vec<Splitter> = Vec::new();
        for spelled in spellings(pattern) {
            let splitter = Splitter::new(&spelled, GapRule::Spans).expect("a pattern");
            if splitters.iter().all(|other| other.engine() != splitter.engine()) {
                splitters.push(splitter);
            }
        }
        let engines: Vec<_> = splitters.iter().map(Splitter::engine).collect();
        eprintln!("{} for {pattern}", engines.join(", "));
        let builder = &mut fancy_regex::RegexBuilder::new(pattern);
        let regex = builder.backtrack_limit(BACKTRACK_LIMIT).build().expect("a pattern");
        Self { regex, splitters }
    }
}

/// The pattern, and two equivalent ones, of which the lexer does not recognize the first and no
/// automaton supports the second: "!!" follows an alternative that always matches a sign.
fn spellings(pattern: &str) -> [String; 3] {
    let spaces = r"|\s+(?!\S)|";
    let dead = pattern.replace(spaces, &format!("|!!{spaces}"));
    [pattern.to_owned(), dead, format!("(?:{pattern})(?=)")]
}

/// Patterns of steps: sets of characters, the last step of `DeepSeek`, GPT-2, look-around, one with
/// gaps.
pub const OF_STEPS: [&str; 8] = [
    r"\p{N}{1,3}",
    r"[\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
    PATTERNS[4],
    PATTERNS[6],
    r"\s+(?!\S)|\s+",
    r"(?<=a)b|\s",
    "ab|a",
];

static STEPS: LazyLock<Vec<fancy_regex::Regex>> = LazyLock::new(|| {
    let regex = |pattern: &&str| fancy_regex::Regex::new(pattern).expect("a pattern");
    OF_STEPS.iter().map(regex).collect()
});

/// The regular expression of one of the patterns of steps.
///
/// # Panics
///
/// If it is none of them.
pub fn of_step(pattern: &str) -> &'static fancy_regex::Regex {
    let number = OF_STEPS.iter().position(|&own| own == pattern);
    &STEPS[number.expect("a pattern of steps")]
}

static CASES: LazyLock<Vec<Case>> =
    LazyLock::new(|| PATTERNS.iter().map(|pattern| Case::new(pattern)).collect());

/// The pattern that a byte selects.
pub fn chosen(byte: u8) -> &'static Case {
    &CASES[usize::from(byte) % CASES.len()]
}
