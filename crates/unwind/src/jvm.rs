//! Asks a JVM to write its perf map, as `jcmd PID Compiler.perfmap` does it, without a JDK: a file in the working directory and a
//! signal make the JVM open a socket, which takes the command. Programs of the container are not run for it.

use crate::process::{has_mapped, inner_pid};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a JVM may take, in each step. It answers at the next point where all its threads can stop.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer.
const LONGEST_ANSWER: u64 = 4096;

/// Why a JVM did not write its map.
#[derive(Debug)]
pub enum JvmError {
    /// The process is gone, or not a HotSpot JVM.
    NotAJvm(u32),
    /// It does not take commands: no right to, or it was started with `-XX:+DisableAttachMechanism`.
    NoAnswer(u32, std::io::Error),
    /// It does not know the command, which came with JDK 17; what it said.
    Refused(u32, String),
}

impl std::fmt::Display for JvmError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            JvmError::NotAJvm(pid) => write!(formatter, "process {pid} is not a JVM"),
            JvmError::NoAnswer(pid, error) => write!(
                formatter,
                "the JVM {pid} does not take commands ({error}); run as root or as its user, and without -XX:+DisableAttachMechanism"
            ),
            JvmError::Refused(pid, answer) => write!(
                formatter,
                "the JVM {pid} does not write a map of its code ({answer}); this needs JDK 17 or later"
            ),
        }
    }
}

impl std::error::Error for JvmError {}

/// Has a JVM write `/tmp/perf-PID.map` with the methods that are compiled now. It takes some ten milliseconds, in which the threads of
/// the JVM stand still. What is compiled later is missing: ask again from time to time.
pub fn request_jvm_map(pid: u32) -> Result<(), JvmError> {
    let inner = inner_pid(pid).filter(|_| has_mapped(pid, "libjvm.so")).ok_or(JvmError::NotAJvm(pid))?;
    let answer = ask(pid, inner).map_err(|error| JvmError::NoAnswer(pid, error))?;
    // A line with a number first: 0 where the command was done.
    let (code, rest) = answer.split_once('\n').unwrap_or((&answer, ""));
    if code.trim() == "0" && !rest.contains("Exception") {
        return Ok(());
    }
    Err(JvmError::Refused(pid, rest.trim().lines().next().unwrap_or(code).chars().take(200).collect()))
}

fn ask(pid: u32, inner: u32) -> std::io::Result<String> {
    let socket = Path::new(&format!("/proc/{pid}/root")).join(format!("tmp/.java_pid{inner}"));
    let is_there = || std::fs::symlink_metadata(&socket).is_ok_and(|metadata| metadata.file_type().is_socket());
    if !is_there() {
        // Without this file, the signal makes a JVM print its threads.
        let request = format!("/proc/{pid}/cwd/.attach_pid{inner}");
        // One that is left from an earlier request serves as well.
        if let Err(error) = File::create_new(&request)
            && error.kind() != ErrorKind::AlreadyExists
        {
            return Err(error);
        }
        let since = Instant::now();
        let known = rustix::process::Pid::from_raw(pid.cast_signed()).ok_or(ErrorKind::InvalidInput)?;
        let sent = rustix::process::kill_process(known, rustix::process::Signal::QUIT);
        while sent.is_ok() && !is_there() && since.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = std::fs::remove_file(&request);
        sent?;
    }
    let mut stream = UnixStream::connect(&socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // Version of the protocol, command, three arguments; each ends with a zero byte.
    stream.write_all(b"1\0jcmd\0Compiler.perfmap\0\0\0")?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
