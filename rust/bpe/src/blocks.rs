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
    let mut blocks = documents.blocks(threads).into_iter();
    let Some(first) = blocks.next() else { return Ok(Vec::new()) };
    let work = &work;
    thread::scope(|scope| {
        let others: Vec<_> = blocks.map(|block| scope.spawn(move || work(block))).collect();
        let mut results = vec![work(first)];
        for other in others {
            results.push(other.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)));
        }
        results.into_iter().collect()
    })
}
