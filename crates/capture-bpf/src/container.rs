//! Which control group and container a thread runs in.

mod runtime;

use latscope_event::{Batch, Field};
use latscope_unwind::living;
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

/// Finds control groups and containers, and remembers them.
pub struct Containers {
    groups: Groups,
    described: HashMap<String, Described>,
}

/// The control groups of this machine, as far as events had one.
struct Groups {
    /// Where the unified hierarchy is mounted.
    root: Option<PathBuf>,
    /// The host's containers are (also) in hierarchies of version 1, where the kernel gives programs no identifiers.
    by_pid: bool,
    of_ids: HashMap<u64, Group>,
    of_pids: HashMap<u32, Option<Group>>,
    walked: Option<Instant>,
}

struct Group {
    path: String,
    /// The whole identifier of its container.
    container: Option<String>,
}

impl Containers {
    /// The columns that [`Containers::push`] fills.
    pub const COLUMNS: [Field; 4] = [Field::Container, Field::ContainerName, Field::ContainerImage, Field::Cgroup];

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
        let groups = Groups { root, by_pid, of_ids: HashMap::new(), of_pids: HashMap::new(), walked: None };
        Containers { groups, described: HashMap::new() }
    }

    /// Whether the group of a process is found by its number, and may be another's a second later; else by what the kernel reports.
    pub fn is_by_pid(&self) -> bool {
        self.groups.by_pid
    }

    /// Whether there is anything known of the group of a process; arguments as of [`Containers::push`].
    pub fn knows(&mut self, cgroup: u64, pid: u32) -> bool {
        self.groups.find(cgroup, pid).is_some()
    }

    /// Appends the columns of the group and container of a process, as far as the batch has them: `cgroup` is what
    /// `bpf_get_current_cgroup_id` reported, 0 when nobody asked.
    pub fn push(&mut self, cgroup: u64, pid: u32, batch: &mut Batch) {
        if !Containers::COLUMNS.iter().any(|&field| batch.fields().contains(field)) {
            return;
        }
        let group = self.groups.find(cgroup, pid);
        batch.push_text(Field::Cgroup, group.map(|group| group.path.as_bytes()));
        let id = group.and_then(|group| group.container.as_deref());
        let shown = id.map(|id| if id.len() == ID_DIGITS { &id[..ID_SHOWN] } else { id });
        batch.push_text(Field::Container, shown.map(str::as_bytes));
        let is_asked =
            [Field::ContainerName, Field::ContainerImage].iter().any(|&field| batch.fields().contains(field));
        let described = id.filter(|_| is_asked).map(|id| describe(&mut self.described, id));
        let name = described.and_then(|one| one.name.as_deref());
        let image = described.and_then(|one| one.image.as_deref());
        batch.push_text(Field::ContainerName, name.map(str::as_bytes));
        batch.push_text(Field::ContainerImage, image.map(str::as_bytes));
    }

    /// Forgets which process is where, as its number may be another's by now.
    pub fn forget_pids(&mut self) {
        self.groups.of_pids.clear();
    }
}

/// Name and image of the container with this whole identifier, or, of LXC and systemd, this name.
fn describe<'a>(known: &'a mut HashMap<String, Described>, id: &str) -> &'a Described {
    if !known.contains_key(id) {
        if known.len() >= KEPT {
            known.clear();
        }
        let described = match id.len() {
            ID_DIGITS => runtime::describe(Path::new("/"), id),
            _ => Described { name: Some(id.to_owned()), image: None },
        };
        known.insert(id.to_owned(), described);
    }
    &known[id]
}

impl Groups {
    fn find(&mut self, cgroup: u64, pid: u32) -> Option<&Group> {
        if self.by_pid {
            if self.of_pids.len() >= KEPT {
                self.of_pids.clear();
            }
            let read = || {
                std::fs::read_to_string(format!("/proc/{}/cgroup", living(pid)))
                    .ok()
                    .and_then(|text| Group::of_lines(&text))
            };
            return self.of_pids.entry(pid).or_insert_with(read).as_ref();
        }
        let due = self.walked.is_none_or(|walked| walked.elapsed() >= WALK_EVERY);
        if !self.of_ids.contains_key(&cgroup) && due {
            if let Some(root) = self.root.clone() {
                self.walk(&root, &mut String::from("/"), 0);
            }
            self.walked = Some(Instant::now());
        }
        self.of_ids.get(&cgroup)
    }

    /// The id of a group is the inode of its folder.
    fn walk(&mut self, folder: &Path, path: &mut String, depth: usize) {
        if depth > 32 || self.of_ids.len() >= KEPT {
            return;
        }
        let Ok(metadata) = std::fs::symlink_metadata(folder) else { return };
        self.of_ids.insert(metadata.ino(), Group { container: id_of_path(path), path: path.clone() });
        let length = path.len();
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if depth > 0 {
                    path.push('/');
                }
                path.push_str(&entry.file_name().to_string_lossy());
                self.walk(&entry.path(), path, depth + 1);
                path.truncate(length);
            }
        }
    }
}

impl Group {
    /// The group of a process, by the lines of its `/proc/PID/cgroup`, one a hierarchy: `number:controllers:path`. A process is in the root
    /// of a hierarchy unless somebody moved it: the first of the others counts, in the order of what they say about I/O.
    fn of_lines(text: &str) -> Option<Group> {
        let groups = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        let order = |&(controllers, path): &(&str, &str)| {
            let is = |name: &str| controllers.split(',').any(|one| one == name);
            (path != "/", is(""), is("blkio"), is("name=systemd"), path.len())
        };
        let path = groups().max_by_key(order)?.1.to_owned();
        Some(Group { path, container: groups().find_map(|(_, path)| id_of_path(path)) })
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
        assert!(!containers.knows(u64::MAX, u32::MAX));
        assert!(!containers.knows(u64::MAX, u32::MAX));
    }

    #[test]
    fn the_group_of_a_process_is_where_somebody_moved_it() {
        let of = |text: &str| Group::of_lines(text).map(|group| (group.path, group.container));
        assert_eq!(of("0::/a:b/c\n"), Some(("/a:b/c".into(), None)));
        assert_eq!(of("2:blkio:/slow\n1:cpu,cpuacct:/\n0::/u\n"), Some(("/u".into(), None)));
        assert_eq!(of("3:memory:/large\n2:cpu,blkio:/a\n1:name=systemd:/user\n0::/\n"), Some(("/a".into(), None)));
        assert_eq!(of("2:memory:/a\n1:pids:/ab\n"), Some(("/ab".into(), None)));
        assert_eq!(of("2:blkio:/slow\n1:cpu:/machine-web.scope\n0::/\n").unwrap().1.as_deref(), Some("web"));
        assert_eq!(of(""), None);
    }

    #[test]
    fn groups_have_the_paths_of_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("system.slice/machine-web.scope")).unwrap();
        let mut groups =
            Groups { root: None, by_pid: false, of_ids: HashMap::new(), of_pids: HashMap::new(), walked: None };
        groups.walk(folder.path(), &mut "/".into(), 0);
        let mut found: Vec<_> =
            groups.of_ids.values().map(|group| (&*group.path, group.container.as_deref())).collect();
        found.sort_unstable();
        let inner = "/system.slice/machine-web.scope";
        assert_eq!(found, [("/", None), ("/system.slice", None), (inner, Some("web"))]);
    }
}
