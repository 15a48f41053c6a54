//! What a capture has in front of its events: the machine, its processes, their descriptors, its users.

use super::blocks::{Block, kind};
use super::bytes::{Bytes, until_nul};
use super::fds::{self, Ends};

/// A process or thread that ran when the capture started.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    pub tid: i64,
    pub pid: i64,
    pub ptid: i64,
    pub comm: &'a [u8],
    pub exe: &'a [u8],
    pub exe_path: &'a [u8],
    /// Each with a NUL behind it.
    pub args: &'a [u8],
    pub cwd: &'a [u8],
    pub uid: u32,
    pub gid: u32,
    /// Each with a NUL behind it.
    pub cgroups: &'a [u8],
}

/// An entry of the process list of this version, and what it consists of: `None` at the end of the list, or where it is damaged.
pub fn process<'a>(bytes: &mut Bytes<'a>, version: u32) -> Option<Listed<'a>> {
    let mut entry = *bytes;
    let length = if version >= 9 { Some(entry.u32()? as usize) } else { None };
    let (tid, pid, ptid) = (entry.i64()?, entry.i64()?, entry.i64()?);
    entry.take(if version >= 6 { 8 } else { 0 } + if version >= 8 { 8 } else { 0 })?;
    let (comm, exe) = (entry.text()?, entry.text()?);
    let exe_path = if version >= 7 { entry.text()? } else { &[] };
    let (args, cwd) = (entry.text()?, entry.text()?);
    // The limit of descriptors and flags.
    entry.take(12)?;
    let (uid, gid) = (entry.u32()?, entry.u32()?);
    entry.take(if version >= 2 { 28 } else { 0 })?;
    if version >= 3 {
        entry.text()?;
    }
    let cgroups = if version >= 4 {
        entry.take(16)?;
        entry.text()?
    } else {
        &[]
    };
    if version >= 5 {
        entry.text()?;
    }
    match length {
        Some(length) => _ = bytes.take(length.max(4))?,
        None => *bytes = entry,
    }
    Some(Listed { tid, pid, ptid, comm, exe, exe_path, args, cwd, uid, gid, cgroups })
}

/// What a descriptor of a list is.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    Path(&'a [u8]),
    Ends(Ends),
}

/// The thread of a list of descriptors, and its entries.
pub fn descriptors<'a>(block: &Block<'a>) -> Option<(i64, Descriptors<'a>)> {
    let mut bytes = Bytes(block.body);
    let tid = bytes.i64()?;
    Some((tid, Descriptors { bytes, has_lengths: block.kind == kind::FDS_WITH_LENGTHS, damaged: 0 }))
}

/// The entries of a list of descriptors.
pub struct Descriptors<'a> {
    bytes: Bytes<'a>,
    has_lengths: bool,
    /// Entries that could not be read: those of a kind of a later version where they have no length, and all behind it.
    pub damaged: u64,
}

impl<'a> Iterator for Descriptors<'a> {
    type Item = (i64, u8, What<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        // The rest is padding.
        while self.bytes.0.len() >= 17 {
            let mut entry = self.bytes;
            let length = if self.has_lengths { entry.u32()? as usize } else { 0 };
            let found = entry_of(&mut entry);
            match self.has_lengths {
                true => {
                    if length < 4 || self.bytes.take(length).is_none() {
                        self.bytes.0 = &[];
                    }
                }
                false => self.bytes = if found.is_some() { entry } else { Bytes(&[]) },
            }
            match found {
                Some(found) => return Some(found),
                None => self.damaged += 1,
            }
        }
        None
    }
}

fn entry_of<'a>(entry: &mut Bytes<'a>) -> Option<(i64, u8, What<'a>)> {
    let fd = entry.i64()?;
    entry.take(8)?;
    let kind = entry.u8()?;
    let what = match kind {
        fds::UNKNOWN => What::Path(&[]),
        fds::IPV4 | fds::IPV6 => What::Ends(fds::listed(entry, kind == fds::IPV4)?),
        fds::LISTENING_IPV4 | fds::LISTENING_IPV6 => What::Ends(fds::listening(entry, kind == fds::LISTENING_IPV4)?),
        fds::UNIX => {
            entry.take(16)?;
            // From a line of /proc/net/unix, sometimes with its end.
            What::Path(entry.text()?.trim_ascii_end())
        }
        fds::FILE_WITH_FLAGS => {
            entry.take(4)?;
            What::Path(entry.text()?)
        }
        kind if usize::from(kind) < fds::NAMES.len() => What::Path(entry.text()?),
        _ => return None,
    };
    Some((fd, kind, what))
}

/// A user or a group: whether it is a user, its number and its name.
pub fn account<'a>(bytes: &mut Bytes<'a>, block_kind: u32) -> Option<(bool, u32, &'a [u8])> {
    let mut entry = *bytes;
    let length = if block_kind == kind::USERS_WITH_LENGTHS { Some(entry.u32()? as usize) } else { None };
    let is_user = entry.u8()? == 0;
    let id = entry.u32()?;
    if is_user {
        entry.u32()?;
    }
    let name = entry.text()?;
    if is_user {
        entry.text()?;
        entry.text()?;
    }
    match length {
        Some(length) => _ = bytes.take(length.max(4))?,
        None => *bytes = entry,
    }
    Some((is_user, id, name))
}

/// The name of the host, and its number of CPUs.
pub fn machine(body: &[u8]) -> Option<(u32, &[u8])> {
    let mut bytes = Bytes(body);
    let cpus = bytes.u32()?;
    bytes.take(16)?;
    Some((cpus, until_nul(bytes.take(128)?)))
}
