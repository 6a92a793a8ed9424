//! The hash of the project: `xxh3_64` with seed 0. It orders count files, so a change requires a
//! new version of that format.

use nanotok_memory as memory;
use xxhash_rust::xxh3::xxh3_64;

use crate::Documents;

/// `xxh3_64` of `bytes` with seed 0.
#[inline]
pub fn hash64(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The [`hash64`] of each document.
pub fn hash_documents(documents: Documents<'_>) -> Vec<u64> {
    memory::collected((0..documents.len()).map(|index| hash64(documents.get(index))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_equal_the_published_algorithm() {
        assert_eq!(hash64(b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(hash64(b"a"), 0xe6c6_32b6_1e96_4e1f);
        let documents = Documents::new(b"xa", &[1, 2, 2]).unwrap();
        assert_eq!(hash_documents(documents), [hash64(b"a"), hash64(b"")]);
    }
}
