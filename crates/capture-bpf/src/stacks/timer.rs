//! A timer on each CPU, which runs a program.

use crate::Error;
use crate::loader::Loaded;
use std::os::fd::{FromRawFd, OwnedFd};

const PERF_TYPE_SOFTWARE: u64 = 1;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
/// Bytes of `struct perf_event_attr` as its first version had it.
const ATTRIBUTE_BYTES: u64 = 64;

/// Runs a loaded program on every CPU at this rate per second.
pub fn attach(loaded: &mut Loaded, program: &str, hz: u32) -> Result<(), Error> {
    let period_ns = period_ns(hz);
    let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
    let mut timers = 0;
    for cpu in 0..cpus {
        match open(cpu, period_ns) {
            Ok(event) => loaded.attach_perf_event(program, event)?,
            // It is not there, or off.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
            Err(error) => return Err(Error::Failed(format!("a timer of CPU {cpu} cannot be set: {error}"))),
        }
        timers += 1;
    }
    if timers == 0 { Err(Error::Failed("no CPU has a timer".into())) } else { Ok(()) }
}

/// The time between two ticks, nanoseconds.
pub fn period_ns(hz: u32) -> u64 {
    1_000_000_000 / u64::from(hz.max(1))
}

fn open(cpu: usize, period_ns: u64) -> std::io::Result<OwnedFd> {
    // Type and size, configuration, period; no sample and no other flags are asked for.
    let mut attribute = [0u64; ATTRIBUTE_BYTES as usize / 8];
    let [first, second] = [PERF_TYPE_SOFTWARE as u32, ATTRIBUTE_BYTES as u32].map(u32::to_ne_bytes);
    attribute[0] = u64::from_ne_bytes([first, second].concat().try_into().unwrap_or_default());
    (attribute[1], attribute[2]) = (PERF_COUNT_SW_CPU_CLOCK, period_ns);
    let (every_process, no_group) = (-1, -1);
    // SAFETY: the first argument points to a structure of the size that it has in it, which the kernel only reads.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attribute.as_ptr(),
            every_process,
            cpu as libc::c_int,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just opened it, and nobody else has it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(std::io::Error::last_os_error()),
    }
}
