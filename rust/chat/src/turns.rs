//! Conversations as turns, converted to the form of nanochat: the system's text before the user's
//! first one, then user and assistant alternate.

use std::borrow::Cow;

use crate::declined::Declined;
use crate::json::Text;

/// The text of one speaker.
#[derive(Debug)]
pub(crate) enum Turn<'d> {
    System(Text<'d>),
    User(Text<'d>),
    Assistant(Vec<Said<'d>>),
}

/// A part of an assistant's turn, which is encoded on its own.
#[derive(Debug)]
pub(crate) struct Said<'d> {
    pub(crate) kind: SaidKind,
    pub(crate) text: Text<'d>,
}

/// The kind of a part of an assistant's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaidKind {
    Text,
    Python,
    Output,
}

impl<'d> Said<'d> {
    pub(crate) fn text(text: Text<'d>) -> Self {
        Self { kind: SaidKind::Text, text }
    }

    pub(crate) fn python(text: Text<'d>) -> Self {
        Self { kind: SaidKind::Python, text }
    }

    pub(crate) fn output(text: Text<'d>) -> Self {
        Self { kind: SaidKind::Output, text }
    }
}

impl<'d> Turn<'d> {
    /// An assistant's turn of one text.
    pub(crate) fn answer(text: Text<'d>) -> Self {
        Self::Assistant(vec![Said::text(text)])
    }
}

/// The turns with the system's text in the user's first turn; at least one. Declined if speakers
/// other than user and assistant follow, if they do not alternate, or if the user is not the first.
pub(crate) fn in_order<'d>(
    turns: impl IntoIterator<Item = Turn<'d>>,
) -> Result<Vec<Turn<'d>>, Declined> {
    let mut turns = turns.into_iter();
    let first = match turns.next() {
        Some(Turn::System(system)) => match turns.next() {
            Some(Turn::User(user)) => Turn::User(joined(&system, &user)),
            _ => return Err(Declined),
        },
        Some(first) => first,
        None => return Err(Declined),
    };
    let turns: Vec<_> = std::iter::once(first).chain(turns).collect();
    let is_in_turn = |(number, turn): (usize, &Turn)| match turn {
        Turn::System(_) => false,
        Turn::User(_) => number % 2 == 0,
        Turn::Assistant(_) => number % 2 == 1,
    };
    if turns.iter().enumerate().all(is_in_turn) { Ok(turns) } else { Err(Declined) }
}

fn joined<'d>(system: &str, user: &str) -> Text<'d> {
    Cow::Owned([system, "\n\n", user].concat())
}
