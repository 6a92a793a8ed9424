//! Rows of conversations: any bytes. What a chat template renders has its spans in order, on the
//! borders of characters, and a trained span in a turn.

#![no_main]

use std::ops::Range;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nanotok_template::{
    Anchors, ConversationSettings, Conversations, Settings, Shape, Template, TrainOn, value_of_json,
};

const MARKS: &str = "{% for message in messages %}<{{ message.role }}>{{ message.reasoning_content }}\
    {{ message.content | trim }}{% for call in message.tool_calls %}{{ call | tojson }}{% endfor %}\
    </>{% endfor %}{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}";
const BLOCKS: &str = "{%- for message in messages %}{{ message.role ~ message.content[:3] }}\
    {%- generation %} {{- message.content }}{% endgeneration %}{% endfor %}";

static TEMPLATES: LazyLock<[Template; 2]> = LazyLock::new(|| {
    [MARKS, BLOCKS].map(|text| Template::new(text, &Settings::default()).expect("it compiles"))
});

const DIALECTS: [&str; 5] = ["messages", "sharegpt", "prompt-response", "alpaca", "gsm8k"];

fuzz_target!(|input: &[u8]| {
    let Some((&choice, row)) = input.split_first() else { return };
    let choice = usize::from(choice);
    let settings = ConversationSettings {
        shape: Shape::of(DIALECTS[choice % 5]).expect("it is a dialect"),
        tools: Some("tools".to_owned()),
        arguments: value_of_json(b"{}").expect("this is JSON"),
        names: vec!["</>".to_owned()],
        declines_names: choice & 8 != 0,
        anchors: Some(Anchors { start: "<assistant>".to_owned(), end: "</>".to_owned() }),
        train_on: [TrainOn::Assistant, TrainOn::Last, TrainOn::All][choice % 3],
        trains_reasoning: choice & 16 != 0,
    };
    for template in &*TEMPLATES {
        let rows = Conversations::new(template, settings.clone()).expect("one name is few");
        let mut text = "before".to_owned();
        let Ok(conversation) = rows.render(row, &mut text) else {
            assert_eq!(text, "before");
            continue;
        };
        let text = text.strip_prefix("before").expect("the text is appended");
        check(text, &conversation.turns);
        check(text, &conversation.trained);
        if settings.train_on != TrainOn::All {
            let is_in_turn = |span: &Range<usize>| {
                conversation
                    .turns
                    .iter()
                    .any(|turn| turn.start <= span.start && span.end <= turn.end)
            };
            assert!(conversation.trained.iter().all(is_in_turn));
        }
    }
});

fn check(text: &str, spans: &[Range<usize>]) {
    assert!(spans.iter().all(|span| text.get(span.clone()).is_some()));
    assert!(spans.windows(2).all(|pair| pair[0].end <= pair[1].start));
}
