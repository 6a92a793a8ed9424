use proptest::prelude::*;
use serde_json::Value;

use super::*;

const BOTH: Fields<'_> = Fields { text: Some("text"), id: Some("id") };

/// Text and id of a line, and its problem.
fn read(line: &[u8], fields: Fields<'_>) -> (String, String, Option<Problem>) {
    let offsets = [0, i64::try_from(line.len()).unwrap()];
    let rows = read_rows(Documents::new(line, &offsets).unwrap(), fields);
    let problem = rows.problems.first().map(|&(_, problem)| problem);
    (
        String::from_utf8(rows.texts.data).unwrap(),
        String::from_utf8(rows.ids.data).unwrap(),
        problem,
    )
}

fn check(line: &str, text: &str, id: &str) {
    assert_eq!(read(line.as_bytes(), BOTH), (text.to_owned(), id.to_owned(), None), "{line}");
}

fn check_problem(line: &[u8], fields: Fields<'_>, problem: Problem) {
    assert_eq!(read(line, fields).2, Some(problem), "{}", String::from_utf8_lossy(line));
}

#[test]
fn texts_and_ids_are_decoded() {
    check(" \t{\"text\": \"a\\n\\u00e9\\ud83d\\ude42\\/\", \"id\": \"\\\"\"}\r\n", "a\né🙂/", "\"");
    check(r#"{"text": "\b\f\n\r\t\/\\\u00E9\uD83D\uDE42"}"#, "\u{8}\u{c}\n\r\t/\\é🙂", "");
    check(r#"{"id": -12345678901234567890123, "text": ""}"#, "", "-12345678901234567890123");
    check(r#"{"te\u0078t": "x", "id": null}"#, "x", "");
    for none in ["1.0", "1e5", "true", "[1]", r#"{"id": "a"}"#] {
        check(&format!(r#"{{"text": "x", "id": {none}}}"#), "x", "");
    }
    check(r#"{"text": null, "text": "x", "id": "a", "id": 2.5}"#, "x", "");
    check(r#"{"\ud800": 1e999, "text": "x", "id": "b"}"#, "x", "b");
}

#[test]
fn nan_and_infinity_are_numbers_that_are_no_integers() {
    check(
        r#"{"n": [NaN,-Infinity , Infinity],"id":NaN,"text":"x\", NaN","m":NaN}"#,
        "x\", NaN",
        "",
    );
    for wrong in
        ["NaN5", "1NaN", "NaNe5", "-NaN", "--Infinity", "Infinity1", "NaNNaN", "[NaN", "nan", "-"]
    {
        let (_, _, problem) = read(format!(r#"{{"n": {wrong}, "text": "x"}}"#).as_bytes(), BOTH);
        assert!(matches!(problem, Some(Problem::Json(_))), "{wrong}: {problem:?}");
    }
}

#[test]
fn lone_surrogates_are_replaced() {
    for (escapes, text) in [
        (r"\ud83d", "\u{fffd}"),
        (r"\ud83dx", "\u{fffd}x"),
        (r"\ud83d\ud83d\ude42", "\u{fffd}🙂"),
        (r"\ude42\ud83d", "\u{fffd}\u{fffd}"),
        (r"\ud83d\n", "\u{fffd}\n"),
        (r"\ud83d\u0041", "\u{fffd}A"),
        (r"\ud83d\\ude42", "\u{fffd}\\ude42"),
    ] {
        check(&format!(r#"{{"text": "{escapes}"}}"#), text, "");
    }
}

#[test]
fn lines_without_a_text_have_a_problem() {
    for (line, problem) in [
        (r"[1]", Problem::Kind(b'[')),
        (r" 1e999 ", Problem::Kind(b'1')),
        (r#"{"id": "text"}"#, Problem::Missing),
        (r#"{"text": null}"#, Problem::FieldKind(b'n')),
        (r#"{"text": -1}"#, Problem::FieldKind(b'-')),
        (r#"{"text": "x", "text": {"text": "x"}}"#, Problem::FieldKind(b'{')),
        ("", Problem::Json(0)),
        (r#"{"text": "x"#, Problem::Json(11)),
        (r#"{"text": "x"} 1"#, Problem::Json(14)),
        (r#"{"text": NaN}"#, Problem::FieldKind(b'0')),
        (r#"{"text": [-Infinity"#, Problem::Json(19)),
        (r#"{"text": NaN, NaN: 1}"#, Problem::Json(14)),
        (r#"{"text": Nan}"#, Problem::Json(9)),
    ] {
        check_problem(line.as_bytes(), BOTH, problem);
    }
    check_problem(b"{\"text\": \"a\xff\"}", BOTH, Problem::Utf8(11));
    check_problem(b"\xf0\x9f", BOTH, Problem::Utf8(0));
    let id = Fields { text: None, ..BOTH };
    check_problem(b"7", id, Problem::Kind(b'7'));
    assert_eq!(read(br#"[{"id": 1}]"#, id), (String::new(), String::new(), None));
    assert_eq!(read(br#"{"id": 1}"#, id), (String::new(), "1".to_owned(), None));
}

#[test]
fn an_id_is_read_although_there_is_no_text() {
    assert_eq!(read(br#"{"id": "a"}"#, BOTH).1, "a");
    assert_eq!(read(br#"{"id": "a", "text": 1}"#, BOTH).1, "a");
}

#[test]
fn deep_nesting_is_a_problem_and_brackets_in_strings_are_not_nesting() {
    let nested = |depth| format!("{}\"]]\"{}", "[".repeat(depth), "]".repeat(depth));
    let line = |value: &str| format!(r#"{{"more": {value}, "text": "x"}}"#);
    check(&line(&nested(MAX_DEPTH - 1)), "x", "");
    check_problem(line(&nested(MAX_DEPTH)).as_bytes(), BOTH, Problem::Nested);
    check_problem(nested(MAX_DEPTH).as_bytes(), BOTH, Problem::Nested);
    check(&line(&format!("[{:?}]", r#"\"[{"#.repeat(MAX_DEPTH))), "x", "");
    check(&line(&format!("[{}1]", "[1],".repeat(MAX_DEPTH))), "x", "");
    let open = "[".repeat(1 << 20);
    assert!(read(open.as_bytes(), BOTH).2 == Some(Problem::Json(1 << 20)));
}

#[test]
fn lines_of_a_batch_are_independent() {
    let lines = [r#"{"text": "a", "id": 1}"#, "[", r#"{"text": "b"}"#];
    let data = lines.concat();
    let mut offsets = vec![0];
    for line in lines {
        offsets.push(offsets[offsets.len() - 1] + i64::try_from(line.len()).unwrap());
    }
    let rows = read_rows(Documents::new(data.as_bytes(), &offsets).unwrap(), BOTH);
    assert_eq!(rows.texts, Strings { data: b"ab".to_vec(), ends: vec![1, 1, 2] });
    assert_eq!(rows.ids, Strings { data: b"1".to_vec(), ends: vec![1, 1, 1] });
    assert_eq!(rows.problems, [(1, Problem::Json(1))]);
    assert_eq!(read_rows(Documents::new(b"", &[0]).unwrap(), BOTH), Rows::default());
}

/// The text of a line by a tree of values, or the first byte that stands in place of an object.
fn plain(line: &[u8]) -> Option<Result<String, Problem>> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let first = |value: &Value| value.to_string().as_bytes()[0];
    Some(match value.as_object() {
        None => Err(Problem::Kind(first(&value))),
        Some(object) => match object.get("text") {
            None => Err(Problem::Missing),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(Problem::FieldKind(first(other))),
        },
    })
}

/// Parts of lines, valid and damaged.
fn line() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"",
            "\\",
            "\"text\"",
            "\"id\"",
            "\"text\":",
            "null",
            "true",
            "-1",
            "1.5e3",
            "\\n",
            "\\u00e9",
            "\\ud83d\\ude42",
            "\\u12",
            " ",
            "\r",
            "\t",
            "é🙂",
            "{\"text\":\"",
            "\"}",
            "x",
            "{\"id\":7,\"text\":\"a\"}",
        ])
        .prop_map(str::to_owned),
        any::<String>().prop_map(|text| Value::String(text).to_string()),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn texts_are_those_of_a_tree_of_values(line in line(), inside in "(?s).*", cut in 0..60_usize) {
        let around = format!("{{\"text\": {}, \"id\": {line:?}}}", Value::String(inside));
        let end = around.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(around.len());
        for line in [&line, &around, &around[..end]] {
            let (text, _, problem) = read(line.as_bytes(), BOTH);
            match plain(line.as_bytes()) {
                Some(Ok(expected)) => prop_assert_eq!((text, problem), (expected, None)),
                Some(Err(expected)) => prop_assert_eq!(problem, Some(expected)),
                // A tree also refuses lone surrogates, and numbers beyond the range of a double.
                None => prop_assert!(problem.is_some() || line.contains("\\u")),
            }
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_found(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let expected = std::str::from_utf8(&bytes).err().map(|error| error.valid_up_to());
        let problem = read(&bytes, BOTH).2;
        match expected {
            Some(position) => prop_assert_eq!(problem, Some(Problem::Utf8(position))),
            None => prop_assert!(!matches!(problem, Some(Problem::Utf8(_)))),
        }
    }
}
