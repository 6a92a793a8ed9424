//! Work in several threads that end with the call.

use std::{panic, thread};

/// The results of `work` on each part, in the order of the parts: each part has its own thread
/// except the first, which the calling thread processes. All threads have ended when this returns.
///
/// # Panics
///
/// If `work` panics.
pub fn in_threads<P: Send, T: Send>(
    parts: impl IntoIterator<Item = P>,
    work: impl Fn(P) -> T + Sync,
) -> Vec<T> {
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else { return Vec::new() };
    let work = &work;
    thread::scope(|scope| {
        let others: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let mut results = vec![work(first)];
        for other in others {
            results.push(other.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)));
        }
        results
    })
}
