//! Completions for which the kernel runs no BPF program.
//!
//! A request may complete in an interrupt, on top of whatever task runs then. Sandboxes may keep BPF programs away from
//! their supervisor, process 1 there: on top of its threads no program runs, and nothing counts that. ftrace sees it.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// On a busy machine that meets one test of 1200 requests in two.
const ATTEMPTS: u32 = 12;

/// Runs a test that counts every request. Where it fails, and ftrace saw requests complete on top of process 1 meanwhile,
/// it runs once more; each time the test is as strict.
pub fn seeing_all(test: impl Fn()) {
    for _ in 1..ATTEMPTS {
        let Some(watch) = Watch::start() else { break };
        let Err(panic) = catch_unwind(AssertUnwindSafe(&test)) else { return };
        match watch.blind() {
            0 => resume_unwind(panic),
            blind => {
                eprintln!("{blind} requests completed on top of process 1, where no BPF program may run; once more")
            }
        }
    }
    test();
}

/// An instance of ftrace that notes the completions on top of process 1; gone when dropped.
struct Watch(PathBuf);

impl Watch {
    fn start() -> Option<Watch> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("latscope-blind-{}-{number}", std::process::id());
        let folder = PathBuf::from("/sys/kernel/tracing/instances").join(name);
        fs::create_dir(&folder).ok()?;
        let watch = Watch(folder);
        let threads = fs::read_dir("/proc/1/task").ok()?.flatten();
        let threads = threads.map(|thread| format!("common_pid == {}", thread.file_name().to_string_lossy()));
        fs::write(watch.event("filter"), threads.collect::<Vec<_>>().join(" || ")).ok()?;
        fs::write(watch.event("enable"), "1").ok()?;
        Some(watch)
    }

    fn event(&self, file: &str) -> PathBuf {
        self.0.join("events/block/block_rq_complete").join(file)
    }

    fn blind(&self) -> usize {
        let text = fs::read_to_string(self.0.join("trace")).unwrap_or_default();
        text.lines().filter(|line| line.contains("block_rq_complete:")).count()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = fs::write(self.event("enable"), "0");
        // It is busy for a moment after events were switched off.
        for _ in 0..40 {
            if fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}
