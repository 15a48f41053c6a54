//! The groups behind numbers. A number is never used for another group of the same run.

use crate::varint::{Payload, put, put_text};
use crate::{Id, Kind, Malformed, Record};
use std::sync::Arc;

/// Most groups of a run.
pub const GROUPS_LIMIT: usize = 10_000;

/// The labels of the groups of a run, by their numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dictionary(Vec<Arc<[String]>>);

impl Dictionary {
    /// A record that describes groups from this number on.
    pub fn record(run: Id, start: usize, groups: &[Vec<String>]) -> Record {
        let mut packed = Vec::new();
        put(&mut packed, start as u64);
        put(&mut packed, groups.len() as u64);
        groups.iter().flatten().for_each(|label| put_text(&mut packed, label));
        Record::packed(Kind::Dictionary, &run.0, &packed)
    }

    /// The run that a record is of.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn run(record: &Record) -> Result<Id, Malformed> {
        Payload(record.payload()).array().map(Id)
    }

    /// Adds the groups of a record, each of so many labels. Those that are known are left as they are.
    ///
    /// # Errors
    /// When it is malformed, too large, or leaves a gap behind what is known. Then nothing is added.
    pub fn add(&mut self, record: &Record, fields: usize) -> Result<(), Malformed> {
        let packed = record.unpacked(record.payload().get(16..).ok_or(Malformed::Short)?)?;
        let mut payload = Payload(&packed);
        let start = payload.at_most(self.0.len() as u64).map_err(|_| Malformed::Group)? as usize;
        let count = payload.at_most((GROUPS_LIMIT - start) as u64).map_err(|_| Malformed::Amount)?;
        let known = self.0.len();
        for number in start..start + count as usize {
            let labels = (0..fields).map(|_| payload.text()).collect::<Result<Arc<[String]>, _>>();
            match labels {
                Ok(labels) if number >= self.0.len() => self.0.push(labels),
                Ok(_) => {}
                Err(malformed) => {
                    self.0.truncate(known);
                    return Err(malformed);
                }
            }
        }
        Ok(())
    }

    /// The labels of a group.
    pub fn get(&self, group: u32) -> Option<&Arc<[String]>> {
        self.0.get(group as usize)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn groups(names: &[&str]) -> Vec<Vec<String>> {
        names.iter().map(|name| vec![name.to_string(), "read".into()]).collect()
    }

    #[test]
    fn groups_are_added_once_and_without_gaps() {
        let (run, mut known) = (Id([1; 16]), Dictionary::default());
        let record = Dictionary::record(run, 0, &groups(&["sda", "sdb"]));
        assert_eq!(Dictionary::run(&record), Ok(run));
        known.add(&record, 2).unwrap();
        known.add(&record, 2).unwrap();
        assert_eq!(known.len(), 2);
        assert_eq!(known.add(&Dictionary::record(run, 3, &groups(&["sdc"])), 2), Err(Malformed::Group));
        assert!(known.add(&Dictionary::record(run, 2, &groups(&["sdc"])), 9).is_err());
        known.add(&Dictionary::record(run, 2, &groups(&["sdc"])), 2).unwrap();
        assert_eq!(known.get(2).map(|labels| labels[0].as_str()), Some("sdc"));
        assert_eq!(known.get(3), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, fields in 0usize..4) {
            let mut known = Dictionary::default();
            let record = Record::packed(Kind::Dictionary, &[0; 16], &bytes);
            let added = known.add(&record, fields);
            prop_assert!(added.is_ok() || known.is_empty());
        }
    }
}
