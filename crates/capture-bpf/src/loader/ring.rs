//! The ring buffer.

use crate::Error;
use libbpf_rs::{Map, MapCore, RingBuffer, RingBufferBuilder};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often the reader looks, as no program wakes it (`SUBMIT_FLAGS` in `bpf/core.h`).
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A smaller ring is looked at more often: it must not fill up at this rate meanwhile.
const BYTES_PER_MICROSECOND: u64 = 400;

/// A ring buffer, read in chunks of whole records.
pub struct Ring {
    ring: RingBuffer<'static>,
    /// Where libbpf's callback puts the records.
    taken: Arc<Mutex<Vec<u8>>>,
    look_every: Duration,
    /// The last look did not see the end.
    more: bool,
}

impl Ring {
    /// The reader of a ring buffer map.
    pub fn new(map: &Map<'_>) -> Result<Ring, Error> {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&taken);
        let mut builder = RingBufferBuilder::new();
        let put = move |record: &[u8]| {
            if let Ok(mut to) = to.lock() {
                to.extend_from_slice(record);
            }
            0
        };
        let cannot = |error| Error::Failed(format!("the ring buffer cannot be read: {error:#}"));
        builder.add(map, put).map_err(cannot)?;
        let fills_in = Duration::from_micros(u64::from(map.max_entries()) / BYTES_PER_MICROSECOND);
        let look_every = fills_in.clamp(LOOK_EVERY / 10, LOOK_EVERY);
        Ok(Ring { ring: builder.build().map_err(cannot)?, taken, look_every, more: false })
    }

    /// Whether the last read left records behind.
    pub fn has_more(&self) -> bool {
        self.more
    }

    /// Waits at most so long for records and moves up to `most` of them, one behind the other, into `records`, which
    /// is emptied first. Nothing there after the timeout is no error.
    pub fn read(&mut self, timeout: Duration, most: usize, records: &mut Vec<u8>) -> Result<(), Error> {
        let until = Instant::now() + timeout;
        records.clear();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !self.more {
                std::thread::sleep(left.min(self.look_every));
            }
            let read = self.ring.consume_raw_n(most);
            let read = usize::try_from(read).map_err(|_| {
                let error = std::io::Error::from_raw_os_error(-read);
                Error::Failed(format!("the ring buffer cannot be read: {error}"))
            })?;
            self.more = read == most;
            if let Ok(mut taken) = self.taken.lock() {
                std::mem::swap(&mut *taken, records);
            }
            if read > 0 || left.is_zero() {
                return Ok(());
            }
        }
    }
}
