//! Methods of Python's strings where `minijinja_contrib` lacks them or has those of Rust.

use minijinja::value::{Tuple, ValueIter, ValueKind, from_args};
use minijinja::{Error, State, Value};
use minijinja_contrib::pycompat;

use crate::error::failed;
use crate::print::text_of;
use crate::values::{Map, View, list_value};

/// Methods whose result for other characters depends on tables of Unicode or their version.
const OF_ASCII: [&str; 8] =
    ["capitalize", "isalnum", "isalpha", "isdigit", "islower", "isnumeric", "isspace", "isupper"];

/// Whether Python counts a character as a space.
pub(crate) fn is_space(char: char) -> bool {
    char.is_whitespace() || matches!(char, '\u{1c}'..='\u{1f}')
}

/// Whether Python's `splitlines` ends a line at a character.
fn is_line_end(char: char) -> bool {
    matches!(char, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Calls a method that no object of the engine has.
pub(crate) fn call(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    match value.as_str().map(|text| call_on_text(state, text, method, args)) {
        Some(Ok(Some(result))) => return Ok(result),
        Some(Err(error)) => return Err(error),
        _ => (),
    }
    if let (Some(map), "get") = (value.downcast_object_ref::<Map>(), method) {
        let (key, default): (&Value, Option<Value>) = from_args(args)?;
        let found = key.as_str().and_then(|name| map.get(name)).cloned();
        return Ok(found.or(default).unwrap_or_else(|| Value::from(())));
    }
    let result = pycompat::unknown_method_callback(state, value, method, args)?;
    if value.kind() == ValueKind::Map && ["items", "keys", "values"].contains(&method) {
        return Ok(Value::from_object(View(result.try_iter()?.collect())));
    }
    Ok(result)
}

/// Pays for a text of this length before it exists.
fn charge(state: &State, bytes: usize) -> Result<(), Error> {
    state.consume_fuel(bytes as u64 / 64 + 1)
}

fn call_on_text(
    state: &State,
    text: &str,
    method: &str,
    args: &[Value],
) -> Result<Option<Value>, Error> {
    let result = match method {
        "strip" => strip(text, args, true, true)?,
        "lstrip" => strip(text, args, true, false)?,
        "rstrip" => strip(text, args, false, true)?,
        "split" => split(text, args)?,
        "rsplit" => rsplit(text, args)?,
        "splitlines" => splitlines(text, args)?,
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" => partition(text, args, false)?,
        "rpartition" => partition(text, args, true)?,
        "title" => title(text, args)?,
        "join" => join(state, text, args)?,
        _ if OF_ASCII.contains(&method) && !text.is_ascii() => {
            return Err(failed(format!("{method} of text that is not ASCII is not supported")));
        }
        _ => return Ok(None),
    };
    Ok(Some(result))
}

fn strip(text: &str, args: &[Value], left: bool, right: bool) -> Result<Value, Error> {
    let (chars,): (Option<&Value>,) = from_args(args)?;
    Ok(stripped(text, chars, left, right)?.into())
}

/// A text without these characters, or spaces, at its ends.
pub(crate) fn stripped<'t>(
    text: &'t str,
    chars: Option<&Value>,
    left: bool,
    right: bool,
) -> Result<&'t str, Error> {
    let chars = match chars.filter(|chars| !chars.is_none()) {
        None => None,
        Some(chars) => Some(chars.as_str().ok_or_else(|| failed("strip needs a string"))?),
    };
    let is_stripped = |char: char| match chars {
        None => is_space(char),
        Some(chars) => chars.contains(char),
    };
    let text = if left { text.trim_start_matches(is_stripped) } else { text };
    Ok(if right { text.trim_end_matches(is_stripped) } else { text })
}

/// The separator and the largest number of parts, which is none if it is not bounded.
fn separator_of(args: &[Value]) -> Result<(Option<String>, Option<usize>), Error> {
    let (separator, most): (Option<Value>, Option<i64>) = from_args(args)?;
    let most = most.and_then(|most| usize::try_from(most).ok()).map(|most| most + 1);
    match separator.filter(|separator| !separator.is_none()) {
        None => Ok((None, most)),
        Some(value) => match value.as_str() {
            Some("") | None => Err(failed("the separator must be a string that is not empty")),
            Some(separator) => Ok((Some(separator.to_owned()), most)),
        },
    }
}

fn split(text: &str, args: &[Value]) -> Result<Value, Error> {
    let parts: Vec<&str> = match separator_of(args)? {
        (Some(separator), None) => text.split(&separator).collect(),
        (Some(separator), Some(most)) => text.splitn(most, &separator).collect(),
        (None, None) => text.split(is_space).filter(|part| !part.is_empty()).collect(),
        (None, Some(most)) => {
            let mut parts = Vec::new();
            let mut rest = text.trim_start_matches(is_space);
            while !rest.is_empty() && parts.len() + 1 < most {
                let end = rest.find(is_space).unwrap_or(rest.len());
                parts.push(&rest[..end]);
                rest = rest[end..].trim_start_matches(is_space);
            }
            parts.extend(Some(rest).filter(|rest| !rest.is_empty()));
            parts
        }
    };
    Ok(list_value(parts.into_iter().map(Value::from)))
}

fn rsplit(text: &str, args: &[Value]) -> Result<Value, Error> {
    let mut parts: Vec<&str> = match separator_of(args)? {
        (Some(separator), Some(most)) => text.rsplitn(most, &separator).collect(),
        (_, None) => return split(text, args),
        (None, _) => return Err(failed("rsplit at spaces with a limit is not supported")),
    };
    parts.reverse();
    Ok(list_value(parts.into_iter().map(Value::from)))
}

fn splitlines(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (keeps_ends,): (Option<bool>,) = from_args(args)?;
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_line_end).unwrap_or(rest.len());
        let length = if rest[end..].starts_with("\r\n") {
            2
        } else {
            rest[end..].chars().next().map_or(0, char::len_utf8)
        };
        let kept = if keeps_ends == Some(true) { end + length } else { end };
        lines.push(Value::from(&rest[..kept]));
        rest = &rest[end + length..];
    }
    Ok(list_value(lines))
}

fn partition(text: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let (separator,): (&str,) = from_args(args)?;
    if separator.is_empty() {
        return Err(failed("the separator must be a string that is not empty"));
    }
    let found = if from_right { text.rsplit_once(separator) } else { text.split_once(separator) };
    let parts = match found {
        Some((before, after)) => [before, separator, after],
        None if from_right => ["", "", text],
        None => [text, "", ""],
    };
    Ok(Tuple::from(parts.map(Value::from)).into())
}

fn title(text: &str, args: &[Value]) -> Result<Value, Error> {
    let () = from_args(args)?;
    if !text.is_ascii() {
        return Err(failed("title of text that is not ASCII is not supported"));
    }
    let mut is_first = true;
    let chars = text.chars().map(|char| {
        let was_first = std::mem::replace(&mut is_first, !char.is_ascii_alphabetic());
        if was_first { char.to_ascii_uppercase() } else { char.to_ascii_lowercase() }
    });
    Ok(Value::from(chars.collect::<String>()))
}

fn join(state: &State, text: &str, args: &[Value]) -> Result<Value, Error> {
    let (values,): (&Value,) = from_args(args)?;
    let mut parts = Vec::new();
    for value in values.try_iter()? {
        let part = value.as_str().ok_or_else(|| failed("join of a string needs strings"))?;
        charge(state, text.len() + part.len())?;
        parts.push(part.to_owned());
    }
    Ok(Value::from(parts.join(text)))
}

/// The filter `join`, which prints every value first.
pub(crate) fn join_printed(
    state: &State,
    values: ValueIter,
    separator: Option<&Value>,
    attribute: Option<&Value>,
) -> Result<Value, Error> {
    let separator = separator.map_or(Ok(String::new()), text_of)?;
    let mut out = String::new();
    for (place, value) in values.enumerate() {
        charge(state, separator.len())?;
        if place > 0 {
            out.push_str(&separator);
        }
        let value = match attribute {
            Some(attribute) => value.get_item(attribute)?,
            None => value,
        };
        crate::print::print(&mut out, &value)?;
    }
    Ok(Value::from(out))
}
