//! Peaks of memory: what the metrics of executors were at most, by executor and attempt of a stage.

use latscope_event::spark::{MEMORY_METRICS, SAMPLED_METRICS};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// The metrics of executors: bytes but for those of garbage collection.
pub const METRICS: &[&str] = MEMORY_METRICS.split_at(SAMPLED_METRICS).0;
/// So many executors and stages have peaks at a time.
const KNOWN: usize = 1 << 16;

/// What the metrics of an executor were; 0 is what was not sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampled(pub [u64; SAMPLED_METRICS]);

impl<'de> Deserialize<'de> for Sampled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sampled, D::Error> {
        struct Values;
        impl<'de> Visitor<'de> for Values {
            type Value = Sampled;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("metrics by name")
            }
            fn visit_unit<E>(self) -> Result<Sampled, E> {
                Ok(Sampled::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sampled, A::Error> {
                let mut sampled = Sampled::default();
                // They are written in this order, so the next one is tried first.
                let mut next = 0;
                while let Some(Name(at)) = map.next_key_seed(NameAfter(next))? {
                    match at {
                        Some(at) => {
                            sampled.0[at] = u64::try_from(map.next_value::<i64>()?).unwrap_or(0);
                            next = at + 1;
                        }
                        None => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(sampled)
            }
        }
        deserializer.deserialize_any(Values)
    }
}

/// The place of a name in the table.
struct Name(Option<usize>);
struct NameAfter(usize);

impl<'de> serde::de::DeserializeSeed<'de> for NameAfter {
    type Value = Name;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Name, D::Error> {
        struct Word(usize);
        impl Visitor<'_> for Word {
            type Value = Name;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("the name of a metric")
            }
            fn visit_str<E>(self, name: &str) -> Result<Name, E> {
                let is_next = METRICS.get(self.0) == Some(&name);
                Ok(Name(if is_next { Some(self.0) } else { METRICS.iter().position(|metric| *metric == name) }))
            }
        }
        deserializer.deserialize_str(Word(self.0))
    }
}

/// Peaks that have not been handed on.
#[derive(Default)]
pub struct Peaks(BTreeMap<((i64, i64), u32), Sampled>);

impl Peaks {
    /// Raises those of an executor, by its code, in an attempt of a stage.
    pub fn add(&mut self, stage: (i64, i64), executor: u32, sampled: &Sampled) {
        if sampled.0.iter().all(|&value| value == 0) || self.0.len() >= KNOWN {
            return;
        }
        let peaks = self.0.entry((stage, executor)).or_default();
        peaks.0.iter_mut().zip(sampled.0).for_each(|(peak, value)| *peak = value.max(*peak));
    }

    /// Removes those of a stage, or of the first stage that there is.
    pub fn take(&mut self, stage: Option<(i64, i64)>) -> Option<((i64, i64), u32, Sampled)> {
        let (&(of, executor), _) = match stage {
            Some(stage) => self.0.range((stage, 0)..=(stage, u32::MAX)).next()?,
            None => self.0.iter().next()?,
        };
        let sampled = self.0.remove(&(of, executor))?;
        Some((of, executor, sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_the_greatest_that_was_sampled() {
        let parse = |text: &str| serde_json::from_str::<Sampled>(text).unwrap();
        let first =
            parse(r#"{"MappedPoolMemory":7,"New":[1],"JVMHeapMemory":5,"JVMOffHeapMemory":-1,"TotalGCTime":2}"#);
        assert_eq!((first.0[0], first.0[1], first.0[9], first.0[20]), (5, 0, 7, 2));
        assert_eq!(parse("null"), Sampled::default());
        assert!(serde_json::from_str::<Sampled>(r#"{"JVMHeapMemory":"x"}"#).is_err());
        let mut peaks = Peaks::default();
        peaks.add((3, 0), 1, &Sampled::default());
        assert_eq!(peaks.take(None), None, "what was not sampled is no peak");
        peaks.add((3, 0), 1, &first);
        peaks.add((3, 0), 1, &parse(r#"{"JVMHeapMemory":9}"#));
        peaks.add((4, 0), 0, &first);
        let (stage, executor, sampled) = peaks.take(Some((3, 0))).unwrap();
        assert_eq!((stage, executor, sampled.0[0], sampled.0[9]), ((3, 0), 1, 9, 7));
        assert_eq!((peaks.take(Some((3, 0))), peaks.take(None)), (None, Some(((4, 0), 0, first))));
    }
}
