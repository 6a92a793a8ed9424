//! The one error type of the core. Each variant holds the values a message needs; the message is
//! written here once, and names the value and the limit. Knows nothing of Python's classes.

use std::fmt;

/// How much of a span a message shows.
const SHOWN_BYTES: usize = 60;

/// Everything that can go wrong in this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pattern is not a regular expression the engine can compile.
    #[error("cannot compile the split pattern: {reason}")]
    Pattern {
        /// What the regex engine said.
        reason: String,
    },
    /// The environment variable `NANOTOK_CPU` asks for what is not there.
    #[error("NANOTOK_CPU is {asked:?}: {}", cpu_level(*known))]
    CpuLevel {
        /// Its value.
        asked: String,
        /// Whether it is a level at all: then this CPU lacks it.
        known: bool,
    },
    /// Offsets of a batch are empty: there must be one more than documents.
    #[error("offsets are empty: n documents have n + 1 offsets")]
    NoOffsets,
    /// An offset lies outside the data.
    #[error("offset {index} is {offset}, outside the {length} {what}")]
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
    #[error("offset {index} is smaller than the one before it")]
    OffsetsFall {
        /// Position of the smaller one.
        index: usize,
    },
    /// The parts of a composed document end before they begin, or where there are none.
    #[error("the parts of document {document} end at {end}: not within {before} and {number}")]
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
    #[error("there are {number} parts, but documents have only {before} of them")]
    PartsLeft {
        /// Where those of the last document end.
        before: usize,
        /// How many parts there are.
        number: usize,
    },
    /// A text of a composed document is not within the data.
    #[error("a text of document {document} is {start}..{end}: not within {length} bytes of data")]
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
    #[error("document {document} cannot be split at byte {offset}: {reason}")]
    Split {
        /// Number of the document in its batch.
        document: usize,
        /// Byte in the document where it happened.
        offset: usize,
        /// Why.
        reason: GaveUp,
    },
    /// The count of a span, or the sum of all counts, would pass `u64::MAX`.
    #[error("the count of a span would pass 2**64 - 1 ({})", u64::MAX)]
    SpanCountOverflow,
    /// The counts of a span, added up, would pass `u64::MAX`.
    #[error("the count of span \"{}\" would pass 2**64 - 1 ({})", Shown(span), u64::MAX)]
    SpanSumOverflow {
        /// The span.
        span: Vec<u8>,
    },
    /// The count of a pair would pass `u64::MAX`.
    #[error("the count of pair ({left}, {right}) would pass 2**64 - 1 ({})", u64::MAX)]
    PairCountOverflow {
        /// Left id.
        left: u32,
        /// Right id.
        right: u32,
    },
    /// Two arrays that describe the same rows differ in length.
    #[error("there are {spans} spans but {length} {what}")]
    LengthsDiffer {
        /// Number of spans.
        spans: usize,
        /// Name of the other array.
        what: &'static str,
        /// Its length.
        length: usize,
    },
    /// A run is not sorted by (hash64, span).
    #[error("run {run} is not sorted by (hash64, span): row {row} is out of order")]
    RunUnsorted {
        /// Number of the run.
        run: usize,
        /// First row that is smaller than the one before.
        row: usize,
    },
    /// The second pass over batches of spans brings others than the first.
    #[error("the spans differ when they are read for the second time")]
    BatchesDiffer,
    /// More bytes of spans than 32-bit positions can address.
    #[error("distinct spans have {bytes} bytes, their ends included: the limit is {}", u32::MAX)]
    TooManySpans {
        /// Bytes of all spans, and one for each span.
        bytes: usize,
    },
    /// More merges than 32-bit ids can name.
    #[error("{number} merges: the limit is {}", u32::MAX - 256)]
    TooManyMerges {
        /// How many.
        number: usize,
    },
    /// A merge names an id that does not exist before it.
    #[error("merge {merge} uses id {id}, but only ids below {} exist before it", 256 + merge)]
    UnknownMergePart {
        /// Position of the merge.
        merge: usize,
        /// The id it names.
        id: u32,
    },
    /// A pair is merged twice.
    #[error("merge {merge} merges the same pair as merge {first}")]
    RepeatedMerge {
        /// Position of the second one.
        merge: usize,
        /// Position of the first one.
        first: usize,
    },
    /// The ids 0 to 255 do not stand for each byte once.
    #[error("ids 0 to 255 must be each byte once: {}", byte_order(*number, *twice))]
    ByteOrder {
        /// How many of them stand for one byte.
        number: usize,
        /// A byte that two stand for, if they are 256.
        twice: Option<u8>,
    },
    /// The bytes of a token do not end in two parts when they are encoded with the tokens before it.
    #[error(
        "token {token}, \"{}\", cannot be reached: encoded with the tokens before it, its bytes end in {parts} parts, not in two",
        Shown(bytes)
    )]
    UnreachableToken {
        /// Its id.
        token: usize,
        /// Its bytes.
        bytes: Vec<u8>,
        /// How many parts they end in.
        parts: usize,
    },
    /// The bytes of all ids together are too many.
    #[error("with merge {merge} the bytes of all ids together pass {limit}")]
    VocabularyTooLarge {
        /// Position of the merge that passes the limit.
        merge: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The ids do not fit the width asked for.
    #[error("{number} token ids do not fit: the limit is {limit}, ask for wide ids")]
    TooManyTokens {
        /// How many ids there are.
        number: usize,
        /// How many fit.
        limit: usize,
    },
    /// An id that is not a token.
    #[error("Invalid token for decoding: {id}{}", in_row(*row))]
    UnknownToken {
        /// The id.
        id: u32,
        /// Number of its row, where there are rows.
        row: Option<usize>,
    },
    /// The spellings of all ids, special tokens included, are 4 GiB or more.
    #[error("the bytes of all ids pass 4 GiB")]
    SpellingsTooLarge,
    /// A text to look for is empty.
    #[error("a text to look for is empty")]
    EmptyNeedle,
    /// The texts to look for cannot be compiled into one searcher.
    #[error("cannot search for these texts: {reason}")]
    Needles {
        /// What the searcher said.
        reason: String,
    },
    /// The caller asked to stop.
    #[error("stopped by the caller")]
    Stopped,
}

/// Why a document could not be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GaveUp {
    /// The regex engine took more steps back than allowed.
    #[error("the regex engine passed its limit of backtracking steps")]
    Backtracking,
    /// The regex engine needed more stack than it has.
    #[error("the regex engine ran out of stack")]
    Stack,
    /// The pattern does not match here, and gaps are refused.
    #[error("the pattern does not match the text here, and gaps are refused")]
    Gap,
}

fn cpu_level(known: bool) -> &'static str {
    if known {
        "this CPU lacks it; do not set it"
    } else {
        "it must be portable, avx2 or avx512, or not be set"
    }
}

fn byte_order(number: usize, twice: Option<u8>) -> String {
    match twice {
        Some(byte) => format!("0x{byte:02x} comes twice"),
        None => format!("there are {number} of 256"),
    }
}

fn in_row(row: Option<usize>) -> String {
    row.map_or_else(String::new, |row| format!(", in row {row}"))
}

/// The first bytes of many.
struct Shown<'b>(&'b [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0[..self.0.len().min(SHOWN_BYTES)].escape_ascii();
        write!(f, "{shown}{}", if self.0.len() > SHOWN_BYTES { "..." } else { "" })
    }
}
