//! The packed ids of short spans that were met. A cache of bounded size: of the spans that share a place
//! the two newest stay. Does not know what the numbers it keeps mean.

use crate::short::Short;
use crate::simd::prefetch;

/// Two spans and what belongs to them: one line of the CPU's caches.
const LINE: usize = 4;

/// Numbers of short spans; forgetful.
#[derive(Debug)]
pub(crate) struct ShortMemo {
    /// Lines of two spans, then their numbers. Zeros as they come from the system take no memory until
    /// something is put there.
    words: Vec<u128>,
    /// Words before the first line, so that lines of the CPU are not straddled.
    skipped: usize,
    mask: usize,
}

impl ShortMemo {
    /// A memo of at most `num_bytes`, which is at least one line.
    pub(crate) fn new(num_bytes: usize) -> Self {
        let lines = 1 << (num_bytes / (16 * LINE)).max(1).ilog2();
        let words = vec![0; (lines + 1) * LINE];
        let skipped = words.as_ptr().addr().wrapping_neg() % (16 * LINE) / 16;
        Self { words, skipped, mask: lines - 1 }
    }

    /// Where the line of `span` is.
    #[inline]
    pub(crate) fn place(&self, span: Short) -> usize {
        self.skipped + LINE * (span.mixed() & self.mask)
    }

    /// Says that `place` will be looked at soon.
    #[inline]
    pub(crate) fn prefetch(&self, place: usize) {
        prefetch(&self.words, place);
    }

    /// The number of `span`, whose place this is; 0 if it is not there.
    #[inline]
    pub(crate) fn get(&self, place: usize, span: Short) -> u128 {
        let Some(line) = self.words.get(place..).and_then(|words| words.first_chunk::<LINE>())
        else {
            return 0;
        };
        if line[0] == span.number() {
            line[2]
        } else if line[1] == span.number() {
            line[3]
        } else {
            0
        }
    }

    /// Puts `span`, which is not there, into its place.
    pub(crate) fn put(&mut self, place: usize, span: Short, number: u128) {
        if let Some([first, second, of_first, of_second]) = self.words.get_mut(place..place + LINE)
        {
            (*second, *of_second) = (*first, *of_first);
            (*first, *of_first) = (span.number(), number);
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
