//! The count of the span at each place. Spans lie sorted by their counts, so that a few numbers say it for
//! all.

/// Where each count begins.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// The first place of each run of spans of one count, and the end.
    starts: Vec<u32>,
    by_run: Vec<u64>,
    /// For each block of places, to which run of one count the first of them belongs.
    blocks: Vec<u32>,
}

/// A block has two to this many places.
const BLOCK_BITS: u32 = 5;

impl Counts {
    /// From `place` on, up to the next that is told, spans have this count.
    pub(super) fn begin(&mut self, place: u32, count: u64) {
        if self.by_run.last() != Some(&count) {
            self.starts.push(place);
            self.by_run.push(count);
        }
    }

    /// No place from `end` on will be asked for.
    pub(super) fn finish(&mut self, end: u32) {
        self.starts.push(end);
        let mut run = 0;
        let run_of = |block| {
            while run + 1 < self.by_run.len() && self.starts[run + 1] <= block << BLOCK_BITS {
                run += 1;
            }
            u32::try_from(run).expect("no more counts than places")
        };
        self.blocks = (0..=end >> BLOCK_BITS).map(run_of).collect();
    }

    /// All places, each as often as its span occurs.
    pub(super) fn total(&self) -> u128 {
        let places = self.starts.windows(2).map(|pair| u128::from(pair[1] - pair[0]));
        places.zip(&self.by_run).map(|(number, &count)| number * u128::from(count)).sum()
    }

    /// Finds the counts of ascending places.
    pub(super) fn cursor(&self) -> CountAt<'_> {
        CountAt { all: self, count: 0, end: 0 }
    }
}

/// Stands at a place.
#[derive(Debug)]
pub(super) struct CountAt<'c> {
    all: &'c Counts,
    count: u64,
    /// The count is that of the places before this.
    end: u32,
}

impl CountAt<'_> {
    /// The count at `place`, which is not before the last one asked for.
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
