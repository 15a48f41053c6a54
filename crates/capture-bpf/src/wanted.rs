//! Of which threads the filter wants events, as the programs test it; the C side is `bpf/wanted.h`.

use crate::PushDown;
use crate::loader::shared;

/// How many processes and command names the programs test.
pub const PIDS: usize = 16;
/// As [`PIDS`].
pub const COMMS: usize = 8;

shared! {
    /// A part of configurations.
    pub struct Wanted {
        comms: [[u8; 16]; COMMS],
        processes: [[u8; 16]; COMMS],
        pids: [u32; PIDS],
        comms_len: u32,
        processes_len: u32,
        pids_len: u32,
        own_pid: u32,
    }
}

impl Wanted {
    /// What can be pushed down: a list that is too long is left to the caller's filter.
    pub fn new(push_down: &PushDown) -> Wanted {
        let (comms, comms_len) = names(&push_down.comms);
        let (processes, processes_len) = names(&push_down.processes);
        let mut pids = [0; PIDS];
        let some = Some(&push_down.pids).filter(|list| list.len() <= PIDS).map_or(&[][..], |list| list);
        pids[..some.len()].copy_from_slice(some);
        let pids_len = some.len() as u32;
        Wanted { comms, processes, pids, comms_len, processes_len, pids_len, own_pid: std::process::id() }
    }
}

/// Command names as the kernel keeps them, and how many there are.
fn names(list: &[String]) -> ([[u8; 16]; COMMS], u32) {
    let mut names = [[0; 16]; COMMS];
    if list.len() > COMMS {
        return (names, 0);
    }
    for (to, name) in names.iter_mut().zip(list) {
        // What is longer than the kernel keeps equals no command.
        let len = name.len().min(16);
        to[..len].copy_from_slice(&name.as_bytes()[..len]);
    }
    (names, list.len() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::Raw;
    use crate::loader::in_c::{assert_layout, evaluate};

    #[test]
    fn it_is_laid_out_as_in_c() {
        assert_layout(&["wanted.h"], "wanted", Wanted::SIZE, Wanted::LAYOUT);
        assert_eq!(evaluate(&["wanted.h"], &["PIDS", "COMMS"]), [PIDS as u64, COMMS as u64]);
    }

    #[test]
    fn lists_that_are_too_long_want_all() {
        let list = |count: u32| PushDown { pids: (1..=count).collect(), ..PushDown::default() };
        let [most, more] = [16, 17].map(|count| Wanted::new(&list(count)));
        assert_eq!((most.pids_len, most.pids[15], more.pids_len), (16, 16, 0));
        let comms = PushDown { comms: vec!["x".into(); 9], processes: vec!["a long name, cut".repeat(2)], ..list(0) };
        let wanted = Wanted::new(&comms);
        assert_eq!((wanted.comms_len, wanted.processes_len, &wanted.processes[0]), (0, 1, b"a long name, cut"));
    }
}
