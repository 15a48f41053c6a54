//! Addresses of sockets, from the tables of their network namespace in `/proc/PID/net`.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// The tables are read again at the earliest after this time, and after as long as many readings took.
const READ_EVERY: Duration = Duration::from_millis(100);
const READINGS_APART: u32 = 20;
/// More network namespaces are not remembered.
const NAMESPACES_KEPT: usize = 256;

/// What is known of a socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// Where it leads, or where it is bound.
    Address(String),
    /// It is open and neither bound nor connected.
    NoAddress,
    /// It is in no table (any more).
    Gone,
}

/// The sockets of each network namespace.
#[derive(Default)]
pub struct Sockets {
    namespaces: HashMap<String, Table>,
}

struct Table {
    by_inode: HashMap<u64, Option<String>>,
    read: Instant,
    took: Duration,
}

impl Sockets {
    /// What is known of the socket with this inode, which this thread of this process used.
    pub fn find(&mut self, inode: u64, tid: u32, pid: u32) -> Found {
        let namespace = |task: u32| std::fs::read_link(format!("/proc/{task}/ns/net")).ok();
        let Some((task, namespace)) = [tid, pid].iter().find_map(|&task| Some((task, namespace(task)?))) else {
            return Found::Gone;
        };
        let namespace = namespace.to_string_lossy().into_owned();
        let known = self.namespaces.get(&namespace);
        let listed = known.is_some_and(|table| table.by_inode.get(&inode).is_some_and(Option::is_some));
        let due = known.is_none_or(|table| table.read.elapsed() >= READ_EVERY.max(table.took * READINGS_APART));
        if !listed && due {
            if self.namespaces.len() >= NAMESPACES_KEPT {
                self.namespaces.clear();
            }
            self.namespaces.insert(namespace.clone(), Table::read(task));
        }
        match self.namespaces.get(&namespace).and_then(|table| table.by_inode.get(&inode)) {
            Some(Some(address)) => Found::Address(address.clone()),
            Some(None) => Found::NoAddress,
            None => Found::Gone,
        }
    }
}

impl Table {
    fn read(task: u32) -> Table {
        let begun = Instant::now();
        let mut by_inode = HashMap::new();
        let text = |name: &str| std::fs::read_to_string(format!("/proc/{task}/net/{name}")).unwrap_or_default();
        for name in ["tcp", "tcp6", "udp", "udp6"] {
            internet(&text(name), &mut by_inode);
        }
        unix(&text("unix"), &mut by_inode);
        Table { by_inode, read: Instant::now(), took: begun.elapsed() }
    }
}

/// A table of tcp or udp. A socket on a port that one of them listens on is the server's end.
fn internet(table: &str, to: &mut HashMap<u64, Option<String>>) {
    const LISTENS: &str = "0A";
    let rows = || {
        table.lines().skip(1).filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (local, remote) = (address(words.get(1)?)?, address(words.get(2)?)?);
            Some((local, remote, *words.get(3)?, words.get(9)?.parse::<u64>().ok()?))
        })
    };
    let served: HashSet<u16> =
        rows().filter(|(_, _, state, _)| *state == LISTENS).map(|(local, ..)| local.port()).collect();
    for (local, remote, _, inode) in rows() {
        let name = if remote.port() == 0 {
            local.to_string()
        } else if served.contains(&local.port()) {
            format!("{remote}->{local}")
        } else {
            format!("{local}->{remote}")
        };
        to.insert(inode, Some(name));
    }
}

/// An address as the kernel prints it: the words of the IP in the machine's byte order, the port as a number.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, to) in bytes.chunks_exact_mut(4).enumerate() {
                to.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// The table of unix sockets: those bound to a path have it behind their inode.
fn unix(table: &str, to: &mut HashMap<u64, Option<String>>) {
    for line in table.lines().skip(1) {
        let mut words = line.split_whitespace().skip(6);
        if let Some(inode) = words.next().and_then(|inode| inode.parse().ok()) {
            to.insert(inode, words.next().map(str::to_owned));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn find(sockets: &mut Sockets, socket: &impl AsFd) -> Found {
        let file = std::fs::File::from(socket.as_fd().try_clone_to_owned().unwrap());
        sockets.find(file.metadata().unwrap().ino(), std::process::id(), std::process::id())
    }

    #[test]
    fn both_ends_of_a_connection_are_named_from_client_to_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let client = TcpStream::connect(server).unwrap();
        let (accepted, client_address) = listener.accept().unwrap();
        let mut sockets = Sockets::default();
        let name = Found::Address(format!("{client_address}->{server}"));
        assert_eq!(find(&mut sockets, &client), name);
        assert_eq!(find(&mut sockets, &accepted), name);
        assert_eq!(find(&mut sockets, &listener), Found::Address(server.to_string()));
    }

    #[test]
    fn version_six_datagrams_and_unix_paths() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let bound = UnixListener::bind(&path).unwrap();
        let (pair, _other) = UnixStream::pair().unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sockets = Sockets::default();
        assert_eq!(find(&mut sockets, &bound), Found::Address(path.to_str().unwrap().to_owned()));
        assert_eq!(find(&mut sockets, &pair), Found::NoAddress);
        assert_eq!(find(&mut sockets, &datagrams), Found::Address(datagrams.local_addr().unwrap().to_string()));
        if let Ok(listener) = TcpListener::bind("[::1]:0") {
            let address = listener.local_addr().unwrap();
            assert_eq!(find(&mut Sockets::default(), &listener), Found::Address(address.to_string()));
        }
        assert_eq!(sockets.find(u64::MAX, std::process::id(), 0), Found::Gone);
    }

    #[test]
    fn damaged_tables_are_no_panic() {
        for text in ["", "x\n1:2:3", "h\n 0: 0100007F:0050 zz:0 0A", "h\n a b c d e f g h i 99999999999999999999999"] {
            let mut to = HashMap::new();
            internet(text, &mut to);
            unix(text, &mut to);
        }
        assert_eq!(address("é1234567:00"), None);
    }
}
