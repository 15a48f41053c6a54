//! Histogram mode: the kernel counts, by device and kind.

use super::account::{Capture, config};
use super::devices::{self, Stamp};
use super::layout::{KEY_PLACES, KINDS};
use super::statistics::Statistics;
use crate::cumulative::{self, Cumulative, Epoch, HALVES, half};
use crate::disk::Disk;
use crate::loader::{Opened, Raw};
use crate::probe::Kernel;
use crate::{Counted, Error, Histograms, Options};
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet};
use latscope_histogram::Grid;
use libbpf_rs::{MapCore, MapFlags};
use std::collections::HashMap;

/// Room for devices that come later.
const SPARE_DEVICES: usize = 8;
/// Requests that can be in flight when the kernel's stamps are not there.
const IN_FLIGHT: u32 = 1 << 14;

/// What is known of a request that waits.
const WAITING: FieldSet = super::KEYS.with(&[Field::Name, Field::Size, Field::Offset]);

/// A running capture of block requests as histograms.
pub struct BlockHistograms {
    capture: Capture,
    grid: Grid,
    keys: Batch,
    waiting: Batch,
    seen: HashMap<u64, Cumulative>,
    epoch: Epoch,
    statistics: Statistics,
    /// How often minimum and maximum were edges.
    inexact: u64,
}

impl BlockHistograms {
    pub fn start(kernel: &mut Kernel, mut opened: Opened, options: &Options) -> Result<BlockHistograms, Error> {
        let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
        let disks = devices::disks().len();
        let (grid, keys) = cumulative::room(cpus, (disks + SPARE_DEVICES) * KINDS.len(), options.finest);
        let mut config = config(options, false);
        config.some_pids = 0;
        config.power = grid.power().into();
        // Half of the places stay free, so that a key is found at once.
        let keys = keys.min(KEY_PLACES / 2);
        config.keys = keys as u32;
        opened.configure(&config)?;
        opened.set_entries("histograms", (HALVES * keys) as u32)?;
        opened.set_value_bytes("histograms", cumulative::bytes(grid) as u32)?;
        opened.set_entries("in_flight", IN_FLIGHT)?;
        ["events", "devices", "pids", "comms", "processes"].into_iter().try_for_each(|map| opened.leave_out(map))?;
        let fallback: (_, &[_]) = match options.from_queue {
            true => (Stamp::Start, &["merge", "issue", "start"]),
            false => (Stamp::Issue, &["merge", "issue"]),
        };
        let mut capture = Capture::start(kernel, opened, options.from_queue, &["complete"], fallback, "histograms")?;
        let described = format!(
            "{} buckets to the octave up to {} minutes, {keys} keys on {cpus} CPUs",
            1 << grid.power(),
            (1u64 << cumulative::BITS) / 60_000_000_000
        );
        capture.context.properties.insert("grid".into(), described);
        capture.run()?;
        Ok(BlockHistograms {
            capture,
            grid,
            keys: Batch::new(super::KEYS),
            waiting: Batch::new(WAITING),
            seen: HashMap::new(),
            epoch: Epoch::FIRST,
            statistics: Statistics::start(&options.push_down.devices),
            inexact: 0,
        })
    }

    /// As if requests completed where no program runs, or no longer.
    #[cfg(test)]
    pub fn see(&self, sees: bool) {
        self.capture.loaded.set_variable(".data.running", sees.into()).unwrap();
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
        for (field, code) in Disk::read(dev).codes(keys) {
            keys.push_code(field, code);
        }
        keys.push_text(Field::Kind, KINDS.get((key & 0xff) as usize).map(|kind| kind.as_bytes()));
        keys.end_row();
        keys.len() - 1
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
        let failed = |error| Error::Failed(format!("a histogram cannot be read: {error:#}"));
        let statistics = self.statistics.now();
        let epoch = self.epoch.turn(&self.capture.loaded)?;
        let map = self.capture.loaded.map("histograms")?;
        let places = self.capture.loaded.map(".bss.keys")?.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let mut counted = Vec::new();
        for place in places.map_err(failed)?.unwrap_or_default().chunks_exact(8) {
            let place = u64::read(place);
            let (key, Some(number)) = (place >> 16, (place as u16).checked_sub(1)) else { continue };
            let number = u32::from(number) * HALVES as u32 + half(epoch) as u32;
            let values = map.lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
            let (keys, grid) = (&mut self.keys, self.grid);
            let seen = self.seen.entry(key).or_insert_with(|| Cumulative::new(Self::add_key(keys, key), grid));
            let taken = seen.take(&values.unwrap_or_default(), grid, epoch);
            let kind = KINDS.get((key & 0xff) as usize);
            if let Some(taken) = taken.as_ref().filter(|_| kind.is_some_and(|kind| Statistics::KINDS.contains(kind))) {
                self.statistics.count((key >> 8) as u32, taken.histogram.totals().count);
            }
            counted.extend(taken);
        }
        self.statistics.compare(statistics);
        let inexact = counted.iter().filter(|counted| !counted.is_exact).count() as u64;
        self.inexact += inexact;
        self.capture.context.tally.add(Anomaly::EdgeExtremes, inexact);
        Ok(counted)
    }

    fn waiting(&mut self) -> Result<&Batch, Error> {
        let (rows, sight) = self.capture.look(None)?;
        sight.fill(&mut self.waiting, rows, None);
        Ok(&self.waiting)
    }

    fn refresh(&mut self) -> Result<(), Error> {
        self.capture.refresh()?;
        let tally = &mut self.capture.context.tally;
        tally.add(Anomaly::EdgeExtremes, self.inexact);
        // Those whose loss has a reason are counted with it. Parents of flushes are no requests of their own, but the statistics count
        // them as writes; those of all disks, as the programs do not count them by disk.
        let explained = [Anomaly::LostRecords, Anomaly::OrphanCompletion, Anomaly::FlushParent];
        let explained = explained.map(|anomaly| tally.get(anomaly)).iter().sum();
        tally.add(Anomaly::Uncounted, self.statistics.uncounted().saturating_sub(explained));
        self.capture.keep_looking(None)
    }
}
