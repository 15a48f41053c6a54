//! How events become a series, and which columns, lengths of time and groups the words name.

use super::Folding;
use crate::{Failure, args};
use latscope_capture_file::TwoColumns;
use latscope_event::{Field, FieldType, parse_duration, parse_size};
use latscope_series::{Quantity, Weight};

pub fn folding(typed: &args::Fold, input: &args::Input) -> Result<Folding, Failure> {
    let unit_bytes = input.files.units_latency.as_deref().and_then(TwoColumns::bytes);
    let quantity = match (typed.quantity, unit_bytes) {
        // Sizes are reported in bytes, offsets in larger units, on an axis that starts at zero.
        (Quantity::Latency, Some(1)) => Quantity::Size,
        (Quantity::Latency, Some(_)) => Quantity::Offset,
        (quantity, _) => quantity,
    };
    // trace2heatmap's --maxlat is a bare number in the unit of the file.
    let unit = input.files.units_latency.as_ref().or(input.files.units_time.as_ref()).filter(|_| !quantity.is_bytes());
    let bound = |name: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) if unit.is_some() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            let text = format!("{text}{}", unit.map_or("", String::as_str));
            parse_duration(&text).map(Some).map_err(|error| Failure::Usage(format!("--{name}: {error}.")))
        }
        Some(text) if unit_bytes.is_some() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            let bytes = text.parse::<u64>().ok().and_then(|value| value.checked_mul(unit_bytes.unwrap_or(1)));
            bytes.map(Some).ok_or_else(|| Failure::Usage(format!("--{name} {text} is too large.")))
        }
        Some(text) => {
            let value = if quantity.is_bytes() { parse_size(text) } else { parse_duration(text) };
            value.map(Some).map_err(|error| Failure::Usage(format!("--{name}: {error}.")))
        }
    };
    let (min, max) = (bound("min", &typed.min)?, bound("max", &typed.max)?);
    if let (Some(min), Some(max)) = (min, max)
        && min >= max
    {
        return Err(Failure::Usage("--min must be smaller than --max.".into()));
    }
    Ok(Folding {
        by: fields("--by", &typed.by)?,
        weight: match typed.weight {
            args::Weight::Count => Weight::Count,
            args::Weight::Time => Weight::Time,
            args::Weight::Bytes => Weight::Bytes,
        },
        quantity,
        min,
        max,
        completed_only: typed.completed_only,
        over_time: true,
        precision: typed.precision,
        ..Folding::of_latencies(interval(&typed.interval)?)
    })
}

/// Instead of an interval: find out which.
pub const AUTO: &str = "auto";

pub fn interval(typed: &Option<String>) -> Result<Option<u64>, Failure> {
    let Some(text) = typed.as_ref().filter(|text| *text != AUTO) else { return Ok(None) };
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Sysdig's chisel takes its interval as a bare number of milliseconds; a bare number here would be nanoseconds.
        return Err(Failure::Usage(format!("-i {text} needs a unit: {text}ms or {text}s.")));
    }
    duration("-i", typed)
}

pub fn fields(option: &str, names: &[String]) -> Result<Vec<Field>, Failure> {
    let field = |name: &String| {
        let field = column(option, name.trim())?;
        if option == "--by" && matches!(field.field_type(), FieldType::Time | FieldType::Duration) {
            let message =
                format!("--by {name} would make every value a group; use -i for time, or -y to show the quantity.");
            return Err(Failure::Usage(message));
        }
        Ok(field)
    };
    names.iter().map(field).collect()
}

/// The column that is meant by a name: its own, one of the filter's, or a word of those who measure with probes.
pub fn column(option: &str, name: &str) -> Result<Field, Failure> {
    let name = if ["directory", "dir"].contains(&name) { Field::Job.name() } else { name };
    if let Some(field) = latscope_filter::column(name) {
        return Ok(field);
    }
    if name.starts_with("tag:") {
        let message = format!("{option}: {name} is one too many; give one tag:KEY, or tags for all of them together.");
        return Err(Failure::Usage(message));
    }
    let known = latscope_filter::filter_fields();
    let is_known = known.iter().any(|field| field.name() == name || field.aliases().contains(&name));
    Err(Failure::Usage(match is_known {
        true => format!("{option}: {name} can only be used in filters; latscope fields lists the columns."),
        false => {
            let meant = also_called(name).map(|meant| format!("did you mean {meant}? ")).unwrap_or_default();
            format!("{option}: unknown field {name}; {meant}latscope fields lists all fields.")
        }
    }))
}

/// The column that other programs call so.
fn also_called(name: &str) -> Option<&'static str> {
    const WORDS: [(&[&str], &str); 6] = [
        (&["direction", "ddir", "rw", "op", "operation", "type"], "kind"),
        (&["client", "server", "node", "hostname", "machine"], "host"),
        (&["jobname", "job_name", "volume", "worker"], "job"),
        (&["disk", "drive", "volume_name", "devname"], "device"),
        (&["thread", "thread_id"], "tid"),
        (&["file", "filename", "file_name"], "path"),
    ];
    let name = name.to_ascii_lowercase();
    WORDS.iter().find(|(words, _)| words.contains(&name.as_str())).map(|&(_, meant)| meant)
}

/// No length of time is longer, so that sums of a few stay numbers: 73 years.
const LONGEST_NS: u64 = i64::MAX as u64 / 4;

/// A length of time above zero that was typed with its unit.
pub fn duration(option: &str, typed: &Option<String>) -> Result<Option<u64>, Failure> {
    let Some(text) = typed else { return Ok(None) };
    match parse_duration(text) {
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(Failure::Usage(format!("{option} {text} needs a unit: {text}s or {text}m.")))
        }
        Ok(0) => Err(Failure::Usage(format!("{option} must be longer than zero."))),
        Ok(ns) if ns <= LONGEST_NS => Ok(Some(ns)),
        Err(error) if !error.is_too_large() => Err(Failure::Usage(format!("{option}: {error}."))),
        _ => {
            let days = LONGEST_NS / 86_400_000_000_000;
            Err(Failure::Usage(format!("{option} {text} is too long; the longest is {days}d.")))
        }
    }
}
