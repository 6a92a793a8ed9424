//! Allocations of sizes that a caller controls, so that a failure is an error.
//!
//! The standard library ends the process if an allocation fails. The functions of this crate
//! unwind instead, and [`caught`] returns the failure as [`OutOfMemory`]. They are for memory whose
//! size depends on arguments; small buffers of fixed sizes use `Vec` directly.
//!
//! Unwinding, rather than a `Result` in the signature of every function that adds to an array,
//! keeps error paths out of the inner loops. A value that was being changed is incomplete
//! afterwards, so the caller of `caught` must drop it.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use bytemuck::Zeroable;

/// The system did not provide memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("out of memory: cannot allocate {bytes} bytes")]
pub struct OutOfMemory {
    /// Bytes of the allocation; `usize::MAX` if there are more.
    pub bytes: usize,
}

/// Calls `work`, and returns the failure if one of its allocations by this crate failed, also in
/// another thread whose panic `work` passes on. Whatever `work` was changing is incomplete then.
///
/// # Errors
///
/// Fails if memory ran out.
///
/// # Panics
///
/// If `work` panics for any other reason.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, OutOfMemory> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panicked| match panicked.downcast() {
        Ok(failure) => *failure,
        Err(other) => resume_unwind(other),
    })
}

/// Reserves room for `additional` more elements, like `Vec::reserve`.
#[inline]
pub fn reserve<T>(vec: &mut Vec<T>, additional: usize) {
    if vec.try_reserve(additional).is_err() {
        fail::<T>(vec.len().saturating_add(additional));
    }
}

/// An empty vector with room for `number` elements.
pub fn with_capacity<T>(number: usize) -> Vec<T> {
    let mut vec = Vec::new();
    if vec.try_reserve_exact(number).is_err() {
        fail::<T>(number);
    }
    vec
}

/// `number` zeros, which take no memory until they are written if they are many.
pub fn zeros<T: Zeroable>(number: usize) -> Vec<T> {
    bytemuck::try_zeroed_vec(number).unwrap_or_else(|()| fail::<T>(number))
}

/// `number` copies of `value`.
pub fn filled<T: Clone>(value: T, number: usize) -> Vec<T> {
    let mut vec = with_capacity(number);
    vec.resize(number, value);
    vec
}

/// A copy of a slice.
pub fn copied<T: Copy>(values: &[T]) -> Vec<T> {
    let mut vec = with_capacity(values.len());
    vec.extend_from_slice(values);
    vec
}

/// The elements of an iterator that knows their number.
pub fn collected<T>(values: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    let mut vec = with_capacity(values.len());
    vec.extend(values);
    vec
}

/// Appends an element, like `Vec::push`.
#[inline]
pub fn push<T>(vec: &mut Vec<T>, value: T) {
    reserve(vec, 1);
    vec.push(value);
}

/// Appends a slice, like `Vec::extend_from_slice`.
#[inline]
pub fn append<T: Copy>(vec: &mut Vec<T>, values: &[T]) {
    reserve(vec, values.len());
    vec.extend_from_slice(values);
}

/// Changes the length, like `Vec::resize`.
#[inline]
pub fn resize<T: Clone>(vec: &mut Vec<T>, number: usize, value: T) {
    reserve(vec, number.saturating_sub(vec.len()));
    vec.resize(number, value);
}

/// Reserves room for one more entry.
#[inline]
pub fn room_for_one<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    if map.len() == map.capacity() && map.try_reserve(1).is_err() {
        fail::<(K, V)>(map.len());
    }
}

/// Checks that `number` elements of `T` can be allocated, for collections that cannot fail: an
/// allocation of their size is made and freed.
pub fn check_room<T>(number: usize) {
    drop(with_capacity::<T>(number));
}

/// Ends the call that `caught` made.
#[cold]
pub fn fail<T>(number: usize) -> ! {
    // Unlike a panic, this prints nothing.
    resume_unwind(Box::new(OutOfMemory { bytes: number.saturating_mul(size_of::<T>()) }))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const TOO_MANY: usize = 1 << 60;

    fn check<T>(work: impl FnOnce() -> T, bytes: usize) {
        assert_eq!(caught(work).map(drop), Err(OutOfMemory { bytes }));
    }

    #[test]
    fn allocations_that_fail_are_errors() {
        check(|| with_capacity::<u64>(TOO_MANY), 8 * TOO_MANY);
        check(|| with_capacity::<u128>(TOO_MANY), usize::MAX);
        check(|| zeros::<u8>(TOO_MANY), TOO_MANY);
        check(|| filled(7_u8, TOO_MANY), TOO_MANY);
        check(|| reserve(&mut vec![1_u8], TOO_MANY), TOO_MANY + 1);
        check(|| resize(&mut vec![1_u16], TOO_MANY, 3), 2 * TOO_MANY);
        check(|| check_room::<u8>(TOO_MANY), TOO_MANY);
        let message = caught(|| zeros::<u8>(TOO_MANY)).unwrap_err().to_string();
        assert_eq!(message, "out of memory: cannot allocate 1152921504606846976 bytes");
    }

    #[test]
    fn allocations_that_succeed_are_those_of_vec() {
        assert_eq!(zeros::<u32>(3), [0; 3]);
        assert_eq!(filled(7, 2), [7, 7]);
        assert_eq!(copied(&[1, 2]), [1, 2]);
        assert_eq!(collected([1, 2].into_iter()), [1, 2]);
        let mut vec = with_capacity(1);
        push(&mut vec, 1);
        append(&mut vec, &[2, 3]);
        resize(&mut vec, 4, 9);
        resize(&mut vec, 2, 9);
        assert_eq!(caught(|| vec), Ok(vec![1, 2]));
        let mut map = HashMap::new();
        for number in 0..100 {
            room_for_one(&mut map);
            let room = map.capacity();
            map.insert(number, number);
            assert_eq!(map.capacity(), room);
        }
    }

    #[test]
    fn a_failure_of_another_thread_is_caught_if_it_is_passed_on() {
        let join = || {
            let thread = thread::spawn(|| zeros::<u8>(TOO_MANY));
            thread.join().unwrap_or_else(|panicked| resume_unwind(panicked))
        };
        check(join, TOO_MANY);
    }

    #[test]
    #[should_panic(expected = "another reason")]
    fn other_panics_continue() {
        let _ = caught(|| panic!("another reason"));
    }
}
