//! The types that training rows may have.

/// An integer that ids become.
pub trait Target: Copy + From<u16> {
    /// The target that no loss is taken of.
    const IGNORED: Self;
    /// The largest id it holds.
    const MOST: u32;

    /// The id, which is no larger than `MOST`.
    fn from_wide(id: u32) -> Self;

    /// This, or -1 where the mask is 0; without a branch, as masks are hard to foresee.
    #[must_use]
    fn masked(self, mask: u8) -> Self;
}

impl Target for i32 {
    const IGNORED: Self = -1;
    const MOST: u32 = Self::MAX.cast_unsigned();

    fn from_wide(id: u32) -> Self {
        id.cast_signed()
    }

    fn masked(self, mask: u8) -> Self {
        self | -Self::from(mask == 0)
    }
}

impl Target for i64 {
    const IGNORED: Self = -1;
    const MOST: u32 = u32::MAX;

    fn from_wide(id: u32) -> Self {
        id.into()
    }

    fn masked(self, mask: u8) -> Self {
        self | -Self::from(mask == 0)
    }
}
