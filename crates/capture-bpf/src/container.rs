//! Which container a thread runs in, from its control group.

mod runtime;

use latscope_event::{Batch, Field};
use runtime::Described;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Container runtimes name groups by 64 hexadecimal digits; people and other tools show the first 12.
const ID_DIGITS: usize = 64;
const ID_SHOWN: usize = 12;
/// The tree of groups is walked at most this often, however many unknown groups turn up.
const WALK_EVERY: Duration = Duration::from_secs(1);
/// More groups or threads than this are not remembered.
const KEPT: usize = 1 << 16;

/// Finds containers, and remembers them.
pub struct Containers {
    /// Where the unified hierarchy is mounted.
    root: Option<PathBuf>,
    /// The host's containers are (also) in hierarchies of version 1, where the kernel gives programs no identifiers.
    by_pid: bool,
    groups: HashMap<u64, Option<String>>,
    pids: HashMap<u32, Option<String>>,
    walked: Option<Instant>,
    described: HashMap<String, Described>,
}

impl Containers {
    /// Looks at what the host has.
    pub fn new() -> Containers {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let root = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (path, kind) = (words.next()?, words.next()?);
            (kind == "cgroup2").then(|| PathBuf::from(path))
        });
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let by_pid = own.lines().any(|line| !line.starts_with("0::"));
        Containers {
            root,
            by_pid,
            groups: HashMap::new(),
            pids: HashMap::new(),
            walked: None,
            described: HashMap::new(),
        }
    }

    /// Whether the container of a process is found by its number, and may be another's a second later; else by its control group.
    pub fn is_by_pid(&self) -> bool {
        self.by_pid
    }

    /// Appends the columns of the container of a process, as far as the batch has them; `cgroup` as in [`Containers::find`].
    pub fn push(&mut self, cgroup: u64, pid: u32, batch: &mut Batch) {
        const COLUMNS: [Field; 3] = [Field::Container, Field::ContainerName, Field::ContainerImage];
        if !COLUMNS.iter().any(|&field| batch.fields().contains(field)) {
            return;
        }
        let id = self.find(cgroup, pid).map(str::to_owned);
        let shown = id.as_deref().map(|id| if id.len() == ID_DIGITS { &id[..ID_SHOWN] } else { id });
        batch.push_text(Field::Container, shown.map(str::as_bytes));
        let Some(id) = id.filter(|_| COLUMNS[1..].iter().any(|&field| batch.fields().contains(field))) else {
            batch.push_text(Field::ContainerName, None);
            batch.push_text(Field::ContainerImage, None);
            return;
        };
        if self.described.len() >= KEPT {
            self.described.clear();
        }
        // Containers of LXC and systemd have a name instead of a number.
        let describe = |id: &String| match id.len() {
            ID_DIGITS => runtime::describe(Path::new("/"), id),
            _ => Described { name: Some(id.clone()), image: None },
        };
        let described = self.described.entry(id).or_insert_with_key(describe);
        batch.push_text(Field::ContainerName, described.name.as_ref().map(|name| name.as_bytes()));
        batch.push_text(Field::ContainerImage, described.image.as_ref().map(|image| image.as_bytes()));
    }

    /// The whole identifier of the container of a process: `cgroup` is what `bpf_get_current_cgroup_id` reported, 0 when nobody asked.
    fn find(&mut self, cgroup: u64, pid: u32) -> Option<&str> {
        if self.by_pid {
            if self.pids.len() >= KEPT {
                self.pids.clear();
            }
            let of_pid = || std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?.lines().find_map(id_of_path);
            return self.pids.entry(pid).or_insert_with(of_pid).as_deref();
        }
        let due = self.walked.is_none_or(|walked| walked.elapsed() >= WALK_EVERY);
        if !self.groups.contains_key(&cgroup) && due {
            if let Some(root) = self.root.clone() {
                self.walk(&root, 0);
            }
            self.walked = Some(Instant::now());
        }
        self.groups.get(&cgroup)?.as_deref()
    }

    /// Forgets which process is where, as its number may be another's by now.
    pub fn forget_pids(&mut self) {
        self.pids.clear();
    }

    /// The id of a group is the inode of its folder.
    fn walk(&mut self, folder: &Path, depth: usize) {
        if depth > 32 || self.groups.len() >= KEPT {
            return;
        }
        let Ok(metadata) = std::fs::symlink_metadata(folder) else { return };
        self.groups.insert(metadata.ino(), folder.to_str().and_then(id_of_path));
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.walk(&entry.path(), depth + 1);
            }
        }
    }
}

/// The container that the path of a group names: the innermost run of 64 hexadecimal digits, as Docker, containerd,
/// CRI-O and Podman write it, whatever stands around it; of LXC and systemd-nspawn the name.
fn id_of_path(path: &str) -> Option<String> {
    for part in path.rsplit('/') {
        for run in part.split(|letter: char| !letter.is_ascii_hexdigit()) {
            if run.len() == ID_DIGITS {
                return Some(run.to_owned());
            }
        }
        if let Some(name) = part.strip_prefix("lxc.payload.") {
            return Some(name.to_owned());
        }
        if let Some(name) = part.strip_prefix("machine-").and_then(|name| name.strip_suffix(".scope")) {
            return Some(name.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_runtimes_name_their_container() {
        let id = "4f2d0c9ab1e34f2d0c9ab1e34f2d0c9ab1e34f2d0c9ab1e34f2d0c9ab1e3abcd";
        for path in [
            format!("0::/system.slice/docker-{id}.scope"),
            format!("12:blkio:/docker/{id}"),
            format!("/sys/fs/cgroup/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"),
            format!("/machine.slice/libpod-{id}.scope/container"),
            format!("/kubepods/burstable/pod1/{id}"),
        ] {
            assert_eq!(id_of_path(&path).as_deref(), Some(id), "{path}");
        }
        assert_eq!(id_of_path("0::/lxc.payload.web/system.slice").as_deref(), Some("web"));
        assert_eq!(id_of_path("0::/user.slice/user-1000.slice/session-2.scope"), None);
        assert_eq!(id_of_path("0::/"), None);
    }

    #[test]
    fn unknown_groups_have_no_container() {
        let mut containers = Containers::new();
        assert_eq!(containers.find(u64::MAX, u32::MAX), None);
        assert_eq!(containers.find(u64::MAX, u32::MAX), None);
    }
}
