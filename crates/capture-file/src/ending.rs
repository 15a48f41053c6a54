//! The end of reading that somebody asks for: what was read until then counts.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// Size of the blocks that a pipe is read in, what a pipe holds.
const BLOCK_BYTES: usize = 64 * 1024;
/// Blocks that wait for the reader.
const AHEAD: usize = 4;
/// How often the reader of a silent pipe checks whether to stop.
const TURN: Duration = Duration::from_millis(50);
/// So long after the end was asked for a silent pipe ends: what was written before may still be on its way.
const LAST_TURN: Duration = Duration::from_millis(250);
/// So many blocks of a pipe are still read when the end was asked for: those that were written before.
const LAST_BLOCKS: u32 = AHEAD as u32 + 2;

/// The end of a pipe counts like a byte, so that a pipe that has ended is not a silent one.
const END: usize = 1;

fn flag() -> &'static OnceLock<Arc<AtomicBool>> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    &FLAG
}

/// Lets every input of this process end, as if there were no more of it, once the flag is set. The first flag counts.
pub fn end_when(is_over: &Arc<AtomicBool>) {
    flag().get_or_init(|| Arc::clone(is_over));
}

/// Whether the end was asked for.
pub fn is_over() -> bool {
    flag().get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// A pipe that is read in the background, as a read of a silent one cannot be given up.
pub struct Pipe {
    blocks: Receiver<io::Result<Vec<u8>>>,
    block: io::Cursor<Vec<u8>>,
    last: u32,
    at_hand: Arc<AtomicUsize>,
}

impl Pipe {
    /// Starts to read.
    pub fn new(mut reader: Box<dyn Read + Send>) -> Pipe {
        let (sender, blocks) = sync_channel(AHEAD);
        let at_hand = Arc::new(AtomicUsize::new(0));
        let came = Arc::clone(&at_hand);
        // It ends with the pipe, with who reads, or with the process.
        thread::spawn(move || {
            loop {
                let mut block = vec![0; BLOCK_BYTES];
                let read = match reader.read(&mut block) {
                    Ok(0) => {
                        came.fetch_add(END, Ordering::Relaxed);
                        return;
                    }
                    Ok(count) => {
                        block.truncate(count);
                        came.fetch_add(count, Ordering::Relaxed);
                        Ok(block)
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let failed = read.is_err();
                if sender.send(read).is_err() || failed {
                    return;
                }
            }
        });
        Pipe { blocks, block: io::Cursor::default(), last: LAST_BLOCKS, at_hand }
    }

    /// How many bytes can be read without waiting; the end, too, can be found without waiting.
    pub fn at_hand(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.at_hand)
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.block.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                self.at_hand.fetch_sub(count, Ordering::Relaxed);
                return Ok(count);
            }
            let is_over = is_over();
            self.last -= u32::from(is_over);
            if self.last == 0 {
                self.last = 1;
                return Ok(0);
            }
            match self.blocks.recv_timeout(if is_over { LAST_TURN } else { TURN }) {
                Ok(block) => self.block = io::Cursor::new(block?),
                Err(RecvTimeoutError::Timeout) if !is_over => {}
                Err(_) => return Ok(0),
            }
        }
    }
}
