//! Work in several threads that end with the call.

use std::sync::{Mutex, PoisonError};
use std::{panic, thread};

/// Maximum number of threads of a call: more would only take memory.
pub const MAX_THREADS: usize = 1024;

/// The results of `work` on each part, in the order of the parts: each part has its own thread
/// except the first, which the calling thread processes, and those for which the system starts no
/// thread, which follow it there. All threads have ended when this returns.
///
/// # Panics
///
/// If `work` panics.
pub fn in_threads<P: Send, T: Send>(
    parts: impl IntoIterator<Item = P>,
    work: impl Fn(P) -> T + Sync,
) -> Vec<T> {
    let parts: Vec<_> = parts.into_iter().map(|part| Mutex::new(Some(part))).collect();
    let Some((first, others)) = parts.split_first() else { return Vec::new() };
    let take = |part: &Mutex<Option<P>>| part.lock().unwrap_or_else(PoisonError::into_inner).take();
    let run = |part| work(take(part).expect("each part is taken once"));
    thread::scope(|scope| {
        let spawn = |part| thread::Builder::new().spawn_scoped(scope, move || run(part));
        let threads: Vec<_> = others.iter().map(spawn).collect();
        let mut results = vec![run(first)];
        for (part, thread) in others.iter().zip(threads) {
            results.push(match thread {
                Ok(thread) => {
                    thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked))
                }
                Err(_) => run(part),
            });
        }
        results
    })
}
