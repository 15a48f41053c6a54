//! What waited when the last interval of each host ended: histograms of ages as requests that have not completed.

use latscope_event::{Context, Field, FieldType, Unfinished, Value, Wait};
use latscope_histogram::Sparse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Ages of what waited, by group.
type Ages = Vec<(Arc<[String]>, Sparse)>;

/// By host: when its last interval ended, and what waited then.
#[derive(Clone, Default)]
pub struct Waits(BTreeMap<String, (i64, Ages)>);

impl Waits {
    /// Starts an interval of a host that ends so; what waited before is of no more interest.
    pub fn start(&mut self, host: &str, end_ns: i64) {
        match self.0.get_mut(host) {
            Some((last_ns, ages)) if end_ns > *last_ns => (*last_ns, *ages) = (end_ns, Vec::new()),
            Some(_) => {}
            None => drop(self.0.insert(host.into(), (end_ns, Vec::new()))),
        }
    }

    /// Adds what waited in a group at the end of an interval, unless a later one was read.
    pub fn add(&mut self, host: &str, end_ns: i64, group: &Arc<[String]>, ages: &Sparse) {
        if let Some((last_ns, all)) = self.0.get_mut(host)
            && *last_ns == end_ns
        {
            all.push((Arc::clone(group), ages.clone()));
        }
    }

    /// A request for each that waits, up to a limit: the age of the oldest is exact, those of others are that of the lower edge of
    /// their bucket.
    pub fn unfinished(self, fields: &[String]) -> Vec<Unfinished> {
        let mut all = Vec::new();
        for (end_ns, groups) in self.0.into_values() {
            for (group, ages) in groups {
                let named = || fields.iter().zip(group.iter()).filter(|(_, label)| *label != "-");
                let values: BTreeMap<String, Value> = named().filter_map(|(name, label)| value(name, label)).collect();
                let what = named().map(|(_, label)| label.as_str()).collect::<Vec<_>>().join(" ");
                let what = if what.is_empty() { "a request".to_string() } else { what };
                let mut oldest = Some(ages.totals().max);
                let buckets = ages.buckets().rev().flat_map(|(index, count, _)| {
                    std::iter::repeat_n(ages.grid().lower(index), usize::try_from(count).unwrap_or(usize::MAX))
                });
                for lower in buckets.take(Context::UNFINISHED_KEPT) {
                    let at_least_ns = oldest.take().unwrap_or(lower);
                    let start_ns = end_ns.saturating_sub_unsigned(at_least_ns);
                    let (what, values) = (what.clone(), values.clone());
                    all.push(Unfinished { what, start_ns, at_least_ns, wait: Wait::Counts, values });
                }
            }
        }
        all
    }
}

fn value(name: &str, label: &str) -> Option<(String, Value)> {
    let value = match Field::from_name(name)?.field_type() {
        FieldType::Text => Value::Text(label.into()),
        _ => Value::Number(label.parse().ok()?),
    };
    Some((name.into(), value))
}
