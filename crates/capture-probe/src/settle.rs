//! What was written into memory is brought to the device, and what the device wrote is looked at.

use crate::cache;
use crate::target::Target;
use latscope_event::{Context, format_duration};
use std::fs;
use std::time::{Duration, Instant};

/// Memory is written back in pieces of this size, between which the time is looked at.
const PIECE: u64 = 8 << 20;
/// `/sys/block/*/stat` counts in sectors of this size, whatever the device has.
const SECTOR: u64 = 512;

/// What became of buffered writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Settled {
    /// Bytes that were in memory alone when the last request was done; `None` where the kernel does not report it.
    pub in_memory: Option<u64>,
    /// Bytes of these that were left there, since the time was over; they are thrown away with the file.
    pub left: u64,
    /// How long the rest took to reach the device.
    pub took: Duration,
    /// Bytes that the device wrote since the probe started, for whomever; `None` where there is no such device.
    pub device: Option<u64>,
}

/// Bytes that a device has written since it is there.
pub fn written(dev: Option<(u32, u32)>) -> Option<u64> {
    let (major, minor) = dev?;
    let folder = format!("/sys/dev/block/{major}:{minor}");
    // The counters of a device can be switched off; a partition has the switch of its disk.
    let switch = ["queue/iostats", "../queue/iostats"].map(|file| fs::read_to_string(format!("{folder}/{file}")));
    if switch.into_iter().flatten().next().is_some_and(|text| text.trim() == "0") {
        return None;
    }
    let text = fs::read_to_string(format!("{folder}/stat")).ok()?;
    // Reads, merged, sectors, time; writes, merged, sectors.
    Some(text.split_whitespace().nth(6)?.parse::<u64>().ok()? * SECTOR)
}

/// Writes back what memory holds of a file, for so long at most; `before` is what its device had written.
pub fn settle(target: &Target, before: Option<u64>, limit: Duration) -> Settled {
    let start = Instant::now();
    // What has no device has nothing to bring anywhere.
    if target.place.is_memory() {
        return Settled::default();
    }
    let in_memory = cache::unwritten(&target.file);
    let end = target.file.metadata().map_or(0, |metadata| metadata.len());
    let mut at = target.start;
    let mut is_over = false;
    while at < end && !is_over {
        // A file system that cannot do that has nothing to bring anywhere.
        is_over = cache::write_back(&target.file, at, PIECE.min(end - at)).is_err() || start.elapsed() > limit;
        at += PIECE;
    }
    Settled {
        in_memory,
        left: cache::unwritten(&target.file).unwrap_or(0),
        took: start.elapsed(),
        device: written(target.place.dev).zip(before).map(|(now, before)| now.saturating_sub(before)),
    }
}

impl Settled {
    /// Into the context of a trace.
    pub fn report(&self, context: &mut Context) {
        let mut put = |key: &str, value: String| drop(context.properties.insert(key.into(), value));
        if let Some(bytes) = self.in_memory {
            put("unwritten_bytes", bytes.to_string());
            put("unwritten_left_bytes", self.left.to_string());
            put("write_back", format_duration(self.took.as_nanos() as u64));
        }
        if let Some(bytes) = self.device {
            put("device_written_bytes", bytes.to_string());
        }
    }
}
