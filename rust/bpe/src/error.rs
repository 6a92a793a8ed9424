//! The one error type of the core. Each variant holds the values a message needs; the message is
//! written here once, and names the value and the limit. Knows nothing of Python's classes.

use std::fmt;

/// How much of a span a message shows.
const SHOWN_BYTES: usize = 60;

/// Everything that can go wrong in this crate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The pattern is not a regular expression the engine can compile.
    Pattern {
        /// What the regex engine said.
        reason: String,
    },
    /// The environment variable `NANOTOK_CPU` asks for what is not there.
    CpuLevel {
        /// Its value.
        asked: String,
        /// Whether it is a level at all: then this CPU lacks it.
        known: bool,
    },
    /// Offsets of a batch are empty: there must be one more than documents.
    NoOffsets,
    /// An offset lies outside the data.
    OffsetOutOfRange {
        /// Its position among the offsets.
        index: usize,
        /// The offset itself.
        offset: i64,
        /// Number of things the offsets are positions of.
        length: usize,
        /// What these are.
        what: &'static str,
    },
    /// An offset is smaller than the one before it.
    OffsetsFall {
        /// Position of the smaller one.
        index: usize,
    },
    /// The parts of a composed document end before they begin, or where there are none.
    PartsEnd {
        /// Number of the document.
        document: usize,
        /// Where its parts end.
        end: usize,
        /// Where they begin.
        before: usize,
        /// How many parts there are.
        number: usize,
    },
    /// Parts of a composition belong to no document.
    PartsLeft {
        /// Where those of the last document end.
        before: usize,
        /// How many parts there are.
        number: usize,
    },
    /// A text of a composed document is not within the data.
    TextOutOfRange {
        /// Number of the document.
        document: usize,
        /// Where the text begins.
        start: usize,
        /// Where it ends.
        end: usize,
        /// Bytes of the data.
        length: usize,
    },
    /// A document cannot be split.
    Split {
        /// Number of the document in its batch.
        document: usize,
        /// Byte in the document where it happened.
        offset: usize,
        /// Why.
        reason: GaveUp,
    },
    /// The count of a span, or the sum of all counts, would pass `u64::MAX`.
    SpanCountOverflow,
    /// The counts of a span, added up, would pass `u64::MAX`.
    SpanSumOverflow {
        /// The span.
        span: Vec<u8>,
    },
    /// The count of a pair would pass `u64::MAX`.
    PairCountOverflow {
        /// Left id.
        left: u32,
        /// Right id.
        right: u32,
    },
    /// Two arrays that describe the same rows differ in length.
    LengthsDiffer {
        /// Number of spans.
        spans: usize,
        /// Name of the other array.
        what: &'static str,
        /// Its length.
        length: usize,
    },
    /// A run is not sorted by (hash64, span).
    RunUnsorted {
        /// Number of the run.
        run: usize,
        /// First row that is smaller than the one before.
        row: usize,
    },
    /// More bytes of spans than 32-bit positions can address.
    TooManySpans {
        /// Bytes of all spans, and one for each span.
        bytes: usize,
    },
    /// More merges than 32-bit ids can name.
    TooManyMerges {
        /// How many.
        number: usize,
    },
    /// A merge names an id that does not exist before it.
    UnknownMergePart {
        /// Position of the merge.
        merge: usize,
        /// The id it names.
        id: u32,
    },
    /// A pair is merged twice.
    RepeatedMerge {
        /// Position of the second one.
        merge: usize,
        /// Position of the first one.
        first: usize,
    },
    /// The ids 0 to 255 do not stand for each byte once.
    ByteOrder {
        /// How many of them stand for one byte.
        number: usize,
        /// A byte that two stand for, if they are 256.
        twice: Option<u8>,
    },
    /// The bytes of a token do not end in two parts when they are encoded with the tokens before it.
    UnreachableToken {
        /// Its id.
        token: usize,
        /// Its bytes.
        bytes: Vec<u8>,
        /// How many parts they end in.
        parts: usize,
    },
    /// The bytes of all ids together are too many.
    VocabularyTooLarge {
        /// Position of the merge that passes the limit.
        merge: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The ids do not fit the width asked for.
    TooManyTokens {
        /// How many ids there are.
        number: usize,
        /// How many fit.
        limit: usize,
    },
    /// An id that is not a token.
    UnknownToken {
        /// The id.
        id: u32,
        /// Number of its row, where there are rows.
        row: Option<usize>,
    },
    /// The spellings of all ids, special tokens included, are 4 GiB or more.
    SpellingsTooLarge,
    /// A text to look for is empty.
    EmptyNeedle,
    /// The texts to look for cannot be compiled into one searcher.
    Needles {
        /// What the searcher said.
        reason: String,
    },
    /// The caller asked to stop.
    Stopped,
}

/// Why a document could not be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GaveUp {
    /// The regex engine took more steps back than allowed.
    Backtracking,
    /// The regex engine needed more stack than it has.
    Stack,
    /// The pattern does not match here, and gaps are refused.
    Gap,
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Backtracking => "the regex engine passed its limit of backtracking steps",
            Self::Stack => "the regex engine ran out of stack",
            Self::Gap => "the pattern does not match the text here, and gaps are refused",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern { .. } | Self::Split { .. } | Self::CpuLevel { .. } => self.fmt_split(f),
            Self::NoOffsets
            | Self::OffsetOutOfRange { .. }
            | Self::OffsetsFall { .. }
            | Self::LengthsDiffer { .. }
            | Self::RunUnsorted { .. } => self.fmt_batch(f),
            Self::PartsEnd { .. } | Self::PartsLeft { .. } | Self::TextOutOfRange { .. } => {
                self.fmt_composition(f)
            }
            Self::SpanCountOverflow
            | Self::SpanSumOverflow { .. }
            | Self::PairCountOverflow { .. }
            | Self::TooManySpans { .. }
            | Self::TooManyMerges { .. } => self.fmt_limit(f),
            Self::UnknownMergePart { .. }
            | Self::RepeatedMerge { .. }
            | Self::VocabularyTooLarge { .. }
            | Self::TooManyTokens { .. }
            | Self::ByteOrder { .. }
            | Self::UnreachableToken { .. }
            | Self::UnknownToken { .. } => self.fmt_vocabulary(f),
            Self::SpellingsTooLarge => f.write_str("the bytes of all ids pass 4 GiB"),
            Self::EmptyNeedle => f.write_str("a text to look for is empty"),
            Self::Needles { reason } => write!(f, "cannot search for these texts: {reason}"),
            Self::Stopped => f.write_str("stopped by the caller"),
        }
    }
}

impl Error {
    fn fmt_split(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern { reason } => write!(f, "cannot compile the split pattern: {reason}"),
            Self::Split { document, offset, reason } => {
                write!(f, "document {document} cannot be split at byte {offset}: {reason}")
            }
            Self::CpuLevel { asked, known: true } => {
                write!(f, "NANOTOK_CPU is {asked:?}: this CPU lacks it; do not set it")
            }
            Self::CpuLevel { asked, known: false } => write!(
                f,
                "NANOTOK_CPU is {asked:?}: it must be portable, avx2 or avx512, or not be set"
            ),
            _ => unreachable!("not an error about splitting"),
        }
    }

    fn fmt_batch(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOffsets => f.write_str("offsets are empty: n documents have n + 1 offsets"),
            Self::OffsetOutOfRange { index, offset, length, what } => {
                write!(f, "offset {index} is {offset}, outside the {length} {what}")
            }
            Self::OffsetsFall { index } => {
                write!(f, "offset {index} is smaller than the one before it")
            }
            Self::LengthsDiffer { spans, what, length } => {
                write!(f, "there are {spans} spans but {length} {what}")
            }
            Self::RunUnsorted { run, row } => {
                write!(f, "run {run} is not sorted by (hash64, span): row {row} is out of order")
            }
            _ => unreachable!("not an error about arrays"),
        }
    }

    fn fmt_composition(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PartsEnd { document, end, before, number } => write!(
                f,
                "the parts of document {document} end at {end}: not within {before} and {number}"
            ),
            Self::PartsLeft { before, number } => {
                write!(f, "there are {number} parts, but documents have only {before} of them")
            }
            Self::TextOutOfRange { document, start, end, length } => write!(
                f,
                "a text of document {document} is {start}..{end}: not within {length} bytes of data"
            ),
            _ => unreachable!("not an error about compositions"),
        }
    }

    fn fmt_limit(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SpanCountOverflow => {
                write!(f, "the count of a span would pass 2**64 - 1 ({})", u64::MAX)
            }
            Self::SpanSumOverflow { span } => {
                let (shown, limit) = (Shown(span), u64::MAX);
                write!(f, "the count of span \"{shown}\" would pass 2**64 - 1 ({limit})")
            }
            Self::PairCountOverflow { left, right } => {
                let limit = u64::MAX;
                write!(f, "the count of pair ({left}, {right}) would pass 2**64 - 1 ({limit})")
            }
            Self::TooManySpans { bytes } => {
                let limit = u32::MAX;
                write!(
                    f,
                    "distinct spans have {bytes} bytes, their ends included: the limit is {limit}"
                )
            }
            Self::TooManyMerges { number } => {
                write!(f, "{number} merges: the limit is {}", u32::MAX - 256)
            }
            _ => unreachable!("not an error about limits"),
        }
    }

    fn fmt_vocabulary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownMergePart { merge, id } => {
                let limit = 256 + merge;
                write!(f, "merge {merge} uses id {id}, but only ids below {limit} exist before it")
            }
            Self::RepeatedMerge { merge, first } => {
                write!(f, "merge {merge} merges the same pair as merge {first}")
            }
            Self::VocabularyTooLarge { merge, limit } => {
                write!(f, "with merge {merge} the bytes of all ids together pass {limit}")
            }
            Self::TooManyTokens { number, limit } => {
                write!(f, "{number} token ids do not fit: the limit is {limit}, ask for wide ids")
            }
            Self::ByteOrder { twice: Some(byte), .. } => {
                write!(f, "ids 0 to 255 must be each byte once: 0x{byte:02x} comes twice")
            }
            Self::ByteOrder { number, .. } => {
                write!(f, "ids 0 to 255 must be each byte once: there are {number} of 256")
            }
            Self::UnreachableToken { token, bytes, parts } => write!(
                f,
                "token {token}, \"{}\", cannot be reached: encoded with the tokens before it, its \
                 bytes end in {parts} parts, not in two",
                Shown(bytes)
            ),
            Self::UnknownToken { id, row } => {
                write!(f, "Invalid token for decoding: {id}")?;
                row.map_or(Ok(()), |row| write!(f, ", in row {row}"))
            }
            _ => unreachable!("not an error about the vocabulary"),
        }
    }
}

/// The first bytes of many.
struct Shown<'b>(&'b [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0[..self.0.len().min(SHOWN_BYTES)].escape_ascii();
        write!(f, "{shown}{}", if self.0.len() > SHOWN_BYTES { "..." } else { "" })
    }
}

impl std::error::Error for Error {}
