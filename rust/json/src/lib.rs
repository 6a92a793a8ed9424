//! Lines of JSON: the text and the id of each, or why it has none.
//!
//! `serde_json` reads a line once and builds no values: a member is a part of the line, and only
//! the wanted ones are decoded. Memory is that of the texts and ids. As in Python, NaN and Infinity
//! are numbers. Nothing in this crate depends on Python, opens a file, or contains the text of error
//! messages.

#![forbid(unsafe_code)]

mod members;
mod scan;
mod strings;

use nanotok_bpe::Documents;
use nanotok_memory as memory;

use members::{Members, members};
use scan::{starts_with_constant, without_constants};

/// The maximum number of lists and objects around a value.
pub const MAX_DEPTH: usize = 128;

/// The names of the members that are read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fields<'a> {
    /// The text; without it, lines are objects or arrays of which only the id is read.
    pub text: Option<&'a str>,
    /// The id.
    pub id: Option<&'a str>,
}

/// Why a line has no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// The byte at this position is not UTF-8.
    Utf8(usize),
    /// The byte at this position is not JSON, or the line ends too early.
    Json(usize),
    /// Values are nested deeper than `MAX_DEPTH`: Python may read the line.
    Nested,
    /// The value begins with this byte, and is no object (without a text: nor an array).
    Kind(u8),
    /// The member of the text is missing.
    Missing,
    /// The member of the text begins with this byte, and is no string.
    FieldKind(u8),
}

/// Strings back to back, and the end of each.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Strings {
    /// The bytes of all strings, valid UTF-8.
    pub data: Vec<u8>,
    /// The end of each string in `data`.
    pub ends: Vec<usize>,
}

/// The texts and ids of lines; empty where there is none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The text of each line; nothing at all if no text is read.
    pub texts: Strings,
    /// The id of each line: a string, or the digits of an integer.
    pub ids: Strings,
    /// The lines without a text, by index, in order.
    pub problems: Vec<(usize, Problem)>,
}

/// Reads lines of JSON, each with or without its line break. The last of members of one name counts.
///
/// ```
/// # use nanotok_json::{Fields, Problem, read_rows};
/// # use nanotok_bpe::Documents;
/// let lines = Documents::new(br#"{"text": "a\u00e9", "id": 7}[]"#, &[0, 28, 30])?;
/// let rows = read_rows(lines, Fields { text: Some("text"), id: Some("id") });
/// assert_eq!(rows.texts.data, "aé".as_bytes());
/// assert_eq!(rows.ids.data, b"7");
/// assert_eq!(rows.problems, [(1, Problem::Kind(b'['))]);
/// # Ok::<(), nanotok_bpe::Error>(())
/// ```
pub fn read_rows(lines: Documents<'_>, fields: Fields<'_>) -> Rows {
    let mut rows = Rows::default();
    for index in 0..lines.len() {
        if let Err(problem) = rows.read(lines.get(index), fields) {
            memory::push(&mut rows.problems, (index, problem));
        }
        if fields.text.is_some() {
            rows.texts.end();
        }
        if fields.id.is_some() {
            rows.ids.end();
        }
    }
    rows
}

impl Rows {
    fn read(&mut self, line: &[u8], fields: Fields<'_>) -> Result<(), Problem> {
        let Ok(line) = simdutf8::basic::from_utf8(line) else { return Err(utf8_problem(line)) };
        match members(line, fields) {
            Ok(members) => self.add(&members, fields),
            Err(error) if starts_with_constant(&line.as_bytes()[position(line, &error)..]) => {
                let line = without_constants(line);
                let read = members(&line, fields);
                self.add(&read.map_err(|error| Problem::Json(position(&line, &error)))?, fields)
            }
            Err(error) => Err(Problem::Json(position(line, &error))),
        }
    }

    /// Appends text and id.
    fn add(&mut self, members: &Members<'_>, fields: Fields<'_>) -> Result<(), Problem> {
        let &Members { text, id, first, is_deep } = members;
        if is_deep {
            return Err(Problem::Nested);
        }
        if let Some(id) = id {
            self.ids.append_id(id);
        }
        if first != b'{' && (first != b'[' || fields.text.is_some()) {
            return Err(Problem::Kind(first));
        }
        if fields.text.is_none() {
            return Ok(());
        }
        let text = text.ok_or(Problem::Missing)?;
        match text.as_bytes()[0] {
            b'"' => strings::append(text, &mut self.texts.data),
            other => return Err(Problem::FieldKind(other)),
        }
        Ok(())
    }
}

impl Strings {
    fn end(&mut self) {
        memory::push(&mut self.ends, self.data.len());
    }

    /// Appends the JSON of an id, if it is a string or an integer.
    fn append_id(&mut self, id: &str) {
        if id.starts_with('"') {
            strings::append(id, &mut self.data);
        } else if id.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) {
            memory::append(&mut self.data, id.as_bytes());
        }
    }
}

fn utf8_problem(line: &[u8]) -> Problem {
    let checked = std::str::from_utf8(line);
    Problem::Utf8(checked.map_or_else(|error| error.valid_up_to(), str::len))
}

/// The position of an error in a line, at most its length.
fn position(line: &str, error: &serde_json::Error) -> usize {
    if error.is_eof() {
        return line.len();
    }
    let before = line.split_inclusive('\n').take(error.line().saturating_sub(1));
    let start: usize = before.map(str::len).sum();
    (start + error.column().saturating_sub(1)).min(line.len())
}

#[cfg(test)]
mod tests;
