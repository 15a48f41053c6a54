//! Paths of unix sockets, from the tables of their network namespace in `/proc/PID/net`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The tables are read again at the earliest after this time, and after as long as many readings took.
const READ_EVERY: Duration = Duration::from_millis(100);
const READINGS_APART: u32 = 20;
/// More network namespaces are not remembered.
const NAMESPACES_KEPT: usize = 256;

/// What is known of a socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// Where it is bound.
    Address(String),
    /// It is open and not bound.
    NoAddress,
    /// It is in no table (any more).
    Gone,
}

/// The sockets of each network namespace.
#[derive(Default)]
pub struct UnixSockets {
    namespaces: HashMap<String, Table>,
}

struct Table {
    by_inode: HashMap<u64, Option<String>>,
    read: Instant,
    took: Duration,
}

impl UnixSockets {
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
        let started = Instant::now();
        let mut by_inode = HashMap::new();
        unix(&std::fs::read_to_string(format!("/proc/{task}/net/unix")).unwrap_or_default(), &mut by_inode);
        Table { by_inode, read: Instant::now(), took: started.elapsed() }
    }
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
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn find(sockets: &mut UnixSockets, socket: &impl AsFd) -> Found {
        let file = std::fs::File::from(socket.as_fd().try_clone_to_owned().unwrap());
        sockets.find(file.metadata().unwrap().ino(), std::process::id(), std::process::id())
    }

    #[test]
    fn bound_sockets_have_their_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let bound = UnixListener::bind(&path).unwrap();
        let (pair, _other) = UnixStream::pair().unwrap();
        let mut sockets = UnixSockets::default();
        assert_eq!(find(&mut sockets, &bound), Found::Address(path.to_str().unwrap().to_owned()));
        assert_eq!(find(&mut sockets, &pair), Found::NoAddress);
        assert_eq!(sockets.find(u64::MAX, std::process::id(), 0), Found::Gone);
    }

    #[test]
    fn damaged_tables_are_no_panic() {
        for text in ["", "x\n1:2:3", "h\n a b c d e f g h i 99999999999999999999999"] {
            unix(text, &mut HashMap::new());
        }
    }
}
