//! The error type of the core. Each variant has the values of its message; messages name the value
//! and the limit. Python's classes are chosen elsewhere.

use std::fmt;

use crate::numbering::MAX_IDS;
use crate::vocabulary::{MAX_NAME_BYTES, MAX_TOKEN_BYTES, MAX_VOCABULARY_BYTES};

/// Limit of the bytes of a span in a message.
const SHOWN_BYTES: usize = 60;

/// All errors of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine cannot compile the pattern.
    #[error("cannot compile the split pattern: {reason}")]
    Pattern {
        /// The message of the regex engine.
        reason: String,
    },
    /// The environment variable `NANOTOK_CPU` has a value that is not available.
    #[error("NANOTOK_CPU is {asked:?}: {}", cpu_level(*known))]
    CpuLevel {
        /// Its value.
        asked: String,
        /// Whether it is a level, which this CPU does not support.
        known: bool,
    },
    /// The offsets of a batch are empty: n documents have n + 1 offsets.
    #[error("offsets are empty: n documents have n + 1 offsets")]
    NoOffsets,
    /// An offset exceeds the data.
    #[error("offset {index} is {offset}, outside the {length} {what}")]
    OffsetOutOfRange {
        /// Its position among the offsets.
        index: usize,
        /// The offset itself.
        offset: i64,
        /// The length of the indexed values.
        length: usize,
        /// The name of these values.
        what: &'static str,
    },
    /// An offset is smaller than the previous one.
    #[error("offset {index} is smaller than the one before it")]
    OffsetsFall {
        /// Position of the smaller one.
        index: usize,
    },
    /// The end of the parts of a composed document precedes their begin or exceeds the parts.
    #[error("the parts of document {document} end at {end}: not within {before} and {number}")]
    PartsEnd {
        /// Number of the document.
        document: usize,
        /// The end of its parts.
        end: usize,
        /// The start of its parts.
        before: usize,
        /// The number of parts.
        number: usize,
    },
    /// Parts of a composition belong to no document.
    #[error("there are {number} parts, but documents have only {before} of them")]
    PartsLeft {
        /// The end of those of the last document.
        before: usize,
        /// The number of parts.
        number: usize,
    },
    /// A text of a composed document exceeds the data.
    #[error("a text of document {document} is {start}..{end}: not within {length} bytes of data")]
    TextOutOfRange {
        /// Number of the document.
        document: usize,
        /// Start of the text.
        start: usize,
        /// End of the text.
        end: usize,
        /// Bytes of the data.
        length: usize,
    },
    /// A document cannot be split.
    #[error("document {document} cannot be split at byte {offset}: {reason}")]
    Split {
        /// Number of the document in its batch.
        document: usize,
        /// The position in the document in bytes.
        offset: usize,
        /// The reason.
        reason: GaveUp,
    },
    /// The count of a span, or the sum of all counts, would exceed `u64::MAX`.
    #[error("the count of a span would pass 2**64 - 1 ({})", u64::MAX)]
    SpanCountOverflow,
    /// The sum of the counts of a span would exceed `u64::MAX`.
    #[error("the count of span \"{}\" would pass 2**64 - 1 ({})", Shown(span), u64::MAX)]
    SpanSumOverflow {
        /// The span.
        span: Vec<u8>,
    },
    /// The count of a pair would exceed `u64::MAX`.
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
    /// The rows of a run are wrong.
    #[error("run {run}: {problem}")]
    Run {
        /// Number of the run.
        run: usize,
        /// What is wrong.
        problem: RunProblem,
    },
    /// The second pass over batches of spans returned others than the first.
    #[error("the spans differ when they are read for the second time")]
    BatchesDiffer,
    /// A span contains an id that the base does not have.
    #[error("a span contains id {id}: the base has {number} ids")]
    UnknownBaseId {
        /// The id.
        id: u32,
        /// The number of ids of the base.
        number: usize,
    },
    /// The bytes of spans exceed 32-bit positions.
    #[error("distinct spans have {bytes} bytes, their ends included: the limit is {}", u32::MAX)]
    TooManySpans {
        /// Bytes of all spans, plus one for each span.
        bytes: usize,
    },
    /// The merges exceed 32-bit ids.
    #[error("{number} merges: the limit is {}", u32::MAX - 256)]
    TooManyMerges {
        /// The number of merges.
        number: usize,
    },
    /// A merge uses an id that does not exist before it.
    #[error("merge {merge} uses id {id}, but only ids below {} exist before it", 256 + merge)]
    UnknownMergePart {
        /// Position of the merge.
        merge: usize,
        /// The id.
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
    /// The ids 0 to 255 are not a permutation of the bytes.
    #[error("ids 0 to 255 must be each byte once: {}", byte_order(*number, *twice))]
    ByteOrder {
        /// The number of them that are single bytes.
        number: usize,
        /// A byte of two ids, if there are 256.
        twice: Option<u8>,
    },
    /// A token is empty.
    #[error("token {token} is empty")]
    EmptyToken {
        /// Its position.
        token: usize,
    },
    /// Two tokens have the same bytes.
    #[error("token {token}, \"{}\", has the same bytes as token {first}", Shown(bytes))]
    RepeatedToken {
        /// The second one.
        token: usize,
        /// The first one.
        first: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A numbering has another length than the vocabulary.
    #[error("the numbering has {ids} ids: there are {tokens} tokens")]
    NumberingLength {
        /// The number of its ids.
        ids: usize,
        /// The number of tokens.
        tokens: usize,
    },
    /// An id of a numbering exceeds the limit.
    #[error("token {token} has the id {id}: the limit is {}", MAX_IDS - 1)]
    IdTooLarge {
        /// The token.
        token: usize,
        /// Its id.
        id: u32,
    },
    /// Two tokens have the same id.
    #[error("token {token} has the id {id}, as token {first} has")]
    RepeatedId {
        /// The id.
        id: u32,
        /// The second token.
        token: usize,
        /// The first token.
        first: usize,
    },
    /// The bytes of a token are not two parts when they are encoded with the tokens before it.
    #[error(
        "token {token}, \"{}\", cannot be reached: encoded with the tokens before it, its bytes end in {parts} parts, not in two",
        Shown(bytes)
    )]
    UnreachableToken {
        /// Its id.
        token: usize,
        /// Its bytes.
        bytes: Vec<u8>,
        /// The number of parts.
        parts: usize,
    },
    /// No token is this byte.
    #[error("no token is the single byte 0x{byte:02x}")]
    MissingByte {
        /// The byte.
        byte: u8,
    },
    /// There are not as many priorities as merges.
    #[error("there are {priorities} priorities and {merges} merges")]
    PrioritiesLength {
        /// The number of priorities.
        priorities: usize,
        /// The number of merges.
        merges: usize,
    },
    /// A merge has the priority of another one, or follows one that can only apply later.
    #[error(
        "merge {merge} has the priority {priority}, which is taken or belongs before merge {merge}"
    )]
    PriorityOrder {
        /// The merge.
        merge: usize,
        /// Its priority.
        priority: u32,
    },
    /// The parts of pairs are not an even number.
    #[error("there are {number} parts of pairs: it must be an even number")]
    OddParts {
        /// The number of parts.
        number: usize,
    },
    /// The bytes of an id exceed the limit.
    #[error("token {token} has {bytes} bytes: the limit is {MAX_TOKEN_BYTES}")]
    TokenTooLong {
        /// Its id.
        token: usize,
        /// Its bytes.
        bytes: usize,
    },
    /// The name of a special token exceeds the limit.
    #[error("special token {token} has a name of {bytes} bytes: the limit is {MAX_NAME_BYTES}")]
    NameTooLong {
        /// Its id.
        token: u32,
        /// Bytes of its name.
        bytes: usize,
    },
    /// The bytes of all ids together exceed the limit.
    #[error("tokens up to {token} have {bytes} bytes: the limit is {MAX_VOCABULARY_BYTES}")]
    VocabularyTooLarge {
        /// The id with which they exceed the limit.
        token: usize,
        /// Bytes of all ids up to it.
        bytes: usize,
    },
    /// The ids do not fit the requested width.
    #[error("{number} token ids do not fit: the limit is {limit}, ask for wide ids")]
    TooManyTokens {
        /// The highest id plus one.
        number: usize,
        /// The number of ids that fit.
        limit: usize,
    },
    /// An id that is not a token.
    #[error("Invalid token for decoding: {id}{}", in_row(*row))]
    UnknownToken {
        /// The id.
        id: u32,
        /// The index of its row, if there are rows.
        row: Option<usize>,
    },
    /// The bytes of all ids, including names of special tokens, are 4 GiB or more.
    #[error("the bytes of all ids pass 4 GiB")]
    SpellingsTooLarge,
    /// A needle is empty.
    #[error("a text to look for is empty")]
    EmptyNeedle,
    /// The needles cannot be compiled into one searcher.
    #[error("cannot search for these texts: {reason}")]
    Needles {
        /// The message of the searcher.
        reason: String,
    },
    /// A span is in no text, or spans are not in the order of their texts.
    #[error("a span is in text {text}, which does not exist or is before that of another span")]
    SpanOfNoText {
        /// The index of the text.
        text: i64,
    },
    /// A normalizer replaces an empty text.
    #[error("a normalizer replaces an empty text")]
    EmptyReplaced,
    /// The compiler has other tables for lower case than the library tokenizers.
    #[error("the core has Unicode {found} for lower case, but tokenizers has {wanted}")]
    LowercaseTables {
        /// The version of the compiler.
        found: u8,
        /// The version that is needed.
        wanted: u8,
    },
    /// The caller stopped the call.
    #[error("stopped by the caller")]
    Stopped,
}

impl Error {
    /// The error of a batch in which `number` documents come before those of this error.
    #[must_use]
    pub fn after_documents(self, number: usize) -> Self {
        match self {
            Self::Split { document, offset, reason } => {
                Self::Split { document: number + document, offset, reason }
            }
            other => other,
        }
    }
}

/// What is wrong with the rows of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunProblem {
    /// A row is smaller than the previous one, or repeats its span although repeats are refused.
    #[error("rows are not sorted by (hash64, span), or a span is repeated")]
    OutOfOrder {
        /// The index of the row.
        row: usize,
    },
    /// A hash64 is not the hash of its span.
    #[error("the hash64 of span \"{}\" is not the hash of its bytes", Shown(span))]
    Hash {
        /// The span.
        span: Vec<u8>,
    },
    /// A span has no occurrence.
    #[error("the count of span \"{}\" is 0", Shown(span))]
    NoCount {
        /// The span.
        span: Vec<u8>,
    },
}

/// The reason why a document cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GaveUp {
    /// The regex engine exceeded its limit of backtracking steps.
    #[error("the regex engine passed its limit of backtracking steps")]
    Backtracking,
    /// The regex engine ran out of stack.
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

/// The first bytes of a span.
struct Shown<'b>(&'b [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0[..self.0.len().min(SHOWN_BYTES)].escape_ascii();
        write!(f, "{shown}{}", if self.0.len() > SHOWN_BYTES { "..." } else { "" })
    }
}
