//! The packed ids of short spans that were met. A cache of bounded size: of the spans that share a place
//! the two newest stay. Does not know what the numbers it keeps mean.

use crate::cpu::simd::prefetch;
use crate::short::Short;
use crate::zeros::Zeros;

/// Two spans, then their numbers: one line of the CPU's caches.
const LINE: usize = 64;

type Line = [u128; 4];

/// Numbers of short spans; forgetful.
#[derive(Debug)]
pub(crate) struct ShortMemo {
    lines: Zeros,
    mask: usize,
}

impl ShortMemo {
    /// A memo of at most `num_bytes`, which is at least one line.
    pub(crate) fn new(num_bytes: usize) -> Self {
        let lines = 1 << (num_bytes / LINE).max(1).ilog2();
        Self { lines: Zeros::new(lines * LINE), mask: lines - 1 }
    }

    /// Where the line of `span` is.
    #[inline]
    pub(crate) fn place(&self, span: Short) -> usize {
        LINE * (span.mixed() & self.mask)
    }

    /// Says that `place` will be looked at soon.
    #[inline]
    pub(crate) fn prefetch(&self, place: usize) {
        prefetch(&self.lines, place);
    }

    /// The number of `span`, whose place this is; 0 if it is not there.
    #[inline]
    pub(crate) fn get(&self, place: usize, span: Short) -> u128 {
        let line = self.lines.get(place..).and_then(|bytes| bytes.first_chunk::<LINE>());
        let [first, second, of_first, of_second]: Line = match line {
            Some(&line) => bytemuck::cast(line),
            None => return 0,
        };
        // No branch: which of the two it is cannot be foreseen.
        let chosen =
            |own: u128, number: u128| number & u128::from(own == span.number()).wrapping_neg();
        chosen(first, of_first) | chosen(second, of_second)
    }

    /// Puts `span`, which is not there, into its place.
    pub(crate) fn put(&mut self, place: usize, span: Short, number: u128) {
        let line = self.lines.get_mut(place..).and_then(|bytes| bytes.first_chunk_mut::<LINE>());
        if let Some(line) = line {
            let [first, _, of_first, _]: Line = bytemuck::cast(*line);
            *line = bytemuck::cast([span.number(), first, number, of_first]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(text: &str) -> Short {
        Short::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_two_newest_spans_of_a_place_stay() {
        let mut memo = ShortMemo::new(1);
        for (number, text) in [(1, "a"), (2, "b"), (3, "c")] {
            let place = memo.place(short(text));
            memo.put(place, short(text), number);
            assert_eq!(memo.get(place, short(text)), number);
        }
        let found = ["a", "b", "c"].map(|text| memo.get(memo.place(short(text)), short(text)));
        assert_eq!(found, [0, 2, 3]);
    }

    #[test]
    fn what_was_not_put_is_not_there() {
        let mut memo = ShortMemo::new(1 << 16);
        let spans: Vec<Short> = (0..4000).map(|number| short(&number.to_string())).collect();
        assert!(spans.iter().all(|&span| memo.get(memo.place(span), span) == 0));
        for (&span, number) in spans.iter().zip(1..) {
            memo.put(memo.place(span), span, number);
            assert_eq!(memo.get(memo.place(span), span), number);
        }
        let found = spans.iter().map(|&span| memo.get(memo.place(span), span));
        assert!(found.zip(1..).all(|(found, number)| found == 0 || found == number));
    }
}
