//! Helpers for tests: dialects by name, and documents shown part by part. Special tokens are shown
//! as their names without brackets, texts in quotes, both with their labels; an image ends with
//! `!`.

use nanotok_bpe::{Composition, Documents, Part, Stretch};
use proptest::prelude::*;

use crate::{Dialect, Kind, Settings, SpecialIds};

pub(crate) const NAMES: [&str; 13] = [
    "<|bos|>",
    "<|user_start|>",
    "<|user_end|>",
    "<|assistant_start|>",
    "<|assistant_end|>",
    "<|python_start|>",
    "<|python_end|>",
    "<|output_start|>",
    "<|output_end|>",
    "<image>",
    "<|grounding|>",
    "<|ref|>",
    "<|ref|>x",
];

pub(crate) fn special_ids() -> SpecialIds {
    SpecialIds::new((0..).zip(NAMES).map(|(id, name)| (name.to_owned(), id)))
}

pub(crate) fn settings(kind: Kind, name: &str) -> Settings {
    Settings {
        kind,
        name: name.to_owned(),
        image_token: (kind == Kind::Vision).then(|| "<image>".to_owned()),
        image_tokens: None,
        grounding: Vec::new(),
        train_prompt: true,
        metadata: ["id", "*_id"].map(str::to_owned).to_vec(),
    }
}

/// The settings of every dialect.
pub(crate) fn every_dialect() -> Vec<Settings> {
    let chat = ["messages", "customjson", "sharegpt", "gsm8k", "prompt-response", "alpaca"];
    let vision = ["messages", "prompt-response", "text"];
    let chat = chat.map(|name| settings(Kind::Chat, name));
    let grounding = NAMES[10..].iter().map(ToString::to_string).collect::<Vec<_>>();
    let vision = vision
        .map(|name| Settings { grounding: grounding.clone(), ..settings(Kind::Vision, name) });
    chat.into_iter().chain(vision).collect()
}

pub(crate) fn dialect(settings: Settings) -> Dialect {
    Dialect::new(settings).unwrap()
}

/// Documents back to back, and their offsets.
pub(crate) fn batch(documents: &[impl AsRef<[u8]>]) -> (Vec<u8>, Vec<i64>) {
    let (mut data, mut offsets) = (Vec::new(), vec![0]);
    for document in documents {
        data.extend_from_slice(document.as_ref());
        offsets.push(i64::try_from(data.len()).unwrap());
    }
    (data, offsets)
}

/// The parts of a document; `None`: the document is declined.
pub(crate) fn shown(settings: Settings, document: &str) -> Option<String> {
    let (data, offsets) = batch(&[document]);
    let documents = Documents::new(&data, &offsets).unwrap();
    let composed = dialect(settings).compose(documents, 0..1, Some(&special_ids()));
    assert_eq!(composed.composition.ends, [composed.composition.parts.len()]);
    let parts = composed.composition.parts.iter();
    let parts: Vec<_> = parts.map(|part| show(&composed.composition, part)).collect();
    composed.declined.is_empty().then(|| parts.join(" "))
}

pub(crate) fn check(settings: Settings, document: &str, expected: &str) {
    assert_eq!(shown(settings, document).as_deref(), Some(expected), "{document}");
}

pub(crate) fn check_declined(settings: &Settings, documents: &[&str]) {
    for document in documents {
        assert_eq!(shown(settings.clone(), document), None, "{document}");
    }
}

fn show(composition: &Composition, part: &Part) -> String {
    let what = match part.stretch {
        Stretch::Text { start, end } => {
            format!("{:?}", std::str::from_utf8(&composition.data[start..end]).unwrap())
        }
        Stretch::Special { id, count: 1 } => name(id).to_owned(),
        Stretch::Special { id, count } => format!("{}*{count}", name(id)),
    };
    let mark = if part.is_marked { "!" } else { "" };
    format!("{what}:{}{mark}", part.label)
}

fn name(id: u32) -> &'static str {
    NAMES[id as usize].trim_matches(['<', '>', '|'])
}

/// A dialect, and documents that often belong to it.
pub(crate) fn documents_of_any_dialect() -> impl Strategy<Value = (Settings, Vec<String>)> {
    let dialects = every_dialect();
    (0..dialects.len()).prop_flat_map(move |number| {
        let settings = dialects[number].clone();
        let document = document(&settings.name);
        (Just(settings), prop::collection::vec(document, 0..6))
    })
}

fn document(dialect: &str) -> BoxedStrategy<String> {
    let pair = |first: &'static str, second: &'static str| {
        let document = move |(one, two)| format!(r#"{{"{first}": "{one}", "{second}": "{two}"}}"#);
        (text(), text()).prop_map(document).boxed()
    };
    let good = match dialect {
        "messages" | "customjson" => turns("role", "content", ["user", "assistant"]),
        "sharegpt" => turns("from", "value", ["human", "gpt"])
            .prop_map(|turns| format!(r#"{{"conversations": {turns}}}"#))
            .boxed(),
        "gsm8k" => pair("question", "answer"),
        "alpaca" => alpaca(),
        "text" => pair("text", "other"),
        _ => pair("prompt", "response"),
    };
    prop_oneof![9 => good, 1 => text()].boxed()
}

fn alpaca() -> BoxedStrategy<String> {
    let pair =
        (text(), text()).prop_map(|(user, assistant)| format!(r#"["{user}", "{assistant}"]"#));
    let history = prop::collection::vec(pair, 0..3).prop_map(|pairs| pairs.join(", "));
    let row = |(instruction, input, output, history)| {
        format!(
            r#"{{"instruction": "{instruction}", "input": "{input}", "output": "{output}",
                "history": [{history}]}}"#
        )
    };
    (text(), text(), text(), history).prop_map(row).boxed()
}

fn turns(who: &'static str, what: &'static str, names: [&'static str; 2]) -> BoxedStrategy<String> {
    let turn = move |(number, text): (usize, String)| {
        format!(r#"{{"{who}": "{}", "{what}": "{text}"}}"#, names[number % 2])
    };
    let turns = move |texts: Vec<String>| {
        let turns: Vec<_> = texts.into_iter().enumerate().map(turn).collect();
        format!("[{}]", turns.join(", "))
    };
    prop::collection::vec(text(), 1..5).prop_map(turns).boxed()
}

const PIECES: [&str; 9] =
    ["a", "b ", "é", "\\n", "<image>", "<|ref|>", "<|ref|>x", "<|assistant_end|>", "<<1=2>>"];

/// Texts as JSON has them.
fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&PIECES), 0..5).prop_map(|pieces| pieces.concat())
}
