//! `SpanTable` for Python: a file that is mapped, not read.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use memmap2::Mmap;
use nanotok_bpe::Sha256;
use pyo3::prelude::*;

use crate::errors::{bad_argument, to_python};

/// The ids of many spans, for one tokenizer.
#[pyclass(frozen, module = "nanotok_ray._core")]
pub(crate) struct SpanTable(pub(crate) nanotok_bpe::SpanTable);

#[pymethods]
impl SpanTable {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, tokenizer_sha256: &[u8]) -> PyResult<Self> {
        let tokenizer = sha256(tokenizer_sha256)?;
        let bytes = py.detach(|| map(&path))?;
        py.detach(|| nanotok_bpe::SpanTable::new(Arc::new(bytes), &tokenizer))
            .map(Self)
            .map_err(|error| to_python(&error))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// The 32 bytes of a hash.
pub(crate) fn sha256(bytes: &[u8]) -> PyResult<Sha256> {
    let wrong = || bad_argument(format!("a sha256 has 32 bytes, not {}", bytes.len()));
    bytes.try_into().map_err(|_| wrong())
}

#[expect(unsafe_code, reason = "a mapped file is memory that others can change")]
fn map(path: &PathBuf) -> std::io::Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: the file is written under another name and renamed, whole, and never written again: whoever
    // replaces or removes it leaves the mapped one as it is.
    unsafe { Mmap::map(&file) }
}
