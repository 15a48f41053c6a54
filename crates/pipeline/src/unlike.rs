//! In what sides differ beside their latency: nobody shall compare unlike things without knowing.

use crate::sides::SIZES;
use crate::{Subject, Turn};
use latscope_event::{Anomaly, Context, Field, Severity, format_count, format_duration, format_size};
use latscope_series::Quantity;
use std::collections::{BTreeMap, BTreeSet};

/// Shares of kinds and sizes may differ by so much.
const SHARE: f64 = 0.05;
/// Distances between requests may differ by this part.
const DISTANCE: f64 = 0.1;
/// Bytes per request may differ by this part.
const BYTES: f64 = 1.0 / 3.0;
/// Fewer bytes per request make no difference.
const FEW_BYTES: f64 = 4096.0;
/// What each run has of its own and says nothing about how it was measured.
const OWN: [&str; 16] = [
    "clock_offset_start_ns",
    "clock_offset_end_ns",
    "excluded",
    "command",
    "target",
    "device",
    "path",
    "pid",
    "started",
    "kernel_memory_bytes",
    "own_stamps",
    "load_at_start",
    "requests",
    "cache_verified",
    "lag_max",
    "cpu_wait",
];

/// Settings of a probe that decide most about its latency, given first.
const FIRST: [&str; 4] = ["interval", "size", "cache", "scheduling"];

/// Sentences without an end: `interval between requests: 10ms (gp2), 100ms (gp3)`; and what only some of the sides give, in one.
pub fn unlike(subjects: &[Subject], quantity: Quantity) -> (Vec<String>, Option<String>) {
    let contexts: Vec<Context> = subjects.iter().map(|subject| Context::merged(&subject.contexts)).collect();
    let (mut unlike, mut unknown) = (Vec::new(), Vec::new());
    let mut differs = |what: &str, texts: Vec<Option<String>>| {
        let mut known = texts.iter().flatten();
        let first = known.next();
        if first.is_some() && known.all(|text| Some(text) == first) && texts.contains(&None) {
            unknown.push(what.replace('_', " "));
        } else if texts.iter().any(|text| *text != texts[0]) {
            let known = texts
                .iter()
                .zip(subjects)
                .map(|(text, subject)| format!("{} ({})", text.as_deref().unwrap_or("unknown"), subject.name));
            unlike.push(format!("{}: {}", what.replace('_', " "), known.collect::<Vec<_>>().join(", ")));
        }
    };
    let keys: BTreeSet<&str> =
        contexts.iter().flat_map(|context| context.properties.keys()).map(String::as_str).collect();
    // Another seed makes another order of the same kind.
    let property = |key: &str| {
        let text = |of: &Context| {
            let text = of.properties.get(key)?.split(", seed ").next()?;
            let bytes = text.parse().ok().filter(|_| key.ends_with("_bytes"));
            Some(bytes.map_or(text.to_string(), format_size))
        };
        contexts.iter().map(text).collect()
    };
    let known = |key: &str| contexts.iter().all(|context| context.properties.contains_key(key));
    FIRST.iter().for_each(|key| differs(key, property(key)));
    // The path follows the format.
    // What a probe measured is its target, which sides are distinguished by anyway.
    let format = |context: &Context| {
        let format = context.source.split(", ").next()?;
        Some(if format.starts_with("probe of ") { "probe" } else { format }.to_string())
    };
    differs("source", contexts.iter().map(format).collect());
    differs("host", contexts.iter().map(|context| context.host.clone()).collect());
    let assumed = |context: &Context| {
        let guess = context.tally.get(Anomaly::AssumedUnit) > 0;
        Some(if guess { "assumed" } else { "known" }.to_string())
    };
    differs("unit of latency", contexts.iter().map(assumed).collect());
    for key in keys.into_iter().filter(|key| !OWN.contains(key) && !FIRST.contains(key)) {
        differs(key, property(key));
    }
    let exact = |subject: &Subject| {
        Some(if subject.turns.iter().all(Turn::has_events) { "single events" } else { "histograms" }.to_string())
    };
    differs("compared by", subjects.iter().map(exact).collect());
    let distances: Vec<Option<u64>> = subjects.iter().map(Subject::distance_ns).collect();
    if !known("interval") && spread(distances.iter().flatten().map(|&distance| distance as f64)) > DISTANCE {
        differs("interval between requests", distances.iter().map(|distance| distance.map(format_duration)).collect());
    }
    mixes(&mut differs, "kind", subjects.iter().map(|subject| &subject.kinds).collect(), &|kind: &String| kind.clone());
    // A probe makes requests of one size, which was reported above.
    if !known("size") {
        mixes(&mut differs, "size", subjects.iter().map(|subject| &subject.sizes).collect(), &|size: &u64| {
            format_size(*size)
        });
    }
    let counts: Vec<u64> = subjects.iter().map(Subject::count).collect();
    if spread(counts.iter().map(|&count| count as f64)) > 0.5 {
        differs("number of requests", counts.iter().map(|&count| Some(format_count(count))).collect());
    }
    let lost = |context: &Context| {
        let lost = context.tally.iter().filter(|(anomaly, _)| anomaly.severity() == Severity::Lost);
        format_count(lost.map(|(_, count)| count).sum())
    };
    differs("records lost", contexts.iter().map(|context| Some(lost(context))).collect());
    let spans: Vec<(i64, i64)> = subjects.iter().filter_map(Subject::measured).collect();
    let apart = |pair: &[(i64, i64)]| pair[0].1 < pair[1].0 || pair[1].1 < pair[0].0;
    if spans.len() == subjects.len() && spans.windows(2).any(apart) {
        unlike.push("measured one after the other: changes in between appear as differences".into());
    }
    unlike.extend(bytes(subjects, quantity));
    let unknown =
        (!unknown.is_empty()).then(|| format!("unknown for some sides, so possibly different: {}", unknown.join(", ")));
    (unlike, unknown)
}

/// The numbers of bytes of which requests of the sides have unlike many: 20 times the input in the same time is no equal work.
fn bytes(subjects: &[Subject], compared: Quantity) -> Vec<String> {
    let fields: BTreeSet<Field> = subjects.iter().flat_map(|subject| subject.bytes.keys().copied()).collect();
    // A few sizes were compared by their shares.
    let reported = |&field: &Field| field != Field::Size || subjects.iter().any(|subject| subject.sizes.len() >= SIZES);
    let unlike = fields.into_iter().filter(|&field| field != compared.field()).filter(reported).filter_map(|field| {
        let mean = |subject: &Subject| {
            let &(count, sum) = subject.bytes.get(&field)?;
            (count > 0).then(|| sum as f64 / count as f64)
        };
        let means: Vec<f64> = subjects.iter().map(mean).collect::<Option<_>>()?;
        let shown =
            means.iter().zip(subjects).map(|(mean, of)| format!("{} ({})", format_size(mean.round() as u64), of.name));
        let name = field.name();
        (spread(means.iter().copied()) > BYTES && means.iter().any(|&mean| mean >= FEW_BYTES))
            .then(|| format!("{name} per request: {}; -y {name} compares it", shown.collect::<Vec<_>>().join(", ")))
    });
    unlike.collect()
}

/// By which part of the largest the smallest is smaller.
fn spread(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = values.clone().fold(0.0, f64::max);
    let least = values.fold(f64::INFINITY, f64::min);
    if most > 0.0 && least.is_finite() { 1.0 - least / most } else { 0.0 }
}

/// Says so if the shares of any key differ.
fn mixes<K: Ord>(
    differs: &mut impl FnMut(&str, Vec<Option<String>>),
    what: &str,
    mixes: Vec<&BTreeMap<K, u64>>,
    name: &dyn Fn(&K) -> String,
) {
    let share = |mix: &BTreeMap<K, u64>, key: &K| {
        let all: u64 = mix.values().sum();
        mix.get(key).copied().unwrap_or(0) as f64 / all.max(1) as f64
    };
    let keys: BTreeSet<&K> = mixes.iter().flat_map(|mix| mix.keys()).collect();
    let range = |key: &K| {
        let shares = mixes.iter().map(|mix| share(mix, key));
        shares.clone().fold(0.0, f64::max) - shares.fold(1.0, f64::min)
    };
    if keys.iter().all(|key| range(key) <= SHARE) {
        return;
    }
    let most_common = |mix: &&BTreeMap<K, u64>| {
        let mut most: Vec<(&K, f64)> = mix.keys().map(|key| (key, share(mix, key))).collect();
        most.sort_by(|a, b| b.1.total_cmp(&a.1));
        let more = if most.len() > 3 { " ..." } else { "" };
        let shown = most.iter().take(3).map(|(key, share)| format!("{:.0}% {}", 100.0 * share, name(key)));
        (!most.is_empty()).then(|| shown.collect::<Vec<_>>().join(" ") + more)
    };
    differs(what, mixes.iter().map(most_common).collect());
}
