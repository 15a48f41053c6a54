//! Finds out what a target lies on, and what the kernel says about it.

use crate::Place;
use crate::place::sys_name;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

impl Place {
    /// Of a file or directory that exists.
    pub(crate) fn new(path: &Path, metadata: &fs::Metadata) -> Place {
        let file_type = metadata.file_type();
        let device = |fstype: &str, number: u64| Place {
            fstype: fstype.into(),
            device: "device".into(),
            size: 0,
            dev: Some((libc::major(number), libc::minor(number))),
            mount_options: String::new(),
        };
        if file_type.is_block_device() {
            return device("block", metadata.rdev());
        }
        if file_type.is_char_device() {
            return device("character", metadata.rdev());
        }
        let number = metadata.dev();
        let dev = (libc::major(number), libc::minor(number));
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let mount = Mount::find(&mounts, dev, &path).unwrap_or_default();
        let device = match &mount.source {
            source if source.starts_with('/') => {
                fs::canonicalize(source).map_or(source.clone(), |path| path.to_string_lossy().into_owned())
            }
            source => source.clone(),
        };
        // The kernel's own name where the mount table has one that leads nowhere (/dev/root).
        let device = match sys_name(dev) {
            Some(name) if device.starts_with('/') && !Path::new(&device).exists() => format!("/dev/{name}"),
            _ => device,
        };
        Place { fstype: mount.fstype, device, size: 0, dev: Some(dev), mount_options: mount.options }
    }

    /// What the kernel says about the device and its queue: names and values for the context of a trace.
    pub(crate) fn queue(&self) -> Vec<(&'static str, String)> {
        let Some((major, minor)) = self.dev else { return Vec::new() };
        let node = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        // A partition has the queue of its disk.
        let disk = if node.join("queue").exists() { node } else { node.join("..") };
        let read = |name: &str| {
            let text = fs::read_to_string(disk.join(name)).ok()?;
            Some(text.trim().to_string()).filter(|text| !text.is_empty())
        };
        let scheduler = |text: String| match (text.find('['), text.find(']')) {
            (Some(from), Some(to)) if from < to => text[from + 1..to].to_string(),
            _ => text,
        };
        [
            ("device_model", "device/model"),
            ("scheduler", "queue/scheduler"),
            ("rotational", "queue/rotational"),
            ("write_cache", "queue/write_cache"),
            ("queue_requests", "queue/nr_requests"),
            ("logical_block_bytes", "queue/logical_block_size"),
            ("physical_block_bytes", "queue/physical_block_size"),
        ]
        .into_iter()
        .filter_map(|(key, file)| Some((key, scheduler(read(file)?))))
        .collect()
    }
}

/// A line of mountinfo.
#[derive(Clone, Default, Debug, PartialEq)]
struct Mount {
    fstype: String,
    source: String,
    options: String,
}

impl Mount {
    /// The mount with this device number; on file systems with numbers of their own for each subvolume (btrfs), the
    /// mount below which the path lies.
    fn find(mounts: &[u8], dev: (u32, u32), path: &Path) -> Option<Mount> {
        let number = format!("{}:{}", dev.0, dev.1);
        let (mut by_path, mut longest) = (None, 0);
        for line in mounts.split(|&byte| byte == b'\n') {
            let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
            let Some(dash) = fields.iter().position(|field| *field == b"-") else { continue };
            let [_, _, dev, _, point, options, ..] = &fields[..] else { continue };
            let [_, fstype, source, ..] = &fields[dash..] else { continue };
            let text = |field: &[u8]| String::from_utf8_lossy(&unescaped(field)).into_owned();
            let point = unescaped(point);
            let mount = || Mount { fstype: text(fstype), source: text(source), options: text(options) };
            let is_below = path.starts_with(OsStr::from_bytes(&point));
            if *dev == number.as_bytes() && is_below {
                return Some(mount());
            }
            if is_below && point.len() >= longest {
                (by_path, longest) = (Some(mount()), point.len());
            }
        }
        by_path
    }
}

/// Mountinfo writes blanks as `\040`.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, more)) = rest.split_first() {
        match more {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] if first == b'\\' => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                bytes.push(first);
                rest = more;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
        30 22 0:25 / /mnt/with\\040blank rw,noatime - tmpfs tmp\\134fs rw\n\
        31 22 0:40 /sub /data rw shared:7 master:2 - btrfs /dev/sdb1 rw,subvol=/sub\n";

    #[test]
    fn mounts_are_found_by_number_or_by_path() {
        let find = |dev, path: &str| {
            Mount::find(MOUNTS, dev, Path::new(path)).map(|mount| (mount.fstype, mount.source, mount.options))
        };
        let mount = |a: &str, b: &str, c: &str| Some((a.to_string(), b.to_string(), c.to_string()));
        assert_eq!(find((0, 25), "/mnt/with blank/x"), mount("tmpfs", "tmp\\fs", "rw,noatime"));
        assert_eq!(find((0, 99), "/data/x"), mount("btrfs", "/dev/sdb1", "rw"), "an anonymous number of a subvolume");
        assert_eq!(find((254, 0), "/home"), mount("ext4", "/dev/root", "rw,relatime"));
        assert_eq!(Mount::find(b"garbage\n\n1 2 3", (1, 2), Path::new("/")), None);
    }

    #[test]
    fn this_directory_lies_somewhere() {
        let metadata = fs::metadata("/proc/self").unwrap();
        assert_eq!(Place::new(Path::new("/proc/self"), &metadata).fstype, "proc");
        let null = fs::metadata("/dev/null").unwrap();
        let place = Place::new(Path::new("/dev/null"), &null);
        assert_eq!((place.fstype.as_str(), place.dev), ("character", Some((1, 3))));
    }
}
