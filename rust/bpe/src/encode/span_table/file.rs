//! Spans to the bytes of a table's file. The same spans in the same order give the same bytes.

use crate::encode::long_memo::{MAX_LENGTH, Place, write_entry};
use crate::encode::span_ids::{Scratch, SpanIds};
use crate::encode::span_table::{Layout, MAGIC, Sha256, VERSION, check_sum, index, probe};
use crate::short::Short;
use crate::token_id::Packing;
use crate::{Documents, hash64};

/// The file that holds the ids of `spans`, of which none may come twice. Spans of over 255 bytes are left
/// out, and short ones of more ids than are packed. Spans take places in their order.
pub(crate) fn file(spans: Documents<'_>, span_ids: &SpanIds, tokenizer: &Sha256) -> Vec<u8> {
    let entries = Entries::of(spans, span_ids);
    let short = placed(&entries.short, |(span, _)| span.mixed());
    let long = placed(&entries.long, |place| index(place.hash));
    let layout = Layout {
        packing: entries.packing,
        short_places: short.len(),
        long_places: long.len(),
        buffer_bytes: entries.buffer.len(),
        num_spans: entries.short.len() + entries.long.len(),
    };
    let mut body = Vec::with_capacity(layout.body_bytes().unwrap_or(0));
    for place in short {
        let (span, packed) = place.unwrap_or_default();
        body.extend_from_slice(&span.number().to_le_bytes());
        body.extend_from_slice(&packed.to_le_bytes());
    }
    for place in long {
        body.extend_from_slice(&place.map_or(0, Place::pack).to_le_bytes());
    }
    body.extend_from_slice(&entries.buffer);
    let mut file = header(&layout, tokenizer);
    let check_sum = check_sum(&file, &body);
    file.extend_from_slice(&check_sum);
    file.append(&mut body);
    file
}

/// What is to be placed.
struct Entries {
    packing: Packing,
    short: Vec<(Short, u128)>,
    long: Vec<Place>,
    buffer: Vec<u8>,
}

impl Entries {
    fn of(spans: Documents<'_>, span_ids: &SpanIds) -> Self {
        let packing = Packing::of(span_ids.vocabulary().len());
        let (mut short, mut long, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
        let mut scratch = Scratch::default();
        let spans = (0..spans.len()).map(|index| spans.get(index));
        for span in spans.filter(|span| (1..=MAX_LENGTH).contains(&span.len())) {
            let ids = span_ids.encode(span, &mut scratch);
            if let Some(key) = Short::new(span) {
                short.extend(packing.pack(ids).map(|packed| (key, packed)));
            } else {
                long.extend(append(&mut buffer, span, ids, packing));
            }
        }
        Self { packing, short, long, buffer }
    }
}

/// Appends `span` and its ids to `buffer`, and gives their place; none past 4 GiB.
fn append(buffer: &mut Vec<u8>, span: &[u8], ids: &[u32], packing: Packing) -> Option<Place> {
    let start = buffer.len();
    let place = Place::new(hash64(span), u32::try_from(start).ok()?, span, ids);
    buffer.resize(start + place.num_bytes(packing), 0);
    write_entry(&mut buffer[start..], span, ids, packing);
    Some(place)
}

/// `entries` in a power of two of places, at least a third of them empty.
fn placed<T: Copy>(entries: &[T], hash: impl Fn(&T) -> usize) -> Vec<Option<T>> {
    let mut places = vec![None; (entries.len() * 3 / 2 + 1).next_power_of_two()];
    for entry in entries {
        let empty = |at: usize| places[at].is_none().then_some(at);
        if let Some(at) = probe(hash(entry), places.len(), empty) {
            places[at] = Some(*entry);
        }
    }
    places
}

/// A header without its check sum.
fn header(layout: &Layout, tokenizer: &Sha256) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    let id_bytes: u32 = if layout.packing == Packing::Narrow { 2 } else { 4 };
    for number in [VERSION, id_bytes] {
        header.extend_from_slice(&number.to_le_bytes());
    }
    header.extend_from_slice(tokenizer);
    for size in [layout.short_places, layout.long_places, layout.buffer_bytes, layout.num_spans] {
        header.extend_from_slice(&(size as u64).to_le_bytes());
    }
    header
}
