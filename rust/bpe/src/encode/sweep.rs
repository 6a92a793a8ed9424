//! Applies the merges of a span in their order, each in one pass: linear if every pass merges much,
//! as in runs of one byte.

use crate::encode::merge_table::{MergeTable, NO_MERGE};

/// A pass that leaves more than this many eighths of the ids is poor.
const MAX_LEFT: usize = 7;

/// After this many poor passes, no further pass is made. A rare pair can merge first, such as the
/// line breaks between long rules of dashes. If one poor pass ends them, 100 kB of one letter take
/// three times as long with Mistral's model.
const POOR_PASSES: usize = 2;

/// Whether `span` consists of few different bytes, so that a few merges do most of the work. If such
/// spans were merged from left to right first, tabs would take up to 15 times as long.
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

/// Merges pass by pass until at most `enough` ids remain or passes no longer pay. The remaining ids
/// can then be merged in any other way, since all merges up to some id are done.
///
/// `results[i]` is the id that ids i and i + 1 merge to, before and after. Choosing the lowest merge
/// first, the leftmost of equal ones, is the same as applying one merge after the other, each from
/// left to right, since a merge makes a higher id.
pub(crate) fn merge_by_sweeps(
    merges: &MergeTable,
    ids: &mut Vec<u32>,
    results: &mut Vec<u32>,
    enough: usize,
) {
    let mut lowest = results.iter().copied().min().unwrap_or(NO_MERGE);
    let mut poor_passes = 0;
    while ids.len() > enough && lowest != NO_MERGE && poor_passes < POOR_PASSES {
        let before = ids.len();
        lowest = sweep(merges, ids, results, lowest);
        poor_passes += usize::from(ids.len() > before / 8 * MAX_LEFT);
    }
}

/// Merges all pairs that merge to `target`, from left to right, and returns the lowest id that a pair
/// then merges to.
fn sweep(merges: &MergeTable, ids: &mut Vec<u32>, results: &mut Vec<u32>, target: u32) -> u32 {
    let (mut from, mut to, mut is_new, mut lowest) = (0, 0, false, NO_MERGE);
    while from < ids.len() {
        let was_new = is_new;
        is_new = results.get(from) == Some(&target);
        let id = if is_new { target } else { ids[from] };
        if to > 0 {
            let changed = was_new || is_new;
            let pair = if changed { merges.get(ids[to - 1], id) } else { results[from - 1] };
            results[to - 1] = pair;
            lowest = lowest.min(pair);
        }
        ids[to] = id;
        from += 1 + usize::from(is_new);
        to += 1;
    }
    ids.truncate(to);
    results.truncate(to.saturating_sub(1));
    lowest
}
