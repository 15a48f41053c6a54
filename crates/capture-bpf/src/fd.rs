//! What the file of a call is called: its path, or the address of its socket, and the name of its device.
//!
//! A file is looked up when it is first seen, through `/proc/PID/fd`, and remembered by device, inode and generation
//! (file systems give inode numbers anew). Nothing here asks a file system anything, which could wait for the very
//! disk that hangs: the link is made of names that the kernel holds, and `fdinfo` tells the inode.

mod socket;

use socket::Sockets;
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// More files are not remembered; then all are looked up anew.
const KEPT: usize = 1 << 16;
/// A file that was not found is looked for again, not at each of its events, but after as long as it has been missed;
/// at least and at most after these times. (Whoever opened it first may be gone while others read it.)
const AGAIN_AFTER: Duration = Duration::from_millis(1);
const AGAIN_WITHIN: Duration = Duration::from_secs(1);
/// Without a descriptor (a registered file of io_uring) so many of the process are tried.
const TRIED: usize = 1024;

/// A file as the kernel told of it.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Device of its file system, `major << 20 | minor`.
    pub dev: u32,
    /// 0 when there is none.
    pub inode: u64,
    /// Tells it from earlier files with its inode.
    pub generation: u32,
    /// As `Field::FdType` names it.
    pub file_type: &'a str,
    /// Process that has it open.
    pub pid: u32,
    /// Thread that used it.
    pub tid: u32,
    /// Descriptor, negative when it has none.
    pub fd: i32,
}

/// Finds paths, and remembers them.
pub struct Paths {
    known: HashMap<(u32, u64, u32), Known>,
    sockets: Sockets,
    gone: u64,
}

enum Known {
    Path(String),
    /// Not found when first and when last looked for.
    Gone(Instant, Instant),
}

impl Paths {
    /// Knows nothing yet.
    pub fn new() -> Paths {
        Paths { known: HashMap::new(), sockets: Sockets::default(), gone: 0 }
    }

    /// The path or address of a file; `None` when it has none, or was gone before anyone looked. `given` is the absolute
    /// path by which it was just opened: it may lead through links, and so counts only when there is no better one.
    pub fn find(&mut self, file: &File, given: Option<&str>) -> Option<&str> {
        let socket = match file.file_type {
            "file" | "directory" | "char" | "block" | "link" | "memfd" => false,
            "ipv4" | "ipv6" | "unix" => true,
            "pipe" => return self.named(file, false, |file| Some(format!("pipe:[{}]", file.inode))),
            _ => return None,
        };
        if socket {
            let key = (file.dev, file.inode, file.generation);
            if let Some(Known::Path(_)) = self.known.get(&key) {
                return self.known_path(key);
            }
            return match self.sockets.find(file.inode, file.tid, file.pid) {
                socket::Found::Address(address) => {
                    self.remember(key, Known::Path(address));
                    self.known_path(key)
                }
                socket::Found::NoAddress => None,
                socket::Found::Gone => {
                    self.gone += 1;
                    None
                }
            };
        }
        self.named(file, given.is_some(), |file| look_up(file).or_else(|| given.map(str::to_owned)))
    }

    /// Files whose path could not be looked up.
    pub fn gone(&self) -> u64 {
        self.gone
    }

    fn named(&mut self, file: &File, given: bool, look: impl Fn(&File) -> Option<String>) -> Option<&str> {
        let key = (file.dev, file.inode, file.generation);
        let now = Instant::now();
        let missed_since = match self.known.get(&key) {
            Some(Known::Path(_)) => return self.known_path(key),
            Some(Known::Gone(first, last)) => {
                if !given && now - *last < (*last - *first).clamp(AGAIN_AFTER, AGAIN_WITHIN) {
                    return None;
                }
                Some(*first)
            }
            None => None,
        };
        match look(file) {
            Some(path) => self.remember(key, Known::Path(path)),
            None => {
                self.gone += u64::from(missed_since.is_none());
                self.remember(key, Known::Gone(missed_since.unwrap_or(now), now));
            }
        }
        self.known_path(key)
    }

    fn remember(&mut self, key: (u32, u64, u32), known: Known) {
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        self.known.insert(key, known);
    }

    fn known_path(&self, key: (u32, u64, u32)) -> Option<&str> {
        match self.known.get(&key)? {
            Known::Path(path) => Some(path),
            Known::Gone(..) => None,
        }
    }
}

/// The path behind a descriptor, if it still is that file.
fn look_up(file: &File) -> Option<String> {
    [file.tid, file.pid].iter().find_map(|&task| {
        if file.fd >= 0 {
            return path_of(file, task, file.fd);
        }
        let open = std::fs::read_dir(format!("/proc/{task}/fd")).ok()?;
        let fds = open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        fds.take(TRIED).find_map(|fd| path_of(file, task, fd))
    })
}

fn path_of(file: &File, task: u32, fd: i32) -> Option<String> {
    let path = std::fs::read_link(format!("/proc/{task}/fd/{fd}")).ok()?;
    // After the link, so that a descriptor that was closed and given to another file in between is noticed.
    let info = std::fs::read_to_string(format!("/proc/{task}/fdinfo/{fd}")).ok()?;
    let number = |key: &str| info.lines().find_map(|line| line.strip_prefix(key))?.trim().parse::<u64>().ok();
    // Kernels before 5.14 do not tell the inode there.
    let same_inode = number("ino:").is_none_or(|inode| inode == file.inode);
    let on_device = ["file", "directory", "link"].contains(&file.file_type);
    let same_device = !on_device || number("mnt_id:").and_then(|mount| device_of(task, mount)) == Some(file.dev);
    (same_inode && same_device).then(|| path.to_string_lossy().into_owned())
}

/// The device of a mount that a task sees, `None` where it sees none (internal mounts, or unmounted lazily).
fn device_of(task: u32, mount: u64) -> Option<u32> {
    let mounts = std::fs::read_to_string(format!("/proc/{task}/mountinfo")).ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        if words.next()?.parse::<u64>().ok()? != mount {
            return None;
        }
        let (major, minor) = words.nth(1)?.split_once(':')?;
        Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
    })
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
}

impl Devices {
    /// The device of this number, `major << 20 | minor`; 0 is none.
    pub fn get(&mut self, dev: u32) -> Option<&Device> {
        (dev != 0).then(|| {
            self.0.entry(dev).or_insert_with(|| {
                let number = format!("{}:{}", dev >> 20, dev & 0xf_ffff);
                let link = std::fs::read_link(Path::new("/sys/dev/block").join(&number)).ok();
                let name = link.and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
                Device { name: name.unwrap_or_else(|| number.clone()), number }
            }) as &Device
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    fn seen(open: &std::fs::File) -> File<'static> {
        let metadata = open.metadata().unwrap();
        let dev = metadata.dev();
        let (major, minor) = (dev >> 8 & 0xfff, dev & 0xff | dev >> 12 & 0xfff00);
        File {
            dev: (major << 20 | minor) as u32,
            inode: metadata.ino(),
            generation: 0,
            file_type: "file",
            pid: std::process::id(),
            tid: std::process::id(),
            fd: open.as_raw_fd(),
        }
    }

    #[test]
    fn an_open_file_has_its_path_and_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a file");
        let open = std::fs::File::create(&path).unwrap();
        let file = seen(&open);
        let mut paths = Paths::new();
        assert_eq!(paths.find(&file, None), path.to_str());
        drop(open);
        assert_eq!(paths.find(&file, None), path.to_str(), "remembered");
        assert_eq!(paths.find(&File { generation: 1, ..file }, None), None, "another file of that inode");
        assert_eq!(paths.find(&File { generation: 1, ..file }, None), None);
        assert_eq!(paths.gone(), 1);
    }

    #[test]
    fn a_descriptor_that_is_another_file_by_now_has_no_path() {
        let folder = tempfile::tempdir().unwrap();
        let open = std::fs::File::create(folder.path().join("a")).unwrap();
        let file = seen(&open);
        let mut paths = Paths::new();
        assert_eq!(paths.find(&File { inode: file.inode + 1, ..file }, None), None);
        assert_eq!(paths.find(&File { dev: file.dev + 1, ..file }, None), None);
        assert!(paths.find(&File { fd: -1, ..file }, None).unwrap().ends_with("/a"), "found among all descriptors");
    }

    #[test]
    fn a_deleted_file_is_marked() {
        let folder = tempfile::tempdir().unwrap();
        let open = std::fs::File::create(folder.path().join("a")).unwrap();
        std::fs::remove_file(folder.path().join("a")).unwrap();
        assert!(Paths::new().find(&seen(&open), None).unwrap().ends_with("/a (deleted)"));
    }

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
