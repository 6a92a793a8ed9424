//! The state of learning: symbols, their pairs, and the step from one merge to the next. All counts
//! stay exact.

use nanotok_memory as memory;

use crate::learn::around::{Around, Side};
use crate::learn::byte_pairs::{self, BytePairs};
use crate::learn::pairs::{Best, Pairs};
use crate::learn::rank::{Found, lowest};
use crate::learn::rewrite::{Begin, Id, MIN_SHARE};
use crate::learn::rows::{Row, Rows};
use crate::learn::rules::Rules;
use crate::learn::search::Search;
use crate::learn::symbols::Symbols;
use crate::threads::in_threads;
use crate::{Error, Merge};

/// Held pairs per requested merge, since merging other pairs reduces counts.
const PAIRS_PER_MERGE: usize = 4;

/// Slots per held pair, which takes as much memory as several slots; and the minimum number of held
/// pairs.
const SLOTS_PER_PAIR: usize = 32;
const MIN_PAIRS: usize = if cfg!(test) { 2 } else { 1 << 14 };

/// Symbols and pairs.
#[derive(Debug)]
pub(super) struct Learner<I> {
    symbols: Symbols<I>,
    pairs: Pairs,
    rows: Rows,
    /// One value per thread.
    around: Vec<Around>,
    /// The starts of the id that was made last.
    begins: Vec<Begin<I>>,
    /// Approximate limit of held pairs.
    most: usize,
}

impl<I: Id> Learner<I> {
    /// Finds the pairs of bytes that occur at least `least` times. Pairs of other ids are found when
    /// the first is asked for.
    pub(super) fn new(
        symbols: Symbols<I>,
        least: u64,
        rules: Rules,
        threads: usize,
    ) -> Result<Self, Error> {
        let are_bytes = rules.are_of_bytes();
        let mut pairs = Pairs::new(rules);
        let mut rows = Rows::default();
        if are_bytes {
            let found = BytePairs::new(&symbols, threads)?;
            let number = pairs.begin(lowest(least), found.iter());
            byte_pairs::record_places(&symbols, &pairs, rows.begin(number), threads);
        }
        let num_ids = symbols.edge as usize + 1;
        let threads = threads.min(symbols.slots.len() / MIN_SHARE).max(1);
        let around = (0..threads).map(|_| Around::new(num_ids)).collect();
        let most = (symbols.slots.len() / SLOTS_PER_PAIR).max(MIN_PAIRS);
        Ok(Self { symbols, pairs, rows, around, begins: Vec::new(), most })
    }

    /// Removes and returns the pair with the highest count, of equal counts the smallest, if it
    /// occurs at least `floor` times. `wanted` merges remain.
    ///
    /// # Errors
    ///
    /// Fails if the count of a pair exceeds `u64::MAX`.
    pub(super) fn pop_best(&mut self, wanted: usize, floor: u64) -> Result<Option<Best>, Error> {
        loop {
            match self.pairs.pop_best() {
                None if self.pairs.last() > lowest(floor) => self.find_rarer(wanted, floor)?,
                best => return Ok(best),
            }
        }
    }

    /// The rules for new tokens.
    pub(super) fn rules(&self) -> &Rules {
        self.pairs.rules()
    }

    /// Whether any pair can be merged, however rare. All held pairs have been removed.
    pub(super) fn has_pairs(&mut self) -> bool {
        self.symbols.compact();
        self.symbols.pairs(self.symbols.places()).any(|(pair, _, _)| self.pairs.may_merge(pair))
    }

    /// Replaces the best pair by `new` at all of its places, and returns the number of occurrences
    /// in the text.
    pub(super) fn merge(&mut self, best: &Best, new: u32) -> u64 {
        let places = self.rows.get(best.row);
        self.symbols.merge(best.pair, new, places, &mut self.begins, &mut self.around);
        self.pairs.add_id(best.pair);
        let (left, right) = self.new_pairs(best.pair, new);
        if !left.is_empty() || !right.is_empty() {
            self.hold(best.row, new, &left, &right);
            self.pairs.limit(self.most);
        }
        let applied = self.around[0].applied;
        self.around[0].clear();
        applied
    }

    /// Removes the counts of the former pairs on both sides of the merged pair. Returns the new
    /// pairs with the new id that should be held, by the side of the other id.
    fn new_pairs(&mut self, best: Merge, new: u32) -> (Vec<Found>, Vec<Found>) {
        let (a, b) = best;
        let edge = self.symbols.edge;
        let Around { left, right, .. } = &mut self.around[0];
        // Two adjacent new ids are handled from the left one only: the pair between them was (b,
        // a).
        let before = |id| (id != edge && id != new).then_some(((id, a), (id, new)));
        let after = |id| (id != edge).then_some(((b, if id == new { a } else { id }), (new, id)));
        let pairs = &mut self.pairs;
        (change_side(left, pairs, best, before), change_side(right, pairs, best, after))
    }

    /// Holds new pairs and records their places: those of the left side in the rows of the merged
    /// pair, which has at least as many places; the others also there if they fit, else at the end.
    fn hold(&mut self, mut free: Row, new: u32, left: &[Found], right: &[Found]) {
        let end = free.start + num_places(left);
        let second = if end + num_places(right) <= free.end() {
            end
        } else {
            self.make_room(num_places(right), &mut free);
            self.rows.add(num_places(right))
        };
        for (mut start, side) in [(free.start, left), (second, right)] {
            for found in side {
                self.pairs.hold(found, start);
                start += found.number as usize;
            }
        }
        self.record_places(new, free.start, second);
    }

    /// Records the places of new pairs, from `first` and from `second` on.
    fn record_places(&mut self, new: u32, first: usize, second: usize) {
        let (left_rows, right_rows) = self.rows.split(first, second);
        let width = self.symbols.widths[new as usize];
        let begins = &self.begins[..];
        let is_shared = self.around.len() > 1 && begins.len() >= 2 * MIN_SHARE;
        let Around { left, right, .. } = &mut self.around[0];
        let mut note_left = || {
            for begin in begins {
                left.record_places(begin.left.into(), begin.place, left_rows);
            }
        };
        let mut note_right = || {
            for begin in begins {
                right.record_places(begin.right.into(), begin.place + width, right_rows);
            }
        };
        if is_shared {
            let both: [&mut (dyn FnMut() + Send); 2] = [&mut note_left, &mut note_right];
            in_threads(both, |note| note());
        } else {
            note_left();
            note_right();
        }
    }

    fn make_room(&mut self, number: usize, free: &mut Row) {
        if self.rows.has_room(number) {
            return;
        }
        let symbols = &self.symbols;
        self.pairs.compact(&mut self.rows, free, |pair, place, later| {
            symbols.prefetch(later);
            symbols.holds(pair, place)
        });
        // Reserves room for several merges.
        self.rows.reserve(number);
    }

    /// Holds pairs of lower rank than before, enough for `wanted` merges if there are that many.
    #[inline(never)]
    fn find_rarer(&mut self, wanted: usize, floor: u64) -> Result<(), Error> {
        self.rows = Rows::default();
        self.pairs.clear();
        self.symbols.compact();
        let most = self.most.min(wanted.saturating_mul(PAIRS_PER_MERGE));
        let search = Search { symbols: &self.symbols, room: PAIRS_PER_MERGE * self.most };
        let (found, last) = search.best(most, floor, |pair| self.pairs.may_merge(pair))?;
        let number = self.pairs.begin(last, found.iter().copied());
        let rows = self.rows.begin(number);
        let mut next: Vec<usize> = memory::with_capacity(found.len());
        drop(found);
        next.extend(self.pairs.rows().map(|(_, start)| start));
        for (pair, place, _) in self.symbols.pairs(self.symbols.places()) {
            if let Some(number) = self.pairs.place_of(pair) {
                rows[next[number]] = place;
                next[number] += 1;
            }
        }
        Ok(())
    }
}

/// Updates the pairs of one side as in `Learner::new_pairs`; `change` returns, for the id on this side,
/// the former and the new pair.
fn change_side(
    side: &mut Side,
    pairs: &mut Pairs,
    best: Merge,
    change: impl Fn(u32) -> Option<(Merge, Merge)>,
) -> Vec<Found> {
    let mut wanted = Vec::new();
    let mut end = 0;
    for order in 0..side.num_touched() {
        let (id, count, number) = side.touched(order);
        let Some((old, pair)) = change(id) else { continue };
        pairs.reduce(old, count, best);
        let found = Found { pair, count, number };
        if pairs.is_wanted(&found) {
            side.want(id, end);
            end += number;
            wanted.push(found);
        }
    }
    wanted
}

fn num_places(found: &[Found]) -> usize {
    found.iter().map(|found| found.number as usize).sum()
}
