//! Histogram mode: the kernel counts, by device and kind.

use super::account::{Capture, config};
use super::devices::{self, Stamp};
use super::layout::{HIST_BITS, KINDS, hist_bytes, hist_len};
use crate::loader::{Opened, Raw};
use crate::probe::Kernel;
use crate::{Counted, Error, Histograms, Options};
use latscope_event::{Batch, Context, Field};
use latscope_histogram::{Grid, Sparse, Totals};
use libbpf_rs::{MapCore, MapFlags};
use std::collections::HashMap;

/// What the histograms of all CPUs may occupy.
const MEMORY_BYTES: usize = 64 << 20;
/// The finest grid in the kernel is ours; coarser than this it is no use.
const POWERS: std::ops::RangeInclusive<u8> = 3..=6;
/// Room for devices that come later.
const SPARE_DEVICES: usize = 8;
/// Requests that can be in flight when the kernel's stamps are not there.
const IN_FLIGHT: u32 = 1 << 14;

/// A running capture of block requests as histograms.
pub struct BlockHistograms {
    capture: Capture,
    grid: Grid,
    keys: Batch,
    seen: HashMap<u64, Seen>,
}

/// What a key had counted when it was last asked.
struct Seen {
    row: usize,
    sum_ns: u64,
    bytes: u64,
    buckets: Vec<u32>,
}

/// How many keys there is room for, and the power of their grid.
fn room(cpus: usize, disks: usize) -> (usize, u8) {
    let keys = (disks + SPARE_DEVICES) * KINDS.len();
    let fits = |keys: usize, power: u8| keys.saturating_mul(cpus).saturating_mul(hist_bytes(power)) <= MEMORY_BYTES;
    match POWERS.rev().find(|&power| fits(keys, power)) {
        Some(power) => (keys, power),
        None => (MEMORY_BYTES / hist_bytes(*POWERS.start()) / cpus.max(1), *POWERS.start()),
    }
}

impl BlockHistograms {
    pub fn start(kernel: &mut Kernel, mut opened: Opened, options: &Options) -> Result<BlockHistograms, Error> {
        let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
        let disks = devices::disks().len();
        let (keys, power) = room(cpus, disks);
        let mut config = config(options, false);
        config.some_pids = 0;
        config.power = power.into();
        opened.configure(&config)?;
        opened.set_entries("histograms", keys as u32)?;
        opened.set_value_bytes("histograms", hist_bytes(power) as u32)?;
        opened.set_value_bytes("empty", hist_bytes(power) as u32)?;
        opened.set_entries("in_flight", IN_FLIGHT)?;
        ["events", "devices", "pids", "comms"].into_iter().try_for_each(|map| opened.leave_out(map))?;
        let fallback: (_, &[_]) = match options.from_queue {
            true => (Stamp::Start, &["merge", "issue", "start"]),
            false => (Stamp::Issue, &["merge", "issue"]),
        };
        let mut capture = Capture::start(kernel, opened, &["complete"], fallback, "histograms")?;
        let described = format!(
            "{} buckets to the octave up to {} minutes, {keys} keys on {cpus} CPUs",
            1 << power,
            (1u64 << HIST_BITS) / 60_000_000_000
        );
        capture.context.properties.insert("grid".into(), described);
        capture.run()?;
        let grid = Grid::with_power(power).unwrap_or(Grid::FINE);
        Ok(BlockHistograms { capture, grid, keys: Batch::new(super::KEYS), seen: HashMap::new() })
    }

    /// A row for a key that was not seen before.
    fn add_key(keys: &mut Batch, key: u64) -> usize {
        let dev = (key >> 8) as u32;
        let text = devices::text_of(dev);
        let name = devices::name_of(dev).unwrap_or_else(|| text.clone());
        keys.push_i64(Field::Time, 0);
        keys.push_u64(Field::Latency, 0);
        keys.push_text(Field::Device, (dev != 0).then_some(name.as_bytes()));
        keys.push_text(Field::Dev, (dev != 0).then_some(text.as_bytes()));
        keys.push_text(Field::Kind, KINDS.get((key & 0xff) as usize).map(|kind| kind.as_bytes()));
        keys.end_row();
        keys.len() - 1
    }
}

impl Seen {
    fn new(row: usize, grid: Grid) -> Seen {
        Seen { row, sum_ns: 0, bytes: 0, buckets: vec![0; hist_len(grid.power())] }
    }

    /// What was counted since: numbers in the kernel only grow, and wrap.
    fn take(&mut self, per_cpu: &[Vec<u8>], grid: Grid) -> Option<Counted> {
        let mut now = Seen::new(self.row, grid);
        for cpu in per_cpu {
            now.sum_ns = now.sum_ns.wrapping_add(u64::read(cpu));
            now.bytes = now.bytes.wrapping_add(u64::read(cpu.get(8..)?));
            for (sum, bucket) in now.buckets.iter_mut().zip(cpu.get(16..)?.chunks_exact(4)) {
                *sum = sum.wrapping_add(u32::read(bucket));
            }
        }
        let (mut indices, mut counts, mut count) = (Vec::new(), Vec::new(), 0);
        for (index, (&now, &before)) in now.buckets.iter().zip(&self.buckets).enumerate() {
            let more = u64::from(now.wrapping_sub(before));
            if more > 0 {
                indices.push(index as u32);
                counts.push(more);
                count += more;
            }
        }
        let totals = Totals {
            count,
            sum: now.sum_ns.wrapping_sub(self.sum_ns).into(),
            min: grid.lower(*indices.first()? as usize),
            max: grid.upper(*indices.last()? as usize),
        };
        let bytes = now.bytes.wrapping_sub(self.bytes);
        *self = now;
        let histogram = Sparse::from_parts(grid, indices, counts, None, totals).ok()?;
        Some(Counted { key: self.row, histogram, bytes })
    }
}

impl Histograms for BlockHistograms {
    fn context(&self) -> &Context {
        &self.capture.context
    }

    fn keys(&self) -> &Batch {
        &self.keys
    }

    fn take(&mut self) -> Result<Vec<Counted>, Error> {
        self.capture.context.cover(self.capture.clock.now_ns());
        let map = self.capture.loaded.map("histograms")?;
        let mut counted = Vec::new();
        // Keys are never removed, so that walking them sees each once.
        for key in map.keys() {
            let values = map.lookup_percpu(&key, MapFlags::ANY);
            let values = values.map_err(|error| Error::Failed(format!("a histogram cannot be read: {error:#}")))?;
            let (keys, grid, key) = (&mut self.keys, self.grid, u64::read(&key));
            let seen = self.seen.entry(key).or_insert_with(|| Seen::new(Self::add_key(keys, key), grid));
            counted.extend(seen.take(&values.unwrap_or_default(), grid));
        }
        Ok(counted)
    }

    fn refresh(&mut self) -> Result<(), Error> {
        self.capture.refresh()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_whatever_the_machine_has() {
        for cpus in [1, 2, 8, 128, 1024] {
            for disks in [0, 1, 20, 500] {
                let (keys, power) = room(cpus, disks);
                assert!(keys * cpus * hist_bytes(power) <= MEMORY_BYTES, "{cpus} CPUs, {disks} disks");
                assert!(keys >= KINDS.len() && POWERS.contains(&power));
            }
        }
        assert_eq!(room(2, 10).1, 6);
        assert_eq!(room(128, 2), (50, 6));
        assert_eq!(room(128, 24), (160, 4));
    }

    #[test]
    fn differences_survive_a_wrap() {
        let mut seen = Seen::new(3, Grid::FINE);
        let cpu = |bucket: u32, sum: u64| {
            let mut value = vec![0; hist_bytes(6)];
            value[..8].copy_from_slice(&sum.to_ne_bytes());
            value[16 + 4 * 100..][..4].copy_from_slice(&bucket.to_ne_bytes());
            value
        };
        let first = seen.take(&[cpu(u32::MAX - 1, u64::MAX - 9), cpu(1, 0)], Grid::FINE).unwrap();
        assert_eq!((first.key, first.histogram.totals().count), (3, u64::from(u32::MAX)));
        let second = seen.take(&[cpu(u32::MAX, 90), cpu(3, 0)], Grid::FINE).unwrap();
        assert_eq!((second.histogram.totals().count, second.histogram.totals().sum), (3, 100));
        assert_eq!(second.histogram.indices(), [100]);
        assert!(seen.take(&[cpu(u32::MAX, 90), cpu(3, 0)], Grid::FINE).is_none(), "nothing new is left out");
    }
}
