//! What an agent takes of its host itself.

use std::fs::read_to_string;

/// The kernel counts in hundredths of a second for programs, whatever it does inside.
const TICK_NS: u64 = 10_000_000;

/// CPU time and memory of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// CPU time since its start, in the program and in the kernel, nanoseconds.
    pub cpu_ns: u64,
    /// Memory that it has now, bytes.
    pub resident_bytes: u64,
}

impl Usage {
    /// Of this process; `None` where `/proc` does not say.
    pub fn own() -> Option<Usage> {
        Usage::parse(&read_to_string("/proc/self/stat").ok()?, &read_to_string("/proc/self/status").ok()?)
    }

    fn parse(stat: &str, status: &str) -> Option<Usage> {
        // The name before it may have blanks and parentheses.
        let mut numbers = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
        let mut ticks = || numbers.next()?.parse::<u64>().ok();
        let cpu_ns = ticks()?.checked_add(ticks()?)?.checked_mul(TICK_NS)?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let resident_bytes = resident.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)?;
        Some(Usage { cpu_ns, resident_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_kernel_says() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 250 31 0 0 20 0 3 0 5 9 9";
        let found = Usage::parse(stat, "Name:\ta\nVmRSS:\t   10240 kB\nThreads:\t3\n");
        assert_eq!(found, Some(Usage { cpu_ns: 2_810_000_000, resident_bytes: 10 << 20 }));
        assert_eq!(Usage::parse("7 (a", ""), None);
        assert!(Usage::own().is_some_and(|own| own.resident_bytes > 1 << 20));
    }
}
