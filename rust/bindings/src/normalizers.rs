//! Normalizers from tuples of Python.

use nanotok_bpe::Normalizer;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::bad_argument;

/// Normalizers from tuples of a name and its arguments.
pub(crate) fn normalizers(tuples: &[Bound<'_, PyTuple>]) -> PyResult<Vec<Normalizer>> {
    tuples.iter().map(normalizer).collect()
}

fn normalizer(tuple: &Bound<'_, PyTuple>) -> PyResult<Normalizer> {
    let wrong = || match tuple.repr() {
        Ok(shown) => bad_argument(format!("{shown} is not a normalizer")),
        Err(error) => error,
    };
    let name: String = tuple.get_item(0).and_then(|name| name.extract()).map_err(|_| wrong())?;
    let text = |at| tuple.get_item(at).and_then(|it| it.extract::<String>()).map_err(|_| wrong());
    let flag = |at| tuple.get_item(at).and_then(|it| it.extract::<bool>()).map_err(|_| wrong());
    Ok(match (&name[..], tuple.len()) {
        ("NFC", 1) => Normalizer::Nfc,
        ("NFD", 1) => Normalizer::Nfd,
        ("NFKC", 1) => Normalizer::Nfkc,
        ("NFKD", 1) => Normalizer::Nfkd,
        ("Lowercase", 1) => Normalizer::Lowercase,
        ("PrefixSpace", 1) => Normalizer::PrefixSpace,
        ("Prepend", 2) => Normalizer::Prepend(text(1)?),
        ("Replace", 3) => Normalizer::Replace { text: text(1)?, by: text(2)? },
        ("Strip", 3) => Normalizer::Strip { left: flag(1)?, right: flag(2)? },
        _ => return Err(wrong()),
    })
}
