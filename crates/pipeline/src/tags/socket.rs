//! Lines of tags that programs write to a Unix socket while a capture runs.

use super::known::{LINE_BYTES, Received, Store};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Most writers at a time.
const WRITERS: usize = 256;
/// So much of a malformed line is shown.
const SHOWN: usize = 80;

/// Listens at this path.
///
/// # Errors
/// Why not, such as that somebody else listens there.
pub fn listen(path: &Path) -> Result<UnixListener, String> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|known| known.file_type().is_socket());
    if is_socket {
        // It may be left from a capture that was killed.
        let is_used =
            UnixStream::connect(path).is_ok() || UnixDatagram::unbound().is_ok_and(|one| one.connect(path).is_ok());
        if is_used {
            return Err("another program listens there".into());
        }
        std::fs::remove_file(path).map_err(|error| error.to_string())?;
    }
    UnixListener::bind(path).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => "there is a file of this name".into(),
        _ => error.to_string(),
    })
}

/// Takes what is written, until nobody needs it any more.
pub fn serve(listener: &UnixListener, store: &Weak<Store>) {
    let writers = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = listener.accept();
        let Some(strong) = store.upgrade() else { return };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, for example.
            std::thread::sleep(super::TURN);
            continue;
        };
        if writers.fetch_add(1, Ordering::Relaxed) >= WRITERS {
            writers.fetch_sub(1, Ordering::Relaxed);
            strong.known().received.get_or_insert_default().refused_writers += 1;
            continue;
        }
        let (store, writers) = (Weak::clone(store), Arc::clone(&writers));
        std::thread::spawn(move || {
            take(stream, &store);
            writers.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Takes the lines of a writer. A malformed one is counted, and the next one is taken.
fn take(mut stream: impl Read, store: &Weak<Store>) {
    let (mut text, mut is_too_long) = (Vec::new(), false);
    let mut buffer = vec![0; 16 << 10];
    loop {
        let got = match stream.read(&mut buffer) {
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => 0,
        };
        let Some(store) = store.upgrade() else { return };
        let mut known = store.known();
        let mut add = |line: &[u8], is_too_long: bool| {
            if line.trim_ascii().is_empty() && !is_too_long {
                return;
            }
            let added = if is_too_long { Err("the line is too long".into()) } else { known.add_line(line, true) };
            let received: &mut Received = known.received.get_or_insert_default();
            received.lines += 1;
            if let Err(why) = added {
                received.malformed += 1;
                if received.first.is_empty() {
                    let shown = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]);
                    received.first = latscope_event::printable(&format!("{}: {why}", shown.trim())).into_owned();
                }
            }
        };
        for piece in buffer[..got].split_inclusive(|&byte| byte == b'\n') {
            let room = LINE_BYTES.saturating_sub(text.len());
            is_too_long |= piece.len() > room;
            text.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                add(&text, is_too_long);
                text.clear();
                is_too_long = false;
            }
        }
        if got == 0 {
            // The last line may have no end.
            add(&text, is_too_long);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tags::known::Who;

    #[test]
    fn lines_come_in_pieces_and_malformed_ones_are_counted() {
        let store = Arc::new(Store::default());
        let now = crate::now_ns();
        let long = "x".repeat(3 * LINE_BYTES);
        let text = format!("7 {now} - a=1\nnonsense\u{1b}[31m\n\n{long}\n7 {} - a=2 # more", now + 10);
        // One byte at a time.
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                let count = usize::from(!self.0.is_empty());
                into[..count].copy_from_slice(&self.0[..count]);
                self.0 = &self.0[count..];
                Ok(count)
            }
        }
        take(Slow(text.as_bytes()), &Arc::downgrade(&store));
        take(text.as_bytes(), &Arc::downgrade(&store));
        let known = store.known();
        let received = known.received.clone().unwrap();
        assert_eq!((received.lines, received.malformed), (8, 4));
        assert!(received.first.starts_with("nonsense") && !received.first.contains('\u{1b}'), "{received:?}");
        let of = |at| known.tags_during(Who::Thread(7), now + at, now + at + 1).map(|tags| tags.to_string());
        assert_eq!((of(5), of(20)), (Some("a=1".into()), Some("a=2".into())));
    }

    #[test]
    fn a_path_is_taken_over_only_from_the_dead() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tags");
        let first = listen(&path).unwrap();
        assert_eq!(listen(&path).unwrap_err(), "another program listens there");
        drop(first);
        drop(listen(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert!(listen(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }
}
