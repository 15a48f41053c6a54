//! The page cache: what is in it, and getting things out of it.

use rustix::fs::Advice;
use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;

/// Where a range of a file is.
#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// What the kernel counts in a range.
#[repr(C)]
#[derive(Default)]
struct Stat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The kernel counts pages of this many bytes here.
const PAGE: u64 = 4096;

/// `cachestat(2)` of Linux 6.5; the number is the same on all architectures but alpha.
const SYS_CACHESTAT: libc::c_long = 451;

/// How many pages of the range are in memory; `None` where the kernel does not report it (before Linux 6.5, or of files that
/// are no files of a disk).
pub fn pages_in_memory(file: &File, offset: u64, len: u64) -> Option<u64> {
    stat_of(file, Range { offset, len }).map(|stat| stat.cached)
}

/// Bytes of the file that are in memory and not on the device yet; `None` where the kernel does not report it.
pub fn unwritten(file: &File) -> Option<u64> {
    // A length of zero is all of it.
    stat_of(file, Range { offset: 0, len: 0 }).map(|stat| (stat.dirty + stat.writeback) * PAGE)
}

fn stat_of(file: &File, range: Range) -> Option<Stat> {
    let mut stat = Stat::default();
    // SAFETY: both structs are ours and have the layout of the kernel's.
    let done = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &range, &mut stat, 0) };
    (done == 0).then_some(stat)
}

/// Writes a range of the file to the device, and waits for it.
pub fn write_back(file: &File, offset: u64, len: u64) -> std::io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: no memory of ours is involved.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset as i64, len as i64, flags) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Bytes that memory may hold of what was written to the device with this number, before whoever writes has to wait;
/// `None` where the kernel does not report it.
pub fn dirty_limit(dev: Option<(u32, u32)>) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/vmstat").ok()?;
    let pages = text.lines().find_map(|line| line.strip_prefix("nr_dirty_threshold "))?;
    let machine = pages.trim().parse::<u64>().ok()? * PAGE;
    let own = |name: &str| {
        let (major, minor) = dev?;
        let text = std::fs::read_to_string(format!("/sys/class/bdi/{major}:{minor}/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    // The limits of a device bind when they are strict; others only once the machine is near its own.
    let own = own("max_bytes").filter(|&bytes| bytes > 0 && own("strict_limit") == Some(1));
    Some(own.map_or(machine, |bytes| bytes.min(machine)))
}

/// Drops what the cache holds of the range, as far as it is clean and lies in it as a whole.
#[inline]
pub fn drop_range(file: &File, offset: u64, len: u64) {
    advise(file, offset, len, Advice::DontNeed);
}

/// Reads will jump about: the kernel reads nothing ahead and keeps pages small, so that each can be dropped.
pub fn expect_random(file: &File) {
    advise(file, 0, 0, Advice::Random);
}

/// A length of 0 is all that follows.
fn advise(file: &File, offset: u64, len: u64, advice: Advice) {
    // A refusal changes nothing, and is seen by whoever verifies.
    let _ = rustix::fs::fadvise(file, offset, NonZeroU64::new(len), advice);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_was_written_is_in_memory() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 16384]).unwrap();
        match pages_in_memory(&file, 0, 16384) {
            Some(pages) => assert_eq!(pages, 4),
            None => eprintln!("skipped: the kernel has no cachestat"),
        }
        drop(file);
    }
}
