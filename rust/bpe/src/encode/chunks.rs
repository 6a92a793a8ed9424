//! Merges many bytes in overlapping chunks, each on its own: the working memory fits the cache of a
//! core, and the time is linear wherever adjacent chunks agree.
//!
//! This is exact. Let E(s) be the ids that s merges to. Each id of E(s) is the result of merging
//! its own bytes, and so are each two neighbors, because no merge crossed a remaining border; and
//! E(s) is the only sequence with these two properties (see `backtrack`). So, if the same id is at
//! the same position in the chunks A and B, the ids of A before it and those of B from there on are
//! E of both together: every two neighbors are neighbors in A or in B.

use nanotok_memory as memory;

/// Bytes of a chunk. The working memory fits the cache of a core, and a chunk that is merged by a
/// heap or in passes is long enough for them. Without chunks, 32 MB of two letters take twice as long
/// and 18 bytes of memory for each byte instead of 4.
pub(crate) const CHUNK: usize = 1 << 16;

/// Bytes by which the next chunk overlaps.
const OVERLAP: usize = 256;

/// Appends the ids of `bytes` to `ids`, merged in chunks of `chunk` bytes, and returns true; or
/// appends nothing if two chunks do not agree.
pub(crate) fn merge_in_chunks(
    bytes: &[u8],
    chunk: usize,
    ids: &mut Vec<u32>,
    mut merge: impl FnMut(&[u8], &mut Vec<u32>),
    length: impl Fn(u32) -> usize,
) -> bool {
    let (before, mut next) = (ids.len(), Vec::new());
    // Ids from `known` on are those of the last chunk, which ends at `end`.
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
        memory::append(ids, &next[new..]);
        (known, start, end) = (border + old, met, next_end);
    }
    if end < bytes.len() {
        ids.truncate(before);
    }
    end == bytes.len()
}

/// The first position from `start` on at which both have the same id: its index in each, and the
/// position.
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
