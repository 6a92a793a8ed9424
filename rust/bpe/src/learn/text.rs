//! The learner's text, from batches of spans and counts that are read twice: the first pass finds
//! the number of slots of the spans of each count, the second writes every span to its place. The
//! spans are never all in memory, and only the counts are sorted.

use std::collections::HashMap;
use std::ops::ControlFlow;

use nanotok_memory as memory;

use crate::learn::rewrite::Id;
use crate::learn::rules::Rules;
use crate::learn::symbols::Symbols;
use crate::learn::{Base, Goal, Learned, Progress, first_least, learn_in};
use crate::{Documents, Error};

/// Lower counts are looked up in an array, since most counts are low.
const LOW: usize = 1 << 12;

/// A value for each count.
#[derive(Debug)]
struct PerCount<T> {
    low: Vec<T>,
    high: HashMap<u64, T>,
}

impl<T: Copy + Default> PerCount<T> {
    fn new() -> Self {
        Self { low: vec![T::default(); LOW], high: HashMap::new() }
    }

    #[inline]
    fn of(&mut self, count: u64) -> &mut T {
        match usize::try_from(count) {
            Ok(count) if count < LOW => &mut self.low[count],
            _ => {
                memory::room_for_one(&mut self.high);
                self.high.entry(count).or_default()
            }
        }
    }

    /// All counts with a value, the highest first.
    fn descending(&self) -> Vec<(u64, T)> {
        let low = (0..).zip(&self.low).map(|(count, &number)| (count, number));
        let high = self.high.iter().map(|(&count, &number)| (count, number));
        let mut all: Vec<_> = low.chain(high).collect();
        all.sort_unstable_by_key(|&(count, _)| std::cmp::Reverse(count));
        all
    }
}

/// The result of the first pass over the spans.
#[derive(Debug)]
pub struct Measured {
    slots: PerCount<usize>,
}

impl Default for Measured {
    fn default() -> Self {
        Self { slots: PerCount::new() }
    }
}

impl Measured {
    /// Adds a batch of spans with their counts.
    ///
    /// # Errors
    ///
    /// Fails if the numbers of spans and counts differ.
    pub fn add<T>(&mut self, spans: Documents<'_, T>, counts: &[u64]) -> Result<(), Error> {
        for (span, count) in with_pairs(spans, counts)? {
            *self.slots.of(count) += span.len() + 1;
        }
        Ok(())
    }

    /// Returns a text with room for these spans and for learning `goal`. With a base, the spans are
    /// sequences of its ids.
    ///
    /// # Errors
    ///
    /// Fails if there are too many bytes, ids or merges, or if the tokens of the base are too long.
    pub fn text(self, goal: Goal, base: Option<Base<'_>>) -> Result<Text, Error> {
        let rules = match base {
            Some(base) => Rules::continuing(base, goal.max_token_bytes)?,
            None => Rules::of_bytes(goal.max_token_bytes),
        };
        let num_ids = rules.num_ids();
        let sizes = self.sizes();
        let num_slots = 1 + sizes.iter().map(|(_, slots)| slots).sum::<usize>();
        if u32::try_from(num_slots).is_err() {
            return Err(Error::TooManySpans { bytes: num_slots });
        }
        let edge = goal.num_merges.min(num_slots).saturating_add(num_ids);
        let filling = match (u16::try_from(edge), u32::try_from(edge)) {
            (Ok(_), Ok(edge)) => Width::Narrow(Filling::new(&sizes, num_ids, edge)),
            (_, Ok(edge)) => Width::Wide(Filling::new(&sizes, num_ids, edge)),
            _ => return Err(Error::TooManyMerges { number: goal.num_merges }),
        };
        Ok(Text { filling, goal, rules })
    }

    /// All counts, the highest first, with the slots of their spans.
    pub(super) fn sizes(&self) -> Vec<(u64, usize)> {
        self.slots.descending()
    }
}

/// The text, which is filled by the second pass over the spans.
#[derive(Debug)]
pub struct Text {
    filling: Width,
    goal: Goal,
    rules: Rules,
}

/// Ids have 16 bits if they fit, otherwise 32.
#[derive(Debug)]
enum Width {
    Narrow(Filling<u16>),
    Wide(Filling<u32>),
}

impl Text {
    /// Adds a batch; the division into batches can differ from the first pass.
    ///
    /// # Errors
    ///
    /// Fails if the numbers of spans and counts differ, if a span was not in the first pass, or if
    /// the base has no such id.
    pub fn add<T: Copy + Into<u32>>(
        &mut self,
        spans: Documents<'_, T>,
        counts: &[u64],
    ) -> Result<(), Error> {
        match &mut self.filling {
            Width::Narrow(filling) => filling.add(spans, counts),
            Width::Wide(filling) => filling.add(spans, counts),
        }
    }

    /// Learns merges; see [`learn()`](crate::learn()).
    ///
    /// # Errors
    ///
    /// Fails if spans of the first pass are missing, if the count of a pair exceeds `u64::MAX`, or
    /// if `progress` stops it.
    pub fn learn(
        self,
        progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Learned, Error> {
        let Self { filling, goal, rules } = self;
        match filling {
            Width::Narrow(it) => learn_in(it.finish()?, goal, rules, first_least, progress),
            Width::Wide(it) => learn_in(it.finish()?, goal, rules, first_least, progress),
        }
    }
}

/// Symbols, and the free slots of each count.
#[derive(Debug)]
pub(super) struct Filling<I> {
    symbols: Symbols<I>,
    free: PerCount<Free>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Free {
    start: usize,
    end: usize,
}

impl<I: Id> Filling<I> {
    pub(super) fn new(sizes: &[(u64, usize)], num_ids: usize, edge: u32) -> Self {
        let mut free = PerCount::new();
        let mut start = 1;
        for &(count, slots) in sizes {
            *free.of(count) = Free { start, end: start + slots };
            start += slots;
        }
        Self { symbols: Symbols::new(sizes, num_ids, edge), free }
    }

    pub(super) fn add<T: Copy + Into<u32>>(
        &mut self,
        spans: Documents<'_, T>,
        counts: &[u64],
    ) -> Result<(), Error> {
        let edge = I::narrow(self.symbols.edge);
        let number = self.symbols.widths.len();
        let slots = &mut self.symbols.slots[..];
        for (span, count) in with_pairs(spans, counts)? {
            let free = self.free.of(count);
            let end = free.start + span.len();
            if end >= free.end {
                return Err(Error::BatchesDiffer);
            }
            for (slot, &id) in slots[free.start..end].iter_mut().zip(span) {
                let id = id.into();
                if id as usize >= number {
                    return Err(Error::UnknownBaseId { id, number });
                }
                *slot = I::narrow(id);
            }
            slots[end] = edge;
            free.start = end + 1;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Symbols<I>, Error> {
        let all = self.free.descending();
        if all.iter().any(|(_, free)| free.start != free.end) {
            return Err(Error::BatchesDiffer);
        }
        Ok(self.symbols)
    }
}

/// The spans of two or more bytes or ids with a count above 0, and their counts.
fn with_pairs<'s, T>(
    spans: Documents<'s, T>,
    counts: &'s [u64],
) -> Result<impl Iterator<Item = (&'s [T], u64)>, Error> {
    if counts.len() != spans.len() {
        let (spans, length) = (spans.len(), counts.len());
        return Err(Error::LengthsDiffer { spans, what: "counts", length });
    }
    let all = counts.iter().enumerate().map(move |(span, &count)| (spans.get(span), count));
    Ok(all.filter(|&(span, count)| count > 0 && span.len() > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPANS: [(&[u8], u64); 7] = [
        (b"aa", 1),
        (b"bb", 5000),
        (b"cc", u64::MAX),
        (b"d", 9),
        (b"ee", 0),
        (b"", 9),
        (b"ffg", 4095),
    ];

    fn each(mut add: impl FnMut(Documents<'_>, &[u64]) -> Result<(), Error>) -> Result<(), Error> {
        SPANS.iter().try_for_each(|&(span, count)| {
            let end = i64::try_from(span.len()).unwrap();
            add(Documents::new(span, &[0, end]).unwrap(), &[count])
        })
    }

    fn filling() -> Filling<u16> {
        let mut measured = Measured::default();
        each(|spans, counts| measured.add(spans, counts)).unwrap();
        Filling::new(&measured.sizes(), 256, 300)
    }

    #[test]
    fn spans_are_sorted_by_count() {
        let mut filling = filling();
        each(|spans, counts| filling.add(spans, counts)).unwrap();
        let symbols = filling.finish().unwrap();
        let text: Vec<_> =
            symbols.slots.iter().map(|&id| u8::try_from(id).unwrap_or(b'|')).collect();
        assert_eq!(text, b"|cc|bb|ffg|aa|");
        let mut counts = symbols.counts.cursor();
        let found: Vec<_> = [1, 4, 7, 9, 11].into_iter().map(|place| counts.get(place)).collect();
        assert_eq!(found, [u64::MAX, 5000, 4095, 4095, 1]);
    }

    #[test]
    fn a_second_pass_with_other_spans_is_an_error() {
        let others = |span: &[u8], count| {
            let mut filling = filling();
            let offsets = [0, i64::try_from(span.len()).unwrap()];
            each(|spans, counts| filling.add(spans, counts)).unwrap();
            filling.add(Documents::new(span, &offsets).unwrap(), &[count])
        };
        assert_eq!(others(b"aa", 1), Err(Error::BatchesDiffer));
        assert_eq!(others(b"aa", 70), Err(Error::BatchesDiffer));
        assert_eq!(others(b"aa", u64::MAX - 1), Err(Error::BatchesDiffer));
        assert_eq!(others(b"a", 1), Ok(()));
        assert_eq!(filling().finish().unwrap_err(), Error::BatchesDiffer);
    }
}
