//! Where results go: a file or standard output.

use crate::Failure;
use latscope_view_term::Line;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Columns of a line where there is no terminal to ask.
pub const COLUMNS: usize = 100;

/// Opens the file, or standard output without one (or for `-`).
pub fn open(path: Option<&Path>) -> Result<Box<dyn Write + Send>, Failure> {
    match path {
        Some(path) if path != Path::new("-") => match File::create(path) {
            Ok(file) => Ok(Box::new(BufWriter::with_capacity(1 << 16, file))),
            Err(error) => Err(Failure::Input(format!("{}: Cannot be written: {error}.", path.display()))),
        },
        _ => Ok(Box::new(BufWriter::with_capacity(1 << 16, io::stdout()))),
    }
}

/// Writes a whole text.
pub fn text(path: Option<&Path>, text: &str) -> Result<(), Failure> {
    let mut out = open(path)?;
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
}

/// Writes lines as they come.
pub fn lines(path: Option<&Path>, lines: impl IntoIterator<Item = Line>) -> Result<(), Failure> {
    let mut out = open(path)?;
    let mut encoded = String::new();
    let write = || {
        for line in lines {
            encoded.clear();
            line.encode(&mut encoded);
            out.write_all(encoded.as_bytes())?;
        }
        out.flush()
    };
    write().map_err(|error| Failure::output(&error))
}

/// Whether a result without a file goes to a terminal.
pub fn to_terminal(path: &Option<PathBuf>) -> bool {
    path.is_none() && io::stdout().is_terminal()
}

/// Columns of the terminal that standard output is, else [`COLUMNS`].
pub fn columns(path: &Option<PathBuf>) -> usize {
    if !to_terminal(path) {
        return COLUMNS;
    }
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    asked.or_else(|| terminal_size::terminal_size().map(|(width, _)| width.0 as usize)).unwrap_or(80).clamp(20, 1000)
}
