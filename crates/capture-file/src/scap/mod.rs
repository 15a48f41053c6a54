//! Captures of sysdig and Falco (`.scap`), versions 1.0 to 1.2: system calls that start and return, with what the library tracked
//! of threads and descriptors.
//!
//! The format and its numbers are described in falcosecurity/libs (userspace/libscap/scap_savefile.h and driver/); no code is
//! taken from there.

mod blocks;
mod bytes;
mod event;
mod event_types;
mod fds;
mod lists;
mod process;
mod session;
mod state;
mod write;
mod written_calls;

pub use write::ScapWriter;

use crate::input::Input;
use crate::{Detected, Error, Position, ReadOptions, Sink};
use blocks::{Blocks, Stop, kind};
use bytes::Bytes;
use latscope_event::{Anomaly, Context, Field, FieldSet, Note};
use session::Session;

/// The fields that a capture can fill.
pub const FILLS: FieldSet = FieldSet::ALWAYS.with(&[
    Field::Kind,
    Field::Name,
    Field::Size,
    Field::Offset,
    Field::Pid,
    Field::Tid,
    Field::Comm,
    Field::Fd,
    Field::FdType,
    Field::Path,
    Field::Error,
    Field::Result,
    Field::Container,
    Field::Cpu,
    Field::Category,
    Field::LocalIp,
    Field::LocalPort,
    Field::RemoteIp,
    Field::RemotePort,
    Field::L4Proto,
    Field::Exe,
    Field::ExePath,
    Field::Args,
    Field::Cmdline,
    Field::Cwd,
    Field::Ppid,
    Field::Parent,
    Field::Uid,
    Field::User,
    Field::Gid,
    Field::Group,
]);

/// Written in the byte order of the machine.
const MAGIC: u32 = 0x1a2b_3c4d;
/// What of the head decides: the first section header, without its options, and the type of the next block.
const SECTION_BYTES: usize = 28;

/// A section header of a capture. Packet captures (pcapng) start in the same way, with other blocks behind it.
pub fn detect(head: &[u8]) -> Detected {
    let mut bytes = Bytes(head);
    let (Some(kind::SECTION), Some(length), Some(magic)) = (bytes.u32(), bytes.u32(), bytes.u32()) else {
        return Detected::No;
    };
    let (length, is_swapped) = match magic {
        MAGIC => (length, false),
        magic if magic.swap_bytes() == MAGIC => (length.swap_bytes(), true),
        _ => return Detected::No,
    };
    match head.get(length as usize..).and_then(|rest| Bytes(rest).u32()) {
        Some(next) if kind::is_known(if is_swapped { next.swap_bytes() } else { next }) => Detected::Yes,
        Some(_) => Detected::No,
        // No packet capture is of nothing.
        None if head.len() <= SECTION_BYTES => Detected::Yes,
        None => Detected::NeedMore,
    }
}

/// Reads the file; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    check_version(&name, input.head())?;
    let mut blocks = Blocks::new(input);
    let mut session = Session::new(&name, options, sink);
    let stop = loop {
        match blocks.next() {
            Ok(Some(block)) => {
                if session.block(&block).is_break() {
                    return Ok(session.context);
                }
            }
            Ok(None) => break None,
            Err(stop) => break Some(stop),
        }
    };
    let (anomaly, at, what) = match stop {
        None => (Anomaly::Truncated, 0, None),
        Some(Stop::Cut(at)) => (Anomaly::Truncated, at, Some("the file ends within a block".to_string())),
        Some(Stop::Damaged(at, what)) => (Anomaly::DamagedRecords, at, Some(what.to_string())),
        Some(Stop::Io(error)) => (Anomaly::Truncated, blocks.position(), Some(error.to_string())),
    };
    let counts = session.counts;
    if counts.starts == 0 && counts.returns > 0 {
        let message = "This capture has only the returns of system calls and therefore no latency: sysdig and Falco with a driver of \
                       version 9 or later do not record when a call starts. Record with an earlier driver, or with latscope record \
                       -s syscall.";
        return Err(Error::new(&name, Position::File, message));
    }
    let mut context = session.finish();
    if let Some(what) = what {
        context.tally.add(anomaly, 1);
        if anomaly == Anomaly::DamagedRecords {
            context.note(Note::Damage { byte: at, what: what.clone() });
        }
        context.properties.insert("damage".into(), format!("{what}, at byte {at}"));
    }
    Ok(context)
}

fn check_version(name: &str, head: &[u8]) -> Result<(), Error> {
    let mut bytes = Bytes(head);
    bytes.take(8);
    let fail = |message: String| Err(Error::new(name, Position::Byte(0), message));
    match (bytes.u32(), bytes.u16()) {
        (Some(MAGIC), Some(1)) => Ok(()),
        (Some(MAGIC), Some(major)) => fail(format!(
            "The capture has version {major} of the format; latscope reads version 1 (sysdig and Falco to 2026)."
        )),
        (Some(magic), _) if magic.swap_bytes() == MAGIC => fail(
            "The capture was made on a big-endian machine, which latscope does not read; neither does sysdig.".into(),
        ),
        _ => fail("This is not a capture of sysdig: its section header is missing.".into()),
    }
}

#[cfg(test)]
mod tests;
