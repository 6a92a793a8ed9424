//! What was lately found for short spans: a table with one place for each span, where the newest stays.
//! Belongs to one call and one thread, so its size is bounded and nobody waits for it. Does not know
//! what it keeps. Buys 27% of the speed of counting English (2 to 10% on text in many languages); half or
//! four times the places do no better.

use crate::short::Short;

/// As many places as fit the cache of a core: 2 MiB of 32 bytes.
const MAX_SLOTS: usize = 1 << 16;

/// Fewer bytes than this are worked through sooner than a table is cleared.
const MIN_BYTES: usize = 1 << 14;

/// Values of short spans; forgetful.
#[derive(Debug)]
pub(crate) struct Cache<V> {
    slots: Vec<Slot<V>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot<V> {
    span: Short,
    value: V,
}

impl<V: Copy + Default> Cache<V> {
    /// A cache that suits documents of `num_bytes` in all: of no place at all for a few.
    pub(crate) fn for_bytes(num_bytes: usize) -> Self {
        let places = (num_bytes / 16).next_power_of_two().min(MAX_SLOTS);
        Self { slots: vec![Slot::default(); if num_bytes < MIN_BYTES { 0 } else { places }] }
    }

    /// The value of `span`, if it is remembered.
    #[inline]
    pub(crate) fn get_mut(&mut self, span: Short) -> Option<&mut V> {
        let place = self.place(span);
        self.slots.get_mut(place).filter(|slot| slot.span == span).map(|slot| &mut slot.value)
    }

    /// Puts `span` in its place, and gives what must leave: what was there, or, without a place, the
    /// span itself.
    pub(crate) fn put(&mut self, span: Short, value: V) -> Option<(Short, V)> {
        let place = self.place(span);
        let mut other = Slot { span, value };
        if let Some(slot) = self.slots.get_mut(place) {
            std::mem::swap(slot, &mut other);
        }
        (other.span != Short::default()).then_some((other.span, other.value))
    }

    /// All that is remembered.
    pub(crate) fn into_values(self) -> impl Iterator<Item = (Short, V)> {
        let used = self.slots.into_iter().filter(|slot| slot.span != Short::default());
        used.map(|slot| (slot.span, slot.value))
    }

    #[inline]
    fn place(&self, span: Short) -> usize {
        span.mixed() & self.slots.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(text: &str) -> Short {
        Short::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_cache_without_places_remembers_nothing() {
        let mut cache = Cache::for_bytes(100);
        assert_eq!(cache.put(short("a"), 1), Some((short("a"), 1)));
        assert_eq!(cache.get_mut(short("a")), None);
        assert_eq!(cache.into_values().count(), 0);
    }

    #[test]
    fn what_is_put_is_remembered_or_leaves() {
        let mut cache = Cache::for_bytes(MIN_BYTES);
        let mut left = 0;
        for number in 0..10_000_u32 {
            left += usize::from(cache.put(short(&number.to_string()), number).is_some());
            assert_eq!(cache.get_mut(short(&number.to_string())), Some(&mut { number }));
        }
        assert!(left > 0);
        for (span, number) in cache.into_values() {
            assert_eq!(span, short(&number.to_string()));
            left += 1;
        }
        assert_eq!(left, 10_000);
    }
}
