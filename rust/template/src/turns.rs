//! The turns of the assistant in the text of a conversation, by marks around the content of
//! messages: `nanotok_ray/chat/turns.py` describes the rules, and is the plain implementation.

use std::ops::Range;

use memchr::{memchr, memmem};
use minijinja::Value;

use crate::messages::REASONING;
use crate::values::{List, Map, list_value, map_value};

/// Start and end of the content of message n are 2n and 2n + 1 after this character, and those of
/// its reasoning are [`MAX_MESSAGES`] messages later.
const FIRST_MARK: u32 = 0xf_0000;

/// Conversations with more messages are not marked.
pub(crate) const MAX_MESSAGES: usize = 1 << 14;

/// The first byte of every mark.
const MARK_BYTE: u8 = 0xf3;
const MARK_BYTES: usize = 4;

/// What a template writes around an answer to a message of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchors {
    /// Before the answer; not empty.
    pub start: String,
    /// After the answer.
    pub end: String,
}

/// Whether a text has characters that are marks.
pub(crate) fn has_marks(text: &str) -> bool {
    next_mark(text.as_bytes(), 0).is_some()
}

/// The position of the next mark and its number.
fn next_mark(text: &[u8], mut start: usize) -> Option<(usize, u32)> {
    while let Some(found) = memchr(MARK_BYTE, &text[start..]) {
        let at = start + found;
        if text.get(at + 1).is_some_and(|byte| (0xb0..=0xbf).contains(byte)) {
            let bits = |index: usize| u32::from(text[at + index] & 0x3f);
            let code = (3 << 18) | (bits(1) << 12) | (bits(2) << 6) | bits(3);
            return Some((at, code - FIRST_MARK));
        }
        start = at + 1;
    }
    None
}

/// The messages with marks around their content and their reasoning, and the names of functions.
pub(crate) fn marked(messages: &Value) -> Value {
    let Some(list) = messages.downcast_object_ref::<List>() else { return messages.clone() };
    list_value(list.0.iter().enumerate().map(|(number, message)| {
        let Some(message) = message.downcast_object_ref::<Map>() else { return message.clone() };
        map_value(message.0.iter().map(|(key, value)| {
            let marked = match key.as_str() {
                Some("content") => marked_content(value, number),
                Some("tool_calls") => marked_list(value, |call| marked_call(call, number)),
                Some(name) if REASONING.contains(&name) => {
                    marked_text(value, MAX_MESSAGES + number)
                }
                _ => value.clone(),
            };
            (key.clone(), marked)
        }))
    }))
}

fn marked_content(content: &Value, number: usize) -> Value {
    if content.as_str().is_some() {
        return marked_text(content, number);
    }
    marked_list(content, |part| marked_member(part, "text", number))
}

fn marked_list(value: &Value, change: impl Fn(&Value) -> Value) -> Value {
    match value.downcast_object_ref::<List>() {
        Some(list) => list_value(list.0.iter().map(change)),
        None => value.clone(),
    }
}

fn marked_member(value: &Value, name: &str, number: usize) -> Value {
    let Some(map) = value.downcast_object_ref::<Map>() else { return value.clone() };
    map_value(map.0.iter().map(|(key, value)| {
        let is_marked = key.as_str() == Some(name);
        (key.clone(), if is_marked { marked_text(value, number) } else { value.clone() })
    }))
}

fn marked_call(call: &Value, number: usize) -> Value {
    let Some(map) = call.downcast_object_ref::<Map>() else { return call.clone() };
    if map.get("function").is_some_and(|function| function.downcast_object_ref::<Map>().is_some()) {
        return map_value(map.0.iter().map(|(key, value)| {
            let is_function = key.as_str() == Some("function");
            (key.clone(), if is_function { marked_call(value, number) } else { value.clone() })
        }));
    }
    marked_member(call, "name", number)
}

/// A text with marks inside the space around it, which templates often remove.
fn marked_text(value: &Value, number: usize) -> Value {
    let Some(text) = value.as_str() else { return value.clone() };
    let inner = text.trim_matches(is_space);
    if inner.is_empty() {
        return value.clone();
    }
    let start = text.len() - text.trim_start_matches(is_space).len();
    let mark = |side: u32| {
        let number = u32::try_from(number).unwrap_or(u32::MAX / 4);
        char::from_u32(FIRST_MARK + 2 * number + side).unwrap_or('\u{f0000}')
    };
    let mut marked = String::with_capacity(text.len() + 2 * MARK_BYTES);
    marked.push_str(&text[..start]);
    marked.push(mark(0));
    marked.push_str(inner);
    marked.push(mark(1));
    marked.push_str(&text[start + inner.len()..]);
    Value::from(marked)
}

/// What Python's `str.strip` removes.
fn is_space(char: char) -> bool {
    char.is_whitespace() || ('\x1c'..='\x1f').contains(&char)
}

/// Where the content of each message is in a text, and the reasoning.
#[derive(Debug, Default)]
pub(crate) struct Places {
    content: Vec<Option<Range<usize>>>,
    reasoning: Vec<Option<Range<usize>>>,
}

impl Places {
    /// Finds the marks, whose removal must give the text.
    pub(crate) fn of(marked: &str, text: &str, number: usize) -> Option<Self> {
        let mut own = Self { content: vec![None; number], reasoning: vec![None; number] };
        let (marked, text) = (marked.as_bytes(), text.as_bytes());
        let (mut start, mut position) = (0, 0);
        loop {
            let mark = next_mark(marked, start);
            let part = &marked[start..mark.map_or(marked.len(), |(at, _)| at)];
            if text.get(position..position + part.len()) != Some(part) {
                return None;
            }
            position += part.len();
            let Some((at, code)) = mark else { break };
            start = at + MARK_BYTES;
            let message = code as usize / 2;
            let place = match message.checked_sub(MAX_MESSAGES) {
                None => own.content.get_mut(message)?,
                Some(message) => own.reasoning.get_mut(message)?,
            };
            let first = place.as_ref().map_or(position, |place| place.start);
            *place = Some(first..position);
        }
        (position == text.len()).then_some(own)
    }

    /// The reasoning of messages.
    pub(crate) fn reasoning(self) -> impl Iterator<Item = Range<usize>> {
        self.reasoning.into_iter().flatten()
    }

    /// The turns of the messages with these numbers, if each can be located.
    pub(crate) fn turns(
        &self,
        assistant: &[usize],
        anchors: &Anchors,
        text: &str,
    ) -> Option<Vec<Range<usize>>> {
        let text = text.as_bytes();
        let mut turns = Vec::with_capacity(assistant.len());
        let all: Vec<(usize, Range<usize>)> = self
            .content
            .iter()
            .enumerate()
            .filter_map(|(number, place)| Some((number, place.clone()?)))
            .collect();
        for &number in assistant {
            let index = all.binary_search_by_key(&number, |(number, _)| *number).ok()?;
            let place = &all[index].1;
            let first = index.checked_sub(1).map_or(0, |before| all[before].1.end);
            let last = all.get(index + 1).map_or(text.len(), |(_, after)| after.start);
            if first > place.start || place.end > last {
                return None;
            }
            let start = after(&anchors.start, text, first..place.start)?;
            let end = match anchors.end.as_str() {
                "" => place.end,
                end => after(end, text, place.end..last)?,
            };
            turns.push(start..end);
        }
        Some(turns)
    }
}

/// The position after the only occurrence of a text.
fn after(anchor: &str, text: &[u8], range: Range<usize>) -> Option<usize> {
    let part = &text[range.clone()];
    let mut places = memmem::find_iter(part, anchor);
    let place = places.next()?;
    places.next().is_none().then_some(range.start + place + anchor.len())
}
