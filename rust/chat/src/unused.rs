//! Text that a dialect does not render: the names of the members that hold it, and their counts.

use std::collections::{HashMap, HashSet};

use nanotok_memory as memory;

use crate::json::Object;

/// This many names are compared before a name is hashed.
const FEW_NAMES: usize = 4;

/// Counts the members of documents that hold text and are not rendered, by their names.
#[derive(Debug)]
pub(crate) struct Unused<'m> {
    metadata: &'m Metadata,
    /// The first names of metadata of these documents.
    described: Vec<String>,
    found: UnusedText,
    /// The number of members of each name in this document.
    numbers: Vec<usize>,
    /// The indexes of the names that this document has.
    present: Vec<usize>,
}

impl<'m> Unused<'m> {
    pub(crate) fn new(metadata: &'m Metadata) -> Self {
        let found = UnusedText::default();
        Self { metadata, described: Vec::new(), found, numbers: Vec::new(), present: Vec::new() }
    }

    /// Counts the members of a document that were not taken, without metadata.
    pub(crate) fn row(&mut self, rest: &Object<'_>) {
        for name in rest.names_with_text() {
            if !self.is_metadata(name) {
                self.count(name);
            }
        }
    }

    fn is_metadata(&mut self, name: &str) -> bool {
        if self.described.iter().any(|known| known == name) {
            return true;
        }
        let is_metadata = self.metadata.contains(name);
        if is_metadata && self.described.len() < FEW_NAMES {
            self.described.push(name.to_owned());
        }
        is_metadata
    }

    /// Counts the members of a message, a part or a call that were not taken.
    pub(crate) fn inner(&mut self, rest: &Object<'_>) {
        rest.names_with_text().for_each(|name| self.count(name));
    }

    fn count(&mut self, name: &str) {
        let position = self.found.position(name);
        self.numbers.resize(self.found.names.len(), 0);
        if self.numbers[position] == 0 {
            self.present.push(position);
        }
        self.numbers[position] += 1;
    }

    /// Ends a document, whose counts are added if it was rendered.
    pub(crate) fn end(&mut self, document: usize, is_rendered: bool) {
        let names = &self.found.names;
        self.present.sort_unstable_by(|&one, &other| names[one].cmp(&names[other]));
        for position in self.present.drain(..) {
            let count = std::mem::take(&mut self.numbers[position]);
            if is_rendered {
                memory::push(&mut self.found.counts, [document, position, count].map(number));
            }
        }
    }

    /// The counts of all documents.
    pub(crate) fn into_found(self) -> UnusedText {
        self.found
    }
}

/// Names of members of a document whose text is no part of a conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metadata {
    names: HashSet<String>,
    ends: Vec<String>,
}

impl Metadata {
    /// These names; one that begins with `*` stands for all names with that end.
    pub(crate) fn new(names: Vec<String>) -> Self {
        let (ends, names): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| name.starts_with('*'));
        let ends = ends.into_iter().map(|name| name[1..].to_owned()).collect();
        Self { names: names.into_iter().collect(), ends }
    }

    fn contains(&self, name: &str) -> bool {
        self.names.contains(name) || self.ends.iter().any(|end| name.ends_with(end))
    }
}

/// The counts of text that is not rendered, by the name of its member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnusedText {
    /// The names, in the order of their first documents, declined ones included.
    pub names: Vec<String>,
    /// The index of a document, the index of a name, and the number of values of that name; in the
    /// order of documents and, in a document, of names.
    pub counts: Vec<[i64; 3]>,
    positions: HashMap<String, usize>,
}

impl UnusedText {
    /// Adds the counts of later documents.
    pub(crate) fn append(&mut self, other: &Self) {
        let positions: Vec<_> = other.names.iter().map(|name| self.position(name)).collect();
        for &[document, name, count] in &other.counts {
            let name = positions[usize::try_from(name).expect("it is an index")];
            memory::push(&mut self.counts, [document, number(name), count]);
        }
    }

    /// The index of a name, which is added if it is new.
    fn position(&mut self, name: &str) -> usize {
        let mut first = self.names.iter().take(FEW_NAMES);
        let known = first.position(|known| known == name);
        if let Some(position) = known.or_else(|| self.positions.get(name).copied()) {
            return position;
        }
        let position = self.names.len();
        self.names.push(name.to_owned());
        self.positions.insert(name.to_owned(), position);
        position
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).expect("memory is below 2**63 bytes")
}

#[cfg(test)]
mod tests {
    use nanotok_bpe::Documents;

    use crate::testing::{batch, dialect, settings};
    use crate::{Composed, Kind};

    fn composed(kind: Kind, name: &str, documents: &[&str]) -> Composed {
        let (data, offsets) = batch(documents);
        let documents = Documents::new(&data, &offsets).unwrap();
        dialect(settings(kind, name)).compose(documents, 0..documents.len(), None)
    }

    /// Checks the names that hold text in one document, each as often as it does.
    fn check(kind: Kind, name: &str, document: &str, expected: &[&str]) {
        let Composed { unused, declined, .. } = composed(kind, name, &[document]);
        assert_eq!(declined, Vec::<usize>::new(), "{document}");
        let names = unused.counts.iter().flat_map(|&[_, name, count]| {
            let [name, count] = [name, count].map(|number| usize::try_from(number).unwrap());
            std::iter::repeat_n(&*unused.names[name], count)
        });
        assert_eq!(names.collect::<Vec<_>>(), expected, "{document}");
    }

    const USER: &str = r#"{"role": "user", "content": "q"}"#;

    fn check_message(fields: &str, expected: &[&str]) {
        let message = format!(r#"{{"role": "assistant", "content": "a", {fields}}}"#);
        check(Kind::Chat, "messages", &format!("[{USER}, {message}]"), expected);
    }

    #[test]
    fn text_is_a_string_or_holds_one() {
        check_message(r#""x": "t", "y": ["", ["t"]], "z": {"n": 1, "t": "t"}"#, &["x", "y", "z"]);
        check_message(
            r#""a": "", "b": 1, "c": null, "d": [], "e": {"t": ""}, "f": [1, [""]]"#,
            &[],
        );
    }

    #[test]
    fn the_last_member_of_a_name_counts() {
        check_message(r#""x": "t", "x": """#, &[]);
        check_message(r#""x": "", "x": "t""#, &["x"]);
        check_message(r#""x": "t", "x": "t""#, &["x"]);
        check_message(r#""x": {"t": "t", "t": 1}"#, &[]);
    }

    #[test]
    fn metadata_is_not_counted_beside_messages_but_in_them() {
        let beside = r#""id": "t", "doc_id": "t", "source": "t", "tools": [{"name": "t"}]"#;
        let inside = r#"[{"role": "user", "content": "q", "id": "t", "name": "t"}]"#;
        check(
            Kind::Chat,
            "messages",
            &format!(r#"{{"messages": {inside}, {beside}}}"#),
            &["id", "name", "source", "tools"],
        );
    }

    #[test]
    fn calls_and_parts_have_unused_text_too() {
        let call = r#"{"id": "a", "type": "function", "index": "t", "function":
            {"name": "python", "arguments": {"code": "1"}, "strict": "t"}}"#;
        let calling =
            format!(r#"{{"role": "assistant", "tool_calls": [{call}], "thinking": "t"}}"#);
        let answer = r#"{"role": "tool", "tool_call_id": "a", "content": "1", "name": "t"}"#;
        let after = r#"{"role": "assistant", "content": [{"type": "text", "text": "x", "note": "t"}],
            "thinking": "t"}"#;
        check(
            Kind::Chat,
            "messages",
            &format!("[{USER}, {calling}, {answer}, {after}]"),
            &["index", "name", "note", "strict", "thinking", "thinking"],
        );
    }

    #[test]
    fn every_dialect_has_its_own_members() {
        let turn = r#"{"from": "human", "value": "q", "weight": 1, "tag": "t"}"#;
        let sharegpt = format!(r#"{{"conversations": [{turn}], "system": "s", "tools": "t"}}"#);
        check(Kind::Chat, "sharegpt", &sharegpt, &["tag", "tools"]);
        let custom = format!(r#"[{USER}, {{"role": "assistant", "content": "a", "x": "t"}}]"#);
        check(Kind::Chat, "customjson", &custom, &["x"]);
        let gsm8k = r#"{"question": "q", "answer": "a", "hint": "t"}"#;
        check(Kind::Chat, "gsm8k", gsm8k, &["hint"]);
        let pair = r#"{"prompt": "p", "response": "r", "completion": "c", "system": "s"}"#;
        check(Kind::Chat, "prompt-response", pair, &["completion"]);
        let alpaca = r#"{"instruction": "i", "input": "j", "output": "o", "text": "t"}"#;
        check(Kind::Chat, "alpaca", alpaca, &["text"]);
        let pair = r#"{"prompt": "p", "text": "t", "response": "r", "completion": "c"}"#;
        check(Kind::Vision, "prompt-response", pair, &["completion", "text"]);
        check(Kind::Vision, "text", r#"{"text": "t", "response": "r"}"#, &["response"]);
        let messages = format!(r#"{{"messages": [{USER}], "image_token_counts": [], "x": "t"}}"#);
        check(Kind::Vision, "messages", &messages, &["x"]);
    }

    #[test]
    fn declined_documents_are_not_counted() {
        let message = |name| format!(r#"{{"role": "user", "content": "q", "{name}": "t"}}"#);
        let good = format!("[{}]", message("y"));
        let bad = format!("[{}, {USER}]", message("x"));
        let found = composed(Kind::Chat, "messages", &[&bad, &good, &good]);
        assert_eq!(found.declined, [0]);
        assert_eq!(found.unused.names, ["x", "y"]);
        assert_eq!(found.unused.counts, [[1, 1, 1], [2, 1, 1]]);
    }

    #[test]
    fn many_members_take_linear_time() {
        let names: Vec<_> = (0..100_000).map(|number| format!(r#""n{number}": "t""#)).collect();
        let twice = format!("{}, {}", names.join(", "), names.join(", "));
        let document = format!(r#"{{"question": "q", "answer": "a", {twice}, "x": {{{twice}}}}}"#);
        let found = composed(Kind::Chat, "gsm8k", &[&document]);
        assert_eq!(found.unused.counts.len(), 100_001);
    }
}
