//! Any lines as the answers of a server of Spark's REST API: no panic, bounded memory, and errors that are sentences.
//!
//! A line is the last word of the path that is asked for, a space, and the answer; a number stands for any. What has no line is not found.
#![no_main]

use latscope_capture_file::{ReadOptions, read};
use latscope_event::FieldSet;
use libfuzzer_sys::fuzz_target;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The lines that are answered from.
static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Answers one request.
fn answer(stream: TcpStream) -> Option<()> {
    let (mut reader, mut head) = (BufReader::new(&stream), String::new());
    reader.read_line(&mut head).ok()?;
    let path = head.split(' ').nth(1)?.split('?').next()?;
    let word = path.rsplit('/').next().filter(|word| !word.bytes().all(|byte| byte.is_ascii_digit())).unwrap_or("ID");
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
        line.clear();
    }
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = |line: &&[u8]| line.strip_prefix(word.as_bytes()).is_some_and(|rest| rest.starts_with(b" "));
    let found = lines.split(|&byte| byte == b'\n').find(known).map(|line| &line[word.len() + 1..]);
    let (status, body) = found.map_or((404, &b""[..]), |body| (200, body));
    let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n", body.len());
    (&stream).write_all(&[head.as_bytes(), body].concat()).ok()
}

/// Where the server listens, which is started with the first input.
fn url() -> &'static PathBuf {
    static URL: OnceLock<PathBuf> = OnceLock::new();
    URL.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of the loopback interface");
        let address = listener.local_addr().expect("the address of a listener");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Who hangs up before the answer gets none.
                let _ = answer(stream);
            }
        });
        format!("http://{address}/").into()
    })
}

fuzz_target!(|bytes: &[u8]| {
    *LINES.lock().unwrap_or_else(PoisonError::into_inner) = bytes.to_vec();
    let options = ReadOptions { all_of_spark: bytes.len() % 2 == 0, ..ReadOptions::new(FieldSet::EVERY) };
    if let Err(error) = read(url(), &options, &mut |_, _| ControlFlow::Continue(())) {
        assert!(error.to_string().ends_with('.'), "{error} is no sentence");
    }
});
