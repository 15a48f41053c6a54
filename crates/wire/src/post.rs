//! Asks HTTP servers, and posts to them what is exported, and alerts. HTTP/1.1 without TLS or with it, one connection per request.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a connection, and each part of an answer, may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a request may take as a whole.
const DEADLINE: Duration = Duration::from_secs(30);
/// Most of an answer to a post that is read, bytes.
const ANSWER_BYTES: usize = 1 << 20;
/// So much of it is read at a time.
const PART_BYTES: usize = 1 << 16;
/// Most header lines of an answer.
const HEADERS: usize = 64;
/// Where Debian and most other systems have the certificates that are trusted.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Where to post.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    is_tls: bool,
    /// A name or an address, without brackets.
    host: String,
    port: u16,
    /// From the first slash on.
    path: String,
}

impl Url {
    /// Of a text such as `http://127.0.0.1:9090/api/v1/write` or `https://HOST/PATH`.
    ///
    /// # Errors
    /// A sentence for who typed it.
    pub fn parse(text: &str) -> Result<Url, String> {
        let malformed = || format!("{text} is not a URL such as http://127.0.0.1:9090/api/v1/write.");
        let (is_tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(malformed()),
        };
        let (authority, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
        if authority.contains('@') {
            return Err(format!(
                "{} has a password, which other users could see.",
                rest.rsplit('@').next().unwrap_or("")
            ));
        }
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => authority.rsplit_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(if is_tls { 443 } else { 80 }), str::parse).map_err(|_| malformed())?;
        if host.is_empty() || !is_plain(host) || !is_plain(path) || path.contains('#') {
            return Err(malformed());
        }
        let path = if path.starts_with('/') { path.to_string() } else { format!("/{path}") };
        Ok(Url { is_tls, host: host.to_string(), port, path })
    }

    /// From the first slash on.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same server with another path, which starts with a slash.
    #[must_use]
    pub fn with_path(self, path: String) -> Url {
        Url { path, ..self }
    }

    /// The same without its path, which may be a secret: for messages.
    pub fn server(&self) -> String {
        format!("{}://{}", if self.is_tls { "https" } else { "http" }, self.authority())
    }

    fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.is_tls, self.port) {
            (false, 80) | (true, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.server(), self.path)
    }
}

/// What a server answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// 200 and so on.
    pub status: u16,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
    /// To a post at most a mebibyte.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header, whose name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The first line of what it says, for messages.
    pub fn first_line(&self) -> String {
        String::from_utf8_lossy(&self.body).lines().next().unwrap_or_default().chars().take(200).collect()
    }
}

/// Posts to one URL, or asks its server.
pub struct Poster {
    url: Url,
    tls: Option<Arc<ClientConfig>>,
}

impl Poster {
    /// For a URL. Of a server with TLS the certificate must be signed by one of those in the file `ca`, or else by one that the system
    /// trusts.
    ///
    /// # Errors
    /// A sentence, when there are no certificates to trust.
    pub fn new(url: Url, ca: Option<&Path>) -> Result<Poster, String> {
        let tls = if url.is_tls { Some(trusting(ca.unwrap_or(Path::new(SYSTEM_ROOTS)))?) } else { None };
        Ok(Poster { url, tls })
    }

    /// Where it posts.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Posts a body, with these headers beside `Host` and `Content-Length`. Any status is an answer.
    ///
    /// # Errors
    /// When there is no connection, or no whole answer in time.
    pub fn post(&self, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
        let mut more = String::new();
        for (name, value) in headers {
            more.push_str(&format!("{name}: {value}\r\n"));
        }
        more.push_str(&format!("Content-Length: {}\r\n", body.len()));
        self.request("POST", &self.url.path, &more, body, ANSWER_BYTES)
    }

    /// Asks for another path of the server, which starts with a slash; the answer has at most so many bytes. Any status is an answer.
    ///
    /// # Errors
    /// As [`Poster::post`], and when the answer is longer.
    pub fn get(&self, path: &str, most_bytes: usize) -> io::Result<Answer> {
        self.request("GET", path, "Accept: application/json\r\n", b"", most_bytes)
    }

    fn request(&self, method: &str, path: &str, more: &str, body: &[u8], most: usize) -> io::Result<Answer> {
        let deadline = Instant::now() + DEADLINE;
        let stream = self.connect()?;
        // Who is asked may have much to look through before the first byte.
        stream.set_read_timeout(Some(if body.is_empty() { DEADLINE } else { PATIENCE }))?;
        let host = self.url.authority();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n");
        match &self.tls {
            None => exchange(stream, head.as_bytes(), body, deadline, most),
            Some(config) => {
                let name = ServerName::try_from(self.url.host.clone()).map_err(io::Error::other)?;
                let session = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
                exchange(StreamOwned::new(session, stream), head.as_bytes(), body, deadline, most)
            }
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut failure = io::Error::new(io::ErrorKind::NotFound, format!("{} has no address", self.url.host));
        for address in (self.url.host.as_str(), self.url.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    return Ok(stream);
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

/// A client that trusts the certificates of a file.
fn trusting(path: &Path) -> Result<Arc<ClientConfig>, String> {
    let unreadable = |why: &dyn fmt::Display| format!("{}: The certificates cannot be read: {why}.", path.display());
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))?;
    for certificate in certificates {
        // Of those of a system, some may be too old to be understood.
        let _ = roots.add(certificate.map_err(|error| unreadable(&error))?);
    }
    if roots.is_empty() {
        return Err(unreadable(&"it has none"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = versions.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
}

fn exchange(
    mut stream: impl Read + Write,
    head: &[u8],
    body: &[u8],
    deadline: Instant,
    most: usize,
) -> io::Result<Answer> {
    stream.write_all(head)?;
    // A server that refuses a long body may answer before it has read all of it.
    let sent = stream.write_all(body).and_then(|()| stream.flush());
    let answer = read_answer(stream, deadline, most);
    if answer.is_err() { sent.and(answer) } else { answer }
}

/// How long the body of an answer is.
#[derive(Clone, Copy)]
enum Length {
    Known(usize),
    Chunked,
    ToEnd,
}

fn read_answer(mut stream: impl Read, deadline: Instant, most: usize) -> io::Result<Answer> {
    let invalid = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut bytes = Vec::new();
    let mut found = None;
    let mut part = vec![0; PART_BYTES];
    loop {
        if found.is_none() {
            found = parse_head(&mut bytes, most)?;
        }
        if let Some((answer, length)) = &found
            && let Some(body) = parse_body(&bytes, *length, most)?
        {
            return Ok(Answer { body, ..answer.clone() });
        }
        // Chunks have their sizes between them.
        if bytes.len() > most.saturating_add(most / 8).max(ANSWER_BYTES) {
            return Err(invalid("the answer is too long"));
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // A server may forget to end TLS before it ends the connection.
        let read = match stream.read(&mut part) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
            read => read?,
        };
        if read == 0 {
            return match found {
                Some((answer, Length::ToEnd)) => Ok(Answer { body: bytes, ..answer }),
                _ => Err(invalid("the connection ended before the answer did")),
            };
        }
        bytes.extend_from_slice(&part[..read]);
    }
}

/// The head of an answer, which is removed from the bytes; `None` where there are not enough.
fn parse_head(bytes: &mut Vec<u8>, most: usize) -> io::Result<Option<(Answer, Length)>> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response.parse(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let httparse::Status::Complete(end) = parsed else { return Ok(None) };
        let status = response.code.unwrap_or(0);
        let value = |header: &httparse::Header| String::from_utf8_lossy(header.value).trim().to_string();
        let headers = response.headers.iter().map(|header| (header.name.to_ascii_lowercase(), value(header))).collect();
        bytes.drain(..end);
        // "Go on" precedes the answer.
        if (100..200).contains(&status) {
            continue;
        }
        let answer = Answer { status, headers, body: Vec::new() };
        let length = match (answer.header("transfer-encoding"), answer.header("content-length")) {
            _ if status == 204 || status == 304 => Length::Known(0),
            (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => Length::Chunked,
            (_, Some(length)) => {
                let length = length.parse().ok().filter(|&length| length <= most);
                Length::Known(
                    length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is too long"))?,
                )
            }
            _ => Length::ToEnd,
        };
        return Ok(Some((answer, length)));
    }
}

/// The body, when all of it is there.
fn parse_body(bytes: &[u8], length: Length, most: usize) -> io::Result<Option<Vec<u8>>> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "the answer has a malformed chunk");
    match length {
        Length::ToEnd => Ok(None),
        Length::Known(length) => Ok(bytes.get(..length).map(<[u8]>::to_vec)),
        Length::Chunked => {
            let (mut body, mut rest) = (Vec::new(), bytes);
            loop {
                let httparse::Status::Complete((start, size)) =
                    httparse::parse_chunk_size(rest).map_err(|_| invalid())?
                else {
                    return Ok(None);
                };
                if size == 0 {
                    return Ok(Some(body));
                }
                if size > most as u64 {
                    return Err(invalid());
                }
                let end = start + size as usize;
                let Some(chunk) = rest.get(start..end) else { return Ok(None) };
                body.extend_from_slice(chunk);
                rest = match rest.get(end..end + 2) {
                    Some(b"\r\n") => &rest[end + 2..],
                    Some(_) => return Err(invalid()),
                    None => return Ok(None),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn urls_are_parsed() {
        let url = |text: &str| Url::parse(text).unwrap();
        assert_eq!(url("http://localhost").to_string(), "http://localhost/");
        assert_eq!(url("https://n1:8443/a?b=c").to_string(), "https://n1:8443/a?b=c");
        assert_eq!(url("http://[::1]:9090/api").authority(), "[::1]:9090");
        assert_eq!((url("https://n1/x").port, url("http://n1?x").path()), (443, "/?x"));
        for text in
            ["n1:9090", "ftp://n1/", "http://", "http://n1:x/", "http://n1/a b", "http://n1/\r\nX: y", "http://n1/#x"]
        {
            assert!(Url::parse(text).unwrap_err().contains("is not a URL"), "{text}");
        }
        let refused = Url::parse("http://me:secret@n1/x").unwrap_err();
        assert!(refused.contains("n1/x has a password") && !refused.contains("secret"), "{refused}");
    }

    /// A server that answers one request with these bytes, one at a time; returns the request.
    fn answered(answer: &'static [u8]) -> (io::Result<Answer>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/path", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"body") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            // A client that gives up reads no more.
            let _ = answer.chunks(1).try_for_each(|byte| stream.write_all(byte));
            String::from_utf8(request).unwrap()
        });
        let poster = Poster::new(Url::parse(&url).unwrap(), None).unwrap();
        let answer = poster.post(&[("Content-Type", "text/plain")], b"body");
        (answer, server.join().unwrap())
    }

    #[test]
    fn answers_of_every_kind_are_read() {
        let (answer, request) = answered(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-Y: z\r\n\r\nabc");
        assert!(request.starts_with("POST /path HTTP/1.1\r\nHost: 127.0.0.1:"), "{request}");
        assert!(request.contains("Content-Type: text/plain\r\nContent-Length: 4\r\n"), "{request}");
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.header("x-y"), &answer.body[..]), (200, Some("z"), &b"abc"[..]));
        let chunked = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n";
        let (answer, _) = answered(chunked);
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.first_line()), (400, "abc".into()));
        assert_eq!(answered(b"HTTP/1.1 204 No Content\r\n\r\n").0.unwrap().body, b"");
        assert_eq!(answered(b"HTTP/1.0 500 x\r\n\r\nto the end").0.unwrap().first_line(), "to the end");
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for bytes in [
            &b""[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab",
            b"SSH-2.0-OpenSSH\r\n",
        ] {
            assert!(answered(bytes).0.is_err(), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn certificates_must_be_there() {
        let url = || Url::parse("https://localhost/").unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Poster::new(url(), Some(file.path())).err().unwrap().contains("it has none"));
        assert!(Poster::new(url(), Some(Path::new("/nonexistent"))).err().unwrap().contains("cannot be read"));
    }
}
