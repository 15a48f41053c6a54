//! Functions of the kernel by address, from `/proc/kallsyms`.

use std::io::{BufRead, BufReader};

/// Bytes of names; a kernel has 10 MB of them.
const MOST_BYTES: usize = 64 << 20;
/// Code of a function is at most this long, so that an address far beyond the last function has no name.
const LONGEST: u64 = 1 << 20;

/// Functions that put a thread to sleep for others: what it waits for is what called them.
const SCHEDULER: &[&str] = &[
    "__schedule",
    "__schedule_loop",
    "schedule",
    "schedule_idle",
    "schedule_preempt_disabled",
    "schedule_rtlock",
    "schedule_timeout",
    "schedule_timeout_idle",
    "schedule_timeout_interruptible",
    "schedule_timeout_killable",
    "schedule_timeout_uninterruptible",
    "schedule_hrtimeout",
    "schedule_hrtimeout_range",
    "schedule_hrtimeout_range_clock",
    "io_schedule",
    "io_schedule_prepare",
    "io_schedule_timeout",
    "context_switch",
    "__switch_to",
    "__switch_to_asm",
    "finish_task_switch",
    "bit_wait",
    "bit_wait_io",
    "bit_wait_timeout",
    "bit_wait_io_timeout",
];

/// What runs a program of tracing: it and what is inside it is not the traced kernel.
const TRACING: &[&str] = &[
    "bpf_prog_",
    "bpf_trace_run",
    "bpf_trampoline_",
    "bpf_get_stack",
    "bpf_get_task_stack",
    "bpf_iter_run_prog",
    "__bpf_trace_",
    "__bpf_prog_",
    "__traceiter_",
    "trace_call_bpf",
    "perf_trace_",
    "perf_event_overflow",
    "__perf_event_overflow",
    "bpf_overflow_handler",
];

/// The functions of the running kernel.
#[derive(Default)]
pub struct Kernel {
    functions: Vec<(u64, u32, u16)>,
    names: String,
    is_read: bool,
}

impl Kernel {
    /// A kernel with these functions, in the format of `/proc/kallsyms`.
    pub fn parse(text: impl BufRead) -> Kernel {
        let mut kernel = Kernel { is_read: true, ..Kernel::default() };
        for line in text.split(b'\n').map_while(Result::ok) {
            let Ok(line) = std::str::from_utf8(&line) else { continue };
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            // Hidden from who may not see them, all addresses are 0.
            let is_function = matches!(kind, "t" | "T" | "w" | "W") && address != 0;
            let Ok(length) = u16::try_from(name.len()) else { continue };
            if is_function && kernel.names.len() + name.len() < MOST_BYTES {
                kernel.functions.push((address, kernel.names.len() as u32, length));
                kernel.names.push_str(name);
            }
        }
        // Of several names of an address, the first: the others are aliases and marks. The table is not sorted.
        kernel.functions.sort_by_key(|function| function.0);
        kernel.functions.dedup_by_key(|function| function.0);
        kernel.functions.shrink_to_fit();
        kernel
    }

    /// The function at this address; empty if it is not known. The table is read at the first call, when programs of
    /// tracing have been loaded.
    pub fn name(&mut self, address: u64) -> &str {
        if !self.is_read {
            *self = match std::fs::File::open("/proc/kallsyms") {
                Ok(file) => Kernel::parse(BufReader::with_capacity(1 << 16, file)),
                Err(_) => Kernel { is_read: true, ..Kernel::default() },
            };
        }
        let after = self.functions.partition_point(|function| function.0 <= address);
        let Some(&(start, at, length)) = self.functions[..after].last() else { return "" };
        if address - start >= LONGEST {
            return "";
        }
        let at = at as usize;
        self.names.get(at..at + usize::from(length)).unwrap_or("")
    }

    /// A kernel stack, the innermost first, without the innermost frames that are not what the thread does: programs of
    /// tracing, and the scheduler.
    pub fn trimmed<'a>(&mut self, stack: &'a [u64]) -> &'a [u64] {
        let mut stack = stack;
        let tracing = stack.iter().take(24).rposition(|&address| {
            let name = self.name(address);
            TRACING.iter().any(|tracing| name.starts_with(tracing))
        });
        stack = &stack[tracing.map_or(0, |last| last + 1)..];
        while let [innermost, rest @ ..] = stack
            && SCHEDULER.contains(&base(self.name(*innermost)))
        {
            stack = rest;
        }
        stack
    }
}

/// A function without what the compiler appended: `.isra.0`, `.constprop.0`, `.part.0`, `.cold`.
pub fn base(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81000100 t vfs_read\n\
        ffffffff81000200 t __schedule\nffffffff81000300 T io_schedule\nffffffff81000400 D data\nffffffff81000500 T folio_wait_bit_common.isra.0\n\
        ffffffffc0000000 t bpf_prog_6deef7357e7b4530_sample\t[bpf]\n0000000000000000 T hidden\nx\n";

    #[test]
    fn addresses_have_the_function_before_them() {
        let mut kernel = Kernel::parse(TABLE);
        assert_eq!(kernel.name(0xffff_ffff_8100_0123), "vfs_read");
        assert_eq!(kernel.name(0xffff_ffff_8100_0450), "io_schedule");
        assert_eq!(kernel.name(0xffff_ffff_8000_0000), "");
        assert_eq!(kernel.name(0xffff_ffff_9000_0000), "");
    }

    #[test]
    fn tracing_and_the_scheduler_are_cut() {
        let mut kernel = Kernel::parse(TABLE);
        let stack = [
            0xffff_ffff_c000_0010,
            0xffff_ffff_8100_0210,
            0xffff_ffff_8100_0310,
            0xffff_ffff_8100_0510,
            0xffff_ffff_8100_0110,
        ];
        assert_eq!(kernel.trimmed(&stack), &stack[3..]);
        assert_eq!(kernel.trimmed(&[]), &[] as &[u64]);
        assert_eq!(kernel.trimmed(&stack[..2]), &[] as &[u64]);
    }
}
