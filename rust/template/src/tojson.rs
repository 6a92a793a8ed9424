//! The filter `tojson`: `json.dumps` of Python with `ensure_ascii=False` unless it is set.

use std::fmt::Write;

use minijinja::value::{DynObject, Kwargs, Rest, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Error, Value};

use crate::error::failed;
use crate::print::{MAX_DEPTH, float};
use crate::values::{is_list, is_map};

/// What `json.dumps` prints for NaN and the infinities.
const WORDS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// The names of the parameters.
const NAMES: [&str; 4] = ["ensure_ascii", "indent", "separators", "sort_keys"];

/// Wider indents are errors: the text could become large.
const MAX_INDENT: usize = 32;

struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

/// The filter, with the parameters of transformers in their order.
pub(crate) fn tojson(value: &Value, arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments = arguments.into_values();
    let (places, named): (&[Value], Kwargs) = from_args(&arguments)?;
    if places.len() > NAMES.len() {
        return Err(failed("tojson has four parameters"));
    }
    let argument = |place: usize| -> Result<Option<Value>, Error> {
        let value = match places.get(place) {
            Some(value) => Some(value.clone()),
            None => named.get(NAMES[place])?,
        };
        Ok(value.filter(|value| !value.is_none()))
    };
    let ensure_ascii = argument(0)?.is_some_and(|flag| flag.is_true());
    let indent = argument(1)?.map(|value| indent_of(&value)).transpose()?;
    let separators = argument(2)?;
    let sort_keys = argument(3)?.is_some_and(|flag| flag.is_true());
    named.assert_all_used()?;
    let (item_separator, key_separator) = match separators {
        Some(pair) => separators_of(&pair)?,
        None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        None => (", ".to_owned(), ": ".to_owned()),
    };
    let style = Style { ensure_ascii, indent, item_separator, key_separator, sort_keys };
    let mut out = String::new();
    write_value(&mut out, value, &style, 0)?;
    Ok(Value::from(out))
}

fn indent_of(indent: &Value) -> Result<String, Error> {
    if let Some(text) = indent.as_str().filter(|text| text.len() <= MAX_INDENT) {
        return Ok(text.to_owned());
    }
    let width = usize::try_from(i64::try_from(indent.clone())?.max(0)).unwrap_or(usize::MAX);
    if width > MAX_INDENT {
        return Err(failed("the indent of tojson is too wide"));
    }
    Ok(" ".repeat(width))
}

fn separators_of(pair: &Value) -> Result<(String, String), Error> {
    let texts: Vec<Value> = pair.try_iter()?.collect();
    match &texts[..] {
        [item, key] => match (item.as_str(), key.as_str()) {
            (Some(item), Some(key)) => Ok((item.to_owned(), key.to_owned())),
            _ => Err(failed("separators of tojson must be strings")),
        },
        _ => Err(failed("separators of tojson must be two strings")),
    }
}

fn write_value(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(failed("the value is nested too deeply for tojson"));
    }
    match value.kind() {
        ValueKind::String => write_text(out, value.as_str().unwrap_or_default(), style),
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number if value.is_integer() => write!(out, "{value}")?,
        ValueKind::Number => float(out, f64::try_from(value.clone())?, WORDS)?,
        _ if is_list(value) => write_list(out, value, style, depth)?,
        _ if is_map(value) => write_map(out, value, style, depth)?,
        kind => return Err(failed(format!("a value of kind {kind} is not JSON"))),
    }
    Ok(())
}

fn write_list(out: &mut String, list: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    out.push('[');
    let mut is_empty = true;
    for value in list.try_iter()? {
        start_item(out, style, depth, is_empty);
        is_empty = false;
        write_value(out, &value, style, depth + 1)?;
    }
    end_items(out, style, depth, is_empty);
    out.push(']');
    Ok(())
}

fn write_map(out: &mut String, map: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    let members = map.as_object().and_then(DynObject::try_iter_pairs);
    let mut members: Vec<_> = members.into_iter().flatten().collect();
    if style.sort_keys {
        if members.iter().any(|(key, _)| key.as_str().is_none()) {
            return Err(failed("sort_keys of tojson supports only strings"));
        }
        members.sort_by(|(one, _), (other, _)| one.as_str().cmp(&other.as_str()));
    }
    out.push('{');
    let is_empty = members.is_empty();
    for (place, (key, value)) in members.iter().enumerate() {
        start_item(out, style, depth, place == 0);
        write_key(out, key, style)?;
        out.push_str(&style.key_separator);
        write_value(out, value, style, depth + 1)?;
    }
    end_items(out, style, depth, is_empty);
    out.push('}');
    Ok(())
}

fn write_key(out: &mut String, key: &Value, style: &Style) -> Result<(), Error> {
    if let Some(text) = key.as_str() {
        write_text(out, text, style);
        return Ok(());
    }
    if is_list(key) || is_map(key) {
        return Err(failed("keys of JSON must be strings"));
    }
    out.push('"');
    write_value(out, key, style, 0)?;
    out.push('"');
    Ok(())
}

fn start_item(out: &mut String, style: &Style, depth: usize, is_first: bool) {
    if !is_first {
        out.push_str(&style.item_separator);
    }
    new_line(out, style, depth + 1);
}

fn end_items(out: &mut String, style: &Style, depth: usize, is_empty: bool) {
    if !is_empty {
        new_line(out, style, depth);
    }
}

fn new_line(out: &mut String, style: &Style, depth: usize) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str(indent));
    }
}

fn write_text(out: &mut String, text: &str, style: &Style) {
    out.push('"');
    let mut start = 0;
    for (place, byte) in text.bytes().enumerate() {
        let is_plain = byte >= b' ' && byte != b'"' && byte != b'\\';
        if is_plain && (byte < 0x7f || !style.ensure_ascii) {
            continue;
        }
        if !text.is_char_boundary(place) {
            start = place + 1;
            continue;
        }
        out.push_str(&text[start..place]);
        let char = text[place..].chars().next().unwrap_or_default();
        write_escape(out, char);
        start = place + 1;
    }
    out.push_str(text.get(start..).unwrap_or_default());
    out.push('"');
}

fn write_escape(out: &mut String, char: char) {
    let short = match char {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        _ => {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // A string accepts every text.
                let _ = write!(out, "\\u{unit:04x}");
            }
            return;
        }
    };
    out.push_str(short);
}
