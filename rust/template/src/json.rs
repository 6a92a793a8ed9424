//! JSON as values of templates.

use minijinja::Value;

use crate::error::Declined;
use crate::values::{List, Map, insert};

/// Documents with more nesting are declined.
const MAX_DEPTH: usize = 128;

/// Objects with more members are declined: names are compared one by one.
const MAX_MEMBERS: usize = 1024;

/// Parses JSON into a value whose members keep their order.
///
/// # Errors
///
/// [`Declined`] for what Python does not read as JSON or may read differently: integers beyond 64
/// bits, `NaN`, lone surrogates, nesting over 128, objects of more than 1,024 members.
///
/// ```
/// let value = nanotok_template::value_of_json(br#"{"b": [1, null], "a": 2.50}"#).unwrap();
/// assert_eq!(value.to_string(), "{'b': [1, None], 'a': 2.5}");
/// ```
pub fn value_of_json(text: &[u8]) -> Result<Value, Declined> {
    let text = simdutf8::basic::from_utf8(text).map_err(|_| Declined(0))?;
    let mut reader = Reader { text, place: 0, depth: 0 };
    let value = reader.value()?;
    reader.skip_spaces();
    if reader.place < text.len() { Err(Declined(reader.place)) } else { Ok(value) }
}

struct Reader<'t> {
    text: &'t str,
    place: usize,
    depth: usize,
}

impl Reader<'_> {
    fn declined<T>(&self) -> Result<T, Declined> {
        Err(Declined(self.place))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.place).copied()
    }

    fn skip_spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.place += 1;
        }
    }

    /// Whether the next byte after spaces is this one, which is then passed.
    fn takes(&mut self, byte: u8) -> bool {
        self.skip_spaces();
        let is_next = self.peek() == Some(byte);
        self.place += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), Declined> {
        if self.takes(byte) { Ok(()) } else { self.declined() }
    }

    fn value(&mut self) -> Result<Value, Declined> {
        self.skip_spaces();
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => self.nested(Self::map),
            Some(b'[') => self.nested(Self::list),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::from(true)),
            Some(b'f') => self.word("false", Value::from(false)),
            Some(b'n') => self.word("null", Value::from(())),
            _ => self.declined(),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Declined> {
        if !self.text[self.place..].starts_with(word) {
            return self.declined();
        }
        self.place += word.len();
        Ok(value)
    }

    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Value, Declined>,
    ) -> Result<Value, Declined> {
        if self.depth == MAX_DEPTH {
            return self.declined();
        }
        self.depth += 1;
        self.place += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn map(&mut self) -> Result<Value, Declined> {
        let mut members = Vec::with_capacity(4);
        if self.takes(b'}') {
            return Ok(Value::from_object(Map(members)));
        }
        loop {
            self.skip_spaces();
            if self.peek() != Some(b'"') || members.len() == MAX_MEMBERS {
                return self.declined();
            }
            let key = self.string()?;
            self.expect(b':')?;
            let value = self.value()?;
            insert(&mut members, key, value);
            if self.takes(b'}') {
                return Ok(Value::from_object(Map(members)));
            }
            self.expect(b',')?;
        }
    }

    fn list(&mut self) -> Result<Value, Declined> {
        let mut values = Vec::new();
        if self.takes(b']') {
            return Ok(Value::from_object(List(values)));
        }
        loop {
            values.push(self.value()?);
            if self.takes(b']') {
                return Ok(Value::from_object(List(values)));
            }
            self.expect(b',')?;
        }
    }

    /// Passes the text up to the next quote or backslash, and returns it.
    fn plain(&mut self) -> Result<&str, Declined> {
        let rest = &self.text[self.place..];
        let end = memchr::memchr2(b'"', b'\\', rest.as_bytes()).unwrap_or(rest.len());
        let plain = &rest[..end];
        if plain.bytes().fold(u8::MAX, u8::min) < b' ' {
            return self.declined();
        }
        self.place += end;
        Ok(plain)
    }

    fn string(&mut self) -> Result<Value, Declined> {
        self.place += 1;
        let start = self.place;
        self.plain()?;
        if self.peek() == Some(b'"') {
            self.place += 1;
            return Ok(Value::from(&self.text[start..self.place - 1]));
        }
        let mut owned = self.text[start..self.place].to_owned();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.place += 1;
                    return Ok(Value::from(owned));
                }
                Some(b'\\') => owned.push(self.escape()?),
                _ => return self.declined(),
            }
            owned.push_str(self.plain()?);
        }
    }

    fn escape(&mut self) -> Result<char, Declined> {
        self.place += 2;
        Ok(match self.text.as_bytes().get(self.place - 1) {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(&byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'u') => return self.unicode(),
            _ => return self.declined(),
        })
    }

    fn unicode(&mut self) -> Result<char, Declined> {
        let first = self.unit()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first).ok_or(Declined(self.place));
        }
        if !self.text[self.place..].starts_with("\\u") {
            return self.declined();
        }
        self.place += 2;
        let second = self.unit()?;
        if !(0xdc00..0xe000).contains(&second) {
            return self.declined();
        }
        let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        char::from_u32(code).ok_or(Declined(self.place))
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Result<u32, Declined> {
        let digits = self.text.get(self.place..self.place + 4).ok_or(Declined(self.place))?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return self.declined();
        }
        self.place += 4;
        u32::from_str_radix(digits, 16).map_err(|_| Declined(self.place))
    }

    fn digits(&mut self) -> Result<(), Declined> {
        let start = self.place;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.place += 1;
        }
        if self.place == start { self.declined() } else { Ok(()) }
    }

    fn number(&mut self) -> Result<Value, Declined> {
        let start = self.place;
        self.place += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.place += 1;
        } else {
            self.digits()?;
        }
        let end_of_integer = self.place;
        if self.peek() == Some(b'.') {
            self.place += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.place += 1;
            self.place += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        let text = &self.text[start..self.place];
        if self.place > end_of_integer {
            let number: f64 = text.parse().map_err(|_| Declined(start))?;
            return if number.is_finite() { Ok(Value::from(number)) } else { self.declined() };
        }
        match text.parse::<i64>() {
            Ok(number) => Ok(Value::from(number)),
            Err(_) => text.parse::<u64>().map(Value::from).map_err(|_| Declined(start)),
        }
    }
}
