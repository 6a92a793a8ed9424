//! GSM8K: a question, and an answer in which `<<48/2=24>>` is a calculator call. Reads JSON into
//! turns.

use std::ops::Range;

use crate::declined::Declined;
use crate::json::{Text, Value, slice};
use crate::turns::{Said, Turn};
use crate::unused::Unused;

pub(crate) fn turns<'d>(
    document: Value<'d>,
    unused: &mut Unused<'_>,
) -> Result<Vec<Turn<'d>>, Declined> {
    let mut document = document.object()?;
    let (question, answer) = (document.text("question")?, document.text("answer")?);
    unused.row(&document);
    Ok(vec![Turn::User(question), Turn::Assistant(said(&answer))])
}

/// The parts of an answer: calls, each with its expression and its result, and the texts before,
/// between and after them, including empty ones.
fn said<'d>(answer: &Text<'d>) -> Vec<Said<'d>> {
    let mut said = Vec::new();
    let mut start = 0;
    for call in calls(answer) {
        push_part(answer, start..call.start, &mut said);
        push_part(answer, call.clone(), &mut said);
        start = call.end;
    }
    push_part(answer, start..answer.len(), &mut said);
    said
}

/// Adds a call, or the text between calls. nanochat compares the whole part only, so a text of only
/// `<<>>`, which is not a call in a longer text, is one.
fn push_part<'d>(answer: &Text<'d>, part: Range<usize>, said: &mut Vec<Said<'d>>) {
    let text = &answer[part.clone()];
    if !(text.starts_with("<<") && text.ends_with(">>")) {
        said.push(Said::text(slice(answer, part)));
        return;
    }
    let inner = part.start + 2..part.end - 2;
    let equals = answer[inner.clone()].rfind('=').map(|place| inner.start + place);
    let (expression, result) = match equals {
        Some(equals) => (inner.start..equals, equals + 1..inner.end),
        None => (inner.clone(), inner.end..inner.end),
    };
    said.push(Said::python(slice(answer, expression)));
    said.push(Said::output(slice(answer, result)));
}

/// The matches of `<<[^>]+>>` from the left; linear in the bytes.
fn calls(answer: &str) -> Vec<Range<usize>> {
    let bytes = answer.as_bytes();
    let mut found = Vec::new();
    let (mut start, mut close) = (0, 0);
    while let Some(open) = answer[start..].find("<<").map(|place| start + place) {
        let inner = open + 2;
        if close < inner {
            let Some(next) = answer[inner..].find('>') else { break };
            close = inner + next;
        }
        if close > inner && bytes.get(close + 1) == Some(&b'>') {
            start = close + 2;
            found.push(open..start);
        } else {
            start = open + 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Kind;
    use crate::testing::{check, check_declined, settings};
    use crate::turns::SaidKind;

    /// The regular expression, position by position.
    fn plain_calls(answer: &str) -> Vec<Range<usize>> {
        let (mut found, mut at) = (Vec::new(), 0);
        while at < answer.len() {
            let inner = answer.get(at..).and_then(|rest| rest.strip_prefix("<<"));
            let length = inner.and_then(|inner| inner.find('>')).filter(|&length| length > 0);
            match (inner, length) {
                (Some(inner), Some(length)) if inner[length..].starts_with(">>") => {
                    found.push(at..at + length + 4);
                    at += length + 4;
                }
                _ => at += 1,
            }
        }
        found
    }

    fn parts(answer: &str) -> Vec<(SaidKind, String)> {
        let said = said(&answer.into()).into_iter();
        said.map(|said| (said.kind, said.text.into_owned())).collect()
    }

    #[test]
    fn an_answer_is_cut_as_in_nanochat() {
        use SaidKind::{Output, Python, Text};
        let cases: [(&str, &[(SaidKind, &str)]); 13] = [
            ("", &[(Text, "")]),
            ("no\n#### 5", &[(Text, "no\n#### 5")]),
            ("<<1+1=2>>2", &[(Text, ""), (Python, "1+1"), (Output, "2"), (Text, "2")]),
            ("a<<3>>b", &[(Text, "a"), (Python, "3"), (Output, ""), (Text, "b")]),
            ("x<<a=b=c>>y", &[(Text, "x"), (Python, "a=b"), (Output, "c"), (Text, "y")]),
            ("<<=5>>", &[(Text, ""), (Python, ""), (Output, "5"), (Text, "")]),
            ("<<\n=\n>>", &[(Text, ""), (Python, "\n"), (Output, "\n"), (Text, "")]),
            (
                "<<1>><<2>>",
                &[
                    (Text, ""),
                    (Python, "1"),
                    (Output, ""),
                    (Text, ""),
                    (Python, "2"),
                    (Output, ""),
                    (Text, ""),
                ],
            ),
            ("<<>>", &[(Python, ""), (Output, "")]),
            ("<<1>2>>", &[(Python, "1>2"), (Output, "")]),
            ("a<<>>", &[(Text, "a<<>>")]),
            ("<<>", &[(Text, "<<>")]),
            ("<<<x>>>", &[(Text, ""), (Python, "<x"), (Output, ""), (Text, ">")]),
        ];
        for (answer, expected) in cases {
            let expected: Vec<_> =
                expected.iter().map(|&(kind, text)| (kind, text.to_owned())).collect();
            assert_eq!(parts(answer), expected, "{answer}");
        }
    }

    #[test]
    fn a_question_requires_an_answer() {
        let gsm8k = settings(Kind::Chat, "gsm8k");
        check(
            gsm8k.clone(),
            r#"{"question": "q", "answer": "a\u003c<1=1>>"}"#,
            "bos:0 user_start:2 \"q\":2 user_end:2 assistant_start:4 \"a\":5 python_start:7 \"1\":7 \
             python_end:7 output_start:8 \"1\":8 output_end:8 \"\":5 assistant_end:5",
        );
        check_declined(
            &gsm8k,
            &["[]", r#"{"question": "q"}"#, r#"{"question": 1, "answer": "a"}"#],
        );
    }

    #[test]
    fn many_openings_take_linear_time() {
        assert!(calls(&"<".repeat(1 << 20)).is_empty());
        assert!(calls(&("<".repeat(1 << 20) + ">")).is_empty());
    }

    proptest! {
        #[test]
        fn calls_equal_the_reference(answer in "[<>=a\n\u{e9}]{0,24}") {
            prop_assert_eq!(calls(&answer), plain_calls(&answer));
        }
    }
}
