//! What is outside of the strings of a line: how deep values are nested, and the numbers of Python.

use nanotok_memory as memory;

/// The numbers that only Python reads, and numbers of the same length that are no integers either.
const CONSTANTS: [(&[u8], &[u8]); 3] =
    [(b"NaN", b"0.0"), (b"Infinity", b"0.000000"), (b"-Infinity", b"-0.000000")];

/// Whether NaN or Infinity is at the start of a part of a line.
pub(crate) fn starts_with_constant(rest: &[u8]) -> bool {
    CONSTANTS.iter().any(|(name, _)| rest.starts_with(name))
}

/// A line with another number in place of each NaN and Infinity that is a value.
pub(crate) fn without_constants(line: &str) -> String {
    let line = line.as_bytes();
    let mut changed = memory::copied(line);
    for (at, byte) in outside_strings(line) {
        if !matches!(byte, b'N' | b'I' | b'-') {
            continue;
        }
        for (name, number) in CONSTANTS {
            if line[at..].starts_with(name) && is_value(&line[..at], &line[at + name.len()..]) {
                changed[at..at + name.len()].copy_from_slice(number);
            }
        }
    }
    String::from_utf8(changed).expect("one byte of ASCII is replaced by another")
}

/// Whether a value can be between these parts of a line.
fn is_value(before: &[u8], after: &[u8]) -> bool {
    before.last().is_none_or(|byte| b"[:, \t\r\n".contains(byte))
        && after.first().is_none_or(|byte| b"]}, \t\r\n".contains(byte))
}

/// The maximum number of lists and objects around a place of valid JSON.
pub(crate) fn depth(value: &[u8]) -> usize {
    let (mut depth, mut most): (usize, usize) = (0, 0);
    for (_, byte) in outside_strings(value) {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        most = most.max(depth);
    }
    most
}

/// The bytes that are outside of strings, with their places; quotes among them.
fn outside_strings(json: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    let (mut in_string, mut is_escaped) = (false, false);
    json.iter().copied().enumerate().filter(move |&(_, byte)| {
        let was_in_string = in_string;
        if is_escaped {
            is_escaped = false;
        } else if in_string {
            in_string = byte != b'"';
            is_escaped = byte == b'\\';
        } else {
            in_string = byte == b'"';
        }
        !was_in_string
    })
}
