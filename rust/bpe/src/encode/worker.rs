//! One thread's part of encoding: documents to ids, with a memory of its own for the spans it met, which
//! is kept from call to call. Knows neither blocks nor threads.

use std::mem;

use crate::Splitter;
use crate::encode::long_memo::{LongMemo, MAX_LENGTH};
use crate::encode::out::Out;
use crate::encode::span_ids::{Scratch, SpanIds};
use crate::encode::span_memo::{SpanMemo, value_in};
use crate::hash64;
use crate::short::{Middle, Short};
use crate::split::Stuck;
use crate::token_id::{Packing, TokenId};

/// Spans are found, then encoded, so many at a time: two short loops instead of a long one.
const WINDOW: usize = 256;

/// So many spans before it is looked up, a span's place is asked for from memory.
const AHEAD: usize = 32;

/// Splits and encodes; remembers what it found.
#[derive(Debug)]
pub(crate) struct Worker {
    splitter: Splitter,
    window: Window,
    memory: Memory,
}

/// Neighbouring spans that were found and wait to be encoded.
#[derive(Debug)]
struct Window {
    /// Where the first begins.
    start: usize,
    /// Where each ends.
    ends: Vec<usize>,
    /// For each text that ended among them, how many they were then.
    texts: Vec<usize>,
}

/// What is remembered, and room to work in.
#[derive(Debug)]
struct Memory {
    packing: Packing,
    short: SpanMemo<1>,
    middle: SpanMemo<2>,
    long: LongMemo,
    scratch: Scratch,
}

impl Worker {
    /// A worker that remembers in at most `cache_bytes`; it begins with 2 MiB of them.
    pub(crate) fn new(splitter: Splitter, packing: Packing, cache_bytes: usize) -> Self {
        let memory = Memory {
            packing,
            short: SpanMemo::new(cache_bytes / 2),
            middle: SpanMemo::new(cache_bytes / 4),
            long: LongMemo::new(cache_bytes / 4, packing),
            scratch: Scratch::default(),
        };
        Self { splitter, window: Window::default(), memory }
    }

    /// Appends the ids of the document that is `data[start..end]`.
    pub(crate) fn encode<I: TokenId>(
        &mut self,
        span_ids: &SpanIds,
        data: &[u8],
        place: (usize, usize),
        out: &mut Out<I>,
    ) -> Result<(), Stuck> {
        let mut encoding = self.encoding(span_ids, data, out, |_| {});
        encoding.add(place)?;
        encoding.finish();
        Ok(())
    }

    /// Encoding of texts of `data`, one after the other; `after_text` is called when the ids of a text were
    /// appended to `out`, and may append more.
    pub(crate) fn encoding<'w, I: TokenId, A: FnMut(&mut Out<I>)>(
        &'w mut self,
        span_ids: &'w SpanIds,
        data: &'w [u8],
        out: &'w mut Out<I>,
        after_text: A,
    ) -> Encoding<'w, I, A> {
        self.window.clear(0);
        Encoding { worker: self, span_ids, data, out, after_text }
    }
}

/// Texts on their way to ids: those of several short ones are looked up together.
pub(crate) struct Encoding<'w, I, A> {
    worker: &'w mut Worker,
    span_ids: &'w SpanIds,
    data: &'w [u8],
    out: &'w mut Out<I>,
    after_text: A,
}

impl<I: TokenId, A: FnMut(&mut Out<I>)> Encoding<'_, I, A> {
    /// Finds the spans of the text `data[start..end]`; they are encoded now or later.
    pub(crate) fn add(&mut self, (start, end): (usize, usize)) -> Result<(), Stuck> {
        if self.worker.window.end() != start {
            self.flush(start);
        }
        let Self { worker: Worker { splitter, window, memory }, span_ids, data, out, after_text } =
            self;
        splitter.visit_ends(&data[start..end], |end| {
            window.ends.push(start + end);
            if window.ends.len() == WINDOW {
                memory.encode_window(span_ids, data, window, out, after_text);
                window.clear(start + end);
            }
        })?;
        window.texts.push(window.ends.len());
        if window.texts.len() == WINDOW {
            self.flush(end);
        }
        Ok(())
    }

    /// Encodes what is left.
    pub(crate) fn finish(mut self) {
        self.flush(0);
    }

    /// Encodes what was found. What comes next begins at `start`.
    fn flush(&mut self, start: usize) {
        let Worker { window, memory, .. } = &mut *self.worker;
        memory.encode_window(self.span_ids, self.data, window, self.out, &mut self.after_text);
        window.clear(start);
    }
}

impl Default for Window {
    fn default() -> Self {
        Self { start: 0, ends: Vec::with_capacity(WINDOW), texts: Vec::new() }
    }
}

impl Window {
    /// Where the last span ends.
    fn end(&self) -> usize {
        self.ends.last().copied().unwrap_or(self.start)
    }

    fn clear(&mut self, start: usize) {
        self.start = start;
        self.ends.clear();
        self.texts.clear();
    }
}

impl Memory {
    /// Appends the ids of the spans of `window`, and calls `after_text` where a text ended.
    #[inline(never)]
    fn encode_window<I: TokenId>(
        &mut self,
        span_ids: &SpanIds,
        data: &[u8],
        window: &Window,
        out: &mut Out<I>,
        after_text: &mut impl FnMut(&mut Out<I>),
    ) {
        let ends = window.ends.as_slice();
        self.short.make_room(|[key]| Short::of_number(key).mixed());
        self.middle.make_room(Middle::mixed);
        let mut keys = Keys::default();
        let mut asked = window.start;
        for (at, &end) in ends.iter().take(AHEAD).enumerate() {
            self.ask(&mut keys, at, data, mem::replace(&mut asked, end), end);
        }
        let (mut start, mut done) = (window.start, 0);
        let stops = window.texts.iter().map(|&text| (text, true));
        for (stop, is_text) in stops.chain([(ends.len(), false)]) {
            out.reserve(window.end() - start);
            for at in done..stop {
                let (short, place) = (keys.shorts[at % AHEAD], keys.places[at % AHEAD]);
                if let Some(&end) = ends.get(at + AHEAD) {
                    self.ask(&mut keys, at + AHEAD, data, mem::replace(&mut asked, end), end);
                }
                let Some(&end) = ends.get(at) else { break };
                let from = mem::replace(&mut start, end);
                if short == Short::default() {
                    self.encode_longer(span_ids, &data[from..end], place, out);
                    continue;
                }
                let line = self.short.lines().get(place);
                match line.and_then(|line| value_in(line, [short.number()])) {
                    Some(packed) => out.push_packed(self.packing, packed),
                    None => self.encode_short(span_ids, &data[from..end], (place, short), out),
                }
            }
            done = stop;
            if is_text {
                after_text(out);
            }
        }
    }

    /// Finds what the span `data[start..end]` is looked up by, and asks for that from memory.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call at each span costs 3 to 7% of all encoding")]
    fn ask(&self, keys: &mut Keys, at: usize, data: &[u8], start: usize, end: usize) {
        let (short, place) = if let Some(short) = Short::within(data, start, end) {
            let place = self.short.home(short.mixed());
            self.short.prefetch(place);
            (short, place)
        } else {
            (Short::default(), self.ask_longer(&data[start..end]))
        };
        (keys.shorts[at % AHEAD], keys.places[at % AHEAD]) = (short, place);
    }

    /// The line of a middle span, the hash of a longer one.
    #[inline(never)]
    #[expect(clippy::cast_possible_truncation, reason = "64 bits, or as good as any others")]
    fn ask_longer(&self, span: &[u8]) -> usize {
        if let Some(middle) = Middle::new(span) {
            let home = self.middle.home(Middle::mixed(middle.words()));
            self.middle.prefetch(home);
            return home;
        }
        if span.len() > MAX_LENGTH { 0 } else { hash64(span) as usize }
    }

    /// A short span that is not in the first line it may be in.
    #[inline(never)]
    fn encode_short<I: TokenId>(
        &mut self,
        span_ids: &SpanIds,
        span: &[u8],
        (home, short): (usize, Short),
        out: &mut Out<I>,
    ) {
        let key = [short.number()];
        if let Some(packed) = self.short.get(home, key) {
            out.push_packed(self.packing, packed);
            return;
        }
        let ids = span_ids.encode(span, &mut self.scratch);
        if let Some(packed) = self.packing.pack(ids) {
            self.short.put(home, key, packed);
        }
        out.push_all(ids.iter().copied());
    }

    #[inline(never)]
    fn encode_longer<I: TokenId>(
        &mut self,
        span_ids: &SpanIds,
        span: &[u8],
        place: usize,
        out: &mut Out<I>,
    ) {
        let middle = Middle::new(span).map(Middle::words);
        let known = middle.and_then(|key| self.middle.get(place, key));
        if let Some(packed) = known {
            out.push_packed(self.packing, packed);
            return;
        }
        let hash = if middle.is_some() { hash64(span) } else { place as u64 };
        if span.len() <= MAX_LENGTH
            && let Some(ids) = self.long.get(span, hash)
        {
            out.push_all(ids);
            return;
        }
        let ids = span_ids.encode(span, &mut self.scratch);
        out.push_all(ids.iter().copied());
        match (middle, self.packing.pack(ids)) {
            (Some(key), Some(packed)) => self.middle.put(place, key, packed),
            _ if span.len() <= MAX_LENGTH => self.long.put(span, hash, ids),
            _ => {}
        }
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
