//! Encoding in one thread, with a cache of spans that is kept between calls.

use std::ops::Range;

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
    /// If the spans are words of longer spans: the same for each of these.
    runs: Vec<usize>,
}

/// What follows in the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress<'a> {
    /// The ends of the ids of further spans, if they were asked for.
    pub(crate) span_ends: &'a [usize],
    /// Whether a text ends.
    pub(crate) is_text_end: bool,
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
    /// The ends of the ids of each span of a window, if the ends of runs are needed.
    id_ends: Box<[usize; Ends::MAX]>,
    /// The ends of the ids of runs.
    run_ends: Vec<usize>,
    scratch: Scratch,
}

impl Worker {
    /// A worker with a cache of at most `cache_bytes`, of which it begins with 2 MiB.
    pub(crate) fn new(splitter: Splitter, cpu: Cpu, packing: Packing, cache_bytes: usize) -> Self {
        let memory = Memory {
            cpu,
            packing,
            short: SpanMemo::new(cache_bytes / 2),
            middle: SpanMemo::new(cache_bytes / 4),
            long: LongMemo::new(cache_bytes / 4, packing),
            keys: Box::default(),
            id_ends: Box::new([0; Ends::MAX]),
            run_ends: Vec::new(),
            scratch: Scratch::default(),
        };
        Self { splitter, window: Window::default(), memory }
    }

    /// An encoding of texts of `data`, one after the other. `progress` is called when ids were
    /// appended to `out`, at least at the end of each text, and can change those that it did not get
    /// before. It gets the ends of spans only `by_span`.
    pub(crate) fn encoding<'w, I: TokenId, P: FnMut(&mut Out<I>, Progress<'_>)>(
        &'w mut self,
        span_ids: &'w SpanIds,
        data: &'w [u8],
        out: &'w mut Out<I>,
        by_span: bool,
        progress: P,
    ) -> Encoding<'w, I, P> {
        self.window.clear(0);
        Encoding { worker: self, span_ids, data, out, by_span, progress }
    }
}

/// Texts that are being encoded: the spans of several short ones are looked up together.
pub(crate) struct Encoding<'w, I, P> {
    worker: &'w mut Worker,
    span_ids: &'w SpanIds,
    data: &'w [u8],
    out: &'w mut Out<I>,
    by_span: bool,
    progress: P,
}

impl<I: TokenId, P: FnMut(&mut Out<I>, Progress<'_>)> Encoding<'_, I, P> {
    /// Finds the spans of the text `data[start..end]`, which are encoded now or later, and returns
    /// the number of gaps.
    pub(crate) fn add(&mut self, (start, end): (usize, usize)) -> Result<u64, Stuck> {
        if self.worker.window.end() != start {
            self.flush(start);
        }
        let gaps = self.find_spans(start, end)?;
        let window = &mut self.worker.window;
        window.texts.push(window.ends.all().len());
        if window.texts.len() == MAX_TEXTS {
            self.flush(end);
        }
        Ok(gaps)
    }

    /// Encodes the remaining spans.
    pub(crate) fn finish(mut self) {
        self.flush(0);
    }

    fn find_spans(&mut self, start: usize, end: usize) -> Result<u64, Stuck> {
        let Self { worker, span_ids, data, out, by_span, progress } = self;
        let Worker { splitter, window, memory } = &mut **worker;
        let document = &data[start..end];
        let mut encode_full = |window: &mut Window| {
            if window.ends.is_full() {
                memory.encode_window(span_ids, data, window, out, progress);
                window.clear(window.end());
            }
        };
        let by_span = *by_span;
        if let Some(lexer) = splitter.superwords().filter(|_| span_ids.has_cuts())
            && let Ok(text) = simdutf8::basic::from_utf8(document)
        {
            let text = text.as_bytes();
            lexer.visit_units(text, |end, is_span| {
                if is_span {
                    window.push(start + end, by_span);
                } else if span_ids.may_cut(text[end - 1], text[end]) {
                    window.ends.push(start + end);
                } else {
                    return;
                }
                encode_full(window);
            });
            return Ok(0);
        }
        if !by_span && let Some(mut scan) = splitter.scan(document, start) {
            while scan.fill(&mut window.ends) {
                encode_full(window);
            }
            return Ok(0);
        }
        splitter.visit_ends(document, |end| {
            window.push(start + end, by_span);
            encode_full(window);
        })
    }

    /// Encodes the waiting spans. The next text begins at `start`.
    fn flush(&mut self, start: usize) {
        let Worker { window, memory, .. } = &mut *self.worker;
        memory.encode_window(self.span_ids, self.data, window, self.out, &mut self.progress);
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

    /// Adds a span, which is also a run if there are runs.
    #[inline]
    fn push(&mut self, end: usize, by_span: bool) {
        self.ends.push(end);
        if by_span {
            self.runs.push(self.ends.all().len());
        }
    }

    fn clear(&mut self, start: usize) {
        self.start = start;
        self.ends.clear();
        self.texts.clear();
        self.runs.clear();
    }
}

impl Memory {
    /// Appends the ids of the spans of `window`, and calls `progress` at the ends of texts.
    #[inline(never)]
    fn encode_window<I: TokenId>(
        &mut self,
        span_ids: &SpanIds,
        data: &[u8],
        window: &Window,
        out: &mut Out<I>,
        progress: &mut impl FnMut(&mut Out<I>, Progress<'_>),
    ) {
        let ends = window.ends.all();
        self.ask(data, window);
        let mut runs = window.runs.iter().peekable();
        let mut done = 0;
        let stops = window.texts.iter().map(|&text| (text, true));
        for (stop, is_text_end) in stops.chain([(ends.len(), false)]) {
            out.reserve(window.end() - window.start_of(done));
            while done < stop {
                done += self.answer(done..stop, !window.runs.is_empty(), out);
                if done < stop {
                    let span = &data[window.start_of(done)..ends[done]];
                    self.encode_other(span_ids, span, done, out);
                    self.id_ends[done] = out.len();
                    done += 1;
                }
            }
            self.run_ends.clear();
            while let Some(&run) = runs.next_if(|&&run| run <= stop) {
                self.run_ends.push(self.id_ends[run - 1]);
            }
            progress(out, Progress { span_ends: &self.run_ends, is_text_end });
        }
    }

    /// Appends the ids of the first cached spans of `spans`, and returns their number.
    #[inline]
    fn answer<I: TokenId>(
        &mut self,
        spans: Range<usize>,
        by_span: bool,
        out: &mut Out<I>,
    ) -> usize {
        let Self { short, keys, id_ends, packing, cpu, .. } = self;
        let (shorts, homes) = (&keys.shorts[spans.clone()], &keys.homes[spans.clone()]);
        let id_ends = if by_span { &mut id_ends[spans] } else { &mut [] };
        let (lines, length) = (short.lines(), out.len());
        let (packing, room) = (*packing, out.room());
        let answer = Answer { lines, shorts, homes, packing, room, length, id_ends };
        let (spans, ids) = cpu.run(answer);
        out.advance(ids);
        spans
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
