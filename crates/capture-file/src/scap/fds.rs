//! File descriptors: what they are, and the addresses of sockets.

use super::bytes::{Bytes, until_nul};
use latscope_event::MISSING_CODE;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Kinds of descriptor by their number in captures, as `fd.type` has them; empty for what has no name.
pub const NAMES: [&str; 22] = [
    "",
    "file",
    "directory",
    "ipv4",
    "ipv6",
    "ipv4",
    "ipv6",
    "pipe",
    "unix",
    "event",
    "",
    "signalfd",
    "eventpoll",
    "inotify",
    "timerfd",
    "netlink",
    "file",
    "bpf",
    "userfaultfd",
    "io_uring",
    "memfd",
    "pidfd",
];
pub const UNKNOWN: u8 = 0;
pub const FILE: u8 = 1;
pub const DIRECTORY: u8 = 2;
pub const IPV4: u8 = 3;
pub const IPV6: u8 = 4;
pub const LISTENING_IPV4: u8 = 5;
pub const LISTENING_IPV6: u8 = 6;
pub const PIPE: u8 = 7;
pub const UNIX: u8 = 8;
pub const NETLINK: u8 = 15;
pub const FILE_WITH_FLAGS: u8 = 16;

/// In the flags of an open: sysdig's own bit for `O_DIRECTORY`.
pub const O_DIRECTORY: u64 = 1024;
/// In the place of a descriptor: the working directory.
pub const AT_FDCWD: i64 = -100;

/// A descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Fd {
    /// A number of [`NAMES`].
    pub kind: u8,
    /// Its path or address, as a code of the trace.
    pub path: u32,
    pub ends: EndCodes,
}

impl Fd {
    /// A descriptor of which nothing else is known.
    pub fn new(kind: u8) -> Fd {
        Fd { kind, path: MISSING_CODE, ends: EndCodes::MISSING }
    }

    /// Whether it is a socket of the internet or a local one.
    pub fn is_socket(&self) -> bool {
        matches!(self.kind, IPV4 | IPV6 | LISTENING_IPV4 | LISTENING_IPV6 | UNIX)
    }

    /// Whether it is a file with data.
    pub fn is_file(&self) -> bool {
        matches!(self.kind, FILE | FILE_WITH_FLAGS)
    }
}

/// Addresses of a socket as codes of the trace; ports and protocol as numbers, -1 and 0 where unknown.
#[derive(Clone, Copy, Debug)]
pub struct EndCodes {
    pub local_ip: u32,
    pub remote_ip: u32,
    pub local_port: i32,
    pub remote_port: i32,
    pub protocol: u8,
}

impl EndCodes {
    pub const MISSING: EndCodes =
        EndCodes { local_ip: MISSING_CODE, remote_ip: MISSING_CODE, local_port: -1, remote_port: -1, protocol: 0 };
}

/// Name of a transport protocol by its number in captures.
pub fn protocol_name(protocol: u8) -> Option<&'static str> {
    Some(match protocol {
        2 => "tcp",
        3 => "udp",
        4 => "icmp",
        5 => "raw",
        _ => return None,
    })
}

/// Addresses of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    pub local: SocketAddr,
    pub remote: Option<SocketAddr>,
    /// Whether the other end connected to this one.
    pub is_server: bool,
    /// Number of its transport protocol.
    pub protocol: u8,
}

impl Ends {
    /// The kind of a descriptor with these addresses.
    pub fn kind(&self) -> u8 {
        if self.local.is_ipv4() { IPV4 } else { IPV6 }
    }

    /// `client->server`, or the one address.
    pub fn text(&self) -> String {
        match self.remote {
            None => self.local.to_string(),
            Some(remote) if self.is_server => format!("{remote}->{}", self.local),
            Some(remote) => format!("{}->{remote}", self.local),
        }
    }
}

/// What an event has of the addresses of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Address<'a> {
    /// Source and destination.
    Internet(SocketAddr, SocketAddr),
    /// Of a local socket.
    Unix(&'a [u8]),
}

fn ip(bytes: &mut Bytes, is_v4: bool) -> Option<IpAddr> {
    Some(match is_v4 {
        true => Ipv4Addr::from(<[u8; 4]>::try_from(bytes.take(4)?).ok()?).into(),
        // As sysdig has it: what is mapped into IPv6 is IPv4.
        false => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.take(16)?).ok()?)).to_canonical(),
    })
}

fn end(bytes: &mut Bytes, is_v4: bool) -> Option<SocketAddr> {
    Some(SocketAddr::new(ip(bytes, is_v4)?, bytes.u16()?))
}

/// Source and destination in an event.
pub fn tuple(bytes: &[u8]) -> Option<Address<'_>> {
    let mut bytes = Bytes(bytes);
    Some(match bytes.u8()? {
        1 => {
            bytes.take(16)?;
            Address::Unix(until_nul(bytes.0))
        }
        family @ (2 | 10) => Address::Internet(end(&mut bytes, family == 2)?, end(&mut bytes, family == 2)?),
        _ => return None,
    })
}

/// The one internet address that an event has.
pub fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let mut bytes = Bytes(bytes);
    let family = bytes.u8()?;
    matches!(family, 2 | 10).then(|| end(&mut bytes, family == 2)).flatten()
}

/// The addresses of a socket in a list of descriptors: local and remote, with ports after both of them.
pub fn listed(bytes: &mut Bytes, is_v4: bool) -> Option<Ends> {
    let (local, remote) = (ip(bytes, is_v4)?, ip(bytes, is_v4)?);
    let (local_port, remote_port, protocol) = (bytes.u16()?, bytes.u16()?, bytes.u8()?);
    let remote = Some(SocketAddr::new(remote, remote_port));
    Some(Ends { local: SocketAddr::new(local, local_port), remote, is_server: false, protocol })
}

/// The address of a listening socket in a list of descriptors.
pub fn listening(bytes: &mut Bytes, is_v4: bool) -> Option<Ends> {
    let local = end(bytes, is_v4)?;
    Some(Ends { local, remote: None, is_server: true, protocol: bytes.u8()? })
}

/// A path without `.`, `..` and doubled slashes, from this directory unless it is absolute.
pub fn resolved(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let is_absolute = name.starts_with(b"/");
    if is_absolute && !needs_work(name) {
        return name.to_vec();
    }
    if !is_absolute && directory.is_empty() {
        // Where it starts is not known.
        return name.strip_prefix(b"./").unwrap_or(name).to_vec();
    }
    let from = if is_absolute { &b""[..] } else { directory };
    let mut path: Vec<u8> = Vec::with_capacity(from.len() + name.len() + 1);
    for part in from.split(|&byte| byte == b'/').chain(name.split(|&byte| byte == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => path.truncate(memchr::memrchr(b'/', &path).unwrap_or(0)),
            part => {
                path.push(b'/');
                path.extend_from_slice(part);
            }
        }
    }
    if path.is_empty() {
        path.push(b'/');
    }
    path
}

fn needs_work(path: &[u8]) -> bool {
    memchr::memmem::find(path, b"/.").is_some() || memchr::memmem::find(path, b"//").is_some() || path.ends_with(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_start_in_their_directory() {
        for (directory, name, path) in [
            ("/var/", "log", "/var/log"),
            ("/var", "./a/../b", "/var/b"),
            ("/", "x", "/x"),
            ("/var", "/etc/passwd", "/etc/passwd"),
            ("/var", "/etc//passwd", "/etc/passwd"),
            ("/var", "../../..", "/"),
            ("", "./x", "x"),
            ("", "/tmp/", "/tmp"),
            ("/a", "", "/a"),
        ] {
            assert_eq!(resolved(directory.as_bytes(), name.as_bytes()), path.as_bytes(), "{directory} {name}");
        }
    }

    #[test]
    fn addresses_have_two_ends() {
        let mut bytes = vec![2, 10, 0, 0, 1, 80, 0, 10, 0, 0, 2];
        bytes.extend(8080u16.to_le_bytes());
        let Some(Address::Internet(source, destination)) = tuple(&bytes) else { panic!("no tuple") };
        assert_eq!((source.to_string(), destination.to_string()), ("10.0.0.1:80".into(), "10.0.0.2:8080".into()));
        assert_eq!(tuple(&bytes[..12]), None);
        let mut mapped = vec![10];
        for _ in 0..2 {
            mapped.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4, 7, 0]);
        }
        let Some(Address::Internet(source, _)) = tuple(&mapped) else { panic!("no tuple") };
        assert_eq!(source.to_string(), "1.2.3.4:7");
        let unix = [&[1][..], &[0; 16], b"/run/x\0"].concat();
        assert_eq!(tuple(&unix), Some(Address::Unix(b"/run/x")));
    }
}
