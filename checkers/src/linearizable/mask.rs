//! A set of slots in `N` machine words.

/// Which slots are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Mask<const N: usize>([u64; N]);

impl<const N: usize> Mask<N> {
    pub(crate) const EMPTY: Self = Self([0; N]);

    #[inline]
    pub(crate) fn has(&self, slot: u32) -> bool {
        self.0[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    #[inline]
    pub(crate) fn set(&mut self, slot: u32) {
        self.0[slot as usize / 64] |= 1 << (slot % 64);
    }

    #[inline]
    pub(crate) fn clear(&mut self, slot: u32) {
        self.0[slot as usize / 64] &= !(1 << (slot % 64));
    }

    /// Slots `0..count`.
    pub(crate) fn first(count: usize) -> Self {
        let mut mask = Self::EMPTY;
        (0..count as u32).for_each(|slot| mask.set(slot));
        mask
    }

    #[inline]
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    #[inline]
    pub(crate) fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    #[inline]
    pub(crate) fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// Whether everything in it is in `other`.
    #[inline]
    pub(crate) fn within(&self, other: &Self) -> bool {
        (0..N).all(|i| self.0[i] & !other.0[i] == 0)
    }

    /// A hash of it and of two more numbers.
    #[inline]
    pub(crate) fn hash_with(&self, one: u32, other: u32) -> u64 {
        let mut x = (u64::from(one) << 32 | u64::from(other)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for word in self.0 {
            x = (x ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x ^= x >> 29;
        }
        x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 32
    }
}
