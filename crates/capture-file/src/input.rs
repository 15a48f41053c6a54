//! Bytes of a file: plain, gzip, zstd or [blocks](crate::java_blocks), from disk or standard input, without mapping it into memory
//! (a mapped file that somebody truncates kills the process, and reading in cache-sized chunks costs no more).

use crate::ending::{self, Pipe};
use crate::follow::{Follow, OnRestart};
use crate::gzip::{self, Members, Unpacked};
use crate::java_blocks::{Blocks, Codec};
use crate::once::{self, Key, Untouched};
use crate::{Error, Position, Progress, Remedy, spark_rest};
use latscope_event::format_size;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How much of the beginning is looked at to find out the format.
pub const HEAD_BYTES: usize = 64 * 1024;
/// Size of the chunks that text is read in, and the longest line that is understood.
pub const CHUNK_BYTES: usize = 1 << 18;
/// The beginning of a stream is what comes until it is silent for so long.
const PATIENCE: Duration = Duration::from_millis(200);
/// So much is looked through for the end of a first line that is too long to be one.
const SKIPPED_BYTES: usize = 64 << 20;
/// Why nothing can be read of a compressed file.
pub const CUT_SO_EARLY: &str = "The compressed file is truncated and nothing can be read from it; copy it again.";
/// How compressed files start.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// What some editors put before text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An opened file.
pub struct Input<'a> {
    /// Name for messages and titles.
    pub name: String,
    /// The path, when it is not standard input.
    pub path: Option<PathBuf>,
    /// Whether bytes had to be decompressed or came from a pipe, so that seeking needs a copy.
    streamed: bool,
    reader: Source<'a>,
    head: Vec<u8>,
    head_taken: usize,
    /// Lines before the head that were too long to be any.
    long_lines: u64,
    /// What showed so far while it was unpacked.
    pub unpacked: Arc<Unpacked>,
    /// Of what is read while it is written: how many bytes can be read without waiting.
    at_hand: Option<Arc<AtomicUsize>>,
}

/// Where the bytes behind the head come from.
enum Source<'a> {
    /// What can be opened again.
    Again(Box<dyn Read + Send + 'a>),
    /// A pipe: what is not read of it goes back for the next who opens it.
    Once(Key, Box<dyn Read + Send + 'static>),
}

impl Source<'_> {
    /// Gives up what is left.
    fn end(&mut self) {
        match self {
            Source::Again(reader) => *reader = Box::new(io::empty()),
            Source::Once(_, reader) => *reader = Box::new(io::empty()),
        }
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::Again(reader) => reader.read(buffer),
            Source::Once(_, reader) => reader.read(buffer),
        }
    }
}

/// Takes the sudden end of compressed data as the end of the file, and remembers it: what came before is of use.
struct UpToTheCut<R> {
    inner: R,
    unpacked: Arc<Unpacked>,
}

impl<R: Read> Read for UpToTheCut<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.inner.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.unpacked.is_cut.store(true, Ordering::Relaxed);
                Ok(0)
            }
            result => result,
        }
    }
}

/// Counts the bytes that pass, for the progress bar.
struct Counting<'a, R> {
    inner: R,
    progress: Option<&'a Progress>,
}

impl<R: Read> Read for Counting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.progress.is_some() && ending::is_over() {
            return Ok(0);
        }
        let count = self.inner.read(buffer)?;
        if let Some(progress) = self.progress {
            progress.done.fetch_add(count as u64, Ordering::Relaxed);
        }
        Ok(count)
    }
}

impl<'a> Input<'a> {
    /// Opens a file, `-` for standard input.
    pub fn open(path: &Path, progress: Option<&'a Progress>) -> Result<Input<'a>, Error> {
        if let Some(key) = Key::read(path) {
            return Input::open_once(path, key);
        }
        if let Some(address) = latscope_wire::Address::of_input(path) {
            return Input::ask(path, address, &latscope_wire::Query::default());
        }
        if let Some(url) = spark_rest::url_of(path) {
            return Input::application(path, url, None);
        }
        let file = File::open(path).map_err(|error| Error::io(path, &error))?;
        let metadata = file.metadata().map_err(|error| Error::io(path, &error))?;
        let name = path.display().to_string();
        if metadata.is_dir() {
            // A directory has no bytes of its own; the formats that are directories look at the path.
            return Input::sniff(name, Some(path.into()), io::empty(), progress, None);
        }
        if let Some(progress) = progress {
            progress.total.fetch_add(metadata.len(), Ordering::Relaxed);
        }
        Input::sniff(name, Some(path.into()), file, progress, None)
    }

    /// Opens the answer of a hub.
    pub fn ask(
        path: &Path,
        address: Result<latscope_wire::Address, String>,
        query: &latscope_wire::Query,
    ) -> Result<Input<'a>, Error> {
        let (name, credentials) = (path.display().to_string(), latscope_wire::Credentials::of_environment());
        let stream = address.and_then(|address| address.read(&credentials, query));
        let stream = stream.map_err(|why| Error::new(&name, Position::File, why))?;
        match query.follow {
            true => Input::sniff_pipe(name, None, Pipe::new(Box::new(stream))),
            false => Input::sniff(name, None, stream, None, None),
        }
    }

    /// Opens what a Spark application says of itself; to its end where that is followed.
    fn application(
        path: &Path,
        url: Result<latscope_wire::Url, String>,
        on_restart: Option<OnRestart>,
    ) -> Result<Input<'a>, Error> {
        let name = path.display().to_string();
        let rest = url.map_err(|why| Error::new(&name, Position::File, why));
        let rest = rest.and_then(|url| spark_rest::Rest::open(&name, url, on_restart))?;
        match on_restart {
            Some(_) => Input::sniff_pipe(name, None, Pipe::new(Box::new(rest))),
            None => Input::sniff(name, None, rest, None, None),
        }
    }

    /// Opens a file that grows; see [`Follow`]. What is no plain file is opened as always.
    pub fn follow(path: &Path, progress: Option<&'a Progress>, on_restart: OnRestart) -> Result<Input<'a>, Error> {
        if let Some(url) = spark_rest::url_of(path) {
            return Input::application(path, url, Some(on_restart));
        }
        if !path.is_file() {
            return Input::open(path, progress);
        }
        let fail = |error| Error::io(path, &error);
        let mut magic = [0; 4];
        let count = File::open(path).and_then(|mut file| read_full(&mut file, &mut magic)).map_err(fail)?;
        if count == 4 && (magic[..2] == gzip::MAGIC || magic == ZSTD || Codec::detect(magic).is_some()) {
            let error = Error::new(path.display().to_string(), Position::File, "A compressed file cannot be followed.");
            return Err(error.with_remedy(Remedy::Unpack));
        }
        let follow = Follow::open(path, on_restart).map_err(fail)?;
        let at_hand = follow.at_hand();
        let mut input = Input::sniff(path.display().to_string(), Some(path.into()), follow, None, Some(at_hand))?;
        input.streamed = true;
        Ok(input)
    }

    /// Whether it may be written while it is read, so that what has come is handed on before there is more.
    pub fn is_stream(&self) -> bool {
        self.at_hand.is_some()
    }

    /// Whether nothing can be read without waiting.
    fn is_silent(&self) -> bool {
        self.at_hand.as_ref().is_some_and(|bytes| bytes.load(Ordering::Relaxed) == 0)
    }

    /// Opens what can be read only once. Who opens it first looks at its head; who reads on has the rest to himself.
    fn open_once(path: &Path, key: Key) -> Result<Input<'a>, Error> {
        let is_stdin = path == Path::new("-");
        let name = if is_stdin { "standard input".into() } else { path.display().to_string() };
        match once::take(key) {
            once::Taken::Back(kept) => return kept.map(|kept| Input::resumed(key, kept)),
            once::Taken::Gone => {
                return Err(Error::new(
                    name,
                    Position::File,
                    "A pipe can be read only once; write it to a file first.",
                ));
            }
            once::Taken::New => {}
        }
        let raw: Result<Box<dyn Read + Send>, Error> = match is_stdin {
            true => Ok(Box::new(io::stdin())),
            false => File::open(path).map(|file| Box::new(file) as _).map_err(|error| Error::io(path, &error)),
        };
        let path = (!is_stdin).then(|| path.into());
        let mut input = raw
            .map(Pipe::new)
            .and_then(|pipe| Input::<'static>::sniff_pipe(name, path, pipe))
            .inspect_err(|error| {
                // The next call gets the same.
                once::give_back(key, Err(error.clone()));
            })?;
        input.streamed = true;
        if let Source::Again(reader) = std::mem::replace(&mut input.reader, Source::Again(Box::new(io::empty()))) {
            input.reader = Source::Once(key, reader);
        }
        Ok(input)
    }

    fn resumed(key: Key, kept: Untouched) -> Input<'a> {
        let Untouched { name, path, reader, head, long_lines, unpacked, at_hand } = kept;
        let reader = Source::Once(key, reader);
        Input { name, path, streamed: true, reader, head, head_taken: 0, long_lines, unpacked, at_hand }
    }

    fn sniff_pipe(name: String, path: Option<PathBuf>, pipe: Pipe) -> Result<Input<'a>, Error> {
        let at_hand = pipe.at_hand();
        Input::sniff(name, path, pipe, None, Some(at_hand))
    }

    /// Bytes in memory, for tests and fuzzing.
    pub fn from_bytes(name: &str, bytes: &'a [u8]) -> Result<Input<'a>, Error> {
        Input::sniff(name.into(), None, bytes, None, None)
    }

    /// Bytes in memory that nobody else needs.
    pub fn from_vec(name: &str, bytes: Vec<u8>) -> Result<Input<'static>, Error> {
        Input::sniff(name.into(), None, io::Cursor::new(bytes), None, None)
    }

    fn sniff(
        name: String,
        path: Option<PathBuf>,
        raw: impl Read + Send + 'a,
        progress: Option<&'a Progress>,
        at_hand: Option<Arc<AtomicUsize>>,
    ) -> Result<Input<'a>, Error> {
        let fail = |error: io::Error| Error::new(&name, Position::File, format!("Cannot be read: {error}."));
        let mut raw = Counting { inner: raw, progress };
        let mut magic = [0; 4];
        let got = read_full(&mut raw, &mut magic).map_err(fail)?;
        let raw = io::Cursor::new(magic).take(got as u64).chain(raw);
        let mut streamed = path.is_none();
        let unpacked = Arc::new(Unpacked::default());
        let up_to = Arc::clone(&unpacked);
        let reader: Box<dyn Read + Send + 'a> = match magic {
            magic if magic[..2] == gzip::MAGIC => {
                streamed = true;
                let inner = Members::new(BufReader::with_capacity(256 * 1024, raw), Arc::clone(&up_to));
                Box::new(UpToTheCut { inner, unpacked: up_to })
            }
            ZSTD => {
                streamed = true;
                Box::new(UpToTheCut { inner: zstd::Decoder::new(raw).map_err(fail)?, unpacked: up_to })
            }
            magic if let Some(codec) = Codec::detect(magic) => {
                streamed = true;
                let inner = Blocks::new(codec, BufReader::with_capacity(256 * 1024, raw));
                Box::new(UpToTheCut { inner, unpacked: up_to })
            }
            _ => Box::new(raw),
        };
        let reader = Source::Again(reader);
        let head = Vec::new();
        let mut input = Input { name, path, streamed, reader, head, head_taken: 0, long_lines: 0, unpacked, at_hand };
        input.fill_head(0)?;
        if input.head.starts_with(BYTE_ORDER_MARK) {
            input.head.drain(..BYTE_ORDER_MARK.len());
        }
        if input.head.is_empty() && input.is_cut() {
            return Err(Error::new(&input.name, Position::File, CUT_SO_EARLY));
        }
        Ok(input)
    }

    /// Reads the head, of which so much is there.
    fn fill_head(&mut self, kept: usize) -> Result<(), Error> {
        self.head.resize(HEAD_BYTES.max(kept), 0);
        let got = match self.is_stream() {
            true => self.read_head_of_stream(kept),
            false => read_full(&mut self.reader, &mut self.head[kept..]),
        };
        let got = got.map_err(|error| Error::new(&self.name, Position::File, format!("Cannot be read: {error}.")))?;
        self.head.truncate(kept + got);
        Ok(())
    }

    /// Reads into the head what comes before a stream is silent, a line at least; binary data has no lines.
    fn read_head_of_stream(&mut self, kept: usize) -> io::Result<usize> {
        let mut filled = kept;
        while filled < self.head.len() {
            let has_line = self.head[0] == 0xff || memchr::memchr(b'\n', &self.head[..filled]).is_some();
            if filled > kept && has_line && self.falls_silent() {
                break;
            }
            match self.reader.read(&mut self.head[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled - kept)
    }

    fn falls_silent(&self) -> bool {
        let since = Instant::now();
        while self.is_silent() && since.elapsed() < PATIENCE {
            thread::sleep(PATIENCE / 20);
        }
        self.is_silent()
    }

    /// Waits for more of the head of a stream whose head is too short to decide; whether there is more.
    pub fn await_more_head(&mut self) -> Result<bool, Error> {
        let kept = self.head.len();
        if !self.is_stream() || self.head_taken > 0 || kept >= HEAD_BYTES {
            return Ok(false);
        }
        self.fill_head(kept)?;
        Ok(self.head.len() > kept)
    }

    /// Reads the whole first line into the head, where it is longer, as far as lines may be long. Whether there was more.
    pub fn complete_first_line(&mut self) -> Result<bool, Error> {
        let kept = self.head.len();
        if self.head_taken > 0 || !(HEAD_BYTES..CHUNK_BYTES).contains(&kept) || self.head.contains(&b'\n') {
            return Ok(false);
        }
        self.head.resize(CHUNK_BYTES, 0);
        let got = read_full(&mut self.reader, &mut self.head[kept..]);
        let got = got.map_err(|error| self.error(&error))?;
        self.head.truncate(kept + got);
        Ok(got > 0)
    }

    /// Goes on behind first lines that are longer than the head, so that what follows can be looked at; they are counted
    /// as [too long](LineChunks::too_long). Only for who reads lines. Whether there were any.
    pub fn skip_long_lines(&mut self) -> Result<bool, Error> {
        let before = self.long_lines;
        while self.head_taken == 0 && self.head.len() >= HEAD_BYTES && !self.head.contains(&b'\n') {
            self.long_lines += 1;
            let mut skipped = 0;
            let end = loop {
                skipped += self.head.len();
                self.fill_head(0)?;
                match memchr::memchr(b'\n', &self.head) {
                    None if !self.head.is_empty() && skipped < SKIPPED_BYTES => {}
                    end => break end,
                }
            };
            // Without an end there is nothing behind it.
            self.head.drain(..end.map_or(self.head.len(), |newline| newline + 1));
            self.fill_head(self.head.len())?;
            if end.is_none() {
                self.reader.end();
                self.head.clear();
            }
        }
        Ok(self.long_lines > before)
    }

    /// Whether there is not a single byte.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.long_lines == 0
    }

    /// Whether compressed data has ended in the middle, as far as it was read.
    pub fn is_cut(&self) -> bool {
        self.unpacked.is_cut.load(Ordering::Relaxed)
    }

    /// The first [`HEAD_BYTES`], or all of a shorter file.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// An error of the operating system or of a decompressor about this file.
    pub fn error(&self, error: &io::Error) -> Error {
        Error::new(&self.name, Position::File, format!("Cannot be read: {error}."))
    }

    /// Whether random access takes a copy of the bytes: they come from a pipe, or are compressed.
    pub fn needs_copy(&self) -> bool {
        self.streamed
    }

    /// The file itself, when its bytes are the input's: neither a pipe nor compressed.
    pub fn unpacked_file(&self) -> Option<File> {
        let path = self.path.as_ref().filter(|_| !self.streamed)?;
        File::open(path).ok()
    }

    /// The bytes with random access: the file itself, or a temporary copy of what was decompressed or piped.
    pub fn seekable(mut self) -> Result<File, Error> {
        if let (Some(path), false) = (&self.path, self.streamed) {
            return File::open(path).map_err(|error| Error::io(path, &error));
        }
        let limit = copy_limit(self.head());
        let copy = (|| {
            let mut copy = tempfile::tempfile()?;
            if io::copy(&mut (&mut self).take(limit + 1), &mut copy)? > limit {
                return Err(io::Error::other(format!(
                    "it is longer than {}; unpack it to a file and read that",
                    format_size(limit)
                )));
            }
            copy.seek(SeekFrom::Start(0))?;
            Ok(copy)
        })();
        copy.map_err(|error: io::Error| {
            let message =
                format!("Cannot be copied to the temporary folder, which this format needs to read a pipe: {error}.");
            Error::new(&self.name, Position::File, message)
        })
    }

    /// The bytes as chunks of whole lines.
    pub fn lines(self) -> LineChunks<'a> {
        self.lines_up_to(CHUNK_BYTES)
    }

    /// As [`Input::lines`], for lines of up to so many bytes: a chunk grows to hold its first line.
    pub fn lines_up_to(self, longest: usize) -> LineChunks<'a> {
        let too_long = self.long_lines;
        LineChunks { input: self, carry: Vec::new(), ended: false, too_long, longest: longest.max(CHUNK_BYTES) }
    }
}

impl Drop for Input<'_> {
    /// What was only looked at stays there for who reads it.
    fn drop(&mut self) {
        if let Source::Once(key, reader) = &mut self.reader
            && self.head_taken == 0
        {
            let kept = Untouched {
                name: std::mem::take(&mut self.name),
                path: self.path.take(),
                reader: std::mem::replace(reader, Box::new(io::empty())),
                head: std::mem::take(&mut self.head),
                long_lines: self.long_lines,
                unpacked: Arc::clone(&self.unpacked),
                at_hand: self.at_hand.take(),
            };
            once::give_back(*key, Ok(kept));
        }
    }
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut rest = &self.head[self.head_taken..];
        if rest.is_empty() {
            return self.reader.read(buffer);
        }
        let count = rest.read(buffer)?;
        self.head_taken += count;
        Ok(count)
    }
}

/// Reads until the buffer is full or the input ends.
pub fn read_full(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Longest temporary copy of what does not say how long it is.
const COPY_LIMIT: u64 = 8 << 30;
/// So much may stand behind the records of `perf.data`: names of files, topology.
const PERF_FEATURES: u64 = 256 << 20;

/// How long a temporary copy may become: a few bytes can unpack to a full disk. The header of `perf.data` says where its records end,
/// unless perf was killed.
fn copy_limit(head: &[u8]) -> u64 {
    let word = |at: usize| {
        let bytes = head.get(at..at + 8)?.try_into().ok()?;
        Some(if head.starts_with(b"PERFILE2") { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) })
    };
    let is_perf = head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP");
    match (word(40), word(48)) {
        (Some(offset), Some(size)) if is_perf && size > 0 => offset.saturating_add(size).saturating_add(PERF_FEATURES),
        _ => COPY_LIMIT,
    }
    .min(u64::MAX - 1)
}

/// Text in chunks of whole lines.
pub struct LineChunks<'a> {
    /// The file.
    pub input: Input<'a>,
    carry: Vec<u8>,
    ended: bool,
    /// Lines longer than the longest, which were skipped.
    pub too_long: u64,
    longest: usize,
}

impl LineChunks<'_> {
    /// Fills `chunk` with the next lines (the last one of a file may lack its newline); false at the end. Of a stream these are
    /// the lines that have come when it is silent.
    pub fn next(&mut self, chunk: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            let kept = self.carry.len();
            // What is in it already need not be cleared.
            chunk.resize(CHUNK_BYTES.max(2 * kept).min(self.longest), 0);
            chunk[..kept].copy_from_slice(&self.carry);
            self.carry.clear();
            let got = if self.ended { 0 } else { self.fill(chunk, kept)? };
            chunk.truncate(kept + got);
            if self.ended {
                if ending::is_over() {
                    // A number may have been cut.
                    chunk.truncate(memchr::memrchr(b'\n', chunk).map_or(0, |end| end + 1));
                }
                return Ok(!chunk.is_empty());
            }
            if let Some(end) = memchr::memrchr(b'\n', chunk) {
                self.carry.extend_from_slice(&chunk[end + 1..]);
                chunk.truncate(end + 1);
                return Ok(true);
            }
            if chunk.len() < self.longest {
                std::mem::swap(&mut self.carry, chunk);
                continue;
            }
            self.too_long += 1;
            self.skip_line()?;
        }
    }

    /// Reads behind what is kept, until the chunk is full or a stream is silent.
    fn fill(&mut self, chunk: &mut [u8], kept: usize) -> io::Result<usize> {
        let mut filled = kept;
        while filled < chunk.len() {
            if filled > kept && self.input.is_silent() && memchr::memrchr(b'\n', &chunk[kept..filled]).is_some() {
                return Ok(filled - kept);
            }
            match self.input.read(&mut chunk[filled..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled - kept)
    }

    /// Drops the rest of a line that is too long to be one.
    fn skip_line(&mut self) -> io::Result<()> {
        let mut buffered = BufReader::with_capacity(64 * 1024, &mut self.input);
        loop {
            let bytes = buffered.fill_buf()?;
            if bytes.is_empty() {
                self.ended = true;
                return Ok(());
            }
            match memchr::memchr(b'\n', bytes) {
                Some(end) => {
                    self.carry.extend_from_slice(&bytes[end + 1..]);
                    return Ok(());
                }
                None => {
                    let count = bytes.len();
                    buffered.consume(count);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
