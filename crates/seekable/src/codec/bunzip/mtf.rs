//! Move-to-front: a byte is coded as its index in a list that has the previous byte at its front.

/// Number of bytes at the front that are moved as one number.
const NEAR: usize = 16;

/// The list of byte values.
#[derive(Clone, Debug)]
pub(super) struct MoveToFront([u8; 256]);

impl MoveToFront {
    /// Returns the list at the start of a block: the values that occur, in order.
    pub(super) fn new(values: [u8; 256]) -> Self {
        Self(values)
    }

    /// Returns the byte at the front.
    #[inline(always)]
    pub(super) fn front(&self) -> u8 {
        self.0[0]
    }

    /// Moves the byte at `position` to the front and returns it.
    #[inline(always)]
    pub(super) fn take(&mut self, position: u8) -> u8 {
        let position = usize::from(position);
        let byte = self.0[position];
        if position < NEAR {
            if let Some(near) = self.0.first_chunk_mut::<NEAR>() {
                let list = u128::from_le_bytes(*near);
                // Two shifts, because `position + 1` may be the full width of the list.
                let behind = list & (u128::MAX << (8 * position) << 8);
                let before = list & !(u128::MAX << (8 * position));
                *near = (behind | before << 8 | u128::from(byte)).to_le_bytes();
            }
        } else {
            self.0.copy_within(..position, 1);
            self.0[0] = byte;
        }
        byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_what_a_list_does() {
        let mut ours = MoveToFront::new(std::array::from_fn(|i| i as u8 ^ 0x55));
        let mut list: Vec<u8> = (0..=255u8).map(|i| i ^ 0x55).collect();
        let mut seed = 1u32;
        for round in 0..20_000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let position = (seed >> 24) as u8 >> (round % 8);
            let byte = list.remove(usize::from(position));
            list.insert(0, byte);
            assert_eq!(ours.take(position), byte);
            assert_eq!(ours.front(), byte);
            assert_eq!(ours.0[..], list[..], "after position {position}");
        }
    }
}
