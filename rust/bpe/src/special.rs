//! Counts occurrences of texts in documents, to report names of special tokens in text (which stay
//! text).

use aho_corasick::{AhoCorasick, MatchKind};
use memchr::memmem;

use crate::{Documents, Error, MAX_NAME_BYTES};

/// Limit of the bytes of all needles: building a searcher takes dozens of times as much memory, and
/// time that is quadratic in the length of each.
const MAX_NEEDLE_BYTES: usize = 1 << 20;

/// A searcher for a set of texts.
#[derive(Debug, Clone)]
pub struct Needles(AhoCorasick);

impl Needles {
    /// Builds a searcher for `needles`, for use with many texts.
    ///
    /// # Errors
    ///
    /// Fails if a needle is empty or longer than [`MAX_NAME_BYTES`], or if the needles have too many
    /// bytes together.
    pub fn new<N: AsRef<[u8]>>(needles: &[N]) -> Result<Self, Error> {
        check_needles(needles)?;
        let searcher = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(needles);
        searcher.map(Self).map_err(|error| Error::Needles { reason: error.to_string() })
    }

    /// Number of occurrences of needles in `text`: leftmost, the longest at a position, never
    /// overlapping. Linear in the bytes.
    pub fn count(&self, text: &[u8]) -> u64 {
        self.0.find_iter(text).count() as u64
    }
}

/// Checks that texts are not empty and not too many for a searcher.
pub(crate) fn check_needles<N: AsRef<[u8]>>(needles: &[N]) -> Result<(), Error> {
    if needles.iter().any(|needle| needle.as_ref().is_empty()) {
        return Err(Error::EmptyNeedle);
    }
    let lengths = needles.iter().map(|needle| needle.as_ref().len());
    let (longest, bytes) = (lengths.clone().max().unwrap_or(0), lengths.sum::<usize>());
    if longest > MAX_NAME_BYTES || bytes > MAX_NEEDLE_BYTES {
        return Err(Error::Needles {
            reason: format!(
                "they have {bytes} bytes, the longest {longest}: the limits are \
                 {MAX_NEEDLE_BYTES} and {MAX_NAME_BYTES}"
            ),
        });
    }
    Ok(())
}

/// Number of occurrences of `needles` in the documents, each on its own, like [`Needles::count`].
///
/// # Errors
///
/// Fails as [`Needles::new`] does.
pub fn count_occurrences<N: AsRef<[u8]>>(
    documents: Documents<'_>,
    needles: &[N],
) -> Result<u64, Error> {
    // Most texts do not contain the common prefix of all needles, and searching for it is faster
    // than building the searcher.
    if memmem::find(documents.all(), common_prefix(needles)).is_none() {
        return Ok(0);
    }
    let needles = Needles::new(needles)?;
    Ok((0..documents.len()).map(|document| needles.count(documents.get(document))).sum())
}

fn common_prefix<N: AsRef<[u8]>>(needles: &[N]) -> &[u8] {
    let Some((first, others)) = needles.split_first() else { return &[] };
    others.iter().fold(first.as_ref(), |prefix, other| {
        let equal = prefix.iter().zip(other.as_ref()).take_while(|(a, b)| a == b).count();
        &prefix[..equal]
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(needles: &[&str], text: &str, expected: u64) {
        let offsets = [0, i64::try_from(text.len()).unwrap()];
        let documents = Documents::new(text.as_bytes(), &offsets).unwrap();
        assert_eq!(count_occurrences(documents, needles), Ok(expected), "{needles:?} in {text:?}");
    }

    #[test]
    fn occurrences_are_leftmost_longest_and_never_overlap() {
        check(&[], "abc", 0);
        check(&["<|bos|>"], "", 0);
        check(&["<|bos|>"], "<|bos|><|bos|> <|bos>", 2);
        check(&["aa"], "aaaaa", 2);
        check(&["a", "ab"], "abab", 2);
        check(&["ab", "a"], "aab", 2);
    }

    /// Compares each needle at each position.
    fn plain_count(needles: &[String], text: &str) -> u64 {
        let (mut at, mut count) = (0, 0);
        while at < text.len() {
            let found = needles.iter().filter(|needle| text[at..].starts_with(needle.as_str()));
            let longest = found.map(String::len).max();
            count += u64::from(longest.is_some());
            at += longest.unwrap_or(1);
        }
        count
    }

    proptest! {
        #[test]
        fn counts_equal_the_reference(
            prefix in "(<\\|)?", endings in prop::collection::vec("[ab<|]{1,3}", 1..4), text in "[ab<|]{0,40}",
        ) {
            let needles: Vec<String> = endings.iter().map(|ending| format!("{prefix}{ending}")).collect();
            let offsets = [0, i64::try_from(text.len()).unwrap()];
            let documents = Documents::new(text.as_bytes(), &offsets).unwrap();
            prop_assert_eq!(count_occurrences(documents, &needles), Ok(plain_count(&needles, &text)));
        }
    }

    #[test]
    fn an_occurrence_does_not_cross_documents() {
        let documents = Documents::new(b"abab", &[0, 1, 4]).unwrap();
        assert_eq!(count_occurrences(documents, &["ab"]), Ok(1));
    }

    #[test]
    fn an_empty_needle_is_refused() {
        let documents = Documents::new(b"", &[0]).unwrap();
        assert_eq!(count_occurrences(documents, &[""]), Err(Error::EmptyNeedle));
    }

    #[test]
    fn needles_of_too_many_bytes_are_refused() {
        let long = "a".repeat(MAX_NAME_BYTES);
        assert!(Needles::new(&[&long]).is_ok());
        for (needles, sizes) in [
            (vec![format!("{long}b")], "1025 bytes, the longest 1025"),
            (
                (0..1024).map(|n| format!("{n:01024}")).chain(["b".into()]).collect(),
                "1048577 bytes, the longest 1024",
            ),
        ] {
            let message = Needles::new(&needles).unwrap_err().to_string();
            assert!(message.contains(sizes), "{message}");
        }
    }
}
