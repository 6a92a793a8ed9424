//! A large array of numbers in pages of the largest size that the system offers. Unused capacity
//! takes no memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;

use crate::zeros::Zeros;

/// Numbers, and capacity for more.
pub(super) struct Array<T> {
    memory: Zeros,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Pod> Array<T> {
    /// An empty array with capacity for `room` numbers.
    pub(super) fn new(room: usize) -> Self {
        Self { memory: Zeros::new(room * size_of::<T>()), len: 0, of: PhantomData }
    }

    /// The capacity.
    pub(super) fn room(&self) -> usize {
        self.memory.len() / size_of::<T>()
    }

    /// Sets the length; new elements have arbitrary values.
    pub(super) fn set_len(&mut self, len: usize) {
        assert!(len <= self.room(), "{len} numbers in room for {}", self.room());
        self.len = len;
    }

    /// The same numbers in an array of another capacity.
    pub(super) fn moved(&self, room: usize) -> Self {
        let mut moved = Self::new(room);
        moved.set_len(self.len);
        moved.copy_from_slice(self);
        moved
    }
}

impl<T: Pod> Default for Array<T> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl<T: Pod> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        let bytes = &self.memory[..self.len * size_of::<T>()];
        bytemuck::cast_slice(bytes)
    }
}

impl<T: Pod> DerefMut for Array<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        let bytes = &mut self.memory[..self.len * size_of::<T>()];
        bytemuck::cast_slice_mut(bytes)
    }
}

impl<T> fmt::Debug for Array<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} numbers", self.len)
    }
}
