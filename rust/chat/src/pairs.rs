//! A string for each speaker: a prompt and its response. Takes JSON, gives turns.

use crate::declined::Declined;
use crate::json::Value;
use crate::turns::{Turn, in_order};

pub(crate) fn turns(document: Value<'_>) -> Result<Vec<Turn<'_>>, Declined> {
    let mut document = document.object()?;
    let prompt = document.text("prompt")?;
    let response = document.text_of_any(&["response", "completion"])?;
    let system = document.optional_text("system")?.filter(|text| !text.is_empty());
    let system = system.map(Turn::System).into_iter();
    in_order(system.chain([Turn::User(prompt), Turn::answer(response)]))
}
