//! The merges of a span in their order, each in one pass over it: linear where every pass merges much, as
//! in runs of one byte. Takes ids, leaves ids.

use crate::encode::merge_table::{MergeTable, NO_MERGE};

/// A pass that leaves more than so many parts of eight is not worth another.
const MOST_LEFT: usize = 7;

/// Whether a few bytes make up the whole of `span`: then a few merges do most of the work.
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

/// Merges, pass by pass, until fewer than `enough` ids are left or a pass is not worth another. Then what is
/// left can be merged in any other way: all merges up to some one are done.
///
/// The lowest merge first and the leftmost of equals is one merge after the other, each from left to
/// right: what a merge makes is above it.
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
