//! The text of strings that `serde_json` has accepted as JSON.
//!
//! `serde_json` decodes a string only into a buffer of its own, so that a text of hundreds of MiB
//! would be in memory twice, and refuses lone surrogates.

use memchr::memchr;
use nanotok_memory as memory;

/// Appends the text of a string with its quotes; a lone surrogate becomes U+FFFD, as in the package.
pub(crate) fn append(json: &str, text: &mut Vec<u8>) {
    let mut rest = &json.as_bytes()[1..json.len() - 1];
    memory::reserve(text, rest.len()); // no text is longer than its JSON
    loop {
        rest = match rest {
            [] => return,
            [b'\\', b'u', digits @ ..] => {
                let (character, length) = of_digits(digits);
                match character.encode_utf8(&mut [0; 4]).as_bytes() {
                    // Known lengths are copied without a call.
                    &[one] => text.push(one),
                    &[one, two] => text.extend_from_slice(&[one, two]),
                    &[one, two, three] => text.extend_from_slice(&[one, two, three]),
                    four => text.extend_from_slice(four),
                }
                &digits[length..]
            }
            [b'\\', escape, after @ ..] => {
                text.push(of_letter(*escape));
                after
            }
            _ => {
                let end = memchr(b'\\', rest).unwrap_or(rest.len());
                text.extend_from_slice(&rest[..end]);
                &rest[end..]
            }
        }
    }
}

/// The character of an escape of one letter or sign.
fn of_letter(escape: u8) -> u8 {
    match escape {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 0x08,
        b'f' => 0x0c,
        itself => itself,
    }
}

/// The bytes of the digits of an escape, such as 00e9.
const DIGITS: usize = 4;

/// The character of an escape, or of a pair of escapes, from the first digit on; and the bytes.
fn of_digits(escapes: &[u8]) -> (char, usize) {
    let first = unit(escapes);
    if let Some(character) = char::from_u32(first.into()) {
        return (character, DIGITS); // nearly always
    }
    let second = escapes[DIGITS..].strip_prefix(br"\u").map(unit);
    match char::decode_utf16([Some(first), second].into_iter().flatten()).next() {
        Some(Ok(character)) => (character, 2 * DIGITS + br"\u".len()),
        _ => (char::REPLACEMENT_CHARACTER, DIGITS),
    }
}

/// The code unit of UTF-16 of an escape, from its first digit on.
fn unit(escape: &[u8]) -> u16 {
    let digits = escape[..DIGITS].iter();
    digits.fold(0, |number, &digit| number << 4 | u16::from(VALUES[usize::from(digit)]))
}

/// The values of hexadecimal digits.
const VALUES: [u8; 256] = {
    let mut values = [0; 256];
    let mut value = 0_u8;
    while value < 16 {
        values[b"0123456789abcdef"[value as usize] as usize] = value;
        values[b"0123456789ABCDEF"[value as usize] as usize] = value;
        value += 1;
    }
    values
};
