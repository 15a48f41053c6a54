//! The histogram mode: the kernel counts by call, device and type of file, or where all calls are asked for by call.

use super::shared::{FILE_TYPES, Key, mode};
use super::tracing::{Tracing, config, open};
use super::waits::Waits;
use crate::cumulative::{self, Cumulative, Epoch, HALVES, half};
use crate::fd::Devices;
use crate::loader::Raw;
use crate::{Counted, Error, Histograms, Options, PushDown, Source};
use latscope_event::kernel::call_category;
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet};
use latscope_histogram::Grid;
use libbpf_rs::{MapCore, MapFlags};
use std::collections::HashMap;

/// The fields of the keys where calls alone are counted, as all calls of all files would be too many keys.
pub const KEYS_BY_CALL: FieldSet = FieldSet::ALWAYS.with(&[Field::Kind, Field::Name]);
/// The fields of the keys where files are distinguished.
pub const KEYS: FieldSet = FieldSet::ALWAYS.with(&[
    Field::Device,
    Field::Dev,
    Field::Kind,
    Field::Name,
    Field::FdType,
    Field::Category,
    Field::DiskModel,
    Field::Rotational,
]);

/// So many combinations of call, device and type occur at most on a machine with some file systems.
const FILE_KEYS: usize = 384;
/// A capture of histograms.
pub struct CallHistograms {
    tracing: Tracing,
    grid: Grid,
    /// Numbers of the calls by slot, where calls alone are the keys.
    slots: Option<Vec<u16>>,
    seen: HashMap<Key, Cumulative>,
    epoch: Epoch,
    /// How often minimum and maximum were edges.
    inexact: u64,
    keys: Batch,
    waits: Waits,
    devices: Devices,
}

impl CallHistograms {
    /// Loads and attaches.
    pub fn start(options: &Options) -> Result<CallHistograms, Error> {
        if options.push_down != PushDown::default() || options.sample.is_some() {
            return Err(Error::Option(
                "Histograms are counted in the kernel; they support neither filters nor samples.".into(),
            ));
        }
        let (kernel, calls, mut opened) = open(options)?;
        let slots = (options.source == Source::Syscall).then(|| calls.slots());
        let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
        let (grid, keys) = cumulative::room(cpus, slots.as_ref().map_or(FILE_KEYS, Vec::len), options.finest);
        let (mode, used, unused) =
            if slots.is_some() { (mode::BY_CALL, "by_call", "by_file") } else { (mode::BY_FILE, "by_file", "by_call") };
        opened.configure(&config(options, &calls, mode, grid.power()))?;
        for map in [used, unused, "empty"] {
            opened.set_value_bytes(map, cumulative::bytes(grid) as u32)?;
        }
        opened.set_entries(used, (HALVES * keys) as u32)?;
        opened.set_entries("events", 4096)?;
        let mut tracing = Tracing::start(options, kernel, calls, opened)?;
        let by = if slots.is_some() { "calls" } else { "calls by device and type of file" };
        let grid_says = format!("{} buckets to the octave, room for {keys} {by} on {cpus} CPUs", 1 << grid.power());
        tracing.context.properties.insert("grid".into(), grid_says);
        let devices = Devices::default();
        let fields = if options.source == Source::Syscall { KEYS_BY_CALL } else { KEYS };
        Ok(CallHistograms {
            tracing,
            grid,
            slots,
            seen: HashMap::new(),
            epoch: Epoch::FIRST,
            inexact: 0,
            keys: Batch::new(fields),
            waits: Waits::new(fields),
            devices,
        })
    }

    fn add(&mut self, key: Key, per_cpu: &[Vec<u8>], epoch: u32, to: &mut Vec<Counted>) {
        let grid = self.grid;
        if let Some(seen) = self.seen.get_mut(&key) {
            to.extend(seen.take(per_cpu, grid, epoch));
            return;
        }
        let mut new = Cumulative::new(self.keys.len(), grid);
        if let Some(counted) = new.take(per_cpu, grid, epoch) {
            self.seen.insert(key, new);
            self.add_row(key);
            to.push(counted);
        }
    }

    fn add_row(&mut self, key: Key) {
        let known = self.tracing.calls.get(key.call);
        let keys = &mut self.keys;
        keys.push_i64(Field::Time, 0);
        keys.push_u64(Field::Latency, 0);
        keys.push_text(Field::Name, known.map(|known| known.name.as_bytes()));
        keys.push_text(Field::Kind, known.map(|known| known.shape.kind.as_bytes()));
        let file_type = FILE_TYPES.get(usize::from(key.file_type)).copied().flatten();
        keys.push_text(Field::FdType, file_type.map(str::as_bytes));
        let category = known.map(|known| call_category(&known.name, file_type));
        keys.push_text(Field::Category, category.map(str::as_bytes));
        if let Some(device) = self.devices.get(key.dev) {
            keys.push_text(Field::Device, Some(device.name.as_bytes()));
            keys.push_text(Field::Dev, Some(device.number.as_bytes()));
            for (field, code) in device.disk.codes(keys) {
                keys.push_code(field, code);
            }
        }
        keys.end_row();
    }
}

impl Histograms for CallHistograms {
    fn context(&self) -> &Context {
        &self.tracing.context
    }

    fn keys(&self) -> &Batch {
        &self.keys
    }

    fn take(&mut self) -> Result<Vec<Counted>, Error> {
        let cannot = |error| Error::Failed(format!("a histogram cannot be read: {error:#}"));
        let epoch = self.epoch.turn(&self.tracing.loaded)?;
        let mut read = Vec::new();
        match &self.slots {
            Some(slots) => {
                let map = self.tracing.loaded.map("by_call")?;
                let touched = self.tracing.loaded.map(".data.touched")?;
                let touched = touched.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(cannot)?.unwrap_or_default();
                let is_touched = |call: u16| touched.get(usize::from(call)).is_some_and(|&touched| touched != 0);
                // The first slot is that of all calls without a name.
                let used = (0u32..).zip(slots).filter(|&(slot, &call)| slot == 0 || is_touched(call));
                for (slot, &call) in used {
                    let place = slot * HALVES as u32 + half(epoch) as u32;
                    let value = map.lookup_percpu(&place.to_ne_bytes(), MapFlags::ANY).map_err(cannot)?;
                    read.push((Key { call, ..Key::default() }, value.unwrap_or_default()));
                }
            }
            None => {
                let map = self.tracing.loaded.map("by_file")?;
                let is_over = |key: &Vec<u8>| usize::from(Key::read(key).half) == half(epoch);
                for key in map.keys().filter(is_over) {
                    let value = map.lookup_percpu(&key, MapFlags::ANY).map_err(cannot)?;
                    read.push((Key { half: 0, ..Key::read(&key) }, value.unwrap_or_default()));
                }
            }
        }
        let mut counted = Vec::new();
        for (key, per_cpu) in read {
            self.add(key, &per_cpu, epoch, &mut counted);
        }
        let inexact = counted.iter().filter(|counted| !counted.is_exact).count() as u64;
        self.inexact += inexact;
        self.tracing.context.tally.add(Anomaly::EdgeExtremes, inexact);
        self.tracing.context.cover(self.tracing.clock.now_ns());
        Ok(counted)
    }

    fn waiting(&mut self) -> Result<&Batch, Error> {
        self.waits.look(&mut self.tracing)?;
        Ok(self.waits.rows())
    }

    fn refresh(&mut self) -> Result<(), Error> {
        self.waits.look_again(&mut self.tracing)?;
        self.tracing.account([0, 0])?;
        self.tracing.context.tally.add(Anomaly::EdgeExtremes, self.inexact);
        Ok(())
    }
}
