//! The types that training rows may have.

/// An integer that ids become.
pub trait Target: Copy + From<u16> {
    /// The target that no loss is taken of.
    const IGNORED: Self;
    /// The largest id it holds.
    const MOST: u32;

    /// The id, which is no larger than `MOST`.
    fn from_wide(id: u32) -> Self;
}

impl Target for i32 {
    const IGNORED: Self = -1;
    const MOST: u32 = Self::MAX.cast_unsigned();

    fn from_wide(id: u32) -> Self {
        id.cast_signed()
    }
}

impl Target for i64 {
    const IGNORED: Self = -1;
    const MOST: u32 = u32::MAX;

    fn from_wide(id: u32) -> Self {
        id.into()
    }
}
