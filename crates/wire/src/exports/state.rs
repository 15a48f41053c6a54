//! What was added up, on disk, so that counters go on after a restart.

use super::totals::{Group, Sum, Totals};
use crate::durable;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The version of the file.
const VERSION: u64 = 1;

/// Writes the state under another name, and renames it.
///
/// # Errors
/// A sentence, when it cannot be written.
pub fn save(path: &Path, totals: &Totals) -> Result<(), String> {
    let text = written(totals).to_string();
    durable::replace(path, text.as_bytes()).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads the state; a missing file changes nothing. A damaged one neither: it is moved aside, and the sentence that says so is returned.
///
/// # Errors
/// A sentence, when it cannot be read, or not be moved.
pub fn restore(path: &Path, totals: &mut Totals) -> Result<Option<String>, String> {
    let failed = |error: io::Error| format!("{}: {error}.", path.display());
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(failed)?,
    };
    if serde_json::from_slice(&text).ok().and_then(|value| read(&value, totals)).is_some() {
        return Ok(None);
    }
    let aside = durable::set_aside(path).map_err(failed)?;
    let (path, aside) = (path.display(), aside.display());
    Ok(Some(format!("{path} is damaged: it is now {aside}, and counters start anew.")))
}

fn written(totals: &Totals) -> Value {
    let groups = totals.groups.iter().map(|(labels, group)| {
        let sum = &group.sum;
        json!({
            "labels": labels.to_vec(),
            "created_ms": group.created_ms,
            "count": sum.count,
            // More than other readers of JSON take as a number.
            "sum_ns": sum.sum_ns.to_string(),
            "schema": sum.schema,
            "exponential": pairs(&sum.exponential),
            "le": pairs(&sum.le),
            "vmrange": pairs(&sum.vmrange),
            // Not known by all hosts.
            "bytes": group.bytes,
        })
    });
    json!({
        "version": VERSION,
        "fields": totals.fields,
        "created_ms": totals.created_ms,
        "end_ns": totals.end_ns,
        "late": totals.late,
        "lost": totals.lost,
        "groups": groups.collect::<Vec<_>>(),
    })
}

fn pairs(buckets: &BTreeMap<i32, u64>) -> Vec<(i32, u64)> {
    buckets.iter().map(|(&index, &count)| (index, count)).collect()
}

fn read(value: &Value, totals: &mut Totals) -> Option<()> {
    if value["version"].as_u64()? != VERSION {
        return None;
    }
    let texts = |value: &Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|text| text.as_str().map(str::to_string)).collect()
    };
    let mut groups = BTreeMap::new();
    let end_ns = value["end_ns"].as_i64()?;
    for group in value["groups"].as_array()? {
        let (created_ms, sum) = (group["created_ms"].as_i64()?, read_sum(group)?);
        let bytes = group["bytes"][0].as_i64().zip(group["bytes"][1].as_u64());
        groups.insert(Arc::from(texts(&group["labels"])?), Group::restored(created_ms, end_ns / 1_000_000, sum, bytes));
    }
    totals.fields = texts(&value["fields"])?;
    totals.created_ms = value["created_ms"].as_i64()?;
    totals.end_ns = end_ns;
    totals.restored_ns = Some(totals.end_ns);
    totals.late = value["late"].as_u64()?;
    let lost = value["lost"].as_object()?.iter();
    totals.lost = lost.map(|(kind, count)| Some((kind.clone(), count.as_u64()?))).collect::<Option<_>>()?;
    totals.groups = groups;
    Some(())
}

fn read_sum(value: &Value) -> Option<Sum> {
    let buckets = |name: &str| -> Option<BTreeMap<i32, u64>> {
        let pair = |pair: &Value| Some((i32::try_from(pair[0].as_i64()?).ok()?, pair[1].as_u64()?));
        value[name].as_array()?.iter().map(pair).collect()
    };
    let (count, schema) = (value["count"].as_u64()?, i8::try_from(value["schema"].as_i64()?).ok()?);
    let [exponential, le, vmrange] = ["exponential", "le", "vmrange"].map(buckets);
    let sum = Sum {
        count,
        sum_ns: value["sum_ns"].as_str()?.parse().ok()?,
        schema,
        exponential: exponential?,
        le: le?,
        vmrange: vmrange?,
    };
    let is_whole = |buckets: &BTreeMap<i32, u64>| {
        buckets.values().try_fold(0u64, |sum, &count| sum.checked_add(count)) == Some(count)
    };
    [&sum.exponential, &sum.le, &sum.vmrange].iter().all(|buckets| is_whole(buckets)).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::super::metrics::Layouts;
    use super::super::totals::tests::closed;
    use super::*;

    const ALL: Layouts = Layouts { exponential: true, le: true, vmrange: true };

    #[test]
    fn a_restart_goes_on_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("export.json");
        let mut intervals: Vec<_> = (1..6).map(|at| closed(at, false, &[1000 * at as u64, 70_000])).collect();
        intervals.iter_mut().for_each(|closed| closed.intervals[0].done[0].1.set_bytes(Some(8192)));
        let mut whole = Totals::new(&[], 500);
        intervals.iter().for_each(|closed| whole.add(closed, &mut |_, _| ()));
        let mut before = Totals::new(&[], 500);
        intervals[..3].iter().for_each(|closed| before.add(closed, &mut |_, _| ()));
        save(&path, &before).unwrap();
        let mut after = Totals::new(&[], 9_999);
        restore(&path, &mut after).unwrap();
        // The journal is read again: all that was there comes at once.
        let mut again = intervals[0].clone();
        again.intervals = intervals[..4].iter().flat_map(|closed| closed.intervals.clone()).collect();
        after.add(&again, &mut |_, _| ());
        after.add(&intervals[4], &mut |_, _| ());
        assert_eq!(after.readings(6000, ALL), whole.readings(6000, ALL));
        assert_eq!(written(&after), written(&whole));
    }

    #[test]
    fn what_is_no_state_is_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        let (path, aside) = (folder.path().join("export.json"), folder.path().join("export.json.damaged"));
        let mut totals = Totals::new(&[], 0);
        for text in ["", "{}", "{\"version\": 2}", "[1]"] {
            fs::write(&path, text).unwrap();
            let said = restore(&path, &mut totals).unwrap().unwrap_or_default();
            assert!(said.contains("counters start anew") && !path.exists(), "{text}: {said}");
            assert_eq!(fs::read_to_string(&aside).unwrap(), text);
        }
        totals.add(&closed(1, false, &[5000]), &mut |_, _| ());
        let damaged = written(&totals).to_string().replace("\"count\":1", "\"count\":2");
        fs::write(&path, damaged).unwrap();
        assert!(restore(&path, &mut totals).unwrap().is_some());
        assert_eq!(restore(Path::new("/nonexistent/x"), &mut totals), Ok(None));
    }
}
