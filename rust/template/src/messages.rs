//! Messages in the form in which transformers passes them to templates.

use minijinja::Value;
use minijinja::value::ValueKind;

use crate::values::{Map, insert, list_value};

/// Names of the reasoning of a message; the first that is set counts.
pub(crate) const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// The messages as transformers passes them to a template: members that are null are dropped, and
/// the reasoning of a message has the names `reasoning_content` and `thinking`. What is not a list
/// of maps is returned as it is.
///
/// ```
/// use nanotok_template::{messages_for_templates, value_of_json};
///
/// let messages = value_of_json(br#"[{"role": "assistant", "name": null}]"#).unwrap();
/// assert_eq!(messages_for_templates(&messages).to_string(), "[{'role': 'assistant'}]");
/// ```
#[must_use]
pub fn messages_for_templates(messages: &Value) -> Value {
    if messages.kind() != ValueKind::Seq {
        return messages.clone();
    }
    match messages.try_iter() {
        Ok(list) => list_value(list.map(|message| normalized(&message))),
        Err(_) => messages.clone(),
    }
}

fn normalized(message: &Value) -> Value {
    let Some(object) = message.as_object().filter(|_| message.kind() == ValueKind::Map) else {
        return message.clone();
    };
    let member = |name: &str| object.get_value(&Value::from(name)).filter(|value| !value.is_none());
    let reasoning = REASONING.iter().find_map(|name| member(name));
    let is_unchanged = reasoning.is_none()
        && message
            .downcast_object_ref::<Map>()
            .is_some_and(|map| map.0.iter().all(|(_, value)| !value.is_none()));
    if is_unchanged {
        return message.clone();
    }
    let members = object.try_iter_pairs().into_iter().flatten();
    let mut kept: Vec<(Value, Value)> = Vec::new();
    if let Some(reasoning) = &reasoning {
        kept.push(("thinking".into(), reasoning.clone()));
    }
    for (key, value) in members.filter(|(_, value)| !value.is_none()) {
        insert(&mut kept, key, value);
    }
    if let Some(reasoning) = reasoning {
        insert(&mut kept, "reasoning_content".into(), reasoning);
    }
    Value::from_object(Map(kept))
}
