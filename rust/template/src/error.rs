//! The errors of templates, and of JSON that Python may read differently.

use minijinja::{Error, ErrorKind};
use thiserror::Error;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The template called `raise_exception`.
    Raised,
    /// The template cannot be compiled.
    Syntax,
    /// An operation failed, or is not supported.
    Failed,
    /// The steps that are allowed did not suffice.
    TooManySteps,
    /// The text would be longer than allowed.
    TooLong,
}

/// A template cannot be compiled or rendered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}{}", .line.map(|line| format!(" (line {line})")).unwrap_or_default())]
pub struct TemplateError {
    /// What went wrong.
    pub kind: Kind,
    /// The line of the template, counted from 1.
    pub line: Option<usize>,
    /// The message, without the line.
    pub message: String,
}

/// The mark of an error that `raise_exception` made; its text is the message.
#[derive(Debug, Error)]
#[error("raised by the template")]
pub(crate) struct Raised;

/// An error of an operation that Python does not allow or that is not supported.
pub(crate) fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

impl From<Error> for TemplateError {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::SyntaxError | ErrorKind::BadEscape => Kind::Syntax,
            ErrorKind::OutOfFuel => Kind::TooManySteps,
            _ if is_raised(&error) => Kind::Raised,
            _ => Kind::Failed,
        };
        let message = match (kind, error.detail()) {
            (Kind::Raised, Some(detail)) => detail.to_owned(),
            (_, Some(detail)) => format!("{}: {detail}", error.kind()),
            (_, None) => error.kind().to_string(),
        };
        Self { kind, line: error.line(), message }
    }
}

fn is_raised(error: &Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if error.is::<Raised>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// A text is not JSON, or Python may read it differently; the position is in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this is not JSON, or Python reads it differently: byte {0}")]
pub struct Declined(pub usize);

impl From<Declined> for TemplateError {
    fn from(declined: Declined) -> Self {
        Self { kind: Kind::Failed, line: None, message: declined.to_string() }
    }
}
