//! Learns merges from a text file and prints the tokens of a second text.
//!
//! ```text
//! cargo run --release -p nanotok-bpe --example learn_and_encode -- FILE 300 "some text"
//! ```

#![expect(clippy::print_stdout, reason = "the example prints its result")]

use std::error::Error;
use std::ops::ControlFlow;
use std::{env, fs};

use nanotok_bpe::{
    Decoder, Documents, Encoder, GapRule, Goal, SpanCounts, Splitter, Vocabulary, learn,
};

/// The pattern of nanochat.
const PATTERN: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [path, num_merges, text] = arguments.as_slice() else {
        return Err("usage: learn_and_encode FILE NUM_MERGES TEXT".into());
    };
    let corpus = fs::read(path)?;
    let threads = std::thread::available_parallelism()?.get();

    let splitter = Splitter::new(PATTERN, GapRule::Spans)?;
    let mut counts = SpanCounts::new(splitter.clone());
    let end = i64::try_from(corpus.len())?;
    counts.update(Documents::new(&corpus, &[0, end])?, threads)?;
    let run = counts.sorted_run(threads);
    println!("{} bytes have {} distinct spans", corpus.len(), run.counts.len());

    let spans = Documents::new(&run.data, &run.offsets)?;
    let goal = Goal { threads, ..Goal::merges(num_merges.parse()?) };
    let learned = learn(spans, &run.counts, goal, |_| ControlFlow::Continue(()))?;
    println!("learned {} merges", learned.merges.len());

    let ids = Encoder::new(splitter, &learned.merges)?.encode(text.as_bytes())?;
    let decoder = Decoder::new(&Vocabulary::new(&learned.merges)?, &[])?;
    for id in ids {
        println!("{id:6} {:?}", String::from_utf8_lossy(&decoder.decode(&[id])?));
    }
    Ok(())
}
