//! Pairs in the order in which they are merged: returns the best first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nanotok_memory as memory;

use crate::Merge;
use crate::learn::rank::{Rank, rank};

/// Initial pairs, sorted once, and later ones in a heap: removing from the sorted part costs
/// nothing, and most pairs are initial.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The best is the last.
    sorted: Vec<Rank>,
    heap: BinaryHeap<Rank>,
}

impl Queue {
    /// A queue of pairs with different ids and their counts.
    pub(super) fn new(pairs: impl ExactSizeIterator<Item = (Merge, u64)>) -> Self {
        let mut sorted = memory::collected(pairs.map(|(pair, count)| rank(pair, count)));
        sorted.sort_unstable();
        Self { sorted, heap: BinaryHeap::new() }
    }

    pub(super) fn push(&mut self, pair: Merge, count: u64) {
        self.heap.push(rank(pair, count));
    }

    /// Removes and returns the pair with the highest count, of equal counts the smallest, if it has
    /// at least this rank.
    pub(super) fn pop(&mut self, last: Rank) -> Option<(Merge, u64)> {
        let later = self.heap.peek();
        let from_heap =
            self.sorted.last().is_none_or(|first| later.is_some_and(|later| later > first));
        let best = if from_heap { later } else { self.sorted.last() };
        if *best? < last {
            return None;
        }
        let best = if from_heap { self.heap.pop() } else { self.sorted.pop() };
        best.map(|(count, Reverse(pair))| (pair, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::rank::lowest;

    #[test]
    fn the_best_of_both_parts_comes_first() {
        let mut queue = Queue::new([((1, 2), 5), ((1, 1), 5), ((9, 9), 2)].into_iter());
        queue.push((0, 9), 5);
        queue.push((3, 3), 3);
        let mut popped = std::iter::from_fn(|| queue.pop(rank((3, 3), 3)));
        assert_eq!(popped.next(), Some(((0, 9), 5)));
        assert_eq!(popped.next(), Some(((1, 1), 5)));
        assert_eq!(popped.next(), Some(((1, 2), 5)));
        assert_eq!(popped.next(), Some(((3, 3), 3)));
        assert_eq!(popped.next(), None);
        assert_eq!(queue.pop(lowest(3)), None);
        assert_eq!(queue.pop(lowest(2)), Some(((9, 9), 2)));
        assert_eq!(queue.pop(lowest(0)), None);
    }
}
