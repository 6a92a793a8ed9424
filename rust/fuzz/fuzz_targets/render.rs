//! Any bytes as documents of any dialect: nothing panics, positions are consistent, images are at
//! their stated positions, and the result does not depend on the number of threads.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nanotok_bpe::{Documents, Encoder, Needles};
use nanotok_chat::{Dialect, Rendered, SpecialIds};
use nanotok_fuzz::documents::{self, IMAGE};
use nanotok_fuzz::patterns;

/// Special tokens in the order of their ids from `FIRST` on; the first is that of images.
const NAMES: [&str; 13] = [
    IMAGE,
    "<|bos|>",
    "<|user_start|>",
    "<|user_end|>",
    "<|assistant_start|>",
    "<|assistant_end|>",
    "<|python_start|>",
    "<|python_end|>",
    "<|output_start|>",
    "<|output_end|>",
    "<|ref|>",
    "<|ref|>x",
    "a",
];

const FIRST: u32 = 1000;

/// The label of an image's tokens.
const IMAGE_LABEL: u8 = 10;

/// The highest label.
const MAX_LABEL: u8 = IMAGE_LABEL;

/// The encoder and the searcher.
struct Tools {
    encoder: Encoder,
    needles: Needles,
}

static TOOLS: LazyLock<Tools> = LazyLock::new(|| {
    let splitter = patterns::chosen(0).splitters[0].clone();
    let encoder = Encoder::new(splitter, &[(97, 98), (256, 256)]).expect("merges");
    Tools { encoder, needles: Needles::new(&NAMES).expect("needles") }
});

fuzz_target!(|bytes: &[u8]| {
    let (&number, bytes) = bytes.split_first().unwrap_or((&0, bytes));
    let dialect = Dialect::new(documents::settings(number)).expect("a dialect");
    // Without the last names, some documents lack a special token.
    let known = NAMES.len() - if number & 128 == 0 { 0 } else { 5 };
    let names = NAMES[..known].iter().map(ToString::to_string);
    let ids = SpecialIds::new(names.zip(FIRST..));
    let (data, offsets) = documents::documents(bytes);
    let documents = Documents::new(&data, &offsets).expect("a batch");

    let rendered = render(&dialect, &ids, documents, 1);
    check(&rendered, documents.len());
    assert_eq!(rendered, render(&dialect, &ids, documents, 3));
    check_texts(&dialect, &ids, documents);
});

fn render(
    dialect: &Dialect,
    ids: &SpecialIds,
    documents: Documents<'_>,
    threads: usize,
) -> Rendered<u16> {
    let Tools { encoder, needles } = &*TOOLS;
    dialect.render(encoder, ids, needles, documents, threads).expect("gaps are spans")
}

fn check(rendered: &Rendered<u16>, number: usize) {
    let Rendered { ids, labels, offsets, declined, images, sizes, unused } = rendered;
    assert_eq!((offsets.len(), sizes.len(), labels.len()), (number + 1, number, ids.len()));
    assert_eq!((offsets[0], position(offsets[number])), (0, ids.len()));
    assert!(labels.iter().all(|&label| label <= MAX_LABEL));
    for document in 0..number {
        let is_declined = declined.contains(&i64::try_from(document).expect("it is small"));
        assert_eq!(offsets[document] == offsets[document + 1], is_declined);
        assert!(sizes[document].iter().all(|&size| size == 0) || !is_declined);
    }
    for &[document, name, count] in &unused.counts {
        assert!(position(name) < unused.names.len() && count > 0);
        assert!(position(document) < number && !declined.contains(&document));
    }
    let mut shown = 0;
    for &[document, start, end] in images {
        let begin = position(offsets[position(document)]);
        let tokens = begin + position(start)..begin + position(end);
        assert!(!tokens.is_empty() && tokens.end <= position(offsets[position(document) + 1]));
        assert!(ids[tokens.clone()].iter().all(|&id| u32::from(id) == FIRST));
        assert!(labels[tokens.clone()].iter().all(|&label| label == IMAGE_LABEL));
        shown += tokens.len();
    }
    assert_eq!(labels.iter().filter(|&&label| label == IMAGE_LABEL).count(), shown);
}

/// Without ids no other documents are declined, and texts are valid UTF-8.
fn check_texts(dialect: &Dialect, ids: &SpecialIds, documents: Documents<'_>) {
    let all = 0..documents.len();
    let composed = dialect.compose(documents, all.clone(), Some(ids));
    let texts = dialect.compose(documents, all, None);
    assert!(texts.declined.iter().all(|document| composed.declined.contains(document)));
    assert!(std::str::from_utf8(&texts.composition.data).is_ok());
}

fn position(number: i64) -> usize {
    usize::try_from(number).expect("it is not negative")
}
