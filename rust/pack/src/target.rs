//! The integer types of training rows.

/// An integer type of inputs and targets.
pub trait Target: Copy + From<u16> {
    /// The target that is ignored by the loss.
    const IGNORED: Self;
    /// The largest id of the type.
    const MAX: u32;

    /// The id, which must be at most `MAX`.
    fn from_wide(id: u32) -> Self;

    /// The value, or -1 if the mask is 0; without a branch, since masks are unpredictable.
    #[must_use]
    fn masked(self, mask: u8) -> Self;
}

impl Target for i32 {
    const IGNORED: Self = -1;
    const MAX: u32 = Self::MAX.cast_unsigned();

    fn from_wide(id: u32) -> Self {
        id.cast_signed()
    }

    fn masked(self, mask: u8) -> Self {
        self | -Self::from(mask == 0)
    }
}

impl Target for i64 {
    const IGNORED: Self = -1;
    const MAX: u32 = u32::MAX;

    fn from_wide(id: u32) -> Self {
        id.into()
    }

    fn masked(self, mask: u8) -> Self {
        self | -Self::from(mask == 0)
    }
}
