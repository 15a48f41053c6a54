//! Faults: what the kernel refuses, what is interrupted, and what is killed.

use crate::program::{LATSCOPE, command, end, installed, latscope};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Runs ping with a fault in one of its system calls. No `None`: strace is there.
fn injected(fault: &str, arguments: &[&str]) -> Option<crate::program::Ended> {
    if !installed("strace") {
        return None;
    }
    let mut strace = command("strace");
    strace.args([
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=pread64,pwrite64",
        "-e",
        &format!("inject={fault}"),
        LATSCOPE,
        "ping",
    ]);
    let ended = end(strace.args(arguments), b"");
    if ended.err.contains("ptrace") {
        skipped!("tracing is not allowed here");
        return None;
    }
    Some(ended)
}

#[test]
fn errors_are_counted_and_survived_or_end_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    // Late enough to be past what the loader reads.
    // What the probe asks about its own waiting is read in the same way, so the first that is hit may be none of its requests.
    let mut text = String::new();
    let mut ended = None;
    for when in 20..30 {
        ended = injected(&format!("pread64:error=EIO:when={when}"), &["-i", "0", "-c", "100", "-C", path]);
        let Some(ended) = &ended else { return };
        text = String::from_utf8_lossy(&ended.out).into_owned();
        if text.contains("(EIO)") {
            break;
        }
    }
    let Some(ended) = ended else { return };
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(text.contains("(EIO)") && text.contains("request=100 "), "{text}");
    assert!(ended.err.contains("1 failed request"), "{}", ended.err);
    let stopped =
        injected("pread64:error=EIO:when=20+", &["-i", "0", "-c", "100", "-C", "--on-error", "stop", path]).unwrap();
    assert_eq!(stopped.status, Some(3), "{}", stopped.err);
    assert!(String::from_utf8_lossy(&stopped.out).contains("min/avg/max/mdev"), "a summary all the same");
    let interrupted = injected("pread64:error=EINTR:when=20..24", &["-i", "0", "-c", "100", "-C", path]).unwrap();
    assert!(!String::from_utf8_lossy(&interrupted.out).contains("EINTR"), "it is made again");
    let short = injected("pread64:retval=512:when=20+", &["-i", "0", "-c", "100", "-C", path]).unwrap();
    assert!(short.err.contains("moved fewer bytes than requested"), "{}", short.err);
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let Some(ended) = injected("pwrite64:error=ENOSPC:when=2", &["-c", "1", "-S", "4m", path]) else { return };
    assert!(ended.failure(3).contains("The working set cannot be written"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let printed = latscope(&["ping", "-c", "1", "-S", "1000000t", path]).failure(3);
    assert!(printed.contains("are free"), "{printed}");
}

#[test]
fn a_killed_probe_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = command(LATSCOPE)
        .args(["ping", "-W", "-i", "1ms", "-q"])
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(400));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn signals_end_it_with_a_summary() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, signal: &str| {
        let link = folder.path().join(name);
        let _ = std::os::unix::fs::symlink(LATSCOPE, &link);
        let program = if name == "ioping" { link.clone() } else { LATSCOPE.into() };
        let mut running = command(program);
        if name != "ioping" {
            running.arg("ping");
        }
        let child = running
            .args(["-J", "-i", "10ms"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(400));
        crate::live::lab::signal(child.id(), signal);
        if signal == "USR1" {
            std::thread::sleep(Duration::from_millis(300));
            crate::live::lab::signal(child.id(), "INT");
        }
        child.wait_with_output().unwrap()
    };
    for (name, signal, status) in
        [("ioping", "INT", 0), ("ioping", "TERM", 143), ("latscope", "TERM", 0), ("latscope", "USR1", 0)]
    {
        let output = run(name, signal);
        assert_eq!(output.status.code(), Some(status), "{name} {signal}");
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON is closed");
        assert!(all.as_array().unwrap().last().unwrap()["stat"]["count"].as_u64().unwrap() > 0);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(printed.contains("requests, min/avg/max"), signal == "USR1", "{printed}");
    }
}

#[test]
fn nothing_is_overwritten_by_accident() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("precious");
    std::fs::write(&file, vec![7; 65536]).unwrap();
    let path = file.to_str().unwrap();
    for write in ["-W", "-WW", "-G"] {
        assert!(latscope(&["ping", write, "-c", "2", "-i", "0", path]).failure(3).contains("-WWW"));
    }
    latscope(&["ping", "-c", "20", "-i", "0", path]).success();
    assert!(std::fs::read(&file).unwrap().iter().all(|&byte| byte == 7), "reads do not write");
    latscope(&["ping", "-WWW", "-c", "20", "-i", "0", path]).success();
    assert!(std::fs::read(&file).unwrap().iter().any(|&byte| byte != 7));
    let odd = latscope(&["ping", "-D", "-s", "1000", "-c", "1", path]);
    // tmpfs takes any size.
    if odd.status != Some(0) {
        assert!(odd.failure(3).contains("multiples of"));
    }
    assert!(latscope(&["ping", "-c", "1", "/proc/self/nothing"]).failure(3).contains("Cannot be found"));
    assert!(Path::new(path).exists());
}

/// A loop device over a file of so many bytes, with ext4 on it. Given back when dropped.
pub struct Loop {
    pub path: String,
    folder: tempfile::TempDir,
    mounted: bool,
}

impl Loop {
    /// `None`, and the reason reported, where that cannot be made.
    pub fn new(bytes: u64) -> Option<Loop> {
        let _alone = crate::live::alone()?;
        if !installed("mkfs.ext4") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("image");
        std::fs::File::create(&file).unwrap().set_len(bytes).unwrap();
        end(command("mkfs.ext4").args(["-q", "-F"]).arg(&file), b"").success();
        let path = end(command("losetup").args(["--find", "--show"]).arg(&file), b"").success();
        std::fs::create_dir(folder.path().join("mnt")).unwrap();
        Some(Loop { path: path.trim_end().into(), folder, mounted: false })
    }

    pub fn mount(&mut self) -> std::path::PathBuf {
        let place = self.folder.path().join("mnt");
        end(command("mount").args([self.path.as_ref(), place.as_path()]), b"").success();
        self.mounted = true;
        place
    }

    fn unmount(&mut self) {
        if std::mem::take(&mut self.mounted) {
            end(command("umount").arg(self.folder.path().join("mnt")), b"");
        }
    }

    /// What the device holds.
    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("image")).unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.unmount();
        crate::live::lab::detach(&self.path);
    }
}

#[test]
fn a_device_in_use_is_never_written() {
    let Some(mut device) = Loop::new(8 << 20) else { return };
    let words = ["ping", "-c", "20", "-i", "0", "-s", "64k"];
    let ping = |more: &[&str]| latscope(&[&words[..], more].concat());
    let before = device.bytes();
    let path = device.path.clone();
    assert!(ping(&["-W", &path]).failure(3).contains("-WWW"));
    device.mount();
    for write in ["-WWW", "-WWWG"] {
        let printed = ping(&[write, &path]).failure(3);
        assert!(printed.contains("in use (mounted"), "{printed}");
    }
    ping(&[&path]).success();
    device.unmount();
    let superblock = 1024..2048;
    // Mounting alone notes when it was.
    assert_eq!(before[4096..8192], device.bytes()[4096..8192]);
    assert_eq!(before[superblock.start + 56..superblock.start + 58], device.bytes()[superblock.start + 56..][..2]);
    // That nobody uses it and it is meant is enough.
    ping(&["-WWW", "-S", "64k", &path]).success();
    let after = device.bytes();
    assert!(after[..65536] != before[..65536], "it was not written");
}

#[test]
fn a_killed_probe_gives_its_space_back() {
    let Some(mut device) = Loop::new(64 << 20) else { return };
    let place = device.mount();
    let free = || {
        end(command("sync").arg("--file-system").arg(&place), b"").success();
        let text = end(command("stat").args(["--file-system", "--format=%f"]).arg(&place), b"").success();
        text.trim().parse::<u64>().unwrap()
    };
    let before = free();
    let mut child = command(LATSCOPE)
        .args(["ping", "-W", "-q", "-i", "1ms", "-S", "16m"])
        .arg(&place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // 16 MiB are 4096 of its blocks, or more of smaller ones.
    crate::live::lab::until("the file of the probe", || free() + 4096 <= before);
    child.kill().unwrap();
    child.wait().unwrap();
    crate::live::lab::until("its space coming back", || free() == before);
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1, "lost+found alone");
    device.unmount();
    end(command("e2fsck").args(["-f", "-n", &device.path]), b"").success();
}

#[test]
fn a_trace_is_replaced_only_if_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (target, trace) = (folder.path().to_str().unwrap(), folder.path().join("t.lat"));
    let ping = |more: &[&str]| {
        let words = ["ping", "-c", "2", "-i", "0", "-q", "-w", trace.to_str().unwrap(), target];
        latscope(&[&words, more].concat())
    };
    ping(&[]).success();
    let before = std::fs::read(&trace).unwrap();
    assert!(ping(&[]).failure(2).contains("t.lat exists; -f replaces it."));
    assert_eq!(std::fs::read(&trace).unwrap(), before);
    ping(&["-f"]).success();
    assert_ne!(std::fs::read(&trace).unwrap(), before);
}

#[test]
fn what_has_no_device_is_reported() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let target = folder.path().to_str().unwrap();
    let ping = latscope(&["ping", "-c", "2", "-i", "0", "-q", "-D", target]);
    if ping.err.contains("O_DIRECT") || !ping.err.contains("tmpfs") {
        eprintln!("left out: /dev/shm is no tmpfs with direct I/O: {}", ping.err);
        return;
    }
    assert!(ping.err.contains("tmpfs has no device, so direct I/O measures memory."), "{}", ping.err);
    assert!(!latscope(&["ping", "-c", "2", "-i", "0", "-q", target]).err.contains("tmpfs"));
    let (words, out) = (["lab", "storage", "--for", "100ms", "--rounds", "1", "-o"], folder.path().join("lab"));
    let lab = latscope(&[&words[..], &[out.to_str().unwrap(), target]].concat()).success();
    assert!(lab.contains("tmpfs keeps all data in memory and has no device."), "{lab}");
    assert!(!lab.contains("still in memory"), "{lab}");
}
