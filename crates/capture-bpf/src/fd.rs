//! What the file of a call is called: its path, or the address of its socket, and the name of its device.
//!
//! The names of a path come with the event, as the kernel had them when the call returned: nobody asks `/proc` for a
//! file that may be gone, renamed, or another one by now; the ends of a socket likewise. Unix sockets are looked up in the
//! table of their namespace.

mod ends;
mod names;
mod socket;

pub use ends::Ends;
pub use names::Expected;

use crate::disk::Disk;
use ends::Sockets;
use socket::UnixSockets;
use std::collections::HashMap;
use std::path::Path;

/// More sockets are not remembered; then all are looked up anew.
const KEPT: usize = 1 << 16;

/// Names of sockets.
#[derive(Default)]
pub struct Addresses {
    unix: HashMap<u64, String>,
    unix_sockets: UnixSockets,
    internet: Sockets,
}

/// What is known of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name<'a> {
    /// It is this.
    Is(&'a [u8]),
    /// There is none.
    None,
    /// There is one, but it could not be learned.
    Unknown,
}

impl Addresses {
    /// The path of a unix socket that a thread of a process used, by its inode.
    pub fn unix(&mut self, inode: u64, (tid, pid): (u32, u32)) -> Name<'_> {
        if !self.unix.contains_key(&inode) {
            match self.unix_sockets.find(inode, tid, pid) {
                socket::Found::Address(address) => {
                    if self.unix.len() >= KEPT {
                        self.unix.clear();
                    }
                    self.unix.insert(inode, address);
                }
                socket::Found::NoAddress => return Name::None,
                socket::Found::Gone => return Name::Unknown,
            }
        }
        self.unix.get(&inode).map_or(Name::None, |address| Name::Is(address.as_bytes()))
    }

    /// The ends of a socket that a thread of a process used.
    pub fn internet(&mut self, inode: u64, ends: &Ends, is_v6: bool, task: (u32, u32)) -> Name<'_> {
        self.internet.name(inode, ends, is_v6, task)
    }
}

/// Names of devices, remembered.
#[derive(Default)]
pub struct Devices(HashMap<u32, Device>);

/// A device.
pub struct Device {
    /// Its name, or its number where it has none: file systems that lie on no device have a number only.
    pub name: String,
    /// Major and minor number, `254:0`.
    pub number: String,
    /// What its disk is.
    pub disk: Disk,
}

impl Devices {
    /// The device of this number, `major << 20 | minor`; 0 is none.
    pub fn get(&mut self, dev: u32) -> Option<&Device> {
        (dev != 0).then(|| {
            self.0.entry(dev).or_insert_with(|| {
                let number = format!("{}:{}", dev >> 20, dev & 0xf_ffff);
                let link = std::fs::read_link(Path::new("/sys/dev/block").join(&number)).ok();
                let name = link.and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
                Device { name: name.unwrap_or_else(|| number.clone()), number, disk: Disk::read(dev) }
            }) as &Device
        })
    }

    /// Devices come and go, and their numbers are used again.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names_or_numbers() {
        let mut devices = Devices::default();
        assert!(devices.get(0).is_none());
        assert_eq!(devices.get(0xfff << 20 | 7).unwrap().name, "4095:7");
        for entry in std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten() {
            let number = std::fs::read_to_string(entry.path().join("dev")).unwrap();
            let (major, minor) = number.trim().split_once(':').unwrap();
            let dev = major.parse::<u32>().unwrap() << 20 | minor.parse::<u32>().unwrap();
            let device = devices.get(dev).unwrap();
            assert_eq!(
                (device.number.as_str(), device.name.as_str()),
                (number.trim(), entry.file_name().to_str().unwrap())
            );
        }
    }
}
