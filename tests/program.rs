//! Runs the program.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where cargo put it.
pub const LATSCOPE: &str = env!("CARGO_BIN_EXE_latscope");

/// How the program ended and what it printed.
#[derive(Debug)]
pub struct Ended {
    pub status: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl Ended {
    /// Standard output, of a run that has to succeed.
    #[track_caller]
    pub fn success(self) -> String {
        assert_eq!(self.status, Some(0), "{}", self.err);
        String::from_utf8(self.out).expect("text is UTF-8")
    }

    /// What was printed by a run that has to fail with this status. A panic is no way to fail.
    #[track_caller]
    pub fn failure(self, status: i32) -> String {
        assert_eq!(self.status, Some(status), "{}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.err
    }
}

/// The top of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// A file of testdata.
pub fn testdata(path: &str) -> PathBuf {
    root().join("testdata").join(path)
}

/// A file of testdata, unpacked.
pub fn unpacked(path: &str) -> Vec<u8> {
    let packed = std::fs::read(testdata(path)).expect(path);
    let mut bytes = Vec::new();
    match path.rsplit('.').next() {
        Some("gz") => drop(flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect(path)),
        Some("zst") => bytes = zstd::decode_all(&packed[..]).expect(path),
        _ => bytes = packed,
    }
    bytes
}

/// A command whose output depends on nothing but its arguments.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("TZ", "UTC").env_remove("NO_COLOR").env_remove("COLORTERM").env_remove("COLUMNS").env("TERM", "dumb");
    command.current_dir(root());
    command
}

/// Runs the program without standard input.
pub fn latscope(arguments: &[&str]) -> Ended {
    end(command(LATSCOPE).args(arguments), b"")
}

/// Runs the program with standard input.
pub fn latscope_with(arguments: &[&str], input: &[u8]) -> Ended {
    end(command(LATSCOPE).args(arguments), input)
}

/// Runs a command to its end.
pub fn end(command: &mut Command, input: &[u8]) -> Ended {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let output = std::thread::scope(|scope| {
        // A program that ends early leaves the rest unread.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().expect("the program ends")
    });
    Ended {
        status: output.status.code(),
        out: output.stdout,
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Whether another program is installed; says so when it is not, for what is then left out.
pub fn installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&paths).any(|folder| folder.join(program).is_file());
    if !there {
        skipped!("{program} is not installed");
    }
    there
}

/// Whether live capture may work here.
pub fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
    })
}
