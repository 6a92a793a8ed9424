//! JSON as values of templates.

use std::fmt;

use minijinja::Value;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::error::Declined;
use crate::values::{List, Map, insert};

/// Objects with more members are declined: names are compared one by one.
const MAX_MEMBERS: usize = 1024;

/// Digits of the smallest integer beyond 64 bits.
const MIN_DIGITS: usize = 19;

/// Floats from here on may be integers beyond 64 bits.
const MIN_UNCERTAIN: f64 = 9_223_372_036_854_775_808.0;

/// Parses JSON into a value whose members keep their order.
///
/// # Errors
///
/// [`Declined`] for what Python does not read as JSON or may read differently: integers beyond 64
/// bits, `-0`, `NaN`, lone surrogates, nesting over 127, objects of more than 1,024 members.
///
/// ```
/// let value = nanotok_template::value_of_json(br#"{"b": [1, null], "a": 2.50}"#).unwrap();
/// assert_eq!(value.to_string(), "{'b': [1, None], 'a': 2.5}");
/// ```
pub fn value_of_json(text: &[u8]) -> Result<Value, Declined> {
    let text = simdutf8::basic::from_utf8(text).map_err(|_| Declined(0))?;
    let read: Result<Json<true>, _> = serde_json::from_str(text);
    match read {
        Ok(json) => Ok(json.0),
        Err(error) if has_uncertain_integer(text.as_bytes()) => Err(Declined(error.column())),
        // Its large numbers are floats.
        Err(_) => {
            let read: Result<Json<false>, _> = serde_json::from_str(text);
            read.map(|json| json.0).map_err(|error| Declined(error.column()))
        }
    }
}

/// Whether a text has digits that may be an integer beyond 64 bits, or `-0`.
fn has_uncertain_integer(text: &[u8]) -> bool {
    let is_long = |run: &[u8]| run.len() >= MIN_DIGITS;
    let is_minus_zero = |part: &[u8]| part[..2] == *b"-0" && !b".eE".contains(&part[2]);
    text.split(|byte| !byte.is_ascii_digit()).any(is_long)
        || text.windows(3).any(is_minus_zero)
        || text.ends_with(b"-0")
}

/// A value of JSON; `STRICT` if numbers that may be integers or floats are an error.
struct Json<const STRICT: bool>(Value);

impl<'de, const STRICT: bool> Deserialize<'de> for Json<STRICT> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor::<STRICT>).map(Self)
    }
}

struct JsonVisitor<const STRICT: bool>;

impl<'de, const STRICT: bool> Visitor<'de> for JsonVisitor<STRICT> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON that Python reads alike")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::from(()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let is_negative_zero = value == 0.0 && value.is_sign_negative();
        if STRICT && (value.abs() >= MIN_UNCERTAIN || is_negative_zero) {
            return Err(E::custom("this is an integer or a float"));
        }
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Json::<STRICT>(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::from_object(List(values)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut members = Vec::with_capacity(4);
        while let Some(Json::<STRICT>(key)) = items.next_key()? {
            if members.len() == MAX_MEMBERS {
                return Err(A::Error::custom("too many members"));
            }
            let Json::<STRICT>(value) = items.next_value()?;
            insert(&mut members, key, value);
        }
        Ok(Value::from_object(Map(members)))
    }
}
