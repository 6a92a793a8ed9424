//! Values as Python prints them: `str` and `repr`.

use std::fmt::{self, Write};

use minijinja::value::{DynObject, ValueKind};
use minijinja::{Error, Value};

use crate::error::failed;
use crate::values::{Markup, is_list, is_map};

/// Values with more nesting are not printed.
pub(crate) const MAX_DEPTH: usize = 200;

/// Exponents of the numbers that Python prints with an exponent: below and from.
const PLAIN: std::ops::Range<i32> = -4..16;

/// Prints a number as `float.__repr__` does, with these words for what is not finite.
pub(crate) fn float(out: &mut impl Write, number: f64, words: [&str; 3]) -> fmt::Result {
    if !number.is_finite() {
        let place = if number.is_nan() { 0 } else { 1 + usize::from(number < 0.0) };
        return out.write_str(words[place]);
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !PLAIN.contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return write!(out, "{digits}e{sign}{:02}", exponent.abs());
    }
    write!(out, "{number}{}", if number.fract() == 0.0 { ".0" } else { "" })
}

/// Python's words for NaN and the infinities in `str`.
pub(crate) const WORDS: [&str; 3] = ["nan", "inf", "-inf"];

/// Prints a value as Jinja2 does in `{{ }}`, which is `str`.
pub(crate) fn print(out: &mut impl Write, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => Ok(out.write_str(text)?),
        None if value.is_undefined() => Ok(()),
        None => match value.downcast_object_ref::<Markup>() {
            Some(Markup(text)) => Ok(out.write_str(text)?),
            None => print_repr(out, value, 0),
        },
    }
}

/// The text of a value, as `str` of Python returns it.
pub(crate) fn text_of(value: &Value) -> Result<String, Error> {
    let mut text = String::new();
    print(&mut text, value)?;
    Ok(text)
}

/// Prints a value as `repr` does.
fn print_repr(out: &mut impl Write, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(failed("the value is nested too deeply to be printed"));
    }
    match value.kind() {
        ValueKind::Undefined => out.write_str("Undefined")?,
        ValueKind::None => out.write_str("None")?,
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" })?,
        ValueKind::Number if value.is_integer() => write!(out, "{value}")?,
        ValueKind::Number => float(out, f64::try_from(value.clone())?, WORDS)?,
        ValueKind::String => print_text(out, value.as_str().unwrap_or_default())?,
        _ if is_list(value) => print_list(out, value, depth)?,
        _ if is_map(value) => print_map(out, value, depth)?,
        kind => return Err(failed(format!("a value of kind {kind} cannot be printed"))),
    }
    Ok(())
}

fn print_list(out: &mut impl Write, list: &Value, depth: usize) -> Result<(), Error> {
    let (open, close) = if list.is_tuple() { ('(', ')') } else { ('[', ']') };
    out.write_char(open)?;
    for (place, value) in list.try_iter()?.enumerate() {
        if place > 0 {
            out.write_str(", ")?;
        }
        print_repr(out, &value, depth + 1)?;
    }
    if list.is_tuple() && list.len() == Some(1) {
        out.write_char(',')?;
    }
    Ok(out.write_char(close)?)
}

fn print_map(out: &mut impl Write, map: &Value, depth: usize) -> Result<(), Error> {
    out.write_char('{')?;
    let members = map.as_object().and_then(DynObject::try_iter_pairs);
    for (place, (key, value)) in members.into_iter().flatten().enumerate() {
        if place > 0 {
            out.write_str(", ")?;
        }
        print_repr(out, &key, depth + 1)?;
        out.write_str(": ")?;
        print_repr(out, &value, depth + 1)?;
    }
    Ok(out.write_char('}')?)
}

/// Prints a string with the quotes and escapes of `str.__repr__`.
fn print_text(out: &mut impl Write, text: &str) -> Result<(), Error> {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.write_char(quote)?;
    for char in text.chars() {
        match char {
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            _ if char == quote => write!(out, "\\{char}")?,
            ' '..='~' => out.write_char(char)?,
            '\0'..='\u{a0}' | '\u{ad}' => write!(out, "\\x{:02x}", u32::from(char))?,
            _ if is_never_printable(char) => write!(out, "\\u{:04x}", u32::from(char))?,
            // Which characters Python can print depends on the version of its Unicode tables.
            _ if char.is_alphanumeric() || is_common(char) => out.write_char(char)?,
            _ => return Err(failed(format!("repr of {char:?} is not supported"))),
        }
    }
    Ok(out.write_char(quote)?)
}

/// Whether a character is a space or a mark of format in every version of Unicode.
fn is_never_printable(char: char) -> bool {
    char.is_whitespace()
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{feff}')
}

/// Whether a character that is neither letter nor digit certainly is printable: punctuation,
/// symbols, emoji.
fn is_common(char: char) -> bool {
    matches!(char, '\u{a1}'..='\u{ff}' | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}'
        | '\u{20a0}'..='\u{20bf}' | '\u{2190}'..='\u{23ff}' | '\u{2500}'..='\u{2bff}'
        | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{301c}' | '\u{300}'..='\u{36f}'
        | '\u{fe0f}' | '\u{ff01}'..='\u{ff5e}' | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1f6c5}')
}

/// Prints the `repr` of a value where an error would be a panic: the render then fails at its end.
pub(crate) fn print_or_fail(f: &mut fmt::Formatter<'_>, value: &Value) -> fmt::Result {
    let mut text = String::new();
    if print_repr(&mut text, value, 0).is_err() {
        crate::render::fail();
    }
    f.write_str(&text)
}
