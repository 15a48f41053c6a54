//! Names of sockets from their two ends, which the programs read when the call returned: `client->server`.

use super::Name;
use crate::loader::shared;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// The tables of a namespace are read again at the earliest after this time, and after as long as many readings took.
const READ_EVERY: Duration = Duration::from_millis(100);
const READINGS_APART: u32 = 20;
/// More network namespaces, or names, are not remembered.
const NAMESPACES_KEPT: usize = 256;
const KEPT: usize = 1 << 16;

const LISTEN: u8 = 10;
const RAW: u16 = 3;

shared! {
    /// The ends of a socket. Addresses of version 4 are the first four bytes.
    #[derive(Default, Hash)]
    pub struct Ends {
        local: [u8; 16],
        remote: [u8; 16],
        local_port: u16,
        remote_port: u16,
        socket_type: u16,
        protocol: u16,
        net: u32,
        state: u8,
        unused: [u8; 3],
    }
}

impl Ends {
    /// The address of the own end, and of the other one where there is one.
    pub fn addresses(&self, is_v6: bool) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let ip = |bytes: [u8; 16]| match is_v6 {
            true => IpAddr::V6(Ipv6Addr::from(bytes)),
            false => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
        };
        // The kernel keeps the protocol of a raw socket where others have their port.
        let port = if self.socket_type == RAW { 0 } else { self.local_port };
        let (local, remote) =
            (SocketAddr::new(ip(self.local), port), SocketAddr::new(ip(self.remote), self.remote_port));
        let is_set = |address: &SocketAddr| address.port() != 0 || !address.ip().is_unspecified();
        (Some(local).filter(is_set), Some(remote).filter(is_set))
    }

    /// The protocol in a word.
    pub fn protocol(&self) -> Option<&'static str> {
        const PROTOCOLS: [(u16, &str); 8] = [
            (6, "tcp"),
            (17, "udp"),
            (1, "icmp"),
            (58, "icmp"),
            (33, "dccp"),
            (132, "sctp"),
            (136, "udplite"),
            (262, "mptcp"),
        ];
        if self.socket_type == RAW {
            return Some("raw");
        }
        PROTOCOLS.iter().find(|(number, _)| *number == self.protocol).map(|&(_, word)| word)
    }
}

/// Names of sockets, and which ports are served.
#[derive(Default)]
pub struct Sockets {
    names: HashMap<(u64, Ends), String>,
    namespaces: HashMap<u32, Served>,
    ephemeral: Option<(u16, u16)>,
}

/// The ports of a network namespace on which somebody listens.
struct Served {
    ports: HashSet<u16>,
    read: Option<Instant>,
    took: Duration,
}

/// Which end of a connection is the own one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Client,
    Server,
}

impl Sockets {
    /// The name of a socket that this thread of this process used.
    pub fn name(&mut self, inode: u64, ends: &Ends, is_v6: bool, (tid, pid): (u32, u32)) -> Name<'_> {
        let ends = Ends { unused: [0; 3], ..*ends };
        let key = (inode, Ends { state: 0, ..ends });
        if !self.names.contains_key(&key) {
            let name = match ends.addresses(is_v6) {
                (None, None) => return Name::None,
                (Some(local), None) => local.to_string(),
                (None, Some(remote)) => remote.to_string(),
                (Some(local), Some(remote)) => match self.side(&ends, (tid, pid)) {
                    Some(Side::Client) => format!("{local}->{remote}"),
                    Some(Side::Server) => format!("{remote}->{local}"),
                    None => return Name::Unknown,
                },
            };
            if self.names.len() >= KEPT {
                self.names.clear();
            }
            self.names.insert(key, name);
        }
        if ends.state == LISTEN {
            self.served(ends.net).ports.insert(ends.local_port);
        }
        self.names.get(&key).map_or(Name::None, |name| Name::Is(name.as_bytes()))
    }

    /// Which side a connected socket is on: the server's port is one that is listened on, or the one that the kernel does
    /// not give to clients. `None` when that is not known now.
    fn side(&mut self, ends: &Ends, task: (u32, u32)) -> Option<Side> {
        let (low, high) = *self.ephemeral.get_or_insert_with(ephemeral_ports);
        let served = self.served(ends.net);
        let is_fresh = served.refresh(task);
        match (served.ports.contains(&ends.local_port), served.ports.contains(&ends.remote_port)) {
            (true, _) => return Some(Side::Server),
            (false, true) => return Some(Side::Client),
            (false, false) => {}
        }
        let is_ephemeral = |port: u16| (low..=high).contains(&port);
        match (is_ephemeral(ends.local_port), is_ephemeral(ends.remote_port)) {
            (false, true) => Some(Side::Server),
            (true, false) => Some(Side::Client),
            _ if is_fresh => Some(Side::Client),
            _ => None,
        }
    }

    fn served(&mut self, net: u32) -> &mut Served {
        if self.namespaces.len() >= NAMESPACES_KEPT && !self.namespaces.contains_key(&net) {
            self.namespaces.clear();
        }
        let new = || Served { ports: HashSet::new(), read: None, took: Duration::ZERO };
        self.namespaces.entry(net).or_insert_with(new)
    }
}

impl Served {
    /// Reads the tables of a thread or process, if that was not done a moment ago; whether it was done now.
    fn refresh(&mut self, (tid, pid): (u32, u32)) -> bool {
        let due = |read: Instant| read.elapsed() >= READ_EVERY.max(self.took * READINGS_APART);
        if !self.read.is_none_or(due) {
            return false;
        }
        let started = Instant::now();
        let text = |name: &str| {
            [tid, pid].iter().find_map(|task| std::fs::read_to_string(format!("/proc/{task}/net/{name}")).ok())
        };
        let tables: Vec<String> = ["tcp", "tcp6"].into_iter().filter_map(text).collect();
        if tables.is_empty() {
            return false; // The process is gone.
        }
        self.ports.extend(tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(listens));
        (self.read, self.took) = (Some(Instant::now()), started.elapsed());
        true
    }
}

/// The port of a line of a table, if somebody listens on it.
fn listens(line: &str) -> Option<u16> {
    let mut words = line.split_whitespace().skip(1);
    let (local, _, state) = (words.next()?, words.next()?, words.next()?);
    let port = local.rsplit_once(':').filter(|_| state == "0A")?.1;
    u16::from_str_radix(port, 16).ok()
}

/// The ports that the kernel gives to clients.
fn ephemeral_ports() -> (u16, u16) {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ports = range.split_whitespace().filter_map(|port| port.parse().ok());
    ports.next().zip(ports.next()).unwrap_or((32768, 60999))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn ends(local: SocketAddr, remote: SocketAddr) -> Ends {
        let bytes = |address: SocketAddr| match address.ip() {
            IpAddr::V4(ip) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&ip.octets());
                bytes
            }
            IpAddr::V6(ip) => ip.octets(),
        };
        Ends {
            local: bytes(local),
            remote: bytes(remote),
            local_port: local.port(),
            remote_port: remote.port(),
            socket_type: 1,
            protocol: 6,
            ..Ends::default()
        }
    }

    #[test]
    fn both_ends_of_a_connection_are_named_from_client_to_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let client = TcpStream::connect(server).unwrap().local_addr().unwrap();
        let (mut sockets, me) = (Sockets::default(), (std::process::id(), std::process::id()));
        let name = format!("{client}->{server}");
        assert_eq!(sockets.name(1, &ends(client, server), false, me), Name::Is(name.as_bytes()));
        assert_eq!(sockets.name(2, &ends(server, client), false, me), Name::Is(name.as_bytes()));
        // The same socket, by now connected to somebody else.
        let other: SocketAddr = "10.1.2.3:53".parse().unwrap();
        let name = format!("{client}->{other}");
        assert_eq!(sockets.name(1, &ends(client, other), false, me), Name::Is(name.as_bytes()));
    }

    #[test]
    fn ports_that_no_client_is_given_are_the_server_s() {
        let gone = (u32::MAX, u32::MAX);
        let [here, there] = ["10.0.0.1:443", "10.0.0.2:40000"].map(|text| text.parse::<SocketAddr>().unwrap());
        let mut sockets = Sockets { ephemeral: Some((32768, 60999)), ..Sockets::default() };
        let name = format!("{there}->{here}");
        assert_eq!(sockets.name(1, &ends(here, there), false, gone), Name::Is(name.as_bytes()));
        assert_eq!(sockets.name(1, &ends(there, here), false, gone), Name::Is(name.as_bytes()));
        let both = ends("10.0.0.1:40001".parse().unwrap(), there);
        assert_eq!(sockets.name(1, &both, false, gone), Name::Unknown, "nobody can be asked");
    }

    #[test]
    fn what_is_not_connected_has_the_address_it_is_bound_to() {
        let (mut sockets, me) = (Sockets::default(), (0, 0));
        let none: SocketAddr = "[::]:0".parse().unwrap();
        let bound: SocketAddr = "[::1]:5353".parse().unwrap();
        assert_eq!(sockets.name(1, &ends(none, none), true, me), Name::None);
        assert_eq!(sockets.name(1, &ends(bound, none), true, me), Name::Is(b"[::1]:5353"));
        let raw = Ends { socket_type: RAW, ..ends("0.0.0.0:1".parse().unwrap(), "0.0.0.0:0".parse().unwrap()) };
        assert_eq!(sockets.name(2, &raw, false, me), Name::None);
        assert_eq!((raw.protocol(), ends(bound, none).protocol()), (Some("raw"), Some("tcp")));
    }

    #[test]
    fn damaged_tables_are_no_panic() {
        for line in ["", "1:2:3", "0: 0100007F:0050 zz:0 0A", "0: é:00zz x 0A", "a b c d"] {
            listens(line);
        }
        assert_eq!(listens("0: 0100007F:0050 00000000:0000 0A 0 0"), Some(0x50));
    }
}
