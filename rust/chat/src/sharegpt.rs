//! `ShareGPT`: an object whose `conversations` are turns with `from` and `value`. Takes JSON, gives turns.

use crate::declined::Declined;
use crate::json::Value;
use crate::turns::{Turn, in_order};

pub(crate) fn turns(document: Value<'_>) -> Result<Vec<Turn<'_>>, Declined> {
    let mut document = document.object()?;
    let conversation = document.take("conversations")?.ok_or(Declined)?.list()?;
    let turns = conversation.into_iter().map(turn).collect::<Result<Vec<_>, _>>()?;
    let system = document.optional_text("system")?.filter(|text| !text.is_empty());
    if turns.is_empty() {
        return Err(Declined);
    }
    // With a turn of the system too, that one is not the first, and refused there.
    in_order(system.map(Turn::System).into_iter().chain(turns))
}

fn turn(turn: Value<'_>) -> Result<Turn<'_>, Declined> {
    let mut turn = turn.object()?;
    let (speaker, text) = (turn.text("from")?, turn.text("value")?);
    match &*speaker {
        "system" => Ok(Turn::System(text)),
        "human" | "user" => Ok(Turn::User(text)),
        "gpt" | "assistant" => Ok(Turn::answer(text)),
        _ => Err(Declined),
    }
}
