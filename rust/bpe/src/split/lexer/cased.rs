//! Words for which the case of letters matters: `[prefix]? upper* lower+`, else `[prefix]? upper+
//! lower*`. The end of the letters is that of a backtracking engine, even if upper and lower
//! letters share characters and letters are prefixes.

use super::{LETTER, LOWER, PREFIX, UPPER};
use crate::split::classes::Classes;

/// The end of letters by the alternative that matches them.
#[derive(Debug, Clone, Copy)]
enum End {
    WithLower(usize),
    UpperAlone(usize),
}

/// The end of the letters of the word that begins at `start`, if any: by the first alternative with
/// and without a prefix, then by the second.
#[inline]
pub(super) fn letters_end(classes: &Classes, text: &[u8], start: usize) -> Option<usize> {
    let (first, second_start) = classes.at(text, start);
    let may_be_prefix = first & PREFIX != 0;
    let prefixed = if may_be_prefix { end(classes, text, second_start) } else { None };
    if let Some(End::WithLower(end)) = prefixed {
        return Some(end);
    }
    let bare = if first & LETTER != 0 { end(classes, text, start) } else { None };
    match (prefixed, bare) {
        (_, Some(End::WithLower(end)))
        | (Some(End::UpperAlone(end) | End::WithLower(end)), _)
        | (None, Some(End::UpperAlone(end))) => Some(end),
        (None, None) => None,
    }
}

/// The end of the letters from `start` on. As many upper letters as possible come first; if no
/// purely lower letter follows, the last one that can be both is the lower letter.
#[inline]
fn end(classes: &Classes, text: &[u8], start: usize) -> Option<End> {
    let (mut at, mut last_of_both) = (start, start);
    loop {
        let (own, next) = classes.at(text, at);
        match (own & UPPER != 0, own & LOWER != 0) {
            (false, true) => return Some(End::WithLower(classes.run(text, next, LOWER))),
            (false, false) => break,
            (true, true) => last_of_both = next,
            (true, false) => {}
        }
        at = next;
    }
    if last_of_both > start {
        Some(End::WithLower(last_of_both))
    } else {
        (at > start).then_some(End::UpperAlone(at))
    }
}
