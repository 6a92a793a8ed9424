//! Ids as a doubly linked list: two neighbours become one in constant time. Knows no merges.

/// The id of a place that was merged into the one before it.
const GONE: u32 = u32::MAX;

/// A sequence of ids, each at the position where it first stood.
#[derive(Debug)]
pub(crate) struct Linked {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    id: u32,
    before: usize,
    after: usize,
}

impl Linked {
    pub(crate) fn new(ids: &[u32]) -> Self {
        let node =
            |(at, &id): (usize, &u32)| Node { id, before: at.wrapping_sub(1), after: at + 1 };
        Self { nodes: ids.iter().enumerate().map(node).collect() }
    }

    /// The ids at `at` and after it, if both are there.
    pub(crate) fn pair(&self, at: usize) -> Option<(u32, u32)> {
        let node = self.nodes[at];
        let after = self.nodes.get(node.after)?;
        (node.id != GONE).then_some((node.id, after.id))
    }

    /// The position before `at`.
    pub(crate) fn before(&self, at: usize) -> Option<usize> {
        let before = self.nodes[at].before;
        (before < self.nodes.len()).then_some(before)
    }

    /// Puts `id` in the place of the two ids at `at` and after it.
    pub(crate) fn merge(&mut self, at: usize, id: u32) {
        let gone = self.nodes[at].after;
        let after = self.nodes[gone].after;
        self.nodes[at].id = id;
        self.nodes[at].after = after;
        self.nodes[gone].id = GONE;
        if let Some(node) = self.nodes.get_mut(after) {
            node.before = at;
        }
    }

    /// The ids that are left.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(|node| node.id).filter(|&id| id != GONE)
    }
}
