//! HTTP/1.1 as a server speaks it, one request per connection.

use crate::stream::Stream;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Longest head of a request, bytes.
const HEAD_BYTES: usize = 16 << 10;
/// Most header lines.
const HEADERS: usize = 64;
/// Longest body of a request, as it comes and unpacked, bytes.
const BODY_BYTES: usize = 4 << 20;
const UNPACKED_BYTES: usize = 16 << 20;
/// How long a request may take to come.
const PATIENCE: Duration = Duration::from_secs(5);
/// Shorter answers are not compressed, bytes.
const SHORT: usize = 1000;

/// What somebody asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    pub method: String,
    /// Up to the question mark.
    pub path: String,
    /// Names and values behind it.
    pub parameters: Vec<(String, String)>,
    pub accept: String,
    accepts_gzip: bool,
    host: String,
    pub content_type: String,
    encoding: String,
    /// The last event that a reader of a stream has.
    pub last_event: String,
    /// Length of the body.
    length: Option<usize>,
    expects: bool,
    body: Vec<u8>,
}

/// An answer.
pub struct Response {
    pub status: &'static str,
    pub content_type: &'static str,
    /// Further header lines.
    pub headers: String,
    pub body: Vec<u8>,
}

impl Response {
    /// A line.
    pub fn text(status: &'static str, line: &str) -> Response {
        Response::new(status, "text/plain; charset=utf-8", format!("{line}\n").into_bytes())
    }

    /// Without further header lines.
    pub fn new(status: &'static str, content_type: &'static str, body: Vec<u8>) -> Response {
        Response { status, content_type, headers: String::new(), body }
    }
}

impl Request {
    /// The value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether it names its server by an address, or as `localhost`, perhaps with a port.
    pub fn is_for_address(&self) -> bool {
        let name = match self.host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => self.host.split(':').next().unwrap_or_default(),
        };
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    }

    /// The body as it was before it was compressed; `None` where it is too long or cannot be unpacked.
    pub fn unpacked(&self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        let limit = UNPACKED_BYTES as u64 + 1;
        match self.encoding.as_str() {
            "" | "identity" => return Some(self.body.clone()),
            // Unpacked where its length is looked at.
            "snappy" if self.path == "/api/v1/write" => return Some(self.body.clone()),
            "gzip" => flate2::read::MultiGzDecoder::new(&self.body[..]).take(limit).read_to_end(&mut body).ok()?,
            "zstd" => zstd::Decoder::new(&self.body[..]).ok()?.take(limit).read_to_end(&mut body).ok()?,
            _ => return None,
        };
        (body.len() <= UNPACKED_BYTES).then_some(body)
    }
}

/// Reads a request; the status of an answer where it is malformed.
pub fn request(mut stream: &Stream) -> io::Result<Result<Request, &'static str>> {
    let deadline = Instant::now() + PATIENCE;
    stream.wait_at_most(PATIENCE)?;
    let (mut bytes, mut found) = (Vec::new(), None::<Request>);
    loop {
        if let Some(request) = &mut found
            && bytes.len() >= request.length.unwrap_or(0)
        {
            bytes.truncate(request.length.unwrap_or(0));
            request.body = bytes;
            return Ok(found.ok_or("400 Bad Request"));
        }
        let mut part = [0; 1 << 14];
        let read = stream.read(&mut part)?;
        if read == 0 || Instant::now() >= deadline {
            return Ok(Err("400 Bad Request"));
        }
        bytes.extend_from_slice(&part[..read]);
        if found.is_some() {
            continue;
        }
        match parsed(&bytes) {
            Ok(Some((request, _))) if request.method == "POST" && request.length.is_none() => {
                return Ok(Err("411 Length Required"));
            }
            Ok(Some((request, _))) if request.length.is_some_and(|length| length > BODY_BYTES) => {
                return Ok(Err("413 Content Too Large"));
            }
            Ok(Some((request, end))) => {
                bytes.drain(..end);
                if request.expects {
                    stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                }
                found = Some(request);
            }
            Ok(None) if bytes.len() <= HEAD_BYTES => {}
            _ => return Ok(Err("400 Bad Request")),
        }
    }
}

/// The head of a request and its length; `None` where there is not all of it.
fn parsed(bytes: &[u8]) -> Result<Option<(Request, usize)>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parser = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(end) = parser.parse(bytes)? else { return Ok(None) };
    let header = |name: &str| {
        let found = parser.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map_or(String::new(), |header| String::from_utf8_lossy(header.value).into_owned())
    };
    // Whoever stands in front of the hub may go by another one of them.
    for name in ["host", "content-length"] {
        if parser.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name)).count() > 1 {
            return Err(httparse::Error::HeaderName);
        }
    }
    let target = parser.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let request = Request {
        method: parser.method.unwrap_or_default().to_string(),
        path: path.to_string(),
        parameters: pairs.map(|(name, value)| (decoded(name), decoded(value))).collect(),
        accept: header("accept"),
        accepts_gzip: accepts_gzip(&header("accept-encoding")),
        host: header("host"),
        content_type: header("content-type"),
        encoding: header("content-encoding").to_ascii_lowercase(),
        last_event: header("last-event-id"),
        length: header("content-length").parse().ok(),
        expects: header("expect").eq_ignore_ascii_case("100-continue"),
        body: Vec::new(),
    };
    Ok(Some((request, end)))
}

/// Whether one of the encodings is gzip, and not with a weight of zero.
fn accepts_gzip(encodings: &str) -> bool {
    encodings.split(',').any(|encoding| {
        let (name, weight) = encoding.split_once(';').unwrap_or((encoding, ""));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.trim().parse::<f64>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight != Some(0.0)
    })
}

/// Text in which `%41` is A and `+` is a blank.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, more @ ..] = rest {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        (rest, _) = match (first, more) {
            (b'%', [high, low, more @ ..]) if digit(*high).is_some() && digit(*low).is_some() => {
                (more, bytes.push((digit(*high).unwrap_or(0) * 16 + digit(*low).unwrap_or(0)) as u8))
            }
            (b'+', more) => (more, bytes.push(b' ')),
            (other, more) => (more, bytes.push(*other)),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Answers a request, compressed where that is wanted.
pub fn respond(mut stream: &Stream, response: &Response, request: Option<&Request>) -> io::Result<()> {
    let is_packed = response.body.len() >= SHORT && request.is_some_and(|request| request.accepts_gzip);
    let packed = if is_packed { gzip(&response.body)? } else { Vec::new() };
    let body = if is_packed { &packed } else { &response.body };
    let encoding = if is_packed { "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\n{encoding}{}Content-Length: {}\r\nConnection: close\r\n\r\n",
        response.status,
        response.content_type,
        response.headers,
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if request.is_some_and(|request| request.method == "HEAD") { Ok(()) } else { stream.write_all(body) }
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed() {
        let text =
            b"GET /api/v1/series?step=10s&where=kind+%3D%20read&x HTTP/1.1\r\nAccept-Encoding: br, gzip;q=0.5\r\n\r\n";
        let (request, _) = parsed(text).unwrap().unwrap();
        assert_eq!((request.path.as_str(), request.parameter("step")), ("/api/v1/series", Some("10s")));
        assert_eq!((request.parameter("where"), request.parameter("x")), (Some("kind = read"), Some("")));
        assert!(request.accepts_gzip && request.parameter("y").is_none());
        for header in ["Host: a", "Content-Length: 1"] {
            let twice = format!("GET / HTTP/1.1\r\n{header}\r\n{header}\r\n\r\n");
            assert!(parsed(twice.as_bytes()).is_err(), "{header}");
        }
        for (encodings, expected) in
            [("", false), ("gzip", true), ("gzip;q=0", false), ("x-gzip", false), ("br,GZIP", true)]
        {
            assert_eq!(accepts_gzip(encodings), expected, "{encodings}");
        }
        for (text, expected) in [("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("%C3%A4", "\u{e4}"), ("a%2Bb", "a+b")] {
            assert_eq!(decoded(text), expected);
        }
    }
}
