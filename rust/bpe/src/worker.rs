//! One thread's part of encoding: documents to ids, with a memory of its own for the spans it met, which
//! is kept from call to call. Knows neither blocks nor threads.

use std::mem;

use crate::Splitter;
use crate::long_memo::{LongMemo, MAX_LENGTH};
use crate::out::Out;
use crate::short::Short;
use crate::short_memo::ShortMemo;
use crate::span_ids::{Scratch, SpanIds};
use crate::span_table::SpanTable;
use crate::split::Stuck;
use crate::token_id::{Packing, TokenId};

/// Spans are found, then encoded, so many at a time: two short loops instead of a long one.
const WINDOW: usize = 256;

/// So many spans before it is looked up, a span's place is asked for from memory.
const AHEAD: usize = 32;

/// After so many spans that a worker had not met, it merges the next ones itself: to look one up in the table
/// takes about as long, as that lies in memory that nobody else touches.
const MAX_TABLE_LOOKUPS: usize = 1 << 16;

/// Splits and encodes; remembers what it found.
#[derive(Debug)]
pub(crate) struct Worker {
    splitter: Splitter,
    /// Where the spans of a window end.
    ends: Vec<usize>,
    memory: Memory,
}

/// Where the ids of spans come from that are not remembered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'e> {
    pub(crate) span_ids: &'e SpanIds,
    pub(crate) table: Option<&'e SpanTable>,
}

/// What is remembered, and room to work in.
#[derive(Debug)]
struct Memory {
    packing: Packing,
    short: ShortMemo,
    long: LongMemo,
    scratch: Scratch,
    table_lookups: usize,
}

impl Worker {
    /// A worker that remembers in at most `cache_bytes`.
    pub(crate) fn new(splitter: Splitter, packing: Packing, cache_bytes: usize) -> Self {
        let memory = Memory {
            packing,
            short: ShortMemo::new(cache_bytes / 2),
            long: LongMemo::new(cache_bytes / 2, packing),
            scratch: Scratch::default(),
            table_lookups: 0,
        };
        Self { splitter, ends: Vec::with_capacity(WINDOW), memory }
    }

    /// Appends the ids of the document that is `data[start..end]`.
    pub(crate) fn encode<I: TokenId>(
        &mut self,
        source: Source<'_>,
        data: &[u8],
        (start, end): (usize, usize),
        out: &mut Out<I>,
    ) -> Result<(), Stuck> {
        let Self { splitter, ends, memory } = self;
        let mut from = start;
        ends.clear();
        splitter.visit_ends(&data[start..end], |end| {
            ends.push(start + end);
            if ends.len() == WINDOW {
                let to = start + end;
                memory.encode_window(source, data, mem::replace(&mut from, to), ends, out);
                ends.clear();
            }
        })?;
        memory.encode_window(source, data, from, ends, out);
        Ok(())
    }
}

impl Memory {
    /// Appends the ids of the spans of `data` that begin at `start` and end at each of `ends`.
    #[inline(never)]
    fn encode_window<I: TokenId>(
        &mut self,
        source: Source<'_>,
        data: &[u8],
        mut start: usize,
        ends: &[usize],
        out: &mut Out<I>,
    ) {
        let Some(last) = ends.last() else { return };
        out.reserve(last - start);
        let mut keys = Keys::default();
        let mut asked = start;
        for at in 0..ends.len() + AHEAD {
            let key = (keys.shorts[at % AHEAD], keys.places[at % AHEAD]);
            if let Some(&end) = ends.get(at) {
                self.ask(&mut keys, at, data, mem::replace(&mut asked, end), end);
            }
            let Some(&end) = at.checked_sub(AHEAD).and_then(|at| ends.get(at)) else { continue };
            let from = mem::replace(&mut start, end);
            let (short, place) = key;
            if short == Short::default() {
                self.encode_long(source, &data[from..end], place as u64, out);
                continue;
            }
            match self.short.get(place, short) {
                0 => self.encode_new(source, &data[from..end], short, out),
                packed => out.push_packed(self.packing, packed),
            }
        }
    }

    /// Finds what the span `data[start..end]` is looked up by, and asks for that from memory.
    #[inline]
    fn ask(&self, keys: &mut Keys, at: usize, data: &[u8], start: usize, end: usize) {
        let (short, place) = if let Some(short) = Short::within(data, start, end) {
            let place = self.short.place(short);
            self.short.prefetch(place);
            (short, place)
        } else {
            (Short::default(), self.long.ask(&data[start..end]))
        };
        (keys.shorts[at % AHEAD], keys.places[at % AHEAD]) = (short, place);
    }

    /// The table, until enough was looked up there: what is still new then is seldom in it.
    fn table<'e>(&mut self, source: Source<'e>) -> Option<&'e SpanTable> {
        let table = source.table.filter(|_| self.table_lookups < MAX_TABLE_LOOKUPS)?;
        self.table_lookups += 1;
        Some(table)
    }

    #[inline(never)]
    fn encode_new<I: TokenId>(
        &mut self,
        source: Source<'_>,
        span: &[u8],
        short: Short,
        out: &mut Out<I>,
    ) {
        let known = self.table(source).map_or(0, |table| table.short(short));
        if known != 0 {
            self.short.put(self.short.place(short), short, known);
            out.push_packed(self.packing, known);
            return;
        }
        let ids = source.span_ids.encode(span, &mut self.scratch);
        if let Some(packed) = self.packing.pack(ids) {
            self.short.put(self.short.place(short), short, packed);
        }
        out.push_all(ids.iter().copied());
    }

    #[inline(never)]
    fn encode_long<I: TokenId>(
        &mut self,
        source: Source<'_>,
        span: &[u8],
        hash: u64,
        out: &mut Out<I>,
    ) {
        if span.len() > MAX_LENGTH {
            out.push_all(source.span_ids.encode(span, &mut self.scratch).iter().copied());
            return;
        }
        if let Some(ids) = self.long.get(span, hash) {
            out.push_all(self.packing.ids_of(ids));
            return;
        }
        if let Some(ids) = self.table(source).and_then(|table| table.long(span, hash)) {
            out.push_all(self.packing.ids_of(ids));
            return;
        }
        let ids = source.span_ids.encode(span, &mut self.scratch);
        out.push_all(ids.iter().copied());
        self.long.put(span, hash, ids);
    }
}

/// What the next spans are looked up by, each in turn. Two arrays, because a pair of such numbers is
/// copied in other pieces than it was written in, for which the CPU would wait.
#[derive(Debug, Default)]
struct Keys {
    /// The short form, none for longer spans.
    shorts: [Short; AHEAD],
    /// The line of a short span, the hash of a longer one.
    places: [usize; AHEAD],
}
