//! Tests which patterns belong to the family: usual patterns, variants, and near misses.

use super::*;

const CL100K: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

fn family(pattern: &str) -> Option<Family> {
    Family::of(&Grammar::new(pattern)?)
}

fn contractions_of(pattern: &str) -> Vec<String> {
    let words = family(pattern).unwrap().contractions;
    words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
}

/// GPT-2's pattern with one part replaced.
fn check(part: &str, other: &str, expected: bool) {
    assert!(GPT2.contains(part), "{part}");
    let pattern = GPT2.replacen(part, other, 1);
    assert_eq!(family(&pattern).is_some(), expected, "{pattern}");
}

#[test]
fn the_choices_are_read_from_the_pattern() {
    let cl100k = family(CL100K).unwrap();
    assert_eq!((cl100k.spaced_digits, cl100k.max_digits), (false, 3));
    assert!(cl100k.spaced_signs && cl100k.text_end);
    assert_eq!(Some(cl100k.prefix), set(r"[^\r\n\p{L}\p{N}]"));
    assert_eq!(Some(cl100k.tail), set(r"[\r\n]"));
    assert_eq!(Some(cl100k.newlines), set(r"[\r\n]"));

    let gpt2 = family(GPT2).unwrap();
    assert_eq!((gpt2.spaced_digits, gpt2.max_digits), (true, u32::MAX));
    assert!(gpt2.spaced_signs && !gpt2.text_end);
    assert_eq!(gpt2.prefix, ClassUnicode::new([ClassUnicodeRange::new(' ', ' ')]));
    assert_eq!(gpt2.tail, ClassUnicode::empty());
    assert_eq!(gpt2.newlines, ClassUnicode::empty());
}

#[test]
fn contractions_fold_case_as_in_the_regex() {
    assert_eq!(contractions_of(GPT2), ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"]);
    let mut short: Vec<_> = contractions_of(CL100K);
    short.retain(|word| word.chars().count() == 2);
    short.sort();
    assert_eq!(short, ["'D", "'M", "'S", "'T", "'d", "'m", "'s", "'t", "'\u{17f}"]);
    let mut kelvin = contractions_of(&GPT2.replacen("'s", "'(?i:k)", 1));
    kelvin.truncate(3);
    kelvin.sort();
    assert_eq!(kelvin, ["'K", "'k", "'\u{212a}"]);
    assert_eq!(contractions_of(QWEN2).len(), contractions_of(CL100K).len());
}

#[test]
fn an_equivalent_spelling_is_the_same_member() {
    let expected = family(GPT2);
    let possessive = r"'(?:[st]|re|ve|m|ll|d)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s+(?!\S)|\s";
    let spelt =
        r"'[st]|'re|'ve|'m|'ll|'d|[ ]?\p{Letter}+|\x20?\p{N}{1,}| ?[^\p{N}\p{L}\s]+|\s+(?!\S)|\s+";
    for pattern in [possessive, spelt] {
        assert_eq!(family(pattern), expected, "{pattern}");
    }
    let several = QWEN2.replacen(r"\s*[\r\n]+", r"\s*[\r\n]", 1);
    assert_eq!(family(&several), family(QWEN2));
}

#[test]
fn relatives_are_recognized() {
    check("'s|'t|'re|'ve|'m|'ll|'d|", "", true);
    check("'ll", "'\u{e9}t\u{e9}", true);
    check(r" ?\p{L}+", r"\p{L}+", true);
    check(r" ?\p{L}+", r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+", true);
    check(r" ?\p{L}+", r"\S?\p{L}++", true);
    check(r" ?\p{N}+", r"\p{N}", true);
    check(r" ?\p{N}+", r" ?\p{N}{1,7}", true);
    check(r" ?\p{N}+", r"\d+", false);
    check(r" ?[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{N}]+", true);
    check(r" ?[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", true);
    check(r"|\s+(?!\S)|\s+", r"|\s+$|\s*\n|\s+(?!\S)|\s", true);
    check(r"|\s+(?!\S)|\s+", r"|\s++$|\s+(?!\S)|\s", true);
    check(r"|\s+(?!\S)|\s+", r"|\s*[\r\n\x{2028}]+|\s+(?!\S)|\s", true);
}

#[test]
fn near_misses_are_left_to_other_engines() {
    check("'s", "s", false);
    check("'s", "'s+", false);
    check("'s", "'", false);
    check("'s", "'s|x", false);
    check(r" ?\p{L}+", r" ?\p{L}*", false);
    check(r" ?\p{L}+", r" ?\p{L}+?", false);
    check(r" ?\p{L}+", r" ??\p{L}+", false);
    check(r" ?\p{L}+", r" *\p{L}+", false);
    check(r" ?\p{L}+", r" ?\p{L}{2,}", false);
    check(r" ?\p{L}+", r" ?[\p{L}']+", false);
    check(r" ?\p{L}+", r" ?[\p{L}--a]+", false);
    check(r" ?\p{L}+", r" ?(\p{L})+", false);
    check(r" ?\p{L}+", r" ?\p{L}+'?", false);
    check(r" ?\p{N}+", r" ?\p{N}{2,3}", false);
    check(r" ?\p{N}+", r"_?\p{N}+", false);
    check(r" ?[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{N}_]+", false);
    check(r" ?[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{N}]+\n", false);
    check(r" ?[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{N}]+[\r\n]?", false);
    check(r" ?[^\s\p{L}\p{N}]+", r"\t?[^\s\p{L}\p{N}]+", false);
    check(r"|\s+(?!\S)|\s+", r"|\s+", false);
    check(r"|\s+(?!\S)|\s+", r"|\s+(?!\w)|\s+", false);
    check(r"|\s+(?!\S)|\s+", r"|\s+(?!\S)|\s+|x", false);
    check(r"|\s+(?!\S)|\s+", r"|\s*[\r\n]|\s++$|\s+(?!\S)|\s+", false);
    check(r"|\s+(?!\S)|\s+", r"|\s*[\r\nx]|\s+(?!\S)|\s+", false);
    check(r"|\s+(?!\S)|\s+", r"|[ \n]*\n|\s+(?!\S)|\s+", false);
    check(r"|\s+(?!\S)|\s+", r"|\s+\n|\s+(?!\S)|\s+", false);
    check(r"|\s+(?!\S)|\s+", r"|\s+\Z|\s+(?!\S)|\s+", false);
}

#[test]
fn another_order_is_another_pattern() {
    check(r" ?\p{L}+| ?\p{N}+", r" ?\p{N}+| ?\p{L}+", false);
    check(r" ?\p{N}+| ?[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{N}]+| ?\p{N}{1,2}", false);
    check(r" ?\p{L}+", r" ?\p{L}+|'x", false);
}

/// GPT-2's pattern with letters whose case matters: `first` and `second` are the alternatives, in
/// which A and B are upper and lower letters with common ones, and W is contractions.
fn check_cased(first: &str, second: &str, expected: bool) {
    let own = [first, second].map(|own| {
        own.replace('W', "('x|'y)?")
            .replace('A', r"[\p{Lu}\p{Lt}\p{Lo}\p{M}]")
            .replace('B', r"[\p{Ll}\p{Lm}\p{Lo}]")
    });
    let pattern = GPT2.replacen(r" ?\p{L}+", &own.join("|"), 1);
    let attached = pattern.replacen("'s|'t|'re|'ve|'m|'ll|'d|", "", 1);
    let pattern = if attached.contains("'x") { attached } else { pattern };
    assert_eq!(family(&pattern).is_some(), expected, "{pattern}");
}

#[test]
fn letters_whose_case_matters_are_read_from_the_pattern() {
    let o200k = family(O200K).unwrap();
    assert_eq!(Some(o200k.upper), set(r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"));
    assert_eq!(Some(o200k.lower), set(r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"));
    assert_eq!(Some(o200k.letters), set(r"[\p{L}\p{M}]"));
    assert_eq!(Some(o200k.tail), set(r"[\r\n/]"));
    assert!(o200k.contractions.is_empty() && !o200k.text_end);
    assert_eq!(o200k.attached, family(QWEN2).unwrap().contractions);

    let plain = family(&O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "")).unwrap();
    assert!(plain.attached.is_empty() && plain.contractions.is_empty());
    let possessive = O200K.replace(")?|", ")?+|").replace("]+(?i", "]++(?i");
    assert_eq!(family(&possessive), family(O200K));
}

#[test]
fn two_alternatives_of_letters_are_exactly_these_or_none() {
    check_cased("A*B+", "A+B*", true);
    check_cased(" ?A*B+", " ?A+B*", true);
    check_cased("A*B+W", "A+B*W", true);
    check_cased(" ?+A*B++W", " ?+A++B*+W", true);
    check_cased("A+B*", "A*B+", false);
    check_cased("A*B+", "A*B+", false);
    check_cased("A*B*", "A+B*", false);
    check_cased("A?B+", "A+B*", false);
    check_cased("A*?B+", "A+B*", false);
    check_cased("A*+B+", "A+B*", false);
    check_cased("A*B+", "A+", false);
    check_cased("A*B+", "B+A*", false);
    check_cased(" ?A*B+", "A+B*", false);
    check_cased("A*B+W", "A+B*", false);
    check_cased("A*B+W", "A+B*('y|'x)?", false);
    check_cased("A*B+('x|'y)", "A+B*('x|'y)", false);
    check_cased("A*B+(?:'x|y)?", "A+B*(?:'x|y)?", false);
    check_cased("A*B+(?:'x)??", "A+B*(?:'x)??", false);
    check_cased("A*B+(?:'x)*", "A+B*(?:'x)*", false);
    check_cased("A*[B5]+", "A+B*", false);
    check_cased("A*[B']+", "A+[B']*", false);
}

#[test]
fn contractions_are_before_or_after_letters() {
    check(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+", r" ?\p{L}+(?:'s|'t)?", true);
    check(r" ?\p{L}+", r" ?\p{L}+(?:'s|'t)?", false);
}

#[test]
fn hard_characters_are_those_not_determined_by_their_neighbors() {
    assert_eq!(Some(family(O200K).unwrap().hard()), set(r"[\p{Lm}\p{Lo}\p{M}]"));
    assert_eq!(family(CL100K).unwrap().hard(), ClassUnicode::empty());
    let marks = QWEN2.replacen(r"?\p{L}+", r"?[\p{L}\p{M}]+", 1);
    assert_eq!(Some(family(&marks).unwrap().hard()), set(r"\p{M}"));
    assert!(
        [O200K, CL100K, QWEN2, &marks].iter().all(|&easy| family(easy).unwrap().is_mostly_easy())
    );
    let slash = CL100K.replacen(r"[\r\n]*+", r"[\r\na]*+", 1);
    assert!(!family(&slash).unwrap().is_mostly_easy());
}
