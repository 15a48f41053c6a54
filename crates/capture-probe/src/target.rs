//! Opening a target, and making the file that a directory is probed with.

use crate::cache;
use crate::{Cache, Error, OpenSync, Operation, Order, Place, Probe, Work};
use rustix::fs::{AtFlags, OFlags, SeekFrom, StatxFlags, fcntl_getfl, fcntl_setfl};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The most that one call of the kernel moves.
const MOST_BYTES: u64 = 0x7fff_f000;
/// The file of a directory when nothing else is given for it.
const WORK_SIZE: u64 = 1 << 20;
/// What is appended before the file is emptied again, when nothing else is given for it.
const APPEND_SIZE: u64 = 64 << 20;
/// The working set is written in pieces of this size at most.
const PIECE: usize = 1 << 20;
/// And of this at least.
const LEAST_PIECE: u64 = 4096;
/// The name of a file that is kept, which ioping gives it too.
const KEPT: &str = "ioping.tmp";

/// A target that is open.
pub struct Target {
    pub file: File,
    pub place: Place,
    /// Where the working set starts.
    pub start: u64,
    /// How long it is.
    pub len: u64,
    /// Positions mean nothing in it.
    pub is_stream: bool,
    /// What direct I/O needs, bytes; 0 when it is not possible, `None` when the kernel does not report it.
    pub direct_align: Option<u64>,
}

impl Target {
    /// Opens what the probe is for; a directory gets its file.
    pub fn open(probe: &Probe) -> Result<Target, Error> {
        let path = &probe.target;
        let metadata = fs::metadata(path).map_err(|source| Error::Stat { path: path.clone(), source })?;
        let file_type = metadata.file_type();
        let is_device = file_type.is_block_device() || file_type.is_char_device();
        if !metadata.is_dir() && !metadata.is_file() && !is_device {
            return Err(Error::Unsupported { path: path.clone() });
        }
        let writes = probe.work.operation != Operation::Read;
        if writes && !metadata.is_dir() && !probe.work.destroy {
            return Err(Error::WouldDestroy { path: path.clone() });
        }
        if !metadata.is_dir() && probe.work.order == Order::Append {
            return Err(Error::Settings("Appending needs a directory, where it creates its own file.".into()));
        }
        if probe.work.size > MOST_BYTES || probe.work.size == 0 {
            return Err(Error::RequestTooBig { path: path.clone(), size: probe.work.size, limit: MOST_BYTES });
        }
        let mut place = Place::new(path, &metadata);
        let target = if metadata.is_dir() {
            let (start, len) = working_set(probe, None)?;
            place.size = file_system(path).map_or(0, |system| system.size);
            let file = make(probe, start + len)?;
            Target { direct_align: direct_align(&file), file, place, start, len, is_stream: false }
        } else {
            let exclusive = if writes && file_type.is_block_device() { libc::O_EXCL } else { 0 };
            let mut options = options(&probe.work);
            options.read(true).write(writes).custom_flags(flags(&probe.work) | exclusive);
            let file = options.open(path).map_err(|source| match source.raw_os_error() {
                Some(libc::EBUSY) => Error::InUse { path: path.clone() },
                _ => Error::Open { path: path.clone(), what: "Cannot be opened", source },
            })?;
            let size = match file_type {
                _ if file_type.is_block_device() => size_of_device(&file),
                _ if file_type.is_char_device() => None,
                _ => Some(metadata.len()),
            };
            place.size = if is_device { size.unwrap_or(0) } else { file_system(path).map_or(0, |system| system.size) };
            let is_stream = file_type.is_char_device();
            let (start, len) = if is_stream { (0, probe.work.size) } else { working_set(probe, size)? };
            Target { direct_align: direct_align(&file), file, place, start, len, is_stream }
        };
        target.settle(probe)?;
        Ok(target)
    }

    /// Direct I/O, and the page cache as the probe wants it.
    fn settle(&self, probe: &Probe) -> Result<(), Error> {
        let work = &probe.work;
        if work.direct {
            self.check_alignment(probe)?;
            fcntl_getfl(&self.file)
                .and_then(|flags| fcntl_setfl(&self.file, flags | OFlags::DIRECT))
                .map_err(|error| Error::NoDirect { path: probe.target.clone(), source: error.into() })?;
        }
        if self.is_stream {
            return Ok(());
        }
        if work.order == Order::Random && work.cache == Cache::Cold {
            cache::expect_random(&self.file);
        }
        match work.cache {
            // All of it, since large folios are not dropped piece by piece.
            Cache::Cold => cache::drop_range(&self.file, self.start, self.len),
            Cache::Hot if !work.direct => self.warm(),
            _ => {}
        }
        Ok(())
    }

    fn check_alignment(&self, probe: &Probe) -> Result<(), Error> {
        let Some(align) = self.direct_align.filter(|&align| align > 1) else { return Ok(()) };
        for (what, value) in [("the request", probe.work.size), ("the offset of the working set", self.start)] {
            if !value.is_multiple_of(align) {
                return Err(Error::Unaligned { path: probe.target.clone(), align, what, value });
            }
        }
        Ok(())
    }

    /// Reads the working set once.
    fn warm(&self) {
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < self.len {
            match self.file.read_at(&mut piece, self.start + at) {
                Ok(0) | Err(_) => break,
                Ok(read) => at += read as u64,
            }
        }
    }
}

/// Where the working set starts and how long it is, in a target of this size (`None`: in a file that is made for it).
fn working_set(probe: &Probe, size: Option<u64>) -> Result<(u64, u64), Error> {
    let (work, path) = (&probe.work, &probe.target);
    let (start, request) = (work.work_offset, work.size);
    let default = match (size, work.order) {
        (Some(size), _) => size.saturating_sub(start),
        (None, Order::Append) => APPEND_SIZE.max(request),
        (None, _) => WORK_SIZE.max(request),
    };
    let len = work.work_size.unwrap_or(default);
    let end = start.saturating_add(len);
    if end > size.unwrap_or(i64::MAX as u64) {
        return Err(Error::TooSmall { path: path.clone(), size: size.unwrap_or(0), end });
    }
    if request > len {
        return Err(Error::RequestTooBig { path: path.clone(), size: request, limit: len });
    }
    Ok((start, len))
}

fn options(work: &Work) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(flags(work));
    options
}

fn flags(work: &Work) -> libc::c_int {
    match work.open_sync {
        OpenSync::None => 0,
        OpenSync::Dsync => libc::O_DSYNC,
        OpenSync::Sync => libc::O_SYNC,
    }
}

/// Makes the file of a directory and writes it full.
fn make(probe: &Probe, size: u64) -> Result<File, Error> {
    let (directory, work) = (&probe.target, &probe.work);
    if let Some(system) = file_system(directory)
        && system.free < size
    {
        return Err(Error::NoSpace { path: directory.clone(), needed: size, free: system.free });
    }
    let file = if work.keep { kept(directory, work) } else { nameless(directory, work) };
    let file =
        file.map_err(|source| Error::Open { path: directory.clone(), what: "Cannot create a file there", source })?;
    if work.direct && direct_align(&file).is_some_and(|align| align > 1 && !work.size.is_multiple_of(align)) {
        // Said before anything is written.
        let align = direct_align(&file).unwrap_or(1);
        return Err(Error::Unaligned { path: directory.clone(), align, what: "the request", value: work.size });
    }
    let full = file.metadata().is_ok_and(|metadata| metadata.len() >= size && metadata.blocks() * 512 >= size);
    if work.order != Order::Append && !full {
        fill(&file, size, piece(work), probe.seed)
            .map_err(|source| Error::Layout { path: directory.clone(), source })?;
    }
    Ok(file)
}

fn kept(directory: &Path, work: &Work) -> io::Result<File> {
    options(work).read(true).write(true).create(true).truncate(false).mode(0o600).open(directory.join(KEPT))
}

/// A file without a name: whatever happens to the process, nothing of it remains.
fn nameless(directory: &Path, work: &Work) -> io::Result<File> {
    let without_name = options(work)
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(flags(work) | libc::O_TMPFILE | libc::O_EXCL)
        .open(directory);
    match without_name {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)) => {}
        done => return done,
    }
    // Not every file system can do that; there the name is taken away at once.
    let mut number = crate::clock::monotonic_ns() ^ u64::from(std::process::id()) << 32;
    for _ in 0..100 {
        let path = directory.join(format!("{KEPT}.{number:016x}"));
        let made = options(work).read(true).write(true).create_new(true).mode(0o600).open(&path);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                number = number.wrapping_mul(6364136223846793005) + 1
            }
            Err(error) => return Err(error),
            Ok(file) => return fs::remove_file(&path).map(|()| file),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The pieces in which a file is written that requests go to. A large write makes large folios in the page cache, on which
/// small requests through it are several times slower; so pieces are as large as those requests, as in a file that was
/// written by them.
fn piece(work: &Work) -> usize {
    if work.direct { PIECE } else { work.size.clamp(LEAST_PIECE, PIECE as u64) as usize }
}

/// Writes random data in such pieces, which no layer below can compress or leave out, and brings it to the device.
fn fill(file: &File, size: u64, piece: usize, seed: u64) -> io::Result<()> {
    let mut random = crate::random::Random::new(seed ^ 0x9e37_79b9_7f4a_7c15);
    let mut piece = vec![0; piece.min(size as usize).max(1)];
    let mut at = 0;
    while at < size {
        let len = (size - at).min(piece.len() as u64) as usize;
        random.fill(&mut piece[..len]);
        file.write_all_at(&piece[..len], at)?;
        at += len as u64;
    }
    file.sync_all()
}

/// Bytes that a file in this directory can have, where the file system reports it.
pub fn free_space(directory: &Path) -> Option<u64> {
    file_system(directory).map(|system| system.free)
}

/// Bytes that memory may hold of what was written in this directory, where the kernel reports it.
pub fn dirty_limit(directory: &Path) -> Option<u64> {
    let number = fs::metadata(directory).ok()?.dev();
    cache::dirty_limit(Some((libc::major(number), libc::minor(number))))
}

/// Bytes of a file system.
struct FileSystem {
    size: u64,
    free: u64,
}

fn file_system(path: &Path) -> Option<FileSystem> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let unit = stat.f_frsize;
    Some(FileSystem { size: stat.f_blocks.saturating_mul(unit), free: stat.f_bavail.saturating_mul(unit) })
}

fn size_of_device(file: &File) -> Option<u64> {
    // Requests bring their own position, so that of the descriptor does not matter.
    rustix::fs::seek(file, SeekFrom::End(0)).ok()
}

/// What sizes and offsets of direct I/O must be multiples of, and memory too.
fn direct_align(file: &File) -> Option<u64> {
    let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let known = stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    known.then_some(u64::from(stat.stx_dio_offset_align))
}
