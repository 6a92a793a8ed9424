//! GSM8K: a question, and an answer in which `<<48/2=24>>` is a use of the calculator. Takes JSON, gives
//! turns.

use std::ops::Range;

use crate::declined::Declined;
use crate::json::{Text, Value, slice};
use crate::turns::{Said, Turn};

pub(crate) fn turns(document: Value<'_>) -> Result<Vec<Turn<'_>>, Declined> {
    let mut document = document.object()?;
    let (question, answer) = (document.text("question")?, document.text("answer")?);
    Ok(vec![Turn::User(question), Turn::Assistant(said(&answer))])
}

/// The parts of an answer: calls, each as what is calculated and what comes out, and the texts before,
/// between and after them, empty ones too.
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

/// Adds what is found between, or is, a call. nanochat looks at the whole part only, so a text of `<<>>`
/// alone, which is no call in a longer text, is one.
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

/// Where `<<[^>]+>>` matches, from the left; linear in the bytes.
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
