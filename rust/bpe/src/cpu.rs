//! The CPU level: portable code, AVX2 or AVX-512, from the CPU's features and the environment. All
//! levels return the same results.

use std::fmt;
use std::sync::OnceLock;

use crate::Error;

pub(crate) mod planes;
pub(crate) mod simd;

/// The environment variable that forces a level.
pub(crate) const VARIABLE: &str = "NANOTOK_CPU";

/// A set of vector instructions, in increasing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No vector instructions beyond those of every CPU of the architecture.
    Portable,
    /// AVX2 with BMI: Haswell, Zen, and later.
    Avx2,
    /// AVX-512 with BW, VL, VBMI and VBMI2: Ice Lake, Zen 4, and later.
    Avx512,
}

impl Level {
    /// All levels in increasing order.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// Whether this CPU supports the level.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("lzcnt")
                    && is_x86_feature_detected!("popcnt")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vbmi")
                    && is_x86_feature_detected!("avx512vbmi2")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// The level that `NANOTOK_CPU` requires, otherwise the highest available one. Determined once
    /// per process.
    ///
    /// # Errors
    ///
    /// Fails if the variable is not a level, or one that this CPU does not support.
    pub fn in_use() -> Result<Self, Error> {
        static IN_USE: OnceLock<Result<Level, Error>> = OnceLock::new();
        IN_USE.get_or_init(|| Self::asked(std::env::var(VARIABLE).ok().as_deref())).clone()
    }

    fn asked(name: Option<&str>) -> Result<Self, Error> {
        let all = Self::ALL.into_iter();
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Ok(all.filter(|level| level.is_available()).max().unwrap_or(Self::Portable));
        };
        let unusable = |known| Error::CpuLevel { asked: name.to_owned(), known };
        let level = all.into_iter().find(|level| level.to_string() == name);
        let level = level.ok_or_else(|| unusable(false))?;
        if level.is_available() { Ok(level) } else { Err(unusable(true)) }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_level_is_used_unless_one_is_requested() {
        assert!(Level::asked(None).unwrap().is_available());
        assert_eq!(Level::asked(None), Level::asked(Some("")));
        assert_eq!(Level::asked(Some("portable")), Ok(Level::Portable));
    }

    #[test]
    fn an_unknown_level_is_an_error() {
        let error = Level::asked(Some("sse9")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "NANOTOK_CPU is \"sse9\": it must be portable, avx2 or avx512, or not be set"
        );
    }

    #[test]
    fn an_unavailable_level_is_an_error() {
        for level in Level::ALL {
            let asked = Level::asked(Some(&level.to_string()));
            assert_eq!(asked.is_ok(), level.is_available(), "{level}");
        }
    }
}
