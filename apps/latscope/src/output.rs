//! Where results go: a file or standard output.

pub mod unnamed;

use crate::Failure;
use crate::plan::Reading;
use latscope_event::printable;
use latscope_view_term::{Line, Room};
use std::fs::{File, Metadata};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use unnamed::Unnamed;

/// Columns of a line where there is no terminal to ask.
pub const COLUMNS: usize = 100;

/// What is written: standard output, or a file that takes its name when it is complete.
///
/// A file is written under a temporary name beside it and renamed by [`Output::finish`]. Whatever fails before leaves an older
/// file of that name as it was.
pub struct Output {
    out: BufWriter<Box<dyn Write + Send>>,
    /// The file, where it is one.
    file: Option<File>,
    unnamed: Option<Unnamed>,
    as_it_comes: bool,
    is_terminal: bool,
}

impl Output {
    /// Lets the file take its name at the first flush: for what is watched while it grows, and kept whatever happens.
    #[must_use]
    pub fn growing(mut self) -> Output {
        self.as_it_comes = true;
        self
    }

    /// Gives the file its name now, for what is kept from here on, whatever happens.
    pub fn appear(&mut self) -> io::Result<()> {
        self.as_it_comes = true;
        self.out.flush()?;
        self.name_it()
    }

    /// As [`Output::growing`] for what is read live or followed; of a pipe the file takes its name when it is complete.
    #[must_use]
    pub fn growing_with(self, reading: &Reading) -> Output {
        if reading.live.is_some() || reading.follow { self.growing() } else { self }
    }

    /// Writes lines, whose colours a terminal may obey: their cells hold nothing else.
    pub fn lines<'a>(&mut self, lines: impl IntoIterator<Item = &'a Line>) -> io::Result<()> {
        let mut encoded = String::new();
        for line in lines {
            encoded.clear();
            line.encode(&mut encoded);
            self.out.write_all(encoded.as_bytes())?;
        }
        Ok(())
    }

    /// Writes what is still in memory and gives the file its name. Returns its size in bytes; 0 for standard output.
    pub fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        self.name_it()?;
        self.file.as_ref().map_or(Ok(0), |file| file.metadata().map(|metadata| metadata.len()))
    }

    fn name_it(&mut self) -> io::Result<()> {
        self.unnamed.take().map_or(Ok(()), Unnamed::name_it)
    }
}

/// What comes from others is sanitised where a terminal would obey it; each call has to hold whole characters.
impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.out.write(bytes);
        }
        self.out.write_all(printable(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()?;
        if self.as_it_comes { self.name_it() } else { Ok(()) }
    }
}

/// Opens the file, or standard output without one (or for `-`).
pub fn open(path: Option<&Path>) -> Result<Output, Failure> {
    let output = |out: Box<dyn Write + Send>, file: Option<File>, unnamed| Output {
        is_terminal: file.as_ref().map_or_else(|| io::stdout().is_terminal(), IsTerminal::is_terminal),
        out: BufWriter::with_capacity(1 << 16, out),
        file,
        unnamed,
        as_it_comes: false,
    };
    let Some(path) = path.filter(|path| !is_stdout(path)) else {
        return Ok(output(Box::new(io::stdout()), None, None));
    };
    let opened = unnamed::open(path).and_then(|(file, unnamed)| Ok((file.try_clone()?, file, unnamed)));
    match opened {
        Ok((out, file, unnamed)) => Ok(output(Box::new(out), Some(file), unnamed)),
        Err(error) => Err(Failure::Input(format!("{}: Cannot be written: {error}.", path.display()))),
    }
}

fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// Fails if the file to write exists: `-f` was not given. Pipes and devices are written to, not replaced.
pub fn refuse_existing(path: &Path) -> Result<(), Failure> {
    match !is_stdout(path) && path.metadata().is_ok_and(|there| there.is_file()) {
        false => Ok(()),
        true => Err(Failure::Usage(format!("{} exists; -f replaces it.", path.display()))),
    }
}

/// Fails if a result would replace one of the inputs, by whatever path, link or hard link.
pub fn refuse_inputs(inputs: &[PathBuf], output: Option<&Path>) -> Result<(), Failure> {
    let output = output.filter(|path| !is_stdout(path));
    let is_file = |path: &Path| path.metadata().ok().filter(Metadata::is_file);
    let Some(written) = is_file(output.unwrap_or(Path::new("/proc/self/fd/1"))) else { return Ok(()) };
    let is_written =
        |path: &Path| is_file(path).is_some_and(|input| (input.dev(), input.ino()) == (written.dev(), written.ino()));
    let holds_it = |folder: &Path| {
        std::fs::read_dir(folder).is_ok_and(|entries| entries.flatten().any(|entry| is_written(&entry.path())))
    };
    match inputs.iter().find(|input| is_written(input) || holds_it(input)) {
        None => Ok(()),
        Some(input) => {
            let output = output.map_or("Standard output".into(), |path| path.display().to_string());
            Err(Failure::Usage(format!("{output} is also the input {}; write to another file.", input.display())))
        }
    }
}

/// Writes to standard error what a terminal may show. Nothing is left to do if it cannot be written.
pub fn say(text: &str) {
    let _ = io::stderr().write_all(printable(text).as_bytes());
}

/// Writes a whole text.
pub fn text(path: Option<&Path>, text: &str) -> Result<(), Failure> {
    let mut out = open(path)?;
    out.write_all(text.as_bytes()).and_then(|()| out.finish()).map(drop).map_err(|error| Failure::output(&error))
}

/// Writes lines as they come.
pub fn lines(path: Option<&Path>, lines: impl IntoIterator<Item = Line>) -> Result<(), Failure> {
    let mut out = open(path)?;
    let write = || {
        for line in lines {
            out.lines([&line])?;
        }
        out.finish()
    };
    write().map(drop).map_err(|error| Failure::output(&error))
}

/// Whether a result without a file goes to a terminal.
pub fn to_terminal(path: &Option<PathBuf>) -> bool {
    path.is_none() && io::stdout().is_terminal()
}

/// How wide the lines of a table are: a file or a pipe loses no column.
pub fn room(path: &Option<PathBuf>) -> Room {
    if to_terminal(path) { columns(path).into() } else { Room { texts: 160, tables: 1000 } }
}

/// Columns of the terminal that standard output is, else [`COLUMNS`].
pub fn columns(path: &Option<PathBuf>) -> usize {
    if !to_terminal(path) {
        return COLUMNS;
    }
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    asked.or_else(|| terminal_size::terminal_size().map(|(width, _)| width.0 as usize)).unwrap_or(80).clamp(20, 1000)
}
