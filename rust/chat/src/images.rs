//! The number of tokens of the images of a document, one image after the other, from the counts of
//! a document or one count for all.

use crate::declined::Declined;
use crate::json::Value;

/// Limit of the tokens of all images of a document; a line of JSON could request any number.
const MAX_TOKENS: u32 = 1 << 20;

/// The counts of the remaining images.
#[derive(Debug)]
pub(crate) struct Images {
    counts: Counts,
    /// The limit of the sum of these counts.
    room: u32,
}

#[derive(Debug)]
enum Counts {
    Each(u32),
    Listed(std::vec::IntoIter<u32>),
}

impl Images {
    /// Images with these counts; `None`: with `each` tokens, or one.
    pub(crate) fn new(counts: Option<Value<'_>>, each: Option<u32>) -> Result<Self, Declined> {
        let counts = match counts {
            None => Counts::Each(at_least_one(each.unwrap_or(1))?),
            Some(counts) => {
                let counts: Result<Vec<u32>, _> = counts.list()?.iter().map(count_of).collect();
                Counts::Listed(counts?.into_iter())
            }
        };
        Ok(Self { counts, room: MAX_TOKENS })
    }

    /// The number of tokens of the next image.
    pub(crate) fn next(&mut self) -> Result<u32, Declined> {
        let count = match &mut self.counts {
            Counts::Each(count) => *count,
            Counts::Listed(counts) => counts.next().ok_or(Declined)?,
        };
        self.room = self.room.checked_sub(count).ok_or(Declined)?;
        Ok(count)
    }

    /// Declines the document if counts remain.
    pub(crate) fn finish(&self) -> Result<(), Declined> {
        match &self.counts {
            Counts::Listed(counts) if counts.len() > 0 => Err(Declined),
            _ => Ok(()),
        }
    }
}

fn count_of(value: &Value<'_>) -> Result<u32, Declined> {
    match *value {
        Value::Integer(count) => at_least_one(u32::try_from(count).map_err(|_| Declined)?),
        _ => Err(Declined),
    }
}

fn at_least_one(count: u32) -> Result<u32, Declined> {
    if count > 0 { Ok(count) } else { Err(Declined) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(counts: Option<&str>, each: Option<u32>) -> Result<Images, Declined> {
        Images::new(counts.map(|json| Value::read(json.as_bytes()).unwrap()), each)
    }

    #[test]
    fn images_have_the_counts_of_the_document_or_one_for_all() {
        let first = |counts, each| images(counts, each).unwrap().next();
        assert_eq!(first(None, None), Ok(1));
        assert_eq!(first(None, Some(5)), Ok(5));
        assert_eq!(first(Some("[3]"), Some(5)), Ok(3));
        assert_eq!(first(Some("[]"), None), Err(Declined));
    }

    #[test]
    fn every_count_belongs_to_an_image() {
        let mut listed = images(Some("[3, 4]"), None).unwrap();
        assert_eq!((listed.next(), listed.finish()), (Ok(3), Err(Declined)));
        assert_eq!((listed.next(), listed.finish()), (Ok(4), Ok(())));
        assert_eq!(listed.next(), Err(Declined));
        assert_eq!(images(None, None).unwrap().finish(), Ok(()));
    }

    #[test]
    fn other_counts_are_declined() {
        for counts in ["4", "[0]", "[-1]", "[1.0]", "[true]", "[null]", "[4294967297]", "\"1\""] {
            assert!(images(Some(counts), None).is_err(), "{counts}");
        }
        assert!(images(None, Some(0)).is_err());
    }

    #[test]
    fn images_of_a_document_have_exactly_their_tokens() {
        let mut images = images(Some("[1048575, 1, 1]"), None).unwrap();
        assert_eq!([images.next(), images.next()], [Ok(MAX_TOKENS - 1), Ok(1)]);
        assert_eq!(images.next(), Err(Declined));
    }
}
