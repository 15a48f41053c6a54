//! Where a hub listens: a socket file, or a port. Whatever is no address of this machine needs TLS.

use crate::credentials::{Client, Credentials};
use crate::messages::{parse_refusal, token};
use crate::stream::{Socket, Stream, explain_failure};
use crate::{Found, Kind, PREFACE, Query, Record, Records};
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs};

/// The port where no other is named.
const PORT: u16 = 7790;
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);

/// Where a hub listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A socket file.
    Unix(PathBuf),
    /// A host, by name or number, and a port.
    Tcp(String, u16),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

impl Address {
    /// Of `unix:PATH` or `HOST[:PORT]`.
    ///
    /// # Errors
    /// A sentence, for anything else.
    pub fn parse(text: &str) -> Result<Address, String> {
        let fail =
            || Err(format!("{text} is not an address such as 127.0.0.1:7790, hub.example or unix:/run/latscope.sock."));
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Address::Unix(path.into()));
        }
        let (host, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(PORT), str::parse);
        let is_name =
            !host.is_empty() && host.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-_".contains(letter));
        match port {
            Ok(port) if is_name || host.parse::<IpAddr>().is_ok() => Ok(Address::Tcp(host.into(), port)),
            _ => fail(),
        }
    }

    /// Of an input such as `hub://hub.example:7790` or `hub+unix:PATH`; `None` for the name of a file.
    pub fn of_input(path: &Path) -> Option<Result<Address, String>> {
        let text = path.to_str()?;
        if let Some(address) = text.strip_prefix("hub://") {
            return Some(Address::parse(address.trim_end_matches('/')));
        }
        text.strip_prefix("hub+").filter(|rest| rest.starts_with("unix:")).map(Address::parse)
    }

    /// Whether only this machine can be at the other end.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Unix(_) => true,
            Address::Tcp(host, _) => {
                host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        }
    }

    /// Connects, encrypted where there is what that needs.
    ///
    /// # Errors
    /// When nobody listens, when one side does not trust the other, and when it would not be encrypted between machines.
    pub fn connect(&self, client: Option<&Client>) -> io::Result<Stream> {
        if client.is_none() && !self.is_local() {
            return Err(io::Error::other("another machine is only connected to with TLS: name a CA"));
        }
        match self {
            Address::Unix(path) => Stream::new(Socket::Unix(UnixStream::connect(path)?)),
            Address::Tcp(host, port) => {
                let mut failure = io::Error::other("its name has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, CONNECT) {
                        Ok(stream) => {
                            let stream = Stream::new(Socket::Tcp(stream))?;
                            let Some(client) = client else { return Ok(stream) };
                            return stream.encrypt(client.config.clone(), host);
                        }
                        Err(error) => failure = error,
                    }
                }
                Err(failure)
            }
        }
    }

    /// Asks a hub: the file of frames that the connection then holds.
    ///
    /// # Errors
    /// A sentence, when no hub answers or it refuses.
    pub fn read(&self, credentials: &Credentials, query: &Query) -> Result<impl Read + use<>, String> {
        let client = credentials.client().map_err(|why| format!("{self}: {why}."))?;
        let fail = |error: io::Error| format!("No hub answers at {self}: {}.", explain_failure(&error));
        let stream = self.connect(client.as_ref()).map_err(fail)?;
        let mut question = PREFACE.to_vec();
        question.extend_from_slice(
            client
                .as_ref()
                .and_then(|client| client.token.as_deref())
                .map(token)
                .iter()
                .flat_map(Record::bytes)
                .copied()
                .collect::<Vec<u8>>()
                .as_slice(),
        );
        question.extend_from_slice(Record::new(Kind::Read, &query.payload()).bytes());
        (&stream).write_all(&question).map_err(fail)?;
        let mut start = [0; PREFACE.len() + 4];
        (&stream).read_exact(&mut start).map_err(fail)?;
        let length = start.last_chunk::<4>().map_or(0, |length| u32::from_le_bytes(*length));
        if !start.starts_with(PREFACE) || length > crate::record::RECORD_BYTES as u32 {
            return Err(format!("No hub answers at {self}: it speaks another protocol."));
        }
        let mut answer = start.to_vec();
        answer.resize(start.len() + 4 + length as usize, 0);
        (&stream).read_exact(&mut answer[start.len()..]).map_err(fail)?;
        if let Ok(Some(Found::Record(record))) = Records::of_file(&answer[PREFACE.len()..]).next()
            && record.kind() == Ok(Kind::Refuse)
        {
            return Err(format!("{self} refuses: {}.", parse_refusal(record.payload()).unwrap_or_default()));
        }
        Ok(io::Cursor::new(answer).chain(stream))
    }

    /// Listens. A socket file that nobody listens on is replaced.
    ///
    /// # Errors
    /// When the address is in use, or cannot be used.
    pub fn listen(&self) -> io::Result<Listener> {
        match self {
            Address::Unix(path) => {
                let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
                if is_socket && UnixStream::connect(path).is_err() {
                    fs::remove_file(path)?;
                }
                UnixListener::bind(path).map(|listener| Listener::Unix(listener, path.clone()))
            }
            Address::Tcp(host, port) => TcpListener::bind((host.as_str(), *port)).map(Listener::Tcp),
        }
    }
}

/// What accepts connections. A socket file goes with it.
pub enum Listener {
    /// On a socket file.
    Unix(UnixListener, PathBuf),
    /// On a port.
    Tcp(TcpListener),
}

impl Listener {
    /// Where it listens, with the port that was taken.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Listener::Unix(_, path) => Ok(Address::Unix(path.clone())),
            Listener::Tcp(listener) => {
                listener.local_addr().map(|address| Address::Tcp(address.ip().to_string(), address.port()))
            }
        }
    }

    /// The next connection, and from where it is.
    pub(crate) fn accept(&self) -> io::Result<(Stream, String)> {
        match self {
            Listener::Unix(listener, path) => {
                let stream = Stream::new(Socket::Unix(listener.accept()?.0))?;
                Ok((stream, format!("unix:{}", path.display())))
            }
            Listener::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                Ok((Stream::new(Socket::Tcp(stream))?, address.ip().to_string()))
            }
        }
    }

    /// Makes [`Listener::accept`] return at once if nobody connects.
    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Listener::Unix(listener, _) => listener.set_nonblocking(true),
            Listener::Tcp(listener) => listener.set_nonblocking(true),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_ports_and_socket_files() {
        let tcp = |host: &str, port| Ok(Address::Tcp(host.into(), port));
        assert_eq!(Address::parse("unix:/run/x"), Ok(Address::Unix("/run/x".into())));
        assert_eq!(Address::parse("127.0.0.1:80"), tcp("127.0.0.1", 80));
        assert_eq!(Address::parse("[::1]:7"), tcp("::1", 7));
        assert_eq!(Address::parse("[::1]"), tcp("::1", PORT));
        assert_eq!(Address::parse("db1.example"), tcp("db1.example", PORT));
        for text in ["", "unix:", ":80", "db1:port", "db1:99999", "a b", "[::1"] {
            assert!(Address::parse(text).unwrap_err().contains("is not an address"), "{text}");
        }
        for (text, is_local) in
            [("localhost:1", true), ("[::1]:1", true), ("127.0.0.2", true), ("10.0.0.1", false), ("[::]", false)]
        {
            assert_eq!(Address::parse(text).unwrap().is_local(), is_local, "{text}");
            assert!(Address::parse(text).unwrap().to_string().contains(text.trim_end_matches(":1")));
        }
        assert_eq!(Address::of_input(Path::new("run.lat")), None);
        assert_eq!(Address::of_input(Path::new("hub+unix:x")), Some(Ok(Address::Unix("x".into()))));
        assert_eq!(Address::of_input(Path::new("hub://[::1]:1/")), Some(tcp("::1", 1)));
    }

    #[test]
    fn other_machines_are_not_connected_to_without_encryption() {
        let refused = Address::Tcp("192.0.2.1".into(), 1).connect(None).err().unwrap();
        assert!(refused.to_string().contains("only connected to with TLS"));
    }
}
