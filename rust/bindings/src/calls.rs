//! Calls of the core: without the GIL, with a bounded number of threads, and with a failed allocation
//! as an exception.

use nanotok_bpe::MAX_THREADS;
use nanotok_memory::caught;
use pyo3::exceptions::{PyMemoryError, PyOverflowError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::bad_argument;

/// The maximum number of threads of a call, at least 1; more than `MAX_THREADS` are reduced to it.
pub(crate) fn max_threads(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    let number = match value.extract::<i64>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => {
            if value.lt(0)? {
                i64::MIN
            } else {
                i64::MAX
            }
        }
        number => number?,
    };
    if number < 1 {
        return Err(bad_argument(format!("threads is {value}: it must be at least 1")));
    }
    Ok(usize::try_from(number).map_or(MAX_THREADS, |number| number.min(MAX_THREADS)))
}

/// The result of `work`, which runs without the GIL; a `MemoryError` if an allocation fails.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let done = py.detach(|| caught(work));
    done.map_err(|failure| PyMemoryError::new_err(failure.to_string()))
}

/// A copy of bytes as an object of Python; a `MemoryError` if it cannot be allocated.
pub(crate) fn python_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, bytes.len(), |copy| {
        copy.copy_from_slice(bytes);
        Ok(())
    })
}

/// A value that calls change. If memory runs out in a call, the value is incomplete and dropped.
#[derive(Debug)]
pub(crate) struct Changing<T>(Option<T>);

impl<T: Send> Changing<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// The value.
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.0.as_ref().ok_or_else(dropped)
    }

    /// Takes the value; later calls fail.
    pub(crate) fn take(&mut self) -> PyResult<T> {
        self.0.take().ok_or_else(dropped)
    }

    /// The result of `work`, as by `detached`.
    pub(crate) fn change<R: Send>(
        &mut self,
        py: Python<'_>,
        work: impl FnOnce(&mut T) -> R + Send,
    ) -> PyResult<R> {
        let mut value = self.take()?;
        let (value, result) = detached(py, move || {
            let result = work(&mut value);
            (value, result)
        })?;
        self.0 = Some(value);
        Ok(result)
    }
}

fn dropped() -> PyErr {
    bad_argument("the object was taken already, or dropped when memory ran out".to_owned())
}
