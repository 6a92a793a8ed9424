use crate::{
    Kind, Limits, Rendering, Settings, Template, TemplateError, messages_for_templates,
    value_of_json,
};

const CONTEXT: &str = r#"{"l": [3, 1, 2], "m": {"b": 1, "items": "x"}, "n": null, "u": "日本", "f": 1e-5, "w": ["\ue000"]}"#;

fn rendered(source: &str) -> Result<Rendering, TemplateError> {
    let settings = Settings { special_tokens: vec![("bos_token".into(), "<s>".into())], now: 0 };
    let template = Template::new(source, &settings)?;
    let mut out = Rendering::default();
    let context = value_of_json(CONTEXT.as_bytes()).unwrap();
    template.render(&context, Limits::of_input(CONTEXT.len()), &mut out).map(|()| out)
}

fn text(source: &str) -> String {
    rendered(source).unwrap().text
}

fn kind(source: &str) -> Kind {
    rendered(source).unwrap_err().kind
}

#[test]
fn values_are_printed_as_python_prints_them() {
    assert_eq!(
        text("{{ [1.0, none, true, 'it\\'s', 1e16, {'a': undefined_}] }}"),
        "[1.0, None, True, \"it's\", 1e+16, {'a': Undefined}]"
    );
    assert_eq!(
        text("{{ l[:2] }}{{ l + [4] }}{{ (1,) }}{{ n }}{{ f }}{{ -0.0 }}"),
        "[3, 1][3, 1, 2, 4](1,)None1e-05-0.0"
    );
    assert_eq!(text("{{ ['\u{1680}\u{2028}\u{3000}\u{200b}'] }}"), r"['\u1680\u2028\u3000\u200b']");
    assert_eq!(text("{{ '</a>\\n\u{7f}é'|tojson }}"), "\"</a>\\n\u{7f}é\"");
    assert_eq!(
        text("{{ 'é🙂\u{7f}'|tojson(ensure_ascii=true) }}"),
        r#""\u00e9\ud83d\ude42\u007f""#
    );
    assert_eq!(
        text("{{ {'b': [1], 'a': {}}|tojson(indent=1, sort_keys=true) }}"),
        "{\n \"a\": {},\n \"b\": [\n  1\n ]\n}"
    );
}

#[test]
fn tests_and_filters_are_those_of_jinja2() {
    assert_eq!(
        text("{{ n is iterable }}{{ 'a' is sequence }}{{ m is sequence }}{{ 'z'|int }}"),
        "FalseTrueTrue0"
    );
    assert_eq!(
        text("{{ 'y' if l|select('gt', 9) }}{% for x in l|reverse %}{{ loop.last }}{% endfor %}"),
        "yFalseFalseTrue"
    );
    assert_eq!(text("{% set g = l|map('string') %}{{ g|list }}{{ g|list }}"), "['3', '1', '2'][]");
    assert_eq!(text("{{ m['items'] }}{{ m.get('keys') }}{{ m.get('items') }}"), "xNonex");
    assert_eq!(text("{{ bos_token }}{{ tools }}{{ add_generation_prompt }}"), "<s>NoneFalse");
}

#[test]
fn what_is_not_supported_is_an_error() {
    for source in [
        "{{ m.items }}",
        "{{ range(3) }}",
        "{{ m.items() }}",
        "{{ l|map('string') }}",
        "{{ '%s' % 1 }}",
        "{{ w ~ 'x' }}",
        "{{ m['keys'] }}",
        "{{ range(3) ~ '' }}",
        "{{ 'a'|safe + '<' }}",
        "{{ namespace(a=1) }}",
        "{{ strftime_now('%Z') }}",
        "{{ l.append(1) }}",
        "{% set x %}b{% generation %}a{% endgeneration %}{% endset %}{{ x }}",
        "{% generation %}a{% generation %}b{% endgeneration %}{% endgeneration %}",
    ] {
        assert_eq!(kind(source), Kind::Failed, "{source}");
    }
    for source in [
        "{% include 'a' %}",
        "{% import 'a' as a %}",
        "{% extends 'a' %}",
        "{% if %}",
        "{{",
        "a\n{% autoescape true %}{% endautoescape %}",
        "{% raw %}\n{% endraw %}",
    ] {
        assert_eq!(kind(source), Kind::Syntax, "{source}");
    }
    let error = rendered("a\n{{ raise_exception('no ' ~ 1) }}").unwrap_err();
    assert_eq!((error.kind, error.line, &*error.message), (Kind::Raised, Some(2), "no 1"));
}

#[test]
fn the_spans_are_the_bodies_of_generation_blocks() {
    let out = rendered(
        "é{% generation %}{{ u }}{% endgeneration %}-\n{%- generation %} x {%- endgeneration %}!",
    );
    let out = out.unwrap();
    assert_eq!(out.text, "é日本- x!");
    assert_eq!(out.spans, [2..8, 9..11]);
}

#[test]
fn renders_append_and_errors_leave_the_rendering_as_it_was() {
    let template =
        Template::new("{% generation %}{{ l }}{% endgeneration %}", &Settings::default());
    let template = template.unwrap();
    let span = 0..2;
    let mut out = Rendering { text: "é".into(), spans: Vec::from([span.clone()]) };
    let context = value_of_json(br#"{"l": "abc"}"#).unwrap();
    let limits = |fuel, output_bytes| Limits { fuel, output_bytes };
    template.render(&context, limits(1000, 3), &mut out).unwrap();
    assert_eq!((&*out.text, &out.spans[..]), ("éabc", &[0..2, 2..5][..]));
    let before = out.clone();
    let too_long = template.render(&context, limits(1000, 2), &mut out).unwrap_err();
    assert_eq!((too_long.kind, &out), (Kind::TooLong, &before));
    let too_many = template.render(&context, limits(3, 99), &mut out).unwrap_err();
    assert_eq!((too_many.kind, &out), (Kind::TooManySteps, &before));
}

#[test]
fn steps_nesting_and_recursion_are_bounded() {
    let much = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}";
    assert_eq!(kind(much), Kind::TooManySteps);
    assert_eq!(kind("{{ ('x' * 1000000)|replace('x', 'y' * 1000000) }}"), Kind::TooManySteps);
    assert_eq!(kind("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), Kind::Failed);
    let deep = "{% set ns = namespace(x=[]) %}{% for i in range(3000) %}{% set ns.x = [ns.x] %}{% endfor %}";
    assert_eq!(kind(&format!("{deep}{{{{ ns.x }}}}")), Kind::Failed);
    assert_eq!(kind(&format!("{deep}{{{{ ns.x|tojson }}}}")), Kind::Failed);
}

#[test]
fn json_that_python_may_read_differently_is_declined() {
    for text in [
        "",
        "[1",
        "[1,]",
        "{\"a\" 1}",
        "{1: 2}",
        "01",
        "+1",
        ".5",
        "1.",
        "1e",
        "-",
        "NaN",
        "Infinity",
        "tru",
        "\"\\x\"",
        "\"\n\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\u00g0\"",
        "\"a",
        "18446744073709551616",
        "-9223372036854775809",
        "1e999",
        "-0",
        "[-0, 1]",
        "[1e30, 10000000000000000000000]",
        "[] []",
    ] {
        assert!(value_of_json(text.as_bytes()).is_err(), "{text}");
    }
    assert!(value_of_json(b"\"\xff\"").is_err());
    assert!(value_of_json(&[b'['; 1000]).is_err());
    let same = r#"{"a": [-0.0, 1E5, 2.5e20, "\ud83d\ude42\/\u0041"], "b": 1, "a": {}}"#;
    assert_eq!(value_of_json(same.as_bytes()).unwrap().to_string(), "{'a': {}, 'b': 1}");
    let list = r#" [ -0.0, 1E5, 2.5e20, "\ud83d\ude42\/\u0041" ] "#;
    let list = value_of_json(list.as_bytes()).unwrap().to_string();
    assert_eq!(list, "[-0.0, 100000.0, 2.5e+20, '🙂/A']");
    let numbers = value_of_json(b"[18446744073709551615, -9223372036854775808, 0.1]").unwrap();
    assert_eq!(numbers.to_string(), "[18446744073709551615, -9223372036854775808, 0.1]");
}

#[test]
fn messages_get_the_names_of_reasoning_and_lose_nulls() {
    let messages = r#"[{"role": "a", "reasoning": "r", "reasoning_content": null, "x": [null]}, {"thinking": 1}, 5]"#;
    let messages = messages_for_templates(&value_of_json(messages.as_bytes()).unwrap());
    assert_eq!(
        messages.to_string(),
        "[{'thinking': 'r', 'role': 'a', 'reasoning': 'r', 'x': [None], \
        'reasoning_content': 'r'}, {'thinking': 1, 'reasoning_content': 1}, 5]"
    );
}
