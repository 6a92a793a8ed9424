//! Work on a batch in several threads that end with the call. Takes documents and what to do with a
//! range of them, gives the results in the order of the documents. Knows nothing of the work.

use std::ops::Range;
use std::panic;
use std::thread;

use crate::{Documents, Error};

/// Results of `work` on at most `threads` blocks of neighbouring documents; of several errors the one
/// of the first document. The first block is done by the calling thread.
pub(crate) fn in_blocks<T: Send>(
    documents: Documents<'_>,
    threads: usize,
    work: impl Fn(Range<usize>) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let blocks = documents.blocks(threads);
    let mut nothing = vec![(); blocks.len()];
    in_blocks_with(blocks, &mut nothing, |(), block| work(block)).into_iter().collect()
}

/// Results of `work` on each of `blocks`, whatever they are of, each with a state of its own.
pub(crate) fn in_blocks_with<S: Send, T: Send>(
    blocks: Vec<Range<usize>>,
    states: &mut [S],
    work: impl Fn(&mut S, Range<usize>) -> T + Sync,
) -> Vec<T> {
    let mut blocks = states.iter_mut().zip(blocks);
    let Some((state, first)) = blocks.next() else { return Vec::new() };
    let work = &work;
    thread::scope(|scope| {
        let spawn = |(state, block)| scope.spawn(move || work(state, block));
        let others: Vec<_> = blocks.map(spawn).collect();
        let mut results = vec![work(state, first)];
        for other in others {
            results.push(other.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)));
        }
        results
    })
}
