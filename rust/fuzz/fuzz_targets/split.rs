//! Any bytes with each pattern: the concatenated spans are the document, and the lexer (with its
//! scanner), the DFA and the regex engine return the spans of the reference implementation.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nanotok_bpe::Kind;
use nanotok_fuzz::{patterns, program::Program, reference};

fuzz_target!(|bytes: &[u8]| {
    let mut program = Program::new(bytes);
    let case = patterns::chosen(program.byte());
    for document in program.documents(&[]) {
        let expected = reference::split(&case.regex, &document);
        let joined: Vec<&[u8]> = expected.iter().map(|&(span, _)| span).collect();
        assert!(joined.concat() == document, "the reference implementation loses bytes");
        for splitter in &case.splitters {
            let mut found = Vec::new();
            splitter.split(&document, |span, kind| found.push((span, kind))).expect("it is split");
            if found != expected {
                let at =
                    found.iter().zip(&expected).take_while(|(own, other)| own == other).count();
                let start: usize = found[..at].iter().map(|(span, _)| span.len()).sum();
                let [own, other] = [&found, &expected].map(|spans| shown(spans.get(at)));
                let (engine, steps) = (splitter.engine(), splitter.steps());
                let length = document.len();
                panic!(
                    "at {start} of {length} bytes {own} and not {other} by {engine} of {steps:?}"
                );
            }
        }
    }
});

/// A span in readable form, shortened if it is long.
fn shown(span: Option<&(&[u8], Kind)>) -> String {
    span.map_or_else(String::new, |(span, kind)| {
        let start = &span[..span.len().min(80)];
        format!("{kind:?} of {} bytes \"{}\"", span.len(), start.escape_ascii())
    })
}
