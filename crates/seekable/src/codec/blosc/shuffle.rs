//! The inverse shuffles of Blosc.
//!
//! Byte shuffle stores a block as one plane for each byte of the element: all first bytes, all second bytes,
//! and so on. Bytes after the last whole element follow unchanged. Bit shuffle does this with bits: there are
//! eight rows for each byte of the element, lowest bit first. A row holds one bit of each element, packed
//! from the lowest bit of a byte up. Bits are only shuffled if the number of elements is a multiple of eight;
//! any other block stays unchanged.
//!
//! Bits are unshuffled in three steps, all in wide registers. First the eight rows of a byte are interleaved
//! like the planes of an eight-byte element, which brings the 8 × 8 bits of eight elements together. Then
//! these bits are transposed. The results are the planes of the byte shuffle.

/// Number of elements interleaved at a time.
const TILE: usize = 256;

/// Undoes the byte shuffle of a block of elements of `typesize` bytes; both slices have equal lengths.
pub(super) fn unshuffle_bytes(typesize: usize, shuffled: &[u8], out: &mut [u8]) {
    match typesize {
        2 => interleave::<2>(shuffled, out),
        4 => interleave::<4>(shuffled, out),
        8 => interleave::<8>(shuffled, out),
        16 => interleave::<16>(shuffled, out),
        0 | 1 => out.copy_from_slice(shuffled),
        _ if typesize.is_multiple_of(4) => scatter::<4>(typesize, shuffled, out),
        _ if typesize.is_multiple_of(2) => scatter::<2>(typesize, shuffled, out),
        _ => scatter::<1>(typesize, shuffled, out),
    }
}

/// Undoes the bit shuffle of a block of elements of `typesize` bytes; both slices have equal lengths.
///
/// `planes` is scratch space of any length.
pub(super) fn unshuffle_bits(typesize: usize, shuffled: &[u8], out: &mut [u8], planes: &mut Vec<u8>) {
    let count = shuffled.len().checked_div(typesize).unwrap_or(0);
    if count == 0 || !count.is_multiple_of(8) {
        out.copy_from_slice(shuffled);
        return;
    }
    let (rows, rest) = shuffled.split_at(count * typesize);
    let (elements, tail) = out.split_at_mut(count * typesize);
    if typesize == 1 {
        rows_to_plane(rows, elements);
    } else {
        if planes.len() < rows.len() {
            planes.resize(rows.len(), 0);
        }
        let planes = &mut planes[..rows.len()];
        for (plane_rows, plane) in rows.chunks_exact(count).zip(planes.chunks_exact_mut(count)) {
            rows_to_plane(plane_rows, plane);
        }
        unshuffle_bytes(typesize, planes, elements);
    }
    tail.copy_from_slice(rest);
}

/// Turns the eight rows of bits of one byte of the element into its plane of bytes.
fn rows_to_plane(rows: &[u8], plane: &mut [u8]) {
    interleave::<8>(rows, plane);
    for eight in plane.chunks_exact_mut(8) {
        if let Ok(bits) = <&mut [u8; 8]>::try_from(eight) {
            *bits = transpose(u64::from_le_bytes(*bits)).to_le_bytes();
        }
    }
}

/// Swaps bit `b` of byte `a` with bit `a` of byte `b`, recursively by halves (Hacker's Delight, 7-3).
fn transpose(mut x: u64) -> u64 {
    let mut swap = |shift: u32, mask: u64| {
        let t = (x ^ (x >> shift)) & mask;
        x ^= t ^ (t << shift);
    };
    swap(7, 0x00aa_00aa_00aa_00aa);
    swap(14, 0x0000_cccc_0000_cccc);
    swap(28, 0x0000_0000_f0f0_f0f0);
    x
}

/// Interleaves `T` planes, for `T` in 2, 4, 8 and 16; bytes after the last whole element are copied.
fn interleave<const T: usize>(planes: &[u8], out: &mut [u8]) {
    let count = planes.len() / T;
    let (planes, rest) = planes.split_at(count * T);
    let (elements, tail) = out.split_at_mut(count * T);
    tail.copy_from_slice(rest);
    let mut one = [[0; TILE]; T];
    let mut other = [[0; TILE]; T];
    for (tile, out_tile) in elements.chunks_mut(T * TILE).enumerate() {
        let streams = planes.chunks_exact(count).map(|plane| &plane[tile * TILE..]);
        weave_tile(streams, out_tile, &mut one, &mut other);
    }
}

/// Interleaves the planes of elements of any size, `G` at a time; bytes after the last whole element are
/// copied.
fn scatter<const G: usize>(typesize: usize, planes: &[u8], out: &mut [u8]) {
    let count = planes.len() / typesize;
    let (planes, rest) = planes.split_at(count * typesize);
    let (elements, tail) = out.split_at_mut(count * typesize);
    tail.copy_from_slice(rest);
    let mut one = [[0; TILE]; G];
    let mut other = [[0; TILE]; G];
    let mut woven = [[0; TILE]; G];
    // Without elements there is no tile, so neither `count` nor a tile's width is 0 below.
    for (tile, out_tile) in elements.chunks_mut(typesize * TILE).enumerate() {
        let woven = &mut woven.as_flattened_mut()[..out_tile.len() / typesize * G];
        for (group, group_planes) in planes.chunks_exact(G * count).enumerate() {
            let streams = group_planes.chunks_exact(count).map(|plane| &plane[tile * TILE..]);
            weave_tile(streams, woven, &mut one, &mut other);
            for (element, item) in out_tile.chunks_exact_mut(typesize).zip(woven.as_chunks::<G>().0) {
                element[group * G..][..G].copy_from_slice(item);
            }
        }
    }
}

/// Interleaves `T` streams, each a plane of bytes from some element on. Fills `out`, which is at most a tile,
/// with the elements.
///
/// Neighbouring streams are merged pairwise until one is left. The compiler emits the machine's interleave
/// instruction for each merge. Assembling all bytes of an element at once would prevent this and is four
/// times slower.
///
/// `one` and `other` hold intermediate results. As separate arguments they can't overlap, which the compiler
/// needs to know.
fn weave_tile<'a, const T: usize>(
    streams: impl Iterator<Item = &'a [u8]>,
    out: &mut [u8],
    one: &mut [[u8; TILE]; T],
    other: &mut [[u8; TILE]; T],
) {
    let width = out.len() / T;
    let one = &mut one.as_flattened_mut()[..T * width];
    let other = &mut other.as_flattened_mut()[..T * width];
    for (to, stream) in one.chunks_exact_mut(width).zip(streams) {
        to.copy_from_slice(&stream[..width]);
    }
    match T {
        1 => out.copy_from_slice(one),
        2 => weave::<1>(one, out, width),
        4 => {
            weave::<1>(one, other, width);
            weave::<2>(other, out, width);
        }
        8 => {
            weave::<1>(one, other, width);
            weave::<2>(other, one, width);
            weave::<4>(one, out, width);
        }
        _ => {
            weave::<1>(one, other, width);
            weave::<2>(other, one, width);
            weave::<4>(one, other, width);
            weave::<8>(other, out, width);
        }
    }
}

/// Merges each pair of neighbouring streams of `width` items of `N` bytes into one stream with items of `2 N`
/// bytes.
#[inline(always)]
fn weave<const N: usize>(streams: &[u8], out: &mut [u8], width: usize) {
    let len = width * N;
    for (pair, merged) in streams.chunks_exact(2 * len).zip(out.chunks_exact_mut(2 * len)) {
        let (one, other) = pair.split_at(len);
        let items = one.as_chunks::<N>().0.iter().zip(other.as_chunks::<N>().0);
        let (places, _) = merged.as_chunks_mut::<N>();
        for (place, (left, right)) in places.as_chunks_mut::<2>().0.iter_mut().zip(items) {
            *place = [*left, *right];
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Defines the byte shuffle, byte by byte.
    pub(in super::super) fn shuffle_bytes(typesize: usize, data: &[u8]) -> Vec<u8> {
        let count = data.len() / typesize;
        let mut out = data.to_vec();
        for element in 0..count {
            for byte in 0..typesize {
                out[byte * count + element] = data[element * typesize + byte];
            }
        }
        out
    }

    /// Defines the bit shuffle, bit by bit.
    pub(in super::super) fn shuffle_bits(typesize: usize, data: &[u8]) -> Vec<u8> {
        let count = data.len() / typesize;
        let mut out = data.to_vec();
        if !count.is_multiple_of(8) {
            return out;
        }
        out[..count * typesize].fill(0);
        for element in 0..count {
            for bit in 0..typesize * 8 {
                let set = data[element * typesize + bit / 8] >> (bit % 8) & 1;
                out[bit * (count / 8) + element / 8] |= set << (element % 8);
            }
        }
        out
    }

    fn typesize() -> impl Strategy<Value = usize> {
        prop_oneof![Just(1), Just(2), Just(4), Just(8), Just(16), 1usize..=255]
    }

    proptest! {
        #[test]
        fn bytes_come_back(typesize in typesize(), data in proptest::collection::vec(any::<u8>(), 0..3000)) {
            let mut out = vec![0; data.len()];
            unshuffle_bytes(typesize, &shuffle_bytes(typesize, &data), &mut out);
            prop_assert_eq!(out, data);
        }

        #[test]
        fn bits_come_back(
            typesize in typesize(),
            eights in 0usize..20,
            odd in 0usize..20,
            seed in proptest::collection::vec(any::<u8>(), 64),
        ) {
            let data: Vec<u8> = (0..eights * 8 * typesize + odd).map(|i| seed[i % 61].wrapping_mul(i as u8)).collect();
            let mut out = vec![0; data.len()];
            let mut planes = vec![7; odd];
            unshuffle_bits(typesize, &shuffle_bits(typesize, &data), &mut out, &mut planes);
            prop_assert_eq!(out, data);
        }
    }

    #[test]
    fn bits_of_an_odd_number_of_elements_stay_as_they_are() {
        let data: Vec<u8> = (0..36).collect();
        let mut out = vec![0; data.len()];
        unshuffle_bits(4, &data, &mut out, &mut vec![]);
        assert_eq!(out, data);
    }

    #[test]
    fn a_block_shorter_than_an_element_is_copied() {
        for typesize in [2, 3, 4, 8, 16, 255] {
            let mut out = [0];
            unshuffle_bytes(typesize, &[9], &mut out);
            assert_eq!(out, [9]);
            unshuffle_bits(typesize, &[7], &mut out, &mut vec![]);
            assert_eq!(out, [7]);
        }
    }
}
