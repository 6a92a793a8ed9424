//! Conversion of errors of the core to exceptions of `nanotok_ray.errors`.

use nanotok_bpe::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyKeyError, PyKeyboardInterrupt};

pyo3::import_exception!(nanotok_ray.errors, CountOverflowError);
pyo3::import_exception!(nanotok_ray.errors, PackingError);
pyo3::import_exception!(nanotok_ray.errors, PatternError);
pyo3::import_exception!(nanotok_ray.errors, SplitError);
pyo3::import_exception!(nanotok_ray.errors, TemplateError);
pyo3::import_exception!(nanotok_ray.errors, TokenizerError);

/// The exception for `error`; its only argument is the message.
pub(crate) fn to_python(error: &Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Pattern { .. } => PatternError::new_err(message),
        Error::Split { .. } => SplitError::new_err(message),
        Error::SpanCountOverflow
        | Error::SpanSumOverflow { .. }
        | Error::PairCountOverflow { .. } => CountOverflowError::new_err(message),
        Error::UnknownToken { .. } => PyKeyError::new_err(message),
        Error::Stopped => PyKeyboardInterrupt::new_err(message),
        _ => TokenizerError::new_err(message),
    }
}

/// The exception for an error of packing.
pub(crate) fn packing(error: &nanotok_pack::Error) -> PyErr {
    bad_rows(error.to_string())
}

/// The exception for an argument of packing with a wrong shape.
pub(crate) fn bad_rows(message: String) -> PyErr {
    PackingError::new_err(message)
}

/// The exception for an argument with a wrong shape.
pub(crate) fn bad_argument(message: String) -> PyErr {
    TokenizerError::new_err(message)
}

/// The exception for a template that cannot be compiled or rendered.
pub(crate) fn bad_template(error: &nanotok_template::TemplateError) -> PyErr {
    TemplateError::new_err(error.to_string())
}
