//! `latscope serve`, asked over real sockets.

use crate::program::{LATSCOPE, command, is_root, latscope, testdata};
use base64::Engine;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

/// A server that was started, and the page that its address leads to.
pub struct Server {
    child: Child,
    address: String,
    token: String,
}

impl Server {
    pub fn start(arguments: &[&str]) -> Server {
        let mut command = command(LATSCOPE);
        command.arg("serve").args(["--listen", "127.0.0.1:0"]).args(arguments);
        // A view that captures reads a pipe instead, if it is given one.
        let stdin = if arguments.contains(&"-") { Stdio::piped() } else { Stdio::null() };
        let mut child = command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.by_ref().map(Result::unwrap).find(|line| line.contains("http://")).expect("an address");
        // Whoever closes a pipe that is written to ends the program.
        std::thread::spawn(move || lines.for_each(drop));
        let rest = line.split_once("http://").unwrap().1;
        let (address, fragment) = rest.split_once('/').unwrap();
        let token = fragment.strip_prefix("#k=").unwrap_or_default().to_string();
        Server { child, address: address.to_string(), token }
    }

    /// A connection on which this was sent.
    fn send(&self, text: &str) -> TcpStream {
        let mut socket = TcpStream::connect(&self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket.write_all(text.as_bytes()).unwrap();
        socket
    }

    /// The whole response to a request with these headers.
    fn ask(&self, line: &str, headers: &str, body: &str) -> String {
        let host = if headers.contains("Host:") { String::new() } else { format!("Host: {}\r\n", self.address) };
        let length = body.len();
        let request =
            format!("{line} HTTP/1.1\r\n{host}{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        let mut response = Vec::new();
        // A server that refuses a request may close before it has read all of it.
        let _ = self.send(&request).read_to_end(&mut response);
        String::from_utf8_lossy(&response).into_owned()
    }

    fn status(&self, line: &str, headers: &str) -> u16 {
        self.ask(line, headers, "").split(' ').nth(1).map_or(0, |status| status.parse().unwrap())
    }

    /// The header that a page has after it has sent the token.
    fn cookie(&self) -> String {
        let response = self.ask("POST /session", "", &self.token);
        let cookie = response.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
        format!("Cookie: {}\r\n", cookie.split(';').next().unwrap())
    }

    /// An open stream, behind the head of the response.
    pub fn stream(&self, since: Option<&str>) -> Stream {
        let last = since.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
        let head = format!("GET /stream HTTP/1.1\r\nHost: {}\r\n{}{last}\r\n", self.address, self.cookie());
        let mut reader = BufReader::new(self.send(&head));
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line: &String| !line.trim().is_empty()) {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            lines.push(line);
        }
        assert!(lines[0].contains(" 200 "), "{lines:?}");
        Stream(reader)
    }

    fn end(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a page receives.
pub struct Stream(BufReader<TcpStream>);

/// A message: its id, what it is, and the head of its data.
pub struct Message {
    id: String,
    event: String,
    pub data: serde_json::Value,
    pub counted: u64,
}

impl Stream {
    pub fn next(&mut self) -> Message {
        let mut parts = [const { String::new() }; 3];
        while parts[1].is_empty() || parts[2].is_empty() && parts[1] != "bye" {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream ended: {parts:?}");
            for (part, name) in parts.iter_mut().zip(["id: ", "event: ", "data: "]) {
                if let Some(value) = line.strip_prefix(name) {
                    *part = value.trim_end().to_string();
                }
            }
        }
        let [id, event, data] = parts;
        let (data, counted) = if data.is_empty() { Default::default() } else { decoded(&data) };
        Message { id, event, data, counted }
    }
}

/// The head of the data, and the number of events that they end with.
fn decoded(data: &str) -> (serde_json::Value, u64) {
    let packed = base64::prelude::BASE64_STANDARD.decode(data).unwrap();
    let mut bytes = Vec::new();
    flate2::read::DeflateDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let head: serde_json::Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
    let tail = head["streams"]["events"].as_u64().unwrap() as usize;
    let counted = bytes[bytes.len() - tail..].iter().rev().fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7f));
    (head, counted)
}

/// The head of the data in a page that was written to a file.
pub fn head_of_page(page: &str) -> serde_json::Value {
    let (_, data) = page.split_once("<script id=\"data\" type=\"application/octet-stream;base64\">").unwrap();
    decoded(data.split('<').next().unwrap().trim()).0
}

const STORY: &str = "testdata/perf_script/story_2s.txt.gz";

#[test]
fn a_page_gets_what_the_file_has() {
    let mut server = Server::start(&["-r", STORY, "kind = read"]);
    let page = server.ask("GET /", "", "");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("connect-src 'self'"), "{page}");
    assert!(!page.contains(&server.token));
    let mut stream = server.stream(None);
    let mut message = stream.next();
    assert_eq!(message.event, "start");
    while message.counted == 0 {
        message = stream.next();
    }
    let summary = latscope(&["summary", "--json", "-r", STORY, "kind = read"]).success();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(message.counted, summary["total"]["count"].as_u64().unwrap());
    assert_eq!(message.data["filter"], "kind = read");
    assert_eq!(message.data["source"], format!("-r {STORY}"));
    // A page that knows all that there is gets the end only; one of another run starts anew.
    let mut known = server.stream(Some(&message.id));
    assert_eq!(server.stream(Some("00000000000000000000000000000000.1")).next().event, "start");
    server.end();
    assert_eq!(known.next().event, "bye");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn requests_that_nobody_should_make_are_refused() {
    let server = Server::start(&["-r", STORY]);
    let cookie = server.cookie();
    let foreign = |name: &str| server.status("GET /", &format!("Host: {name}\r\n"));
    assert_eq!([foreign("evil.example"), foreign("127.0.0.1"), foreign("127.0.0.1:1")], [421; 3]);
    assert_eq!(server.status("GET /", "Origin: http://evil.example\r\n"), 403);
    assert_eq!(server.status("GET /stream", &format!("{cookie}Sec-Fetch-Site: cross-site\r\n")), 403);
    assert_eq!(server.status("GET /stream", ""), 401);
    assert_eq!(server.status("GET /stream", "Cookie: latscope=1\r\n"), 401);
    assert_eq!([server.status("POST /", &cookie), server.status("DELETE /stream", &cookie)], [405; 2]);
    assert_eq!([server.status("OPTIONS *", &cookie), server.status("CONNECT a:1", &cookie)], [405; 2]);
    assert_eq!(server.status("GET /../../etc/passwd", &cookie), 404);
    assert_eq!(server.status("HEAD /", ""), 200);
    assert!(server.ask("POST /session", "", "wrong").starts_with("HTTP/1.1 401 "));
    assert!(server.ask("POST /session", "", &"x".repeat(5000)).starts_with("HTTP/1.1 400 "));
    assert_eq!(server.status("GET /", &format!("X-Long: {}\r\n", "x".repeat(20_000))), 431);
    let mut garbage = server.send("\x01\x02 what is this\r\n\r\n");
    let mut answer = String::new();
    let _ = garbage.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    // It is still there for those who may look.
    assert_eq!(server.stream(None).next().event, "start");
}

#[test]
fn no_more_pages_than_sixteen() {
    let server = Server::start(&["-r", STORY]);
    let mut streams: Vec<Stream> = (0..16).map(|_| server.stream(None)).collect();
    streams.iter_mut().for_each(|stream| assert_eq!(stream.next().event, "start"));
    let refused = server.ask("GET /stream", &server.cookie(), "");
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("Sixteen pages are open"), "{refused}");
}

#[test]
fn without_a_token_on_this_machine_only() {
    let open = Server::start(&["-r", STORY, "--no-token", "--allow-host", "db1.example"]);
    assert!(open.token.is_empty());
    let port = open.address.rsplit(':').next().unwrap();
    assert_eq!(open.status("GET /", &format!("Host: db1.example:{port}\r\n")), 200);
    let refused = |arguments: &[&str]| latscope(&[&["serve", "-r", STORY], arguments].concat()).failure(2);
    assert!(refused(&["--listen", "0.0.0.0:0"]).contains("--insecure"));
    assert!(refused(&["--listen", "0.0.0.0:0", "--insecure", "--no-token"]).contains("--no-token"));
    assert!(refused(&["--listen", "here"]).contains("127.0.0.1:7470"));
    let taken = latscope(&["serve", "-r", STORY, "--listen", &open.address]).failure(3);
    assert!(taken.contains("--listen"), "{taken}");
    let hist = testdata("hlog")
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|e| e == "hlog"))
        .unwrap();
    assert!(latscope(&["serve", "-r", hist.to_str().unwrap()]).failure(3).contains("single events"));
}

#[test]
fn what_comes_later_is_sent_later() {
    let mut server = Server::start(&["-r", "-", "--format", "csv"]);
    let mut input = server.child.stdin.take().unwrap();
    input.write_all(b"time_ns,latency_ns,device\n1000000000,5000,sda\n1100000000,6000,sda\n").unwrap();
    input.flush().unwrap();
    let mut stream = server.stream(None);
    let mut counted = 0;
    while counted < 2 {
        counted += stream.next().counted;
    }
    input.write_all(b"7000000000,7000,sdb\n").unwrap();
    input.flush().unwrap();
    let more = stream.next();
    assert_eq!((&*more.event, more.counted), ("more", 1));
    // A page that comes now gets all three in one message.
    let late = server.stream(None).next();
    assert_eq!((&*late.event, late.counted), ("start", 3));
    // A pipe whose writer says nothing more does not hold up the end.
    server.end();
    while stream.next().event != "bye" {}
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    drop(input);
}

#[test]
fn live_events_arrive() {
    if !is_root() {
        return skipped!("live capture needs root");
    }
    let server = Server::start(&["-s", "syscall", "--calls", "getppid"]);
    let mut stream = server.stream(None);
    // Until the programs are attached, nothing is seen.
    let mut counted = 0;
    while counted < 1000 {
        (0..1000).for_each(|_| _ = std::hint::black_box(rustix::process::getppid()));
        counted += stream.next().counted;
    }
}
