//! Ids as a doubly linked list, in which two neighbors become one in constant time.

use nanotok_memory as memory;

/// The id of a position that was merged into the previous one.
const GONE: u32 = u32::MAX;

/// No position.
const NONE: u32 = u32::MAX;

/// A sequence of fewer than 2**32 - 1 ids, each at its original position.
#[derive(Debug)]
pub(crate) struct Linked {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    id: u32,
    before: u32,
    after: u32,
}

impl Linked {
    /// The list of `ids`.
    #[expect(clippy::cast_possible_truncation, reason = "what is longer is merged in parts")]
    pub(crate) fn new(ids: &[u32]) -> Self {
        let node = |(at, &id): (usize, &u32)| {
            let at = at as u32;
            Node { id, before: at.wrapping_sub(1), after: at + 1 }
        };
        Self { nodes: memory::collected(ids.iter().enumerate().map(node)) }
    }

    /// The ids at `at` and after it, if both exist.
    pub(crate) fn pair(&self, at: u32) -> Option<(u32, u32)> {
        let node = self.nodes[at as usize];
        let after = self.nodes.get(node.after as usize)?;
        (node.id != GONE).then_some((node.id, after.id))
    }

    /// The position before `at`.
    pub(crate) fn before(&self, at: u32) -> Option<u32> {
        let before = self.nodes[at as usize].before;
        (before != NONE).then_some(before)
    }

    /// Replaces the two ids at `at` and after it by `id`.
    pub(crate) fn merge(&mut self, at: u32, id: u32) {
        let gone = self.nodes[at as usize].after as usize;
        let after = self.nodes[gone].after;
        let node = &mut self.nodes[at as usize];
        (node.id, node.after) = (id, after);
        self.nodes[gone].id = GONE;
        if let Some(node) = self.nodes.get_mut(after as usize) {
            node.before = at;
        }
    }

    /// The remaining ids.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(|node| node.id).filter(|&id| id != GONE)
    }
}
