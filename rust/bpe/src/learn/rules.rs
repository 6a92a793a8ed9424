//! The rules for new tokens: which pairs of neighbors can be merged at all.

use memchr::memmem::Finder;
use nanotok_memory as memory;
use rustc_hash::FxHashSet;

use crate::learn::Base;
use crate::{Error, MAX_VOCABULARY_BYTES, Merge};

/// The tokens so far, and the limits of new ones.
#[derive(Debug)]
pub(super) struct Rules {
    /// Length of each id in bytes.
    lengths: Vec<usize>,
    max_token_bytes: usize,
    /// The bytes of tokens, if learning continues a tokenizer.
    spelled: Option<Spelled>,
}

/// The bytes of each id, one after the other.
#[derive(Debug)]
struct Spelled {
    data: Vec<u8>,
    starts: Vec<usize>,
    /// The bytes of the tokens of the base, which no merge may make again.
    known: FxHashSet<Box<[u8]>>,
    /// The maximum number of words of a new token.
    max_words: usize,
    /// Finds the bytes that no new token contains.
    forbidden: Option<Finder<'static>>,
}

impl Rules {
    /// Rules for spans of single bytes.
    pub(super) fn of_bytes(max_token_bytes: usize) -> Self {
        Self { lengths: vec![1; 256], max_token_bytes, spelled: None }
    }

    /// Rules for spans of the ids of `base`.
    ///
    /// # Errors
    ///
    /// Fails if the tokens have too many bytes, or ids need more than 32 bits.
    pub(super) fn continuing(base: Base<'_>, max_token_bytes: usize) -> Result<Self, Error> {
        let tokens = base.tokens;
        let bytes = tokens.num_bytes(&(0..tokens.len()));
        if bytes > MAX_VOCABULARY_BYTES {
            return Err(Error::VocabularyTooLarge { token: tokens.len(), bytes });
        }
        if u32::try_from(tokens.len()).is_err() {
            return Err(Error::TooManyMerges { number: tokens.len() });
        }
        Ok(Self {
            lengths: memory::collected((0..tokens.len()).map(|id| tokens.get(id).len())),
            max_token_bytes,
            spelled: Some(Spelled::of(base)),
        })
    }

    /// Whether the spans consist of single bytes, with which no tokenizer begins.
    pub(super) fn are_of_bytes(&self) -> bool {
        self.spelled.is_none()
    }

    /// The number of ids.
    pub(super) fn num_ids(&self) -> usize {
        self.lengths.len()
    }

    /// Adds the id that a pair becomes.
    pub(super) fn add(&mut self, pair: Merge) {
        let length = self.joined_length(pair);
        memory::push(&mut self.lengths, length);
        if let Some(spelled) = &mut self.spelled {
            spelled.add(pair);
        }
    }

    /// Whether the pair can be merged, however often it occurs.
    pub(super) fn may_merge(&self, pair: Merge) -> bool {
        self.joined_length(pair) <= self.max_token_bytes
            && self.spelled.as_ref().is_none_or(|spelled| spelled.may_merge(pair))
    }

    /// The bytes of an id, unless it is that of a merge of bytes.
    pub(super) fn spelled(&self, id: u32) -> Option<Vec<u8>> {
        match &self.spelled {
            Some(spelled) => Some(spelled.get(id).to_vec()),
            None => u8::try_from(id).ok().map(|byte| vec![byte]),
        }
    }

    fn joined_length(&self, (left, right): Merge) -> usize {
        self.lengths[left as usize].saturating_add(self.lengths[right as usize])
    }
}

impl Spelled {
    fn of(base: Base<'_>) -> Self {
        let Base { tokens, superwords } = base;
        let forbidden = superwords.map(|it| it.forbidden).filter(|it| !it.is_empty());
        let first = tokens.start(0);
        let mut starts = memory::with_capacity(tokens.len() + 1);
        starts.extend((0..=tokens.len()).map(|id| tokens.start(id) - first));
        let all = (0..tokens.len()).map(|id| tokens.get(id));
        Self {
            data: memory::copied(tokens.all()),
            starts,
            known: all.map(Box::from).collect(),
            max_words: superwords.map_or(usize::MAX, |it| it.max_words),
            forbidden: forbidden.map(|bytes| Finder::new(bytes).into_owned()),
        }
    }

    fn get(&self, id: u32) -> &[u8] {
        &self.data[self.starts[id as usize]..self.starts[id as usize + 1]]
    }

    fn joined(&self, (left, right): Merge) -> Box<[u8]> {
        [self.get(left), self.get(right)].concat().into()
    }

    fn add(&mut self, pair: Merge) {
        let token = self.joined(pair);
        memory::append(&mut self.data, &token);
        memory::push(&mut self.starts, self.data.len());
    }

    fn may_merge(&self, pair: Merge) -> bool {
        let token = self.joined(pair);
        !self.known.contains(&token)
            && (self.max_words == usize::MAX || num_words(&token) <= self.max_words)
            && self.forbidden.as_ref().is_none_or(|finder| finder.find(&token).is_none())
    }
}

/// The number of parts between spaces that are not empty.
fn num_words(token: &[u8]) -> usize {
    token.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).count()
}
