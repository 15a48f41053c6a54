//! What fio prints with `--output-format=json+`: the histograms of whole jobs, a row for each job, direction and host.
//! When in its job an I/O happened is not recorded, so a row is as long as its job and is never divided.

use crate::fio::hist::Bins;
use crate::fio::name::host_of_folders;
use crate::fio::start::host_of_results;
use crate::input::Input;
use crate::{Detected, Error, Place, SeriesHeader, SeriesRow};
use latscope_event::{Anomaly, Clock, Context, Tally};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;

/// Larger ones are no summary of jobs.
const LIMIT: u64 = 256 << 20;
const MS: i64 = 1_000_000;
/// The client's sum over all servers, whose histograms are empty.
const ALL_CLIENTS: &str = "All clients";
/// Latencies of syncs stand beside those of the directions (from fio 3.5 on).
const SYNC: &str = "sync";

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
    header: SeriesHeader,
    context: Context,
    rows: std::vec::IntoIter<SeriesRow>,
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
        let jobs: Vec<&Value> = jobs.iter().filter(|job| text_of(job, "jobname") != Some(ALL_CLIENTS)).collect();
        let starts_ms = end_ms.map(|end_ms| starts_of_groups(&jobs, end_ms)).unwrap_or_default();
        let mut rows = Vec::new();
        let mut lacks = Vec::new();
        for job in jobs {
            if !job.is_object() {
                return Err(fail("\"jobs\" has an entry that is not an object; the file is damaged.".into()));
            }
            note_options(job, &mut context);
            let (start_ns, width_ns) = span(job, &starts_ms);
            for &kind in kinds(job) {
                let Some(direction) = job.get(kind) else { continue };
                let text = |key: &str| text_of(job, key).unwrap_or("-").to_string();
                let of = |why| fail(format!("The histogram of job {} ({kind}) is damaged: {why}.", text("jobname")));
                let Some(histogram) = histogram(direction).map_err(of)? else {
                    lacks.extend(lacking(job, direction).map(|why| format!("Job {} ({kind}): {why}", text("jobname"))));
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
        match &lacks[..] {
            [] => {}
            [first, ..] if rows.is_empty() => return Err(fail(first.clone())),
            [first, more @ ..] => {
                let more =
                    if more.is_empty() { String::new() } else { format!(" {} more lack theirs, too.", more.len()) };
                context.properties.insert("missing".into(), format!("{first}{more}"));
            }
        }
        // A job that ended has no I/O left.
        context.properties.insert(Context::COMPLETE.into(), "histograms of whole jobs".into());
        context.tally.add(Anomaly::WholeJobs, rows.len() as u64);
        let group_fields = ["kind", "job", "host"].map(str::to_string).to_vec();
        let header = SeriesHeader { group_fields, value: "latency".into(), weight: "count".into() };
        Ok(FioJson { header, context, rows: rows.into_iter() })
    }

    pub fn header(&self) -> &SeriesHeader {
        &self.header
    }

    pub fn context(&self) -> &Context {
        &self.context
    }
}

impl Iterator for FioJson {
    type Item = Result<SeriesRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rows.next().map(Ok)
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

fn text_of<'a>(job: &'a Value, key: &str) -> Option<&'a str> {
    job.get(key).and_then(Value::as_str)
}

/// Start and length of a job: fio tells the start from 3.36 on, before that only the end of the run.
fn span(job: &Value, starts_ms: &BTreeMap<Group, i64>) -> (i64, u64) {
    let runtime_ms = runtime_ms(job);
    let told = job.get("job_start").and_then(Value::as_i64).filter(|&ms| ms >= 0);
    let start_ms = told.or_else(|| starts_ms.get(&group(job)).copied()).unwrap_or(0);
    let width_ns = runtime_ms * MS;
    (start_ms.saturating_mul(MS).clamp(0, i64::MAX - width_ns), width_ns as u64)
}

/// How long the longest thread of a job ran, at least 1 ms: where threads report as one (`group_reporting`), `job_runtime` is the
/// sum of all, and a direction has the longest.
fn runtime_ms(job: &Value) -> i64 {
    let runtime = |of: &Value, key: &str| of.get(key).and_then(Value::as_i64).filter(|&ms| (1..1 << 40).contains(&ms));
    let longest = kinds(job).iter().filter_map(|kind| runtime(job.get(*kind)?, "runtime")).max();
    longest.into_iter().chain(runtime(job, "job_runtime")).min().unwrap_or(1)
}

/// What begins together: a group of jobs (`stonewall` begins a new one) of one host.
type Group = (Option<String>, i64);

fn group(job: &Value) -> Group {
    (text_of(job, "hostname").map(str::to_string), job.get("groupid").and_then(Value::as_i64).unwrap_or(0))
}

/// When groups began, as far as the end of the run and their lengths tell: one follows the other.
fn starts_of_groups(jobs: &[&Value], end_ms: i64) -> BTreeMap<Group, i64> {
    let mut starts = BTreeMap::<Group, i64>::new();
    for job in jobs {
        let longest_ms = starts.entry(group(job)).or_default();
        *longest_ms = runtime_ms(job).max(*longest_ms);
    }
    let mut next: Option<(Option<String>, i64)> = None;
    for ((host, _), start_ms) in starts.iter_mut().rev() {
        let until_ms = next.take().filter(|(of, _)| of == host).map_or(end_ms, |(_, ms)| ms);
        *start_ms = until_ms.saturating_sub(*start_ms);
        next = Some((host.clone(), *start_ms));
    }
    starts
}

/// What a job tells apart: directions, or all of them as one (`unified_rw_reporting=1`; with `both` that is their sum), and
/// what `fsync`, `fdatasync` and `sync_file_range` took.
fn kinds(job: &Value) -> &'static [&'static str] {
    const DIRECTIONS: &[&str] = &["read", "write", "trim", SYNC];
    let is_mixed = DIRECTIONS.iter().all(|&kind| kind == SYNC || job.get(kind).is_none());
    if is_mixed { &["mixed", SYNC] } else { DIRECTIONS }
}

/// Why a direction that has I/Os has no histogram, and what to do about it.
fn lacking(job: &Value, direction: &Value) -> Option<String> {
    direction.get("total_ios").and_then(Value::as_u64).filter(|&count| count > 0)?;
    let error = job.get("error").and_then(Value::as_i64).filter(|&error| error != 0);
    let completed = LATENCIES.iter().find_map(|(key, _)| direction.get(key)?.get("N")?.as_u64());
    let ran = direction.get("runtime").and_then(Value::as_u64).is_some_and(|ms| ms > 0);
    if let Some(error) = error.filter(|_| completed == Some(0) && !ran) {
        let why = i32::try_from(error).map_or_else(|_| error.to_string(), os_error);
        return Some(format!("It failed before an I/O completed: error {why}."));
    }
    why_no_bins(direction).map(str::to_string)
}

/// `25 (Inappropriate ioctl for device)`.
fn os_error(number: i32) -> String {
    let text = std::io::Error::from_raw_os_error(number).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    format!("{number} ({text})")
}

fn why_no_bins(direction: &Value) -> Option<&'static str> {
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
