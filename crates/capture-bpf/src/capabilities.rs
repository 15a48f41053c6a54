//! Capabilities of this program, and giving them up.

use std::io;

/// A set of capabilities of Linux, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capabilities(u64);

impl Capabilities {
    /// `CAP_DAC_OVERRIDE`: files of other users are read and written.
    pub const FILES: Capabilities = Capabilities(1 << 1);
    /// `CAP_SYS_PTRACE` and `CAP_DAC_READ_SEARCH`: what processes of other users have open is named.
    pub const NAMES: Capabilities = Capabilities(1 << 19 | 1 << 2);
    /// `CAP_PERFMON` and `CAP_BPF`.
    const TRACING: Capabilities = Capabilities(1 << 38 | 1 << 39);

    /// Those that a capture needs once it runs: none, but before Linux 5.19 the maps of a program could not be read without.
    pub fn of_running_capture() -> Capabilities {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        if is_before_5_19(&release) { Capabilities::TRACING } else { Capabilities::default() }
    }

    /// These and others.
    #[must_use]
    pub fn with(self, others: Capabilities) -> Capabilities {
        Capabilities(self.0 | others.0)
    }

    /// Gives up all others for good, in the calling thread and those that it will start; programs that are executed get none.
    ///
    /// # Errors
    /// When the kernel refuses.
    #[cfg(target_os = "linux")]
    pub fn keep_only(self) -> io::Result<()> {
        let done = |status: libc::c_long| if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        // SAFETY: the call takes numbers only.
        done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
        // SAFETY: as above. Where there are no ambient capabilities, there is nothing to clear.
        let _ = unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
        // Of the third version, for the calling thread.
        let head = [0x2008_0522_u32, 0];
        let mut sets = [Set::default(); 2];
        // SAFETY: the pointers are to a head and to two sets, which the call fills.
        done(unsafe { libc::syscall(libc::SYS_capget, head.as_ptr(), sets.as_mut_ptr()) })?;
        for (set, kept) in sets.iter_mut().zip([self.0 as u32, (self.0 >> 32) as u32]) {
            set.permitted &= kept;
            set.effective &= kept;
            set.inheritable = 0;
        }
        // SAFETY: as above; the call reads them.
        done(unsafe { libc::syscall(libc::SYS_capset, head.as_ptr(), sets.as_ptr()) })
    }

    /// Gives up all others: only Linux has them.
    #[cfg(not(target_os = "linux"))]
    pub fn keep_only(self) -> io::Result<()> {
        Ok(())
    }
}

/// As the kernel lays it out.
#[cfg(target_os = "linux")]
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Set {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

fn is_before_5_19(release: &str) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map_while(|digits| digits.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version < (5, 19)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(is_before_5_19("5.4.0-100-generic\n") && is_before_5_19("4.19.0") && is_before_5_19(""));
        assert!(!is_before_5_19("5.19.0-rc1") && !is_before_5_19("6.1.0-27-amd64") && !is_before_5_19("10.0"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_given_up_is_gone() {
        let left = std::thread::spawn(|| {
            Capabilities::FILES.keep_only().unwrap();
            // Who has none may give them up, too.
            Capabilities::default().keep_only().unwrap();
            std::fs::read_to_string("/proc/thread-self/status").unwrap()
        });
        let left = left.join().unwrap();
        let value = |name: &str| left.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_string();
        for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
            assert_eq!(value(set), "0000000000000000", "{set}");
        }
        assert_eq!(value("NoNewPrivs:"), "1");
    }
}
