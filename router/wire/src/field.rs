//! Reading and writing a field of a header: big-endian, and never a panic.
//!
//! A read outside the buffer gives zero and a write outside is lost. After a `new_checked` in the
//! same function the optimiser sees that neither can happen and drops the branch.

/// A range of bytes: `(first, one past the last)`.
pub(crate) type Field = core::ops::Range<usize>;

#[inline(always)]
pub(crate) fn array<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    match data.get(at..).and_then(<[u8]>::first_chunk::<N>) {
        Some(bytes) => *bytes,
        None => [0; N],
    }
}

#[inline(always)]
pub(crate) fn u8(data: &[u8], at: usize) -> u8 {
    data.get(at).copied().unwrap_or(0)
}

#[inline(always)]
pub(crate) fn u16(data: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(data, at))
}

#[inline(always)]
pub(crate) fn u32(data: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(data, at))
}

/// The bytes of `range`, or nothing if they are not all there.
#[inline(always)]
pub(crate) fn slice(data: &[u8], range: Field) -> &[u8] {
    data.get(range).unwrap_or(&[])
}

/// The bytes of `range` to write to, or nothing if they are not all there.
#[inline(always)]
pub(crate) fn slice_mut(data: &mut [u8], range: Field) -> &mut [u8] {
    data.get_mut(range).unwrap_or(&mut [])
}

#[inline(always)]
pub(crate) fn put<const N: usize>(data: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(bytes) = data.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<N>) {
        *bytes = value;
    }
}

#[inline(always)]
pub(crate) fn put_u8(data: &mut [u8], at: usize, value: u8) {
    put(data, at, [value]);
}

#[inline(always)]
pub(crate) fn put_u16(data: &mut [u8], at: usize, value: u16) {
    put(data, at, value.to_be_bytes());
}

#[inline(always)]
pub(crate) fn put_u32(data: &mut [u8], at: usize, value: u32) {
    put(data, at, value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_reads_zero_and_writes_nothing() {
        let mut data = [1, 2, 3];
        assert_eq!(u8(&data, 3), 0);
        assert_eq!(u16(&data, 1), 0x0203);
        assert_eq!(u16(&data, 2), 0);
        assert_eq!(u32(&data, usize::MAX), 0);
        assert_eq!(slice(&data, 2..4), &[] as &[u8]);
        put_u16(&mut data, 2, 0xffff);
        put_u32(&mut data, usize::MAX, 7);
        assert_eq!(data, [1, 2, 3]);
        put_u16(&mut data, 1, 0xa0b0);
        assert_eq!(data, [1, 0xa0, 0xb0]);
    }
}
