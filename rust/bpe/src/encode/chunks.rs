//! Ids of many bytes from chunks that overlap, each merged alone: what is worked on fits the cache of a
//! core, and time is linear wherever neighbouring chunks agree. Takes bytes and a way to merge a chunk.
//!
//! Why this is exact. Let E(s) be the ids that s merges to. Each id of E(s) is what its own bytes merge to,
//! and so are each two neighbours, because no merge crossed a border that is left; and E(s) is the only
//! sequence with these two properties (see `backtrack`). So, if the same id stands at the same place in
//! the chunks A and B, the ids of A before it and those of B from there on are E of both together: each
//! two neighbours are neighbours in A or in B.

/// Bytes of a chunk. What is worked on stays in the cache of a core, and a chunk that is merged by a heap or in
/// passes is long enough for them.
pub(crate) const CHUNK: usize = 1 << 16;

/// So many bytes before its end the next chunk begins.
const OVERLAP: usize = 256;

/// Adds to `ids` what `bytes` merge to, in chunks of `chunk` bytes, or nothing and says so: two chunks do not
/// agree.
pub(crate) fn merge_in_chunks(
    bytes: &[u8],
    chunk: usize,
    ids: &mut Vec<u32>,
    mut merge: impl FnMut(&[u8], &mut Vec<u32>),
    length: impl Fn(u32) -> usize,
) -> bool {
    let (before, mut next) = (ids.len(), Vec::new());
    // Ids from `known` on are those of the newest chunk, which ends at `end`.
    let (mut known, mut start, mut end) = (before, 0, chunk.min(bytes.len()));
    merge(&bytes[..end], ids);
    while end < bytes.len() {
        let mut place = start;
        let border = ids[known..].iter().position(|&id| {
            place += length(id);
            place > end - OVERLAP
        });
        let Some(border) = border.map(|at| known + at).filter(|&at| at > known) else { break };
        place -= length(ids[border]);
        let next_end = (place + chunk).min(bytes.len());
        next.clear();
        merge(&bytes[place..next_end], &mut next);
        let Some((old, new, met)) = meeting(&ids[border..], &next, place, &length) else { break };
        ids.truncate(border + old);
        ids.extend_from_slice(&next[new..]);
        (known, start, end) = (border + old, met, next_end);
    }
    if end < bytes.len() {
        ids.truncate(before);
    }
    end == bytes.len()
}

/// The first place from `start` on where the same id begins in both: which of each, and where.
fn meeting(
    old: &[u32],
    new: &[u32],
    start: usize,
    length: impl Fn(u32) -> usize,
) -> Option<(usize, usize, usize)> {
    let (mut at_old, mut at_new) = (0, 0);
    let (mut old_place, mut new_place) = (start, start);
    while at_old < old.len() && at_new < new.len() {
        if old_place == new_place && old[at_old] == new[at_new] {
            return Some((at_old, at_new, old_place));
        }
        if old_place <= new_place {
            old_place += length(old[at_old]);
            at_old += 1;
        } else {
            new_place += length(new[at_new]);
            at_new += 1;
        }
    }
    None
}
