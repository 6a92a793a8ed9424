//! The forms of Unicode and lower case: a table of calm characters for each, and the changes of the
//! others by the library.

use std::iter::once;
use std::sync::OnceLock;

use nanotok_memory as memory;
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};
use unicode_normalization_alignments::{
    IsNormalized, UnicodeNormalization, char as unicode, is_nfc_quick, is_nfkc_quick,
};

use crate::normalize::append;
use crate::split::{Classes, FirstBytes, Sets};

/// A calm character.
pub(super) const CALM: Sets = 1;

/// A quiet mark: unchanged on its own, of a class that is not 0, and combines with nothing before it.
pub(super) const MARK: Sets = 2;

/// Any other character.
const ACTIVE: Sets = 4;

/// Bytes of a run whose buffers are not small.
const LONG_RUN: usize = 1 << 16;

/// A change of characters that depends on their neighbors only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Lower,
}

/// The calm characters of a form.
#[derive(Debug)]
struct Table {
    classes: Classes,
    /// The first bytes of characters that are not calm.
    changing: FirstBytes,
    /// The first bytes of calm characters.
    calm: FirstBytes,
}

/// By form, made when it is first used.
static TABLES: [OnceLock<Table>; 5] = [const { OnceLock::new() }; 5];

impl Form {
    /// The changed text, if it differs.
    pub(super) fn changed(self, text: &str) -> Option<String> {
        let table = TABLES[self as usize].get_or_init(|| Table::new(self));
        let bytes = text.as_bytes();
        let (mut out, mut copied, mut at) = (None, 0, 0);
        loop {
            let found = table.classes.find(bytes, at, MARK | ACTIVE, &table.changing);
            if found == text.len() {
                break;
            }
            let (sets, next) = table.classes.at(bytes, found);
            if sets == MARK && (next == text.len() || table.classes.at(bytes, next).0 == CALM) {
                at = next;
                continue;
            }
            // The character before it is calm, unless it is in front of `at`.
            let start =
                text[at..found].char_indices().next_back().map_or(found, |(last, _)| at + last);
            let end = table.classes.find(bytes, found, CALM, &table.calm);
            let run = &text[start..end];
            check_run(run);
            if !self.is_same(run) {
                let out = out.get_or_insert_with(String::new);
                append(out, &text[copied..start]);
                self.append_changed(run, out);
                copied = end;
            }
            at = end;
        }
        out.map(|mut out| {
            append(&mut out, &text[copied..]);
            out
        })
    }

    fn is_same(self, run: &str) -> bool {
        let mut left = run.chars();
        let mut same = true;
        self.visit(run, |character| same &= left.next() == Some(character));
        same && left.next().is_none()
    }

    fn append_changed(self, run: &str, out: &mut String) {
        let mut bytes = [0; 4];
        self.visit(run, |character| append(out, character.encode_utf8(&mut bytes)));
    }

    /// Calls `visit` with each character of the changed text, by the library alone.
    pub(super) fn visit(self, text: &str, mut visit: impl FnMut(char)) {
        match self {
            Self::Nfc => text.nfc().for_each(|(character, _)| visit(character)),
            Self::Nfd => text.nfd().for_each(|(character, _)| visit(character)),
            Self::Nfkc => text.nfkc().for_each(|(character, _)| visit(character)),
            Self::Nfkd => text.nfkd().for_each(|(character, _)| visit(character)),
            Self::Lower => text.chars().flat_map(char::to_lowercase).for_each(visit),
        }
    }

    /// The set of a character.
    pub(super) fn set_of(self, character: char) -> Sets {
        let mut bytes = [0; 4];
        let alone = self.is_same(character.encode_utf8(&mut bytes));
        let mut first = None;
        let mut keep = |decomposed| {
            first.get_or_insert(decomposed);
        };
        let combines = |quick: IsNormalized| quick != IsNormalized::Yes;
        match self {
            Self::Lower => return if alone { CALM } else { ACTIVE },
            Self::Nfc | Self::Nfd => unicode::decompose_canonical(character, &mut keep),
            Self::Nfkc | Self::Nfkd => unicode::decompose_compatible(character, &mut keep),
        }
        let first = first.unwrap_or(character);
        let combines = match self {
            Self::Nfc => combines(is_nfc_quick(once(first))),
            Self::Nfkc => combines(is_nfkc_quick(once(first))),
            _ => false,
        };
        match unicode::canonical_combining_class(first) {
            _ if !alone || combines => ACTIVE,
            0 => CALM,
            _ => MARK,
        }
    }
}

/// Checks that the library can buffer a long run: 12 bytes a character, up to three times.
fn check_run(run: &str) {
    if run.len() > LONG_RUN {
        memory::check_room::<[u64; 4]>(run.len());
    }
}

impl Table {
    /// Takes about 50 ms.
    fn new(form: Form) -> Self {
        let mut ranges = [const { Vec::new() }; 3];
        let mut add = |begin, end, set| {
            ranges[(set >> 1) as usize].push(ClassUnicodeRange::new(begin, end));
        };
        let (mut begin, mut before) = ('\0', '\0');
        let mut set = form.set_of(begin);
        for character in '\u{1}'..=char::MAX {
            let own = form.set_of(character);
            if own != set {
                add(begin, before, set);
                (begin, set) = (character, own);
            }
            before = character;
        }
        add(begin, before, set);
        let [calm, mark, active] = ranges.map(ClassUnicode::new);
        let classes = Classes::new(&[(CALM, &calm), (MARK, &mark), (ACTIVE, &active)]);
        let (changing, calm) = (classes.first_bytes(MARK | ACTIVE), classes.first_bytes(CALM));
        Self { classes, changing, calm }
    }
}
