//! Lines of JSON: any bytes. Texts, ids and problems are those of a tree of values.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nanotok_bpe::Documents;
use nanotok_json::{Fields, Problem, read_rows};
use serde_json::Value;

fuzz_target!(|line: &[u8]| {
    let offsets = [0, i64::try_from(line.len()).expect("libFuzzer makes short lines")];
    let lines = Documents::new(line, &offsets).expect("these offsets are valid");
    let rows = read_rows(lines, Fields { text: Some("text"), id: Some("id") });
    let text = String::from_utf8(rows.texts.data).expect("texts are UTF-8");
    let id = String::from_utf8(rows.ids.data).expect("ids are UTF-8");
    let found = rows.problems.first().map_or(Ok(text), |&(_, problem)| Err(of_any_number(problem)));
    match serde_json::from_slice(line) {
        // A tree also refuses lone surrogates, and numbers beyond the range of a double.
        Err(_) => assert!(found.is_err() || line.contains(&b'\\') || has_large_number(line)),
        Ok(value) => {
            assert_eq!(found, text_of(&value));
            assert_eq!(id, id_of(&value).unwrap_or(id.clone()));
        }
    }
});

fn text_of(value: &Value) -> Result<String, Problem> {
    let object = value.as_object().ok_or(of_any_number(Problem::Kind(first(value))))?;
    match object.get("text").ok_or(Problem::Missing)? {
        Value::String(text) => Ok(text.clone()),
        other => Err(of_any_number(Problem::FieldKind(first(other)))),
    }
}

/// The id, or `None` if the tree does not have its digits.
fn id_of(value: &Value) -> Option<String> {
    match value.get("id") {
        Some(Value::String(id)) => Some(id.clone()),
        Some(Value::Number(number)) if number.is_f64() => None,
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => Some(String::new()),
    }
}

/// A problem with the same first byte for all numbers: a tree does not keep how they are written.
fn of_any_number(problem: Problem) -> Problem {
    let of_any = |first: u8| if first == b'-' || first.is_ascii_digit() { b'0' } else { first };
    match problem {
        Problem::Kind(first) => Problem::Kind(of_any(first)),
        Problem::FieldKind(first) => Problem::FieldKind(of_any(first)),
        other => other,
    }
}

/// The first byte of the JSON of a value.
fn first(value: &Value) -> u8 {
    value.to_string().as_bytes()[0]
}

fn has_large_number(line: &[u8]) -> bool {
    line.contains(&b'e') || line.contains(&b'E') || line.len() > 300
}
