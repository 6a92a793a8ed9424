use super::*;

fn text_of(json: &str) -> Result<String, Declined> {
    Value::read(json.as_bytes())?.object()?.text("a").map(Cow::into_owned)
}

#[test]
fn a_member_is_read_once_and_null_is_none() {
    assert_eq!(
        text_of(r#" {"a": "x\n\u00e9\ud83d\ude00", "b": {}}"#).unwrap(),
        "x\n\u{e9}\u{1f600}"
    );
    assert_eq!(text_of("{\"\\u0061\": \"b\"}\t\r\n").unwrap(), "b");
    let mut object = Value::read(br#"{"a": null, "b": "c"}"#).unwrap().object().unwrap();
    assert_eq!(object.text_of_any(&["a", "x", "b"]).unwrap(), "c");
    assert!(object.text_of_any(&["a", "x", "b"]).is_err());
}

#[test]
fn strings_borrow_from_the_document() {
    let read = |json: &'static str| Value::read(json.as_bytes()).unwrap().text().unwrap();
    assert!(matches!(read("\"plain\""), Cow::Borrowed("plain")));
    assert!(matches!(slice(&read("\"plain\""), 1..3), Cow::Borrowed("la")));
    assert!(matches!(read("\"a\\nb\""), Cow::Owned(text) if text == "a\nb"));
    assert_eq!(slice(&read("\"a\\nb\""), 1..3), "\nb");
}

#[test]
fn json_that_python_reads_differently_is_declined() {
    for json in [
        r#"{"a": "x", "a": "y"}"#, // Python takes the last
        r#"{"a": null, "a": "y"}"#,
        r#"{"a": "\ud800"}"#,
        r#"{"b": "\udc00", "a": "x"}"#,
        r#"{"b": NaN, "a": "x"}"#,
        r#"{"b": -Infinity, "a": "x"}"#,
        r#"{"b": 1e999, "a": "x"}"#,
    ] {
        assert_eq!(text_of(json), Err(Declined), "{json}");
    }
    let digits = "9".repeat(5000); // Python refuses integers of over 4300 digits
    assert_eq!(text_of(&format!(r#"{{"b": {digits}, "a": "x"}}"#)), Err(Declined));
}

#[test]
fn invalid_json_is_declined() {
    for json in [
        "",
        " ",
        "{",
        r#"{"a": "x"}]"#,
        r#"{"a": "x",}"#,
        r"{'a': 'x'}",
        r#"{"a": "\x"}"#,
        "{\"a\": \"\n\"}",
        "{\"a\": \"x\", \"b\": \"\t\"}",
        "\u{feff}{\"a\": \"x\"}",
        r#"{"b": 01, "a": "x"}"#,
        r#"{"b": 1., "a": "x"}"#,
        r#"{"b": "\u12", "a": "x"}"#,
        "\u{a0}{\"a\": \"x\"}",
        "{\"a\": \"x\"}\u{0}",
        "\"a\"",
        r#"{"a": 1}"#,
        "{}",
    ] {
        assert_eq!(text_of(json), Err(Declined), "{json}");
    }
    assert!(matches!(Value::read(b"\"\xff\""), Err(Declined)));
    assert!(matches!(Value::read(b"{\"b\": \"\xed\xa0\x80\"}"), Err(Declined)));
}

#[test]
fn deeply_nested_json_is_declined_anywhere() {
    for (depth, is_read) in [(120, true), (200, false), (1_000_000, false)] {
        let nested = "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(text_of(&format!(r#"{{"b": {nested}, "a": "x"}}"#)).is_ok(), is_read);
        assert!(Value::read("[".repeat(depth).as_bytes()).is_err());
    }
}

#[test]
fn only_non_negative_integers_are_integers() {
    let integer = |json: &str| match Value::read(json.as_bytes()) {
        Ok(Value::Integer(number)) => Some(number),
        _ => None,
    };
    assert_eq!(integer("0"), Some(0));
    assert_eq!(integer("18446744073709551615"), Some(u64::MAX));
    for json in ["18446744073709551616", "-1", "-0", "1.0", "1e2", "true", "false", "\"1\""] {
        assert_eq!(integer(json), None, "{json}");
    }
}
