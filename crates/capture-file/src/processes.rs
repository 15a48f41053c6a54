//! Which process a thread is of: tracers of system calls print the number of the thread only, and some calls show the process.

use crate::call_text::CallText;
use hashbrown::HashMap;

/// No machine runs more threads at once.
const THREADS_LIMIT: usize = 1 << 18;

/// The processes of threads, as far as calls have shown them.
#[derive(Default)]
pub struct Processes {
    of_threads: HashMap<i32, i32>,
}

/// Whether a call of this name shows the process of its caller, or of the thread that it makes.
pub fn shows_process(name: &[u8]) -> bool {
    matches!(name, b"execve" | b"execveat" | b"clone" | b"clone3" | b"fork" | b"vfork" | b"getpid")
}

impl Processes {
    /// Learns from a call that [shows processes](shows_process) and has returned to this thread.
    pub fn learn(&mut self, tid: i32, call: &CallText) {
        let Some(result) = call.returned().value.and_then(|value| i32::try_from(value).ok()) else { return };
        match call.name {
            // Who executes a program is its only thread from then on, and has the number of the process.
            b"execve" | b"execveat" if result == 0 => self.insert(tid, tid),
            b"getpid" if result > 0 => self.insert(tid, result),
            b"fork" | b"vfork" if result > 0 => self.insert(result, result),
            b"clone" | b"clone3" if result > 0 => {
                let is_thread = memchr::memmem::find(call.arguments, b"CLONE_THREAD").is_some();
                let process = if is_thread { self.pid(tid) } else { Some(result) };
                process.into_iter().for_each(|pid| self.insert(result, pid));
            }
            _ => {}
        }
    }

    /// The process of a thread.
    pub fn pid(&self, tid: i32) -> Option<i32> {
        self.of_threads.get(&tid).copied()
    }

    fn insert(&mut self, tid: i32, pid: i32) {
        if self.of_threads.len() < THREADS_LIMIT || self.of_threads.contains_key(&tid) {
            self.of_threads.insert(tid, pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_show_the_process_of_their_caller_or_of_what_they_make() {
        let mut processes = Processes::default();
        let mut learn = |tid, text: &str| {
            let call = CallText::parse(text.as_bytes()).unwrap();
            assert!(shows_process(call.name));
            processes.learn(tid, &call);
        };
        learn(10, "execve(\"/bin/sh\", [\"sh\"], 0x7ffd /* 9 vars */) = 0");
        learn(10, "clone(child_stack=0x7f, flags=CLONE_VM|CLONE_THREAD|CLONE_SETTLS, tls=0x7f) = 11");
        learn(11, "clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD}, 88) = 12");
        learn(12, "vfork() = 13");
        learn(13, "execve(\"/bin/none\", [\"none\"], 0x7ffd) = -1 ENOENT (No such file or directory)");
        learn(20, "clone(child_stack=0x7f, flags=CLONE_VM|CLONE_THREAD) = 21");
        learn(30, "getpid() = 29");
        let pids = [10, 11, 12, 13, 20, 21, 30].map(|tid| processes.pid(tid));
        assert_eq!(pids, [Some(10), Some(10), Some(12), Some(13), None, None, Some(29)]);
    }
}
