//! One trace divided into sides by a field.

use crate::Failure;
use crate::plan::{Folding, Reading};
use crate::run::reports;
use latscope_event::Field;
use latscope_filter::Filter;

/// So many groups are compared.
const SIDES: usize = 8;
/// The groups are looked for in so many intervals.
const INTERVALS: u32 = 16;

/// A side for each of the groups with the most events, the largest first.
pub fn divide(reading: &Reading, field: Field) -> Result<Vec<(String, Vec<Reading>)>, Failure> {
    let folding = Folding { by: vec![field], ..Folding::of_latencies(None) };
    let (series, _) = reports::open(reading.clone(), None)?.series(&folding, INTERVALS)?;
    reports::say_groups(&series);
    let mut groups: Vec<(&str, u64)> = series
        .groups()
        .iter()
        .zip(series.group_totals())
        .filter_map(|(group, totals)| Some((group.first()?.as_str(), totals.count)))
        .filter(|(name, count)| !name.is_empty() && *count > 0)
        .collect();
    groups.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    if groups.len() < 2 {
        let path = reading.files.first().map(|path| path.display().to_string()).unwrap_or_default();
        return Err(Failure::Input(format!(
            "{path} only has events of {} {}, so there is nothing to compare.",
            groups.len(),
            field.name()
        )));
    }
    groups.truncate(SIDES);
    let side = |(name, _): (&str, u64)| {
        let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
        let own = format!("{} = \"{escaped}\"", field.name());
        let text = reading.filter.as_ref().map_or(own.clone(), |filter| format!("({filter}) and {own}"));
        let filter = Filter::parse(&text).map_err(|error| Failure::Usage(error.to_string()))?;
        Ok((name.to_string(), vec![Reading { filter: Some(filter), ..reading.clone() }]))
    };
    groups.into_iter().map(side).collect()
}
