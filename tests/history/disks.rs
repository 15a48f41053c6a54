//! Disks that are full or hang, below a hub and an agent.

use super::*;

/// A file system in memory, which goes when it is dropped.
pub struct Small(pub PathBuf);

impl Small {
    /// `None` where none can be mounted.
    pub fn new(folder: &Path, name: &str) -> Option<Small> {
        let path = folder.join(name);
        std::fs::create_dir(&path).unwrap();
        let mounted = end(command("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&path), b"");
        if mounted.status != Some(0) {
            skipped!("no tmpfs can be mounted");
            return None;
        }
        Some(Small(path))
    }

    /// Leaves so much room.
    pub fn fill(&self, left: u64) {
        let mut file = std::fs::File::create(self.0.join("filler")).unwrap();
        let written = std::io::copy(&mut std::io::repeat(7), &mut file).unwrap_err();
        assert_eq!(written.kind(), std::io::ErrorKind::StorageFull);
        let bytes = file.metadata().unwrap().len();
        file.set_len(bytes - left).unwrap();
    }

    pub fn empty(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        end(command("umount").arg(&self.0), b"");
    }
}

/// The disks of an agent's queue and of a hub's journal are full, and later are not: the hub goes on in memory and says so, what it
/// confirmed is there after it was killed, and in the end nothing is missing.
#[test]
fn full_disks_lose_nothing_that_is_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut truth) = (folder.path(), Truth::new());
    let Some(queue) = Small::new(path, "n1") else { return };
    let Some(data) = Small::new(path, "data") else { return };
    queue.fill(16 << 10);
    let mut agent = Agent::start(path, "n1");
    let start = now() - 900;
    for second in start..start + 300 {
        agent.send(second, &mut truth);
    }
    until("the queue is full", || agent.queue.failure().is_some());
    data.fill(16 << 10);
    let hub = Hub::start(path, &["--test-file-time", "300ms", "--recent", "1h"]);
    until("the journal is full", || hub.program.printed().contains("The journal cannot be written"));
    let confirmed = 300 - agent.queue.backlog(0);
    assert!(confirmed < 300, "nothing is confirmed that is not on disk");
    let shown = found(path, &hub.input(), "1s", "device", "").len() / 2;
    assert!(shown > confirmed, "{shown} intervals are shown, {confirmed} are confirmed");
    // Killed, the hub has what it confirmed; the agent sends the rest again.
    hub.kill();
    let hub = Hub::start(path, &["--test-file-time", "300ms", "--recent", "1h"]);
    until("the journal is full", || hub.program.printed().contains("The journal cannot be written"));
    data.empty();
    until("the journal is written", || hub.program.printed().contains("The journal is written again"));
    until("all is stored", || agent.queue.backlog(0) == 0);
    queue.empty();
    agent.send(start + 300, &mut truth);
    agent.end();
    hub.kill();
    let by_host = sums(&truth, start..start + 301, 1, true);
    assert!(found(path, data.0.to_str().unwrap(), "1s", "host,device", "") == by_host);
    // A disk that was full for long has no more files than before.
    assert!(files(&data.0, "frames").len() < 20, "{:?}", files(&data.0, "frames"));
}

/// A file system on a file, which can be frozen: writes to it hang.
pub struct Freezer {
    pub path: PathBuf,
    is_frozen: bool,
}

impl Freezer {
    pub fn new(folder: &Path, name: &str) -> Option<Freezer> {
        let (image, path) = (folder.join("image"), folder.join(name));
        std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        std::fs::create_dir(&path).unwrap();
        let line = |name: &str, words: &[&std::ffi::OsStr]| {
            installed(name) && end(command(name).args(words), b"").status == Some(0)
        };
        let is_made = line("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), image.as_ref()])
            && line("mount", &["-o".as_ref(), "loop".as_ref(), image.as_ref(), path.as_ref()]);
        if !is_made || !installed("fsfreeze") {
            skipped!("no file system can be made and mounted");
            return None;
        }
        Some(Freezer { path, is_frozen: false })
    }

    pub fn freeze(&mut self, is_frozen: bool) {
        let option = if is_frozen { "-f" } else { "-u" };
        end(command("fsfreeze").arg(option).arg(&self.path), b"").success();
        self.is_frozen = is_frozen;
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        if self.is_frozen {
            end(command("fsfreeze").arg("-u").arg(&self.path), b"");
        }
        end(command("umount").arg("-l").arg(&self.path), b"");
    }
}

/// A hub whose disk hangs ends all the same when it is told to, and says why.
#[test]
fn a_hub_ends_though_its_disk_hangs() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (path, mut truth) = (folder.path(), Truth::new());
    let Some(mut data) = Freezer::new(path, "data") else { return };
    let hub = Hub::start(path, &[]);
    let mut agent = Agent::start(path, "n1");
    data.freeze(true);
    agent.send(now() - 60, &mut truth);
    until("the report", || hub.program.printed().contains("the disk does not answer"));
    signal(hub.program.pid(), "TERM");
    until("its end", || hub.program.printed().contains("The hub could not end within 20 s"));
    // The kernel keeps the thread that writes as long as the disk hangs.
    data.freeze(false);
    assert_eq!(hub.program.ended().status, Some(3));
    drop(agent);
}

/// The disk of the journal hangs: views go on, nothing is confirmed, and the hub says so; then everything is stored.
#[test]
fn a_disk_that_hangs_costs_the_views_nothing() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (path, mut truth) = (folder.path(), Truth::new());
    let Some(mut data) = Freezer::new(path, "data") else { return };
    let hub = Hub::start(path, &[]);
    let mut agent = Agent::start(path, "n1");
    let start = now() - 60;
    agent.send(start, &mut truth);
    until("the first", || agent.queue.backlog(0) == 0);
    data.freeze(true);
    for second in start + 1..start + 20 {
        agent.send(second, &mut truth);
    }
    let expected = sums(&truth, start..start + 20, 1, false);
    until("the view", || found(path, &hub.input(), "1s", "device", "") == expected);
    until("the report", || hub.program.printed().contains("The journal cannot be written: the disk does not answer"));
    assert!(agent.queue.backlog(0) > 0);
    data.freeze(false);
    until("the journal", || hub.program.printed().contains("The journal is written again"));
    agent.end();
    hub.kill();
    assert!(
        found(path, data.path.to_str().unwrap(), "1s", "host,device", "") == sums(&truth, start..start + 20, 1, true)
    );
}
