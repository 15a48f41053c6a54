//! A file system of one file in memory, `disk`, that answers every request when a schedule says: what a test measures
//! through it is known beforehand. A loop device above it is a block device with that latency:
//!
//! ```text
//! latscope-delayfs /mnt --read 5ms --slow 50ms --every 100 &
//! losetup --find --show --direct-io=on /mnt/disk
//! ```
//!
//! With `--exact 1` the overhead of the file system itself is a few microseconds, for a prober on the same CPU: between
//! CPUs a sleeping one would have to be woken for each request and for each answer, which takes 20 us each on some virtual
//! machines. `--log` gives afterwards when each read came and when it was answered.
//!
//! It prints `ready` when it is mounted. SIGSTOP makes it a disk that hangs, SIGCONT lets it go on; on SIGTERM or SIGINT
//! it unmounts and says how many requests it answered.

#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod exact;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod schedule;
#[cfg(target_os = "linux")]
mod timer;

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    run::run()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("delayfs runs on Linux only.");
}
