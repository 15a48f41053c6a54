//! `perf.data`, what `perf record` writes: plain, compressed (`-z`), as a pipe (`-o -`), as a folder (`--threads`),
//! from machines of either byte order.

mod header;
mod records;
mod samples;
mod session;
mod stacks;

use crate::input::{Input, read_full};
use crate::tracepoint::Endian;
use crate::{Detected, Error, Position, ReadOptions, Sink, tracepoint};
use header::{Header, Notes, PIPE_HEADER_BYTES};
use latscope_event::{Context, Field, FieldSet};
use records::Records;
use session::Session;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// The fields that perf.data can fill.
pub const FILLS: FieldSet = tracepoint::FILLS.with(&[Field::Stack, Field::StackSource]);

/// Large enough that the cost of a system call vanishes, small enough to stay in the cache.
const CHUNK_BYTES: usize = 256 * 1024;
/// Streams of a folder are open all at once.
const FOLDER_CHUNK_BYTES: usize = 128 * 1024;
/// More files than a machine has CPUs.
const STREAMS_LIMIT: usize = 4096;

/// A file with perf's magic, or a folder whose `data` has it.
pub fn detect(input: &Input) -> Detected {
    let is_one = folder(input).map_or_else(|| has_magic(input.head()), |folder| is_recording(&folder));
    if is_one { Detected::Yes } else { Detected::No }
}

/// Whether a folder is what `perf record --threads` writes: one whose `data` has perf's magic.
pub fn is_recording(folder: &Path) -> bool {
    let mut head = [0; 8];
    let got = File::open(folder.join("data")).and_then(|mut file| read_full(&mut file, &mut head));
    has_magic(&head[..got.unwrap_or(0)])
}

fn has_magic(head: &[u8]) -> bool {
    header::byte_order(head).is_some() || head.starts_with(b"PERFFILE")
}

fn folder(input: &Input) -> Option<PathBuf> {
    input.path.clone().filter(|path| path.is_dir())
}

/// Reads the file; see the crate's `read`.
pub fn read(mut input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    if let Some(path) = folder(&input) {
        let io_error = |error: io::Error| Error::io(&path.join("data"), &error);
        let file = File::open(path.join("data")).map_err(io_error)?;
        let mut head = [0; PIPE_HEADER_BYTES as usize];
        read_full(&mut &file, &mut head).map_err(io_error)?;
        let endian = magic(&name, &head)?;
        let header = Header::read(&file, endian).map_err(io_error)?;
        return read_folder(&path, file, endian, described(&name, header)?, options, sink);
    }
    let endian = magic(&name, input.head())?;
    if endian.u64(input.head(), 8) == Some(PIPE_HEADER_BYTES) {
        let session = Session::new(name, endian, Notes::default(), Vec::new(), options, sink);
        let mut head = [0; PIPE_HEADER_BYTES as usize];
        read_full(&mut input, &mut head).map_err(|error| input.error(&error))?;
        let records = Records::new(Box::new(input), endian, PIPE_HEADER_BYTES, u64::MAX, CHUNK_BYTES);
        return read_stream(records, session, None);
    }
    let is_copy = input.needs_copy();
    let mut file = input.seekable()?;
    let io_error = |error: io::Error| Error::new(&name, Position::File, format!("Cannot be read: {error}."));
    let header = described(&name, Header::read(&file, endian).map_err(io_error)?)?;
    file.seek(SeekFrom::Start(header.data.0)).map_err(io_error)?;
    let (at, length) = header.data;
    // When a copy was written says nothing of the trace; and it was counted while it was made.
    let metadata = file.metadata().ok().filter(|_| !is_copy);
    let written_unix_ns = metadata.as_ref().and_then(modified_unix_ns);
    let progress = options.progress.filter(|_| metadata.is_some());
    let records = Records::new(Box::new(Counted { file, progress }), endian, at, length, CHUNK_BYTES);
    let session = Session::new(name, endian, header.notes, header.attrs, options, sink);
    read_stream(records, session, written_unix_ns)
}

fn magic(name: &str, head: &[u8]) -> Result<Endian, Error> {
    header::byte_order(head).ok_or_else(|| {
        let message = "This is not a perf.data of perf 3.0 or later; print it with the perf that recorded it (perf \
                       script), and read the text.";
        Error::new(name, Position::Byte(0), message)
    })
}

/// A header that describes its tracepoints; without the description nothing can be read.
fn described(name: &str, header: Result<Header, header::Damage>) -> Result<Header, Error> {
    let header = header.map_err(|(at, message)| Error::new(name, Position::Byte(at), message))?;
    if header.notes.tracepoints.is_empty() && header.attrs.iter().any(|attr| attr.kind == samples::TRACEPOINT) {
        let message = if header.is_finished && header.is_cut {
            "The file is truncated: the layout of its events, which perf writes at the end, is missing; copy it \
             again."
        } else if header.is_finished {
            "The layout of the recorded events is missing; the file is damaged."
        } else {
            "The recording is incomplete (perf was killed): the layout of its events, which perf writes at the \
             end, is missing. Stop perf with Ctrl-C, or record through a pipe (perf record -o -)."
        };
        return Err(Error::new(name, Position::Byte(header.data.0.saturating_add(header.data.1)), message));
    }
    Ok(header)
}

fn modified_unix_ns(metadata: &std::fs::Metadata) -> Option<i64> {
    let since = metadata.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok()
}

/// Counts what is read for the progress bar.
struct Counted<'a> {
    file: File,
    progress: Option<&'a crate::Progress>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        if let Some(progress) = self.progress {
            progress.done.fetch_add(count as u64, Ordering::Relaxed);
        }
        Ok(count)
    }
}

/// One stream that holds the records of all CPUs, in rounds.
fn read_stream(mut records: Records, mut session: Session, written_unix_ns: Option<i64>) -> Result<Context, Error> {
    session.anchor(written_unix_ns);
    loop {
        let at = records.position();
        let (kind, record) = match records.next() {
            Ok(Some(next)) => next,
            Ok(None) => break,
            Err(stop) => {
                session.stopped(stop)?;
                break;
            }
        };
        let go_on = match kind {
            records::kind::TRACING_DATA => {
                let size = session.tracing_data_size(record);
                match records.payload(size) {
                    Ok(bytes) => session.tracing_data(&bytes),
                    Err(stop) => {
                        session.stopped(stop)?;
                        break;
                    }
                }
                ControlFlow::Continue(())
            }
            records::kind::FINISHED_ROUND => session.round(),
            _ => session.record(kind, record, at)?,
        };
        if go_on.is_break() {
            break;
        }
    }
    session.finish(written_unix_ns)
}

struct Stream<'a> {
    records: Records<'a>,
    last_ns: i64,
}

/// A folder: `data` has the header and perf's own records, `data.N` what one CPU recorded, each in order by itself.
fn read_folder(
    path: &Path,
    mut file: File,
    endian: Endian,
    header: Header,
    options: &ReadOptions,
    sink: &mut Sink,
) -> Result<Context, Error> {
    let io_error = |error: io::Error| Error::io(path, &error);
    let written_unix_ns = file.metadata().ok().as_ref().and_then(modified_unix_ns);
    file.seek(SeekFrom::Start(header.data.0)).map_err(io_error)?;
    let (at, length) = header.data;
    let counted = |file| Counted { file, progress: options.progress };
    let stream = |file, at, length| Stream {
        records: Records::new(Box::new(counted(file)), endian, at, length, FOLDER_CHUNK_BYTES),
        last_ns: i64::MIN,
    };
    let mut streams = vec![stream(file, at, length)];
    for part in parts(path).map_err(io_error)? {
        let file = File::open(&part).map_err(|error| Error::io(&part, &error))?;
        if let (Some(progress), Ok(metadata)) = (options.progress, file.metadata()) {
            progress.total.fetch_add(metadata.len(), Ordering::Relaxed);
        }
        streams.push(stream(file, 0, u64::MAX));
    }
    let name = path.display().to_string();
    let mut session = Session::new(name, endian, header.notes, header.attrs, options, sink);
    session.anchor(written_unix_ns);
    merge(&mut streams, &mut session)?;
    session.finish(written_unix_ns)
}

/// `data.0`, `data.1` ... in the order of their numbers.
fn parts(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.strip_prefix("data.")?.parse::<u32>().ok());
        // Opening a named pipe would wait for ever.
        if entry.file_type()?.is_file() {
            found.extend(number.map(|number| (number, entry.path())));
        }
    }
    found.sort();
    found.truncate(STREAMS_LIMIT);
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Reads on where the last record is the earliest, so that all streams advance together and little is held back.
fn merge(streams: &mut Vec<Stream>, session: &mut Session) -> Result<(), Error> {
    while let Some(earliest) = (0..streams.len()).min_by_key(|&at| streams[at].last_ns) {
        let stream = &mut streams[earliest];
        let mut is_over = false;
        for _ in 0..512 {
            let at = stream.records.position();
            match stream.records.next() {
                Ok(Some((kind, record))) => {
                    if session.record(kind, record, at)?.is_break() {
                        return Ok(());
                    }
                    // A record without a time says nothing of how far its stream has come.
                    stream.last_ns = stream.last_ns.max(session.last_ns().unwrap_or(i64::MIN));
                }
                Ok(None) => is_over = true,
                Err(stop) => {
                    session.stopped(stop)?;
                    is_over = true;
                }
            }
            if is_over {
                streams.remove(earliest);
                break;
            }
        }
        let complete_ns = streams.iter().map(|stream| stream.last_ns).min().unwrap_or(i64::MAX);
        if session.release(complete_ns).is_break() {
            return Ok(());
        }
    }
    Ok(())
}
