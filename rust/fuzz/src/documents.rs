//! The fuzzer's bytes as JSON documents of some dialect: ASCII bytes are copied, other bytes select
//! parts of documents, so that few bytes make a conversation.

use nanotok_chat::{Kind, Settings};

/// The byte that ends a document.
const END: u8 = 0x1e;

/// The name of the special token for images.
pub const IMAGE: &str = "<|image|>";

/// The parts that bytes from 128 on select, repeatedly.
const PIECES: [&[u8]; 50] = [
    br#"{"role":"user","content":""#,
    br#"{"role":"assistant","content":""#,
    br#"{"role":"assistant","content":["#,
    br#"{"role":"assistant","content":null,"tool_calls":["#,
    br#"{"role":"system","content":""#,
    br#"{"role":"tool","tool_call_id":"a","content":""#,
    br#"{"id":"a","function":{"name":"python","arguments":"#,
    br#""{\"code\":\""#,
    br#"\"}"}}"#,
    br#"{"code":""#,
    br#""}}}"#,
    br#"]},"#,
    br#"{"type":"text","text":""#,
    br#"{"type":"python","text":""#,
    br#"{"type":"python_output","text":""#,
    br#""},"#,
    br#""}"#,
    br#"{"messages":["#,
    br#"{"conversations":["#,
    br#"{"from":"human","value":""#,
    br#"{"from":"gpt","value":""#,
    br#"{"question":""#,
    br#"","answer":""#,
    br#"{"prompt":""#,
    br#"","response":""#,
    br#"{"instruction":""#,
    br#"","input":""#,
    br#"","output":""#,
    br#"","history":[["#,
    br#""],[""#,
    br#"{"text":""#,
    br#"","image_token_counts":["#,
    br#"],"image_token_counts":["#,
    br#","system":""#,
    br#"","reasoning_content":""#,
    br#"","tools":[{"id":""#,
    b"<image>",
    b"<|assistant_end|>",
    b"<|ref|>",
    b"<<",
    b"=",
    b">>",
    b"\\ud83d\\ude00",
    b"\\ud800",
    b"\\n",
    "\u{e9}\u{4e2d}\u{1f600}".as_bytes(),
    b"\xff",
    b"\xed\xa0\x80",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"1e999",
];

/// Settings by number: every dialect, with and without the options of documents with images.
pub fn settings(number: u8) -> Settings {
    const DIALECTS: [(Kind, &str); 9] = [
        (Kind::Chat, "messages"),
        (Kind::Chat, "customjson"),
        (Kind::Chat, "sharegpt"),
        (Kind::Chat, "gsm8k"),
        (Kind::Chat, "prompt-response"),
        (Kind::Chat, "alpaca"),
        (Kind::Vision, "messages"),
        (Kind::Vision, "prompt-response"),
        (Kind::Vision, "text"),
    ];
    let (kind, name) = DIALECTS[usize::from(number & 15) % DIALECTS.len()];
    let grounding = ["<|ref|>", "<|ref|>x", "a"].map(str::to_owned).to_vec();
    Settings {
        kind,
        name: name.to_owned(),
        image_token: Some(IMAGE.to_owned()),
        image_tokens: (number & 32 != 0).then_some(3),
        grounding: if number & 16 == 0 { Vec::new() } else { grounding },
        train_prompt: number & 64 == 0,
        metadata: ["id", "*_id"].map(str::to_owned).to_vec(),
    }
}

/// Any bytes as documents, back to back, and their offsets.
///
/// # Panics
///
/// If memory were over 2**63 bytes.
pub fn documents(bytes: &[u8]) -> (Vec<u8>, Vec<i64>) {
    let (mut data, mut offsets) = (Vec::new(), vec![0]);
    for document in bytes.split(|&byte| byte == END) {
        for byte in document {
            match byte.checked_sub(128) {
                None => data.push(*byte),
                Some(piece) => data.extend_from_slice(PIECES[usize::from(piece) % PIECES.len()]),
            }
        }
        offsets.push(i64::try_from(data.len()).expect("it is small"));
    }
    (data, offsets)
}
