//! Applies the merges of a span in their order, each in one pass: linear if every pass merges much,
//! as in runs of one byte.

use crate::encode::merge_table::{MergeTable, NO_MERGE};

/// After a pass that leaves more than this many eighths, no further pass is made.
const MOST_LEFT: usize = 7;

/// Whether `span` consists of few different bytes, so that a few merges do most of the work.
pub(crate) fn is_poor(span: &[u8]) -> bool {
    let mut kinds = [0; 4];
    let mut number = 0;
    span.iter().all(|&byte| {
        let known = kinds[..number].contains(&byte);
        if !known && number < kinds.len() {
            kinds[number] = byte;
            number += 1;
            return true;
        }
        known
    })
}

/// Merges pass by pass until fewer than `enough` ids remain or passes no longer pay. The remaining
/// ids can then be merged in any other way, since all merges up to some id are done.
///
/// Choosing the lowest merge first, the leftmost of equal ones, is the same as applying one merge
/// after the other, each from left to right, since a merge makes a higher id.
pub(crate) fn merge_by_sweeps(merges: &MergeTable, ids: &mut Vec<u32>, enough: usize) {
    while ids.len() > enough {
        let pairs = ids.windows(2).map(|pair| merges.get(pair[0], pair[1]));
        let lowest = pairs.min().unwrap_or(NO_MERGE);
        if lowest == NO_MERGE {
            return;
        }
        let before = ids.len();
        sweep(merges, ids, lowest);
        if ids.len() > before / 8 * MOST_LEFT {
            return;
        }
    }
}

fn sweep(merges: &MergeTable, ids: &mut Vec<u32>, lowest: u32) {
    let (mut from, mut to) = (0, 0);
    while from < ids.len() {
        let pair = from + 1 < ids.len() && merges.get(ids[from], ids[from + 1]) == lowest;
        ids[to] = if pair { lowest } else { ids[from] };
        from += 1 + usize::from(pair);
        to += 1;
    }
    ids.truncate(to);
}
