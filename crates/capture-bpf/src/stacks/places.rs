//! Control groups, or processes, of which the filter lets nothing through: the programs drop what is there.

use super::shared::{Record, place};
use crate::container::Containers;
use crate::loader::Loaded;
use crate::{Error, OfContainers};
use latscope_event::{Batch, Field, FieldSet};
use std::collections::HashMap;

/// So many are left out at most; the kernel forgets those that were not asked for longest.
pub const LEFT_OUT: u32 = 1 << 13;
/// More are not remembered.
const KEPT: usize = 1 << 16;

/// Which places are wanted, as far as they were seen.
pub struct Places {
    of: Option<OfContainers>,
    by_pid: bool,
    batch: Batch,
    wanted: HashMap<u64, bool>,
}

impl Places {
    /// Nothing is known yet.
    pub fn new(of: Option<OfContainers>, containers: &Containers) -> Places {
        let fields = of.as_ref().map_or(FieldSet::EMPTY, OfContainers::fields);
        let batch = Batch::new(FieldSet::ALWAYS.union(fields));
        Places { of, by_pid: containers.is_by_pid(), batch, wanted: HashMap::new() }
    }

    /// What places are to the programs.
    pub fn kind(of: Option<&OfContainers>, by_pid: bool) -> u32 {
        match (of, by_pid) {
            (None, _) => place::NONE,
            (Some(_), false) => place::IS_GROUP,
            (Some(_), true) => place::IS_PROCESS,
        }
    }

    /// Whether events of the thread of a record may pass; where they cannot, the programs are told so.
    pub fn wants(&mut self, record: &Record, containers: &mut Containers, loaded: &Loaded) -> Result<bool, Error> {
        let Some(of) = &self.of else { return Ok(true) };
        let key = if self.by_pid { record.process_start } else { record.cgroup };
        if let Some(&is_wanted) = self.wanted.get(&key) {
            return Ok(is_wanted);
        }
        if !containers.knows(record.cgroup, record.pid) {
            return Ok(true); // not yet
        }
        self.batch.clear();
        self.batch.push_i64(Field::Time, 0);
        self.batch.push_u64(Field::Latency, 0);
        containers.push(record.cgroup, record.pid, &mut self.batch);
        self.batch.end_row();
        let is_wanted = of.may_pass(&self.batch);
        if !is_wanted {
            loaded.insert("left_out", &key.to_ne_bytes())?;
        }
        if self.wanted.len() >= KEPT {
            self.wanted.clear();
        }
        self.wanted.insert(key, is_wanted);
        Ok(is_wanted)
    }

    /// Processes may have moved to other groups; a group stays what it is.
    pub fn forget(&mut self, loaded: &Loaded) -> Result<(), Error> {
        if self.by_pid {
            for (key, _) in self.wanted.drain().filter(|(_, is_wanted)| !is_wanted) {
                loaded.remove("left_out", &key.to_ne_bytes())?;
            }
        }
        Ok(())
    }
}
