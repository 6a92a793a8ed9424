//! The count of the span at each place. Spans are sorted by count, so that few numbers are
//! sufficient.

use nanotok_memory as memory;

/// The start of each count.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// The first place of each run of spans with the same count, and the end.
    starts: Vec<u32>,
    by_run: Vec<u64>,
    /// For each block of places, the run of its first place.
    blocks: Vec<u32>,
}

/// Binary logarithm of the places of a block.
const BLOCK_BITS: u32 = 5;

impl Counts {
    /// Sets the count of spans from `place` on, up to the next call.
    pub(super) fn begin(&mut self, place: u32, count: u64) {
        if self.by_run.last() != Some(&count) {
            memory::push(&mut self.starts, place);
            memory::push(&mut self.by_run, count);
        }
    }

    /// Sets the end of all places.
    pub(super) fn finish(&mut self, end: u32) {
        self.starts.push(end);
        let mut run = 0;
        let run_of = |block| {
            while run + 1 < self.by_run.len() && self.starts[run + 1] <= block << BLOCK_BITS {
                run += 1;
            }
            u32::try_from(run).expect("no more counts than places")
        };
        let number = (end >> BLOCK_BITS) as usize + 1;
        let mut blocks = memory::with_capacity(number);
        blocks.extend((0_u32..).take(number).map(run_of));
        self.blocks = blocks;
    }

    /// The sum over all places of the counts of their spans.
    pub(super) fn total(&self) -> u128 {
        let places = self.starts.windows(2).map(|pair| u128::from(pair[1] - pair[0]));
        places.zip(&self.by_run).map(|(number, &count)| number * u128::from(count)).sum()
    }

    /// Returns the counts of increasing places.
    pub(super) fn cursor(&self) -> CountAt<'_> {
        CountAt { all: self, count: 0, end: 0 }
    }
}

/// A position among the places.
#[derive(Debug)]
pub(super) struct CountAt<'c> {
    all: &'c Counts,
    count: u64,
    /// The count is that of places before this one.
    end: u32,
}

impl CountAt<'_> {
    /// The count at `place`, which must not decrease between calls.
    #[inline]
    pub(super) fn get(&mut self, place: u32) -> u64 {
        if place >= self.end {
            let mut run = self.all.blocks[(place >> BLOCK_BITS) as usize] as usize;
            while self.all.starts[run + 1] <= place {
                run += 1;
            }
            (self.count, self.end) = (self.all.by_run[run], self.all.starts[run + 1]);
        }
        self.count
    }
}
