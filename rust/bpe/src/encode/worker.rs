//! Encoding in one thread, with a cache of spans that is kept between calls.

use crate::Splitter;
use crate::cpu::simd::Cpu;
use crate::encode::long_memo::{LongMemo, MAX_LENGTH};
use crate::encode::out::Out;
use crate::encode::span_ids::{Scratch, SpanIds};
use crate::encode::span_memo::SpanMemo;
use crate::encode::window::{Answer, Ask, Keys};
use crate::hash64;
use crate::short::{LONGER, Middle, Short};
use crate::split::{Ends, Stuck};
use crate::token_id::{Packing, TokenId};

/// Maximum number of texts that end in a window.
const MAX_TEXTS: usize = 256;

/// The value of a span whose ids do not fit the value and are stored in the next table.
const ELSEWHERE: u128 = 0;

/// A splitter and an encoder with its cache.
#[derive(Debug)]
pub(crate) struct Worker {
    splitter: Splitter,
    window: Window,
    memory: Memory,
}

/// Consecutive spans that wait to be encoded.
#[derive(Debug, Default)]
struct Window {
    /// Start of the first span.
    start: usize,
    /// End of each span.
    ends: Ends,
    /// For each text that ended among them, the number of spans up to its end.
    texts: Vec<usize>,
}

/// The cache, and buffers.
#[derive(Debug)]
struct Memory {
    cpu: Cpu,
    packing: Packing,
    short: SpanMemo<1>,
    middle: SpanMemo<2>,
    long: LongMemo,
    keys: Box<Keys>,
    scratch: Scratch,
}

impl Worker {
    /// A worker with a cache of at most `cache_bytes`, of which it begins with 2 MiB.
    pub(crate) fn new(splitter: Splitter, packing: Packing, cache_bytes: usize) -> Self {
        let memory = Memory {
            cpu: splitter.cpu(),
            packing,
            short: SpanMemo::new(cache_bytes / 2),
            middle: SpanMemo::new(cache_bytes / 4),
            long: LongMemo::new(cache_bytes / 4, packing),
            keys: Box::default(),
            scratch: Scratch::default(),
        };
        Self { splitter, window: Window::default(), memory }
    }

    /// Appends the ids of the document `data[start..end]`.
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

    /// An encoding of texts of `data`, one after the other; `after_text` is called when the ids of
    /// a text were appended to `out`, and can append more.
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

/// Texts that are being encoded: the spans of several short ones are looked up together.
pub(crate) struct Encoding<'w, I, A> {
    worker: &'w mut Worker,
    span_ids: &'w SpanIds,
    data: &'w [u8],
    out: &'w mut Out<I>,
    after_text: A,
}

impl<I: TokenId, A: FnMut(&mut Out<I>)> Encoding<'_, I, A> {
    /// Finds the spans of the text `data[start..end]`, which are encoded now or later.
    pub(crate) fn add(&mut self, (start, end): (usize, usize)) -> Result<(), Stuck> {
        if self.worker.window.end() != start {
            self.flush(start);
        }
        let Self { worker: Worker { splitter, window, memory }, span_ids, data, out, after_text } =
            self;
        let document = &data[start..end];
        if let Some(mut scan) = splitter.scan(document, start) {
            while scan.fill(&mut window.ends) {
                if window.ends.is_full() {
                    memory.encode_window(span_ids, data, window, out, after_text);
                    window.clear(window.end());
                }
            }
        } else {
            splitter.visit_ends(document, |end| {
                window.ends.push(start + end);
                if window.ends.is_full() {
                    memory.encode_window(span_ids, data, window, out, after_text);
                    window.clear(start + end);
                }
            })?;
        }
        window.texts.push(window.ends.all().len());
        if window.texts.len() == MAX_TEXTS {
            self.flush(end);
        }
        Ok(())
    }

    /// Encodes the remaining spans.
    pub(crate) fn finish(mut self) {
        self.flush(0);
    }

    /// Encodes the waiting spans. The next text begins at `start`.
    fn flush(&mut self, start: usize) {
        let Worker { window, memory, .. } = &mut *self.worker;
        memory.encode_window(self.span_ids, self.data, window, self.out, &mut self.after_text);
        window.clear(start);
    }
}

impl Window {
    /// The end of the last span.
    fn end(&self) -> usize {
        self.ends.all().last().copied().unwrap_or(self.start)
    }

    /// The start of span `number`.
    fn start_of(&self, number: usize) -> usize {
        number.checked_sub(1).map_or(self.start, |before| self.ends.all()[before])
    }

    fn clear(&mut self, start: usize) {
        self.start = start;
        self.ends.clear();
        self.texts.clear();
    }
}

impl Memory {
    /// Appends the ids of the spans of `window`, and calls `after_text` at the ends of texts.
    #[inline(never)]
    fn encode_window<I: TokenId>(
        &mut self,
        span_ids: &SpanIds,
        data: &[u8],
        window: &Window,
        out: &mut Out<I>,
        after_text: &mut impl FnMut(&mut Out<I>),
    ) {
        let ends = window.ends.all();
        self.ask(data, window);
        let mut done = 0;
        let stops = window.texts.iter().map(|&text| (text, true));
        for (stop, is_text) in stops.chain([(ends.len(), false)]) {
            out.reserve(window.end() - window.start_of(done));
            while done < stop {
                let (lines, packing, room) = (self.short.lines(), self.packing, out.room());
                let (shorts, homes) = (&self.keys.shorts[done..stop], &self.keys.homes[done..stop]);
                let answer = Answer { lines, shorts, homes, packing, room };
                let (spans, ids) = self.cpu.run(answer);
                out.advance(ids);
                done += spans;
                if done < stop {
                    let span = &data[window.start_of(done)..ends[done]];
                    self.encode_other(span_ids, span, done, out);
                    done += 1;
                }
            }
            if is_text {
                after_text(out);
            }
        }
    }

    /// Computes the keys of the spans, and prefetches their table lines.
    fn ask(&mut self, data: &[u8], window: &Window) {
        self.short.make_room(|[key]| Short::of_number(key).mixed());
        self.middle.make_room(Middle::mixed);
        let Self { keys, middle, short: memo, .. } = self;
        let (start, ends) = (window.start, window.ends.all());
        self.cpu.run(Ask { data, start, ends, memo, keys: &mut *keys });
        let mut at = 0;
        while let Some(number) = keys.longer(at) {
            at += 1;
            if let Some(span) = Middle::new(&data[window.start_of(number)..ends[number]]) {
                keys.homes[number] = middle.home(Middle::mixed(span.words()));
                middle.prefetch(keys.homes[number]);
            }
        }
    }

    /// Encodes span `number` of the window, which is longer, new, or not in its first line.
    #[inline(never)]
    fn encode_other<I: TokenId>(
        &mut self,
        span_ids: &SpanIds,
        span: &[u8],
        number: usize,
        out: &mut Out<I>,
    ) {
        let (short, home) = (self.keys.shorts[number], self.keys.homes[number]);
        match Middle::new(span) {
            _ if short != LONGER => self.encode_short(span_ids, span, (home, short), out),
            Some(middle) => self.encode_longer(span_ids, span, (home, middle.words()), out),
            None => self.encode_long(span_ids, span, out),
        }
    }

    fn encode_short<I: TokenId>(
        &mut self,
        span_ids: &SpanIds,
        span: &[u8],
        (home, short): (usize, u128),
        out: &mut Out<I>,
    ) {
        match self.short.get(home, [short]) {
            Some(packed) if packed != [ELSEWHERE] => out.push_packed(self.packing, packed),
            Some(_) => {
                let key = [short, LONGER];
                self.encode_longer(
                    span_ids,
                    span,
                    (self.middle.home(Middle::mixed(key)), key),
                    out,
                );
            }
            None => {
                let ids = span_ids.encode(span, &mut self.scratch);
                self.short.put(home, [short], self.packing.pack(ids).unwrap_or([ELSEWHERE]));
                out.push_all(ids.iter().copied());
            }
        }
    }

    /// Encodes a span that is looked up in the table of middle spans, then in that of long ones.
    fn encode_longer<I: TokenId>(
        &mut self,
        span_ids: &SpanIds,
        span: &[u8],
        (home, key): (usize, [u128; 2]),
        out: &mut Out<I>,
    ) {
        match self.middle.get(home, key) {
            Some(packed) if packed != [ELSEWHERE; 2] => out.push_packed(self.packing, packed),
            Some(_) => self.encode_long(span_ids, span, out),
            None => {
                let ids = span_ids.encode(span, &mut self.scratch);
                self.middle.put(home, key, self.packing.pack(ids).unwrap_or([ELSEWHERE; 2]));
                out.push_all(ids.iter().copied());
            }
        }
    }

    fn encode_long<I: TokenId>(&mut self, span_ids: &SpanIds, span: &[u8], out: &mut Out<I>) {
        let hash = if span.len() > MAX_LENGTH { None } else { Some(hash64(span)) };
        if let Some(ids) = hash.and_then(|hash| self.long.get(span, hash)) {
            out.push_all(ids);
            return;
        }
        let ids = span_ids.encode(span, &mut self.scratch);
        out.push_all(ids.iter().copied());
        if let Some(hash) = hash {
            self.long.put(span, hash, ids);
        }
    }
}
