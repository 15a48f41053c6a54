//! What `bpf/texts.h` declares: records with texts behind them.

use crate::loader::shared;

/// Bits that say what is known of names, and what else follows a record.
pub mod named {
    pub const UNKNOWN: u8 = 1;
    pub const DELETED: u8 = 2;
    pub const PSEUDO: u8 = 4;
    pub const FILE: u8 = 8;
    pub const ENDS: u8 = 16;
    pub const ARGUMENTS: u8 = 32;
}

shared! {
    /// What starts the texts of a record that describes a process; behind it its arguments, each with a zero, and the names
    /// of its executable and its directory.
    pub struct About {
        number: u32,
        uid: u32,
        gid: u32,
        ppid: u32,
        parent: [u8; 16],
        arguments_len: u16,
        executable_len: u16,
        directory_len: u16,
        executable_named: u8,
        directory_named: u8,
    }
}

/// How long a command line may be; longer ones are cut.
pub const ABOUT_ARGUMENTS: usize = 4095;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::Raw;
    use crate::loader::in_c::{assert_layout, evaluate};

    #[test]
    fn structs_and_numbers_are_those_of_c() {
        assert_layout(&["texts.h"], "about", About::SIZE, About::LAYOUT);
        let ours = [
            (named::UNKNOWN.into(), "NAMED_UNKNOWN"),
            (named::DELETED.into(), "NAMED_DELETED"),
            (named::PSEUDO.into(), "NAMED_PSEUDO"),
            (named::FILE.into(), "NAMED_FILE"),
            (named::ENDS.into(), "NAMED_ENDS"),
            (named::ARGUMENTS.into(), "NAMED_ARGUMENTS"),
            (ABOUT_ARGUMENTS as u64, "ABOUT_ARGUMENTS"),
        ];
        let names: Vec<_> = ours.iter().map(|&(_, name)| name).collect();
        let numbers: Vec<_> = ours.iter().map(|&(number, _)| number).collect();
        assert_eq!(evaluate(&["texts.h"], &names), numbers);
    }
}
