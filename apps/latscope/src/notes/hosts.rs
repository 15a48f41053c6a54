//! Which hosts the histograms of a hub are of, in words.

use latscope_event::{Note, format_count, format_duration};

/// Names shown of a list.
const NAMES_SHOWN: usize = 5;

/// `2 of 3 hosts in the last interval, missing: n3; 7 intervals lack a host`.
pub fn hosts(note: &Note) -> String {
    let Note::Hosts { present, missing, incomplete, provisional, amended, outside, clocks } = note else {
        return String::new();
    };
    let all = present + missing.len() as u64;
    let hosts = if all == 1 { "host" } else { "hosts" };
    let mut text = match all {
        0 => "no host in the last closed interval".to_string(),
        all => format!("{} of {} {hosts} in the last closed interval", format_count(*present), format_count(all)),
    };
    if !missing.is_empty() {
        text += &format!(", missing: {}", listed(missing));
    }
    let facts = [
        (*incomplete, ["interval lacks a host", "intervals lack a host"]),
        (*provisional, ["interval is not closed yet", "intervals are not closed yet"]),
        (*amended, ["interval changed after it was closed", "intervals changed after they were closed"]),
        (
            *outside,
            [
                "interval of a host is too old or too far ahead: only the journal has it",
                "intervals of hosts are too old or too far ahead: only the journal has them",
            ],
        ),
    ];
    for (count, [one, many]) in facts.into_iter().filter(|&(count, _)| count > 0) {
        text += &format!("; {} {}", format_count(count), if count == 1 { one } else { many });
    }
    let off = |(host, behind_ns): &(String, i64)| {
        let side = if *behind_ns > 0 { "behind" } else { "ahead" };
        format!("{host} {} {side}", format_duration(behind_ns.unsigned_abs()))
    };
    if !clocks.is_empty() {
        text += &format!("; clocks that are off: {}", listed(&clocks.iter().map(off).collect::<Vec<_>>()));
    }
    text
}

/// Names, the first of many.
pub fn listed(names: &[String]) -> String {
    let shown = names.iter().take(NAMES_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
