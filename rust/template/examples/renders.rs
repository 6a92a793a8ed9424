//! Measures renders a second: `cargo run --release --example renders -- TEMPLATE CONTEXT.json`.

use std::hint::black_box;
use std::time::Instant;

use nanotok_template::{Limits, Rendering, Settings, Template, value_of_json};

#[expect(clippy::print_stdout, reason = "a program")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let source = std::fs::read_to_string(arguments.next().ok_or("no template")?)?;
    let json = std::fs::read(arguments.next().ok_or("no context")?)?;
    let template = Template::new(&source, &Settings::default())?;
    let mut out = Rendering::default();
    for _ in 0..5 {
        let (mut parsing, start) = (0.0, Instant::now());
        for _ in 0..20_000 {
            let at = Instant::now();
            let context = value_of_json(black_box(&json))?;
            parsing += at.elapsed().as_secs_f64();
            out.text.clear();
            out.spans.clear();
            template.render(&context, Limits::of_input(json.len()), &mut out)?;
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("{:.0} renders/s, parsing {:.0} %", 20_000.0 / seconds, 100.0 * parsing / seconds);
    }
    Ok(())
}
