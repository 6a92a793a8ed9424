//! Filters and tests that differ from those of the engine, as Jinja2 has them.

#![expect(clippy::needless_pass_by_value, reason = "the engine hands arguments over by value")]

use minijinja::value::{Kwargs, Rest, ValueIter, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value, filters, functions};

use crate::error::{Raised, failed};
use crate::methods::{is_space, join_printed, stripped};
use crate::print::text_of;
use crate::render::record;
use crate::tojson::tojson;
use crate::values::{Generator, Markup, View, is_list, is_map, list_value};

/// Filters of the engine that Jinja2 does not have, or whose results Jinja2 combines differently.
const UNKNOWN: [&str; 9] =
    ["bool", "chain", "e", "escape", "groupby", "lines", "pprint", "split", "zip"];

/// Replaces the filters and tests that differ.
pub(crate) fn add(environment: &mut Environment<'_>) {
    environment.add_filter("tojson", tojson);
    environment.add_filter("string", |value: &Value| text_of(value));
    environment.add_filter("trim", trim);
    environment.add_filter("join", join);
    environment.add_filter("list", list);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_test("iterable", is_iterable);
    environment.add_test("sequence", is_sequence);
    environment.add_test("mapping", is_map);
    environment.add_filter("safe", safe);
    environment.add_function("range", range);
    for name in UNKNOWN {
        environment.remove_filter(name);
    }
    add_generators(environment);
}

/// Filters that return a generator in Jinja2: true even if it yields nothing, and used up once.
fn add_generators(environment: &mut Environment<'_>) {
    environment.add_filter("nanotok_batch", filters::batch);
    environment.add_filter("nanotok_items", filters::items);
    environment.add_filter("nanotok_map", filters::map);
    environment.add_filter("nanotok_reject", filters::reject);
    environment.add_filter("nanotok_rejectattr", filters::rejectattr);
    environment.add_filter("nanotok_reverse", filters::reverse);
    environment.add_filter("nanotok_select", filters::select);
    environment.add_filter("nanotok_selectattr", filters::selectattr);
    environment.add_filter("nanotok_slice", filters::slice);
    environment.add_filter("nanotok_unique", filters::unique);
    for name in ["batch", "items", "map", "reject", "rejectattr", "reverse", "select", "selectattr"]
    {
        add_generator(environment, name);
    }
    add_generator(environment, "slice");
    add_generator(environment, "unique");
}

/// Wraps a filter so that its result is a generator, unless it is a string.
fn add_generator(environment: &mut Environment<'_>, name: &str) {
    let inner = format!("nanotok_{name}");
    let filter = move |state: &mut State, args: Rest<ValueOrKwargs>| {
        let result = state.apply_filter(&inner, &args.into_values())?;
        if result.as_str().is_some() {
            return Ok(result);
        }
        let values: Vec<Value> = result.try_iter()?.collect();
        Ok::<_, Error>(Generator::value(values))
    };
    environment.add_filter(name.to_owned(), filter);
}

fn safe(value: &Value) -> Result<Value, Error> {
    Ok(Value::from_object(Markup(text_of(value)?.into())))
}

fn range(first: isize, end: Option<isize>, step: Option<isize>) -> Result<Value, Error> {
    let values = functions::range(first, end, step)?.try_iter()?.collect();
    Ok(Value::from_object(View(values)))
}

fn trim(value: &Value, chars: Option<&Value>) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) => Ok(stripped(text, chars, true, true)?.into()),
        None => Ok(stripped(&text_of(value)?, chars, true, true)?.into()),
    }
}

/// The values of an iterable; Python cannot iterate over none.
fn values_of(value: &Value) -> Result<ValueIter, Error> {
    if value.is_none() { Err(failed("none is not iterable")) } else { value.try_iter() }
}

fn list(value: &Value) -> Result<Value, Error> {
    Ok(list_value(values_of(value)?))
}

fn join(
    state: &State,
    values: &Value,
    separator: Option<Value>,
    attribute: Option<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let named_separator = named.get::<Option<Value>>("d")?;
    let named_attribute = named.get::<Option<Value>>("attribute")?;
    named.assert_all_used()?;
    let separator = separator.or(named_separator);
    join_printed(
        state,
        values_of(values)?,
        separator.as_ref(),
        attribute.or(named_attribute).as_ref(),
    )
}

/// Whether Python can iterate over a value: not over none, but over undefined values of Jinja2.
fn is_iterable(value: &Value) -> bool {
    let kind = value.kind();
    is_sequence(value) || kind == ValueKind::Map || kind == ValueKind::Iterable
}

/// Whether a value has a length and items: also strings and maps.
fn is_sequence(value: &Value) -> bool {
    let is_text = matches!(value.kind(), ValueKind::String | ValueKind::Undefined);
    is_text || is_list(value) || is_map(value)
}

fn int(value: &Value, default: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let default = default.or(named.get("default")?).unwrap_or_else(|| Value::from(0));
    named.assert_all_used()?;
    if value.is_undefined() {
        return Err(failed("int of an undefined value"));
    }
    if value.is_integer() || value.kind() == ValueKind::Bool {
        return Ok(Value::from(i128::try_from(value.clone())?));
    }
    if let Some(text) = value.as_str() {
        let digits = number_text(text)?;
        if let Ok(number) = digits.parse::<i128>() {
            return Ok(Value::from(number));
        }
    }
    match number_of(value)? {
        Some(number) if number.is_finite() && number.abs() < 1e15 =>
        {
            #[expect(clippy::cast_possible_truncation, reason = "int truncates, the number fits")]
            Ok(Value::from(number as i64))
        }
        Some(number) if number.is_finite() => Err(failed("int of a number from 1e15 on")),
        Some(number) if number.is_infinite() => Err(failed("int of infinity")),
        _ => Ok(default),
    }
}

fn float(value: &Value, default: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let default = default.or(named.get("default")?).unwrap_or_else(|| Value::from(0.0));
    named.assert_all_used()?;
    Ok(number_of(value)?.map_or(default, Value::from))
}

/// The number that Python's `float` makes of a value.
fn number_of(value: &Value) -> Result<Option<f64>, Error> {
    match value.as_str() {
        Some(text) => Ok(number_text(text)?.parse().ok()),
        None if matches!(value.kind(), ValueKind::Number) => {
            Ok(Some(f64::try_from(value.clone())?))
        }
        None if value.kind() == ValueKind::Bool => {
            Ok(Some(if value.is_true() { 1.0 } else { 0.0 }))
        }
        None => Ok(None),
    }
}

/// The text of a number without spaces; digits of other scripts and underscores are not supported.
fn number_text(text: &str) -> Result<&str, Error> {
    let text = text.trim_matches(is_space);
    if text.contains('_') || !text.is_ascii() {
        return Err(failed("numbers with underscores or digits of other scripts"));
    }
    Ok(text)
}

/// The function with which templates refuse a conversation.
pub(crate) fn raise_exception(args: Rest<Value>) -> Result<Value, Error> {
    match &args[..] {
        [message] => Err(failed(text_of(message)?).with_source(Raised)),
        _ => Err(failed("raise_exception needs one argument")),
    }
}

/// The filter of generation blocks: records where the body will stand, and returns it.
pub(crate) fn generation(body: Value) -> Value {
    record(&body);
    body
}
