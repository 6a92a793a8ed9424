//! The members of an object as parts of the line.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::scan::depth;
use crate::{Fields, MAX_DEPTH};

/// The wanted members of a value, as JSON.
#[derive(Debug, Default)]
pub(crate) struct Members<'d> {
    pub(crate) text: Option<&'d str>,
    pub(crate) id: Option<&'d str>,
    /// The first byte of the value.
    pub(crate) first: u8,
    /// Whether values are nested deeper than `MAX_DEPTH`.
    pub(crate) is_deep: bool,
}

/// Reads a whole line.
pub(crate) fn members<'d>(
    line: &'d str,
    fields: Fields<'_>,
) -> Result<Members<'d>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(line);
    let is_object = line.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{');
    let members = if is_object {
        deserializer.deserialize_map(Wanted(fields))?
    } else {
        let value = <&RawValue>::deserialize(&mut deserializer)?.get();
        Members { first: value.as_bytes()[0], is_deep: is_deep(value), ..Members::default() }
    };
    deserializer.end()?;
    Ok(members)
}

/// Finds the wanted members of an object.
struct Wanted<'f>(Fields<'f>);

impl<'de> Visitor<'de> for Wanted<'_> {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let Fields { text, id } = self.0;
        let mut members = Members { first: b'{', ..Members::default() };
        while let Some(key) = object.next_key::<&RawValue>()? {
            let value = object.next_value::<&RawValue>()?.get();
            if text.is_some_and(|name| is_named(key, name)) {
                members.text = Some(value);
            }
            if id.is_some_and(|name| is_named(key, name)) {
                members.id = Some(value);
            }
            members.is_deep |= is_deep(value);
        }
        Ok(members)
    }
}

/// Whether the JSON of a key is that of a name. A lone surrogate is in no name.
fn is_named(key: &RawValue, name: &str) -> bool {
    let key = key.get();
    if key.contains('\\') {
        return serde_json::from_str::<String>(key).is_ok_and(|key| key == name);
    }
    &key[1..key.len() - 1] == name
}

/// Whether lists and objects of a valid value, which is in an object, are nested too deeply.
fn is_deep(value: &str) -> bool {
    let is_opening = |byte: &u8| matches!(byte, b'[' | b'{');
    let bytes = value.as_bytes();
    // Few values have that many brackets, which are counted fast.
    bytes.first().is_some_and(is_opening)
        && bytes.len() >= 2 * MAX_DEPTH
        && bytes.iter().filter(|byte| is_opening(byte)).count() >= MAX_DEPTH
        && depth(bytes) >= MAX_DEPTH
}
