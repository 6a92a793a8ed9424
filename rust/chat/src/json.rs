//! JSON as a tree that borrows from the document. Declines text that Python also does not accept as
//! JSON, or that Python may read differently.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::declined::Declined;

/// An upper bound of the number of values that a parser builds from a document, which need not be
/// valid: one for each bracket or brace that opens and for each comma, outside of strings, and one.
///
/// ```
/// assert_eq!(nanotok_chat::num_values(br#"{"a, [": [1, {}]}"#), 5);
/// ```
pub fn num_values(document: &[u8]) -> usize {
    let mut count = 1;
    let (mut in_string, mut is_escaped) = (false, false);
    for &byte in document {
        if is_escaped {
            is_escaped = false;
        } else if in_string {
            in_string = byte != b'"';
            is_escaped = byte == b'\\';
        } else {
            in_string = byte == b'"';
            count += usize::from(matches!(byte, b'[' | b'{' | b','));
        }
    }
    count
}

/// Names of more members are hashed to find equal ones.
const FEW_MEMBERS: usize = 16;

/// A string, borrowed from the document if it has no escapes.
pub(crate) type Text<'d> = Cow<'d, str>;

/// A part of a string.
pub(crate) fn slice<'d>(text: &Text<'d>, range: Range<usize>) -> Text<'d> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[range]),
        Cow::Owned(text) => Cow::Owned(text[range].to_owned()),
    }
}

/// A value, in as much detail as documents need.
#[derive(Debug)]
pub(crate) enum Value<'d> {
    Null,
    /// An unsigned integer.
    Integer(u64),
    Text(Text<'d>),
    List(Vec<Self>),
    Object(Object<'d>),
    /// Another number, or a boolean.
    Other,
}

/// The members of an object, in the order of the document.
#[derive(Debug)]
pub(crate) struct Object<'d> {
    members: Vec<(Text<'d>, Value<'d>)>,
}

impl<'d> Value<'d> {
    /// Reads the JSON of a whole document.
    ///
    /// Nesting over 128, numbers beyond the range of a double, and escapes of lone surrogates are
    /// declined everywhere.
    pub(crate) fn read(document: &'d [u8]) -> Result<Self, Declined> {
        let text = simdutf8::basic::from_utf8(document).map_err(|_| Declined)?;
        serde_json::from_str(text).map_err(|_| Declined)
    }

    pub(crate) fn text(self) -> Result<Text<'d>, Declined> {
        if let Self::Text(text) = self { Ok(text) } else { Err(Declined) }
    }

    pub(crate) fn list(self) -> Result<Vec<Self>, Declined> {
        if let Self::List(list) = self { Ok(list) } else { Err(Declined) }
    }

    pub(crate) fn object(self) -> Result<Object<'d>, Declined> {
        if let Self::Object(object) = self { Ok(object) } else { Err(Declined) }
    }

    /// Whether the value is null, a number, a boolean or an empty string.
    fn is_scalar(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Null | Self::Integer(_) | Self::Other => true,
            Self::List(_) | Self::Object(_) => false,
        }
    }

    /// Whether the value is a string that is not empty, or contains one.
    fn holds_text(&self) -> bool {
        match self {
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => list.iter().any(Self::holds_text),
            Self::Object(object) => object.names_with_text().next().is_some(),
            Self::Null | Self::Integer(_) | Self::Other => false,
        }
    }
}

impl<'d> Object<'d> {
    /// Removes and returns the member `key`, or `None` if it is missing or null. Declined if there
    /// are two: Python uses the last one.
    pub(crate) fn take(&mut self, key: &str) -> Result<Option<Value<'d>>, Declined> {
        let mut places = (0..self.members.len()).filter(|&place| self.members[place].0 == key);
        let Some(place) = places.next() else { return Ok(None) };
        if places.next().is_some() {
            return Err(Declined);
        }
        let value = std::mem::replace(&mut self.members[place].1, Value::Null);
        Ok(if matches!(value, Value::Null) { None } else { Some(value) })
    }

    /// Removes and returns the string `key`, which must exist.
    pub(crate) fn text(&mut self, key: &str) -> Result<Text<'d>, Declined> {
        self.take(key)?.ok_or(Declined)?.text()
    }

    /// Removes and returns the string of the first of these keys that exists and is not null.
    pub(crate) fn text_of_any(&mut self, keys: &[&str]) -> Result<Text<'d>, Declined> {
        for key in keys {
            if let Some(text) = self.optional_text(key)? {
                return Ok(text);
            }
        }
        Err(Declined)
    }

    /// Removes and returns the string `key`, or `None` if it is missing or null.
    pub(crate) fn optional_text(&mut self, key: &str) -> Result<Option<Text<'d>>, Declined> {
        self.take(key)?.map(Value::text).transpose()
    }

    /// The string `key`, which is not removed; the last one of several.
    pub(crate) fn peek_text(&self, key: &str) -> Result<&str, Declined> {
        match self.members.iter().rfind(|(name, _)| name == key) {
            Some((_, Value::Text(text))) => Ok(text),
            _ => Err(Declined),
        }
    }

    /// The names of the remaining members that hold text, from the last to the first. As in Python,
    /// only the last one of a name counts.
    pub(crate) fn names_with_text(&self) -> impl Iterator<Item = &Text<'d>> {
        let number = self.members.len();
        // Nearly always everything was taken.
        let is_taken = self.members.iter().all(|(_, value)| value.is_scalar());
        let mut later = HashSet::new();
        let is_found = move |&place: &usize| {
            let (name, value) = &self.members[place];
            if number > FEW_MEMBERS {
                return later.insert(&**name) && value.holds_text();
            }
            value.holds_text() && self.members[place + 1..].iter().all(|(other, _)| other != name)
        };
        let places = if is_taken { 0..0 } else { 0..number };
        places.rev().filter(is_found).map(|place| &self.members[place].0)
    }

    /// The number of members.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

/// Builds a tree of any value.
struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Value::Other)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Value::Integer(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Value::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Value::Other)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((Key(key), value)) = object.next_entry()? {
            members.push((key, value));
        }
        Ok(Value::Object(Object { members }))
    }
}

/// The name of a member.
struct Key<'d>(Text<'d>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(AnyKey).map(Self)
    }
}

struct AnyKey;

impl<'de> Visitor<'de> for AnyKey {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
