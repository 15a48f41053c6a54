//! Structs that programs and user space share, read and written byte by byte: no pointer is cast.

/// A value with a fixed layout, as C has it on the machine that runs it.
pub trait Raw: Sized {
    /// Bytes it occupies.
    const SIZE: usize;
    /// Reads it from the start of `bytes`; what is missing there reads as zero.
    fn read(bytes: &[u8]) -> Self;
    /// Appends it.
    fn write(&self, to: &mut Vec<u8>);
}

macro_rules! number {
    ($($type:ty)*) => { $(
        impl Raw for $type {
            const SIZE: usize = size_of::<$type>();
            #[inline]
            fn read(bytes: &[u8]) -> $type {
                bytes.first_chunk().map_or(0, |bytes| <$type>::from_ne_bytes(*bytes))
            }
            fn write(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_ne_bytes());
            }
        }
    )* };
}
number!(u8 u16 u32 u64 i32 i64);

impl<T: Raw + Copy, const N: usize> Raw for [T; N] {
    const SIZE: usize = T::SIZE * N;
    #[inline]
    fn read(bytes: &[u8]) -> [T; N] {
        std::array::from_fn(|at| T::read(bytes.get(at * T::SIZE..).unwrap_or(&[])))
    }
    fn write(&self, to: &mut Vec<u8>) {
        self.iter().for_each(|value| value.write(to));
    }
}

/// Declares a struct of `bpf/` for Rust. It must have no padding, which is checked when compiling; that it is laid out
/// as the C side has it is for a test (`LAYOUT`: name, offset and size of the fields; see `in_c`).
macro_rules! shared {
    ($(#[$doc:meta])* $vis:vis struct $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(C)]
        $vis struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        const _: () = assert!(size_of::<$name>() == 0 $(+ <$type as $crate::loader::Raw>::SIZE)*, "padding");

        impl $name {
            /// Name, offset and size of each field.
            #[cfg(test)]
            pub const LAYOUT: &'static [(&'static str, usize, usize)] =
                &[$((stringify!($field), std::mem::offset_of!($name, $field), <$type as $crate::loader::Raw>::SIZE),)*];
        }

        impl $crate::loader::Raw for $name {
            const SIZE: usize = size_of::<$name>();
            #[inline]
            fn read(bytes: &[u8]) -> $name {
                $name {
                    $($field: $crate::loader::Raw::read(
                        bytes.get(std::mem::offset_of!($name, $field)..).unwrap_or(&[])
                    ),)*
                }
            }
            fn write(&self, to: &mut Vec<u8>) {
                $($crate::loader::Raw::write(&self.$field, to);)*
            }
        }
    };
}
pub(crate) use shared;

#[cfg(test)]
mod tests {
    use super::*;

    shared! {
        /// For the test.
        struct Sample { big: u64, signed: i32, letters: [u8; 4], pair: [u64; 2], }
    }

    #[test]
    fn what_is_written_is_read() {
        let sample = Sample { big: u64::MAX - 1, signed: -5, letters: *b"abcd", pair: [7, 1 << 40] };
        let mut bytes = Vec::new();
        sample.write(&mut bytes);
        assert_eq!((bytes.len(), Sample::read(&bytes)), (Sample::SIZE, sample));
        assert_eq!(Sample::LAYOUT[2], ("letters", 12, 4));
        let cut = Sample::read(&bytes[..12]);
        assert_eq!((cut.big, cut.signed, cut.pair), (sample.big, sample.signed, [0, 0]), "short input is no panic");
    }
}
