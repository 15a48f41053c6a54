//! What fio prints with `--output-format=json+`: the histograms of whole jobs, as a series of one interval per job,
//! direction and host.

use crate::fio_hist::Bins;
use crate::fio_name::host_of_folders;
use crate::fio_start::host_of_results;
use crate::input::Input;
use crate::{Detected, Error, Place, SeriesHeader, SeriesRow};
use latscope_event::{Anomaly, Clock, Context, Tally};
use serde_json::Value;
use std::io::Read;

/// Larger ones are no summary of jobs.
const LIMIT: u64 = 256 << 20;
const MS: i64 = 1_000_000;
/// The client's sum over all servers, whose histograms are empty.
const ALL_CLIENTS: &str = "All clients";

/// The first member of a report.
const VERSION: &[u8] = b"\"fio version\"";
/// What latencies stand under, and how many bins their histograms have: those of completion before those of the whole I/O.
const LATENCIES: [(&str, usize); 3] = [("clat_ns", 1856), ("clat", 1216), ("lat_ns", 1856)];

/// Text may stand before the brace: warnings, or the banner of CBT.
fn json(text: &[u8]) -> Option<&[u8]> {
    let at = memchr::memchr(b'{', text)?;
    Some(&text[at..])
}

/// Where reports begin: with `--status-interval` there are several, between fio's text output, if both were asked for.
fn reports(text: &[u8]) -> Vec<usize> {
    let before = |at: usize| text[..at].trim_ascii_end();
    // In a string of a report the quotes would be escaped.
    let all = memchr::memmem::find_iter(text, VERSION).map(before);
    all.filter(|before| before.ends_with(b"{")).map(|before| before.len() - 1).collect()
}

/// Its first member is the version.
pub fn detect(head: &[u8]) -> Detected {
    let Some(rest) = json(head).and_then(|text| text.get(1..)) else { return Detected::No };
    if rest.trim_ascii_start().starts_with(VERSION) { Detected::Yes } else { Detected::No }
}

/// The last report that is whole, with a count of those before it, which it holds too: reports of a run that goes on count
/// from its begin.
fn last_report(file: &str, text: &[u8]) -> Result<(Value, Tally), Error> {
    let none = || Error::new(file, Place::File, "There is no JSON in it.");
    let mut starts = reports(text);
    if starts.is_empty() {
        starts.push(memchr::memchr(b'{', text).ok_or_else(none)?);
    }
    let mut tally = Tally::default();
    let last = starts.len() - 1;
    for (at, &start) in starts.iter().enumerate().rev() {
        // What follows the JSON is the text output.
        match serde_json::Deserializer::from_slice(&text[start..]).into_iter::<Value>().next().ok_or_else(none)? {
            Ok(report) => {
                tally.add(Anomaly::EarlierReports, at as u64);
                return Ok((report, tally));
            }
            // The run was killed while it wrote.
            Err(error) if error.is_eof() && at == last && at > 0 => tally.add(Anomaly::Truncated, 1),
            Err(error) => {
                let above = memchr::memchr_iter(b'\n', &text[..start]).count();
                let why = error.to_string();
                let why = why.split(" at line ").next().unwrap_or_default();
                let place = Place::Line((above + error.line()) as u64);
                return Err(Error::new(file, place, format!("The JSON is damaged: {why}.")));
            }
        }
    }
    Err(none())
}

/// The histograms of the jobs.
pub struct FioJson {
    file: String,
    header: SeriesHeader,
    context: Context,
    rows: std::vec::IntoIter<SeriesRow>,
    per_event: u64,
}

impl FioJson {
    /// Reads all of it.
    pub fn open(mut input: Input) -> Result<FioJson, Error> {
        let file = input.name.clone();
        let fail = |message: String| Error::new(&file, Place::File, message);
        let mut text = Vec::new();
        let read = Read::by_ref(&mut input).take(LIMIT).read_to_end(&mut text);
        read.map_err(|error| input.error(&error))?;
        let (all, tally) = last_report(&file, &text)?;
        let mut context = Context::new(format!("fio json, {file}"), Clock::wall());
        context.tally = tally;
        let text = |key: &str| all.get(key).and_then(Value::as_str);
        if let Some(version) = text("fio version") {
            context.properties.insert("fio_version".into(), version.into());
        }
        let end_ms = all.get("timestamp_ms").and_then(Value::as_i64);
        let end_ms = end_ms.or_else(|| all.get("timestamp")?.as_i64()?.checked_mul(1000));
        let jobs = all.get("jobs").or_else(|| all.get("client_stats")).and_then(Value::as_array);
        let jobs = jobs.ok_or_else(|| fail("There are no jobs in it.".into()))?;
        let path = input.path.as_deref();
        let host = path.and_then(|path| host_of_results(path).or_else(|| host_of_folders(path)));
        let mut rows = Vec::new();
        let mut lack = None;
        for job in jobs.iter().filter(|job| job.get("jobname").and_then(Value::as_str) != Some(ALL_CLIENTS)) {
            if !job.is_object() {
                return Err(fail("What stands in the place of a job is none; the file is damaged.".into()));
            }
            note_options(job, &mut context);
            let (start_ns, width_ns) = span(job, end_ms);
            for &kind in kinds(job) {
                let Some(direction) = job.get(kind) else { continue };
                let text = |key: &str| job.get(key).and_then(Value::as_str).unwrap_or("-").to_string();
                let of = |why| fail(format!("The histogram of job {} ({kind}) is damaged: {why}.", text("jobname")));
                let Some(histogram) = histogram(direction).map_err(of)? else {
                    lack = lack.or_else(|| lacking(direction));
                    continue;
                };
                let hostname = match (text("hostname"), &host) {
                    (unknown, Some(host)) if unknown == "-" => host.clone(),
                    (hostname, _) => hostname,
                };
                let groups = [kind.into(), text("jobname"), hostname].into();
                context.cover(start_ns);
                context.cover(start_ns.saturating_add_unsigned(width_ns));
                rows.push(SeriesRow { time_ns: start_ns, width_ns, groups, histogram });
            }
        }
        if let Some(lack) = lack.filter(|_| rows.is_empty()) {
            return Err(fail(lack.into()));
        }
        context.tally.add(Anomaly::WholeJobs, rows.len() as u64);
        let group_fields = ["kind", "job", "host"].map(str::to_string).to_vec();
        let header = SeriesHeader { group_fields, value: "latency".into(), weight: "count".into() };
        Ok(FioJson { file: input.name.clone(), header, context, rows: rows.into_iter(), per_event: 1 })
    }

    pub fn header(&self) -> &SeriesHeader {
        &self.header
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    pub fn count_in(&mut self, per_event: u64) {
        self.per_event = per_event;
    }
}

impl Iterator for FioJson {
    type Item = Result<SeriesRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        let Some(histogram) = row.histogram.times(self.per_event) else {
            let message = "The counts of a job are more than 64 bits hold.";
            return Some(Err(Error::new(&self.file, Place::File, message)));
        };
        Some(Ok(SeriesRow { histogram, ..row }))
    }
}

/// Options that say what was measured, of the first job that has them.
fn note_options(job: &Value, context: &mut Context) {
    let Some(options) = job.get("job options").and_then(Value::as_object) else { return };
    for (name, value) in options.iter().filter(|(name, _)| name.len() < 64) {
        let text = value.as_str().unwrap_or_default().chars().take(256).collect();
        context.properties.entry(format!("fio_{name}")).or_insert(text);
    }
}

/// Start and length of a job: fio tells the start from 3.36 on, before that only the end of the run.
fn span(job: &Value, end_ms: Option<i64>) -> (i64, u64) {
    let number = |key: &str| job.get(key).and_then(Value::as_i64).filter(|&ms| ms >= 0);
    let runtime_of = |kind: &str| job.get(kind)?.get("runtime")?.as_i64();
    let longest = || kinds(job).iter().filter_map(|kind| runtime_of(kind)).max();
    let runtime_ms = number("job_runtime").or_else(longest).unwrap_or(0).clamp(1, 1 << 40);
    let start_ms = number("job_start").unwrap_or(end_ms.unwrap_or(0).saturating_sub(runtime_ms));
    let width_ns = runtime_ms * MS;
    (start_ms.saturating_mul(MS).clamp(0, i64::MAX - width_ns), width_ns as u64)
}

/// What a job tells apart: directions, or all of them as one (`unified_rw_reporting=1`; with `both` that is their sum).
fn kinds(job: &Value) -> &'static [&'static str] {
    const DIRECTIONS: &[&str] = &["read", "write", "trim"];
    let is_mixed = DIRECTIONS.iter().all(|kind| job.get(kind).is_none());
    if is_mixed { &["mixed"] } else { DIRECTIONS }
}

/// Why a direction that has I/Os has no histogram, and what to do about it.
fn lacking(direction: &Value) -> Option<&'static str> {
    direction.get("total_ios").and_then(Value::as_u64).filter(|&count| count > 0)?;
    let latencies = || LATENCIES.iter().filter_map(|(key, _)| direction.get(key));
    if latencies().any(|latencies| latencies.get("percentile").is_some()) {
        return Some(
            "It has percentiles but no histograms, and percentiles of several jobs do not make one; run fio with \
             --output-format=json+.",
        );
    }
    let count = |key: &str| direction.get(key)?.get("N")?.as_u64();
    Some(match count("clat_ns") {
        Some(0) => {
            "It has no histograms, since completion latencies were not measured (disable_clat=1); leave that out of the \
             job, or add lat_percentiles=1 and run fio with --output-format=json+."
        }
        _ => {
            "It has no histograms, since percentiles were switched off (clat_percentiles=0); leave that out of the job and \
             run fio with --output-format=json+."
        }
    })
}

/// The histogram of a direction; none when it has no bins.
fn histogram(direction: &Value) -> Result<Option<latscope_histogram::Sparse>, String> {
    let found = LATENCIES.into_iter().find_map(|(key, count)| {
        let latencies = direction.get(key)?;
        let bins = latencies.get("bins")?.as_object().filter(|bins| !bins.is_empty())?;
        Some((latencies, bins, count))
    });
    let Some((latencies, keys, count)) = found else { return Ok(None) };
    let mut bins = Bins::with_count(count).ok_or("no fio has such bins")?;
    let mut counts = Vec::with_capacity(keys.len());
    for (key, value) in keys {
        let key: String = key.chars().take(32).collect();
        let middle: u64 = key.parse().map_err(|_| format!("\"{key}\" is no bin"))?;
        match value.as_u64() {
            None => return Err(format!("bin {key} counts something else than a number of I/Os")),
            Some(0) => {}
            Some(count) => counts.push((bins.of_value(middle), count)),
        }
    }
    // Keys are in the order of a text.
    counts.sort_unstable();
    counts.dedup_by(|next, last| {
        let same = next.0 == last.0;
        last.1 = if same { last.1.saturating_add(next.1) } else { last.1 };
        same
    });
    if counts.is_empty() {
        return Ok(None);
    }
    let number = |key: &str| latencies.get(key).and_then(Value::as_f64).map(|value| value * bins.unit_ns as f64);
    let exact = (number("min"), number("max"), number("mean"));
    bins.histogram(&counts)
        .map(|histogram| Some(with_exact(histogram, exact)))
        .ok_or("its counts are more than 64 bits hold".into())
}

/// fio knows the smallest, the largest and the mean exactly; they are taken where they agree with the bins.
fn with_exact(
    histogram: latscope_histogram::Sparse,
    (min, max, mean): (Option<f64>, Option<f64>, Option<f64>),
) -> latscope_histogram::Sparse {
    let mut totals = *histogram.totals();
    let place = |value: u64| histogram.grid().index(value) as u32;
    if let Some(min) = min.map(|min| min as u64).filter(|&min| histogram.indices().first() == Some(&place(min))) {
        totals.min = min;
    }
    if let Some(max) = max.map(|max| max as u64).filter(|&max| histogram.indices().last() == Some(&place(max))) {
        totals.max = max;
    }
    if totals.min > totals.max {
        return histogram;
    }
    if let Some(mean) = mean.filter(|&mean| mean >= totals.min as f64 && mean <= totals.max as f64) {
        totals.sum = (mean * totals.count as f64).round() as u128;
    }
    let (indices, counts) = (histogram.indices().to_vec(), histogram.counts().to_vec());
    latscope_histogram::Sparse::from_parts(histogram.grid(), indices, counts, None, totals).unwrap_or(histogram)
}
