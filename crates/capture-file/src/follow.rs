//! A file that grows, as `tail -F` reads it: its end is waited for until [the end is asked for](crate::end_when), and a file that
//! was replaced or cut short is read from its beginning.

use crate::ending;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Time between two looks at a file that did not grow.
const TURN: Duration = Duration::from_millis(50);

/// Receives a sentence when a file was replaced or truncated.
pub type OnRestart = fn(&str);

/// Reads a file to its end and waits for more.
pub struct Follow {
    path: PathBuf,
    file: File,
    /// Bytes of the file that were read.
    position: u64,
    /// Bytes that can be read without waiting.
    at_hand: Arc<AtomicUsize>,
    /// The last byte of an unfinished line, if there is one.
    in_line: bool,
    /// The first bytes, once there are any: whether they are text.
    is_text: Option<bool>,
    on_restart: OnRestart,
}

impl Follow {
    /// Opens a file, which must exist.
    pub fn open(path: &Path, on_restart: OnRestart) -> io::Result<Follow> {
        let file = File::open(path)?;
        let at_hand = Arc::new(AtomicUsize::new(0));
        Ok(Follow { path: path.into(), file, position: 0, at_hand, in_line: false, is_text: None, on_restart })
    }

    /// How many bytes can be read without waiting.
    pub fn at_hand(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.at_hand)
    }

    /// Reads what is there.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        if let Some(last) = buffer[..count].last() {
            self.is_text.get_or_insert(buffer[0] != 0xff);
            self.in_line = *last != b'\n';
            self.position += count as u64;
            let rest = self.file.metadata()?.len().saturating_sub(self.position);
            self.at_hand.store(usize::try_from(rest).unwrap_or(usize::MAX), Ordering::Relaxed);
        }
        Ok(count)
    }

    /// Looks whether the path names another file, or one that became shorter, and starts anew there. Whether it did.
    fn restarted(&mut self) -> io::Result<bool> {
        let mine = self.file.metadata()?;
        let why = match std::fs::metadata(&self.path) {
            Ok(named) if (named.dev(), named.ino()) != (mine.dev(), mine.ino()) => {
                // What was written before it got another name was read: the end was reached.
                self.file = File::open(&self.path)?;
                "was replaced"
            }
            // During a rotation the file may have no name for a moment.
            _ if mine.len() >= self.position => return Ok(false),
            _ => {
                self.file.seek(SeekFrom::Start(0))?;
                "was truncated"
            }
        };
        self.position = 0;
        let then = if self.is_text == Some(true) { "reading it from its start" } else { "reading ends" };
        (self.on_restart)(&format!("{} {why}; {then}.", self.path.display()));
        Ok(true)
    }
}

impl Read for Follow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            let count = match self.take(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count?,
            };
            if count > 0 {
                return Ok(count);
            }
            if ending::is_over() {
                break;
            }
            match self.restarted() {
                // Another trace has a header of its own, which cannot follow on the batches of the first.
                Ok(true) if self.is_text == Some(false) => break,
                Ok(true) if std::mem::take(&mut self.in_line) => {
                    // The line that was cut must not run into the first one of the new file.
                    buffer[0] = b'\n';
                    return Ok(1);
                }
                Ok(true) => {}
                // The new file may be gone already.
                Err(error) if error.kind() == io::ErrorKind::NotFound => thread::sleep(TURN),
                Err(error) => return Err(error),
                Ok(false) => thread::sleep(TURN),
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    fn line(follow: &mut Follow) -> String {
        let mut buffer = [0; 64];
        let count = follow.read(&mut buffer).unwrap();
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    }

    #[test]
    fn growth_truncation_and_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "one\n").unwrap();
        let mut follow = Follow::open(&path, |_| {}).unwrap();
        assert_eq!(line(&mut follow), "one\n");
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"two\nhal").unwrap();
        assert_eq!(line(&mut follow), "two\nhal");
        file.set_len(0).unwrap();
        file.write_all(b"3\n").unwrap();
        assert_eq!((line(&mut follow), line(&mut follow)), ("\n".into(), "3\n".into()), "a cut line ends");
        file.write_all(b"last of the old\n").unwrap();
        fs::rename(&path, folder.path().join("log.1")).unwrap();
        fs::write(&path, "new\n").unwrap();
        assert_eq!((line(&mut follow), line(&mut follow)), ("last of the old\n".into(), "new\n".into()));
    }
}
