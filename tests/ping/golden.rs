//! Called ioping, the program is ioping 1.3: every vector comes out again, but for the times.

use super::transcript;
use crate::program::{LATSCOPE, command, end};
use std::path::Path;

/// Numbers that differ from run to run, one after the other: what they stand behind, and the letter that they become.
fn masked(text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(masked_line).collect();
    // What ls says of the file that was kept.
    lines.retain(|line| !line.starts_with("-rw"));
    lines.join("\n")
}

fn masked_line(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    if words.len() == 10 && words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
        return format!("raw {} {}", words[0], words[8]);
    }
    if let Some((key, value)) = line.trim_start().split_once(": ")
        && key.starts_with('"')
    {
        let times = [
            "\"timestamp\"",
            "\"localtime\"",
            "\"time\"",
            "\"bps\"",
            "\"iops\"",
            "\"min\"",
            "\"avg\"",
            "\"max\"",
            "\"mdev\"",
        ];
        let places = ["\"fstype\"", "\"device\"", "\"device_size\""];
        let known = times.contains(&key) || places.contains(&key);
        return if known { format!("{key} {}", value.ends_with(',')) } else { line.to_string() };
    }
    if line.starts_with("min/avg/max/mdev = ") {
        return "min/avg/max/mdev".into();
    }
    let line = match line.split_once(" requests completed in ") {
        Some((count, rest)) => format!("{count} completed {}", rest.split(", ").nth(1).unwrap_or("?")),
        None => line.to_string(),
    };
    let line = match line.split_once(" requests in ") {
        Some((count, rest)) => format!("{count} generated {}", rest.split(", ").nth(1).unwrap_or("?")),
        None => line,
    };
    // Where it lies depends on the machine, and so does who is fast and who is slow.
    let line = match (line.find(" ("), line.find("):")) {
        (Some(from), Some(to)) if from < to => format!("{} PLACE{}", &line[..from], &line[to + 1..]),
        (Some(from), _) if line.starts_with("--- ") => line[..from].to_string(),
        _ => line,
    };
    let line = match line.split_once(" time=") {
        Some((front, rest)) => {
            let notice = rest.find(" (").map_or("", |at| &rest[at..]);
            format!("{} T{}", front, if matches!(notice, " (fast)" | " (slow)") { "" } else { notice })
        }
        None => line,
    };
    dated(&line)
}

/// `Nov 21 01:04:40 ` and `1795223080 2026-11-21 ` in front of a line.
fn dated(line: &str) -> String {
    let bytes = line.as_bytes();
    if bytes.len() > 16 && bytes[9] == b':' && bytes[12] == b':' {
        return format!("DATE {}", &line[16..]);
    }
    if bytes.len() > 22 && bytes[..10].iter().all(u8::is_ascii_digit) && bytes[15] == b'-' {
        return format!("SECONDS {}", &line[22..]);
    }
    line.to_string()
}

/// A folder as the vectors have it, with the program under its other name.
fn furnished() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("e4")).unwrap();
    let data: Vec<u8> = (0..1u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(folder.path().join("file1m"), data).unwrap();
    std::os::unix::fs::symlink(LATSCOPE, folder.path().join("ioping")).unwrap();
    folder
}

#[test]
fn every_vector_of_ioping_comes_out_again() {
    let folder = furnished();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let (mut same, mut wrong) = (0, Vec::new());
    // In the order of the transcript, since one case takes the file that the one before it kept.
    for vector in transcript::runs("v1.3.txt") {
        // The disk of the vectors took longer than 100 us each time; any takes longer than 1 us.
        let typed = vector.command.replace("-T 100us", "-T 1us");
        // Without tmpfs, direct I/O or RWF_NOWAIT where tests run, those cases say nothing.
        if ["/dev/shm", " -D", "-N"].iter().any(|word| typed.contains(word)) && !is_plain(&typed, folder.path()) {
            eprintln!("left out: {typed}");
            continue;
        }
        let ended = end(command("bash").args(["-c", &typed]).current_dir(folder.path()).env("PATH", &path), b"");
        let (out, expected) = (masked(&String::from_utf8_lossy(&ended.out)), masked(&vector.out));
        if out == expected && ended.status == Some(vector.status) {
            same += 1;
        } else {
            let (found, status) = (ended.status, vector.status);
            wrong.push(format!("{typed}\nstatus {found:?} for {status}, said {}\n{out}\nfor\n{expected}", ended.err));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(same > 35, "{same} vectors were run");
}

/// Whether what the command needs beyond a plain file system is there.
fn is_plain(typed: &str, folder: &Path) -> bool {
    let ping = |arguments: &[&str]| {
        end(command(LATSCOPE).arg("ping").args(arguments).current_dir(folder), b"").status == Some(0)
    };
    if typed.contains("/dev/shm") {
        return std::fs::create_dir_all("/dev/shm/iop").is_ok();
    }
    // What can be read without waiting depends on the file system.
    !typed.contains("-N") && ping(&["-D", "-c", "1", "-q", "e4"])
}

#[test]
fn masks_leave_what_matters() {
    let line = "4 KiB <<< e4 (ext4 /dev/vda 252.0 GiB): request=2 time=636.9 us (too slow)";
    assert_eq!(masked(line), "4 KiB <<< e4 PLACE: request=2 T (too slow)");
    assert_eq!(masked("1 2 3 4 5 6 7 8 9 10"), "raw 1 9");
    assert_eq!(
        masked("3 too slow, generated 4 requests in 30.3 ms, 16 KiB, 131 iops, 1 B/s"),
        "3 too slow, generated 4 generated 16 KiB"
    );
}
