//! What can go wrong with a file, and where in it.

use std::fmt;
use std::path::Path;

/// Where in a file something is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// The file as a whole.
    File,
    /// A line, counted from 1.
    Line(u64),
    /// A byte offset.
    Byte(u64),
}

/// What the reader of a message can do about an error, as far as the options for reading offer something; the program words it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// What the message says, if anything.
    InMessage,
    /// Skip and count malformed rows (`ReadOptions::lenient`).
    Lenient,
    /// Name the format (`ReadOptions::format`).
    Format,
    /// Read the file unpacked, or without following it (`ReadOptions::follow`).
    Unpack,
    /// Name the units of both columns (`ReadOptions::two_columns`).
    Units,
    /// Name the unit of latencies (`ReadOptions::two_columns`): nanoseconds for fio 3, microseconds before.
    LatencyUnit,
    /// Read the histograms of the file (`SeriesReader`).
    Histograms,
}

/// A file that cannot be used, and why: one sentence that starts with the position.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Error {
    /// Name of the file, `standard input` for a pipe.
    pub file: String,
    /// Where in it.
    pub position: Position,
    /// What is wrong, a sentence.
    pub message: String,
    /// What to do about it.
    pub remedy: Remedy,
}

impl Error {
    /// An error at this position.
    pub fn new(file: impl Into<String>, position: Position, message: impl Into<String>) -> Error {
        Error { file: file.into(), position, message: message.into(), remedy: Remedy::InMessage }
    }

    /// The error with what can be done about it.
    #[must_use]
    pub fn with_remedy(self, remedy: Remedy) -> Error {
        Error { remedy, ..self }
    }

    /// An error of the operating system about a file as a whole.
    pub fn io(path: &Path, error: &std::io::Error) -> Error {
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound => "No such file.".to_string(),
            std::io::ErrorKind::PermissionDenied => "Permission denied; run as a user who can read it.".to_string(),
            _ => format!("Cannot be read: {error}."),
        };
        Error::new(path.display().to_string(), Position::File, reason)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Position::File => write!(f, "{}: {}", self.file, self.message),
            Position::Line(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            Position::Byte(byte) => write!(f, "{} at byte {byte}: {}", self.file, self.message),
        }
    }
}
