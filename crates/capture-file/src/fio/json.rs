//! What fio prints with `--output-format=json+`: the histograms of whole jobs, a row for each job, direction and host.
//! When in its job an I/O happened is not recorded, so a row is as long as its job and is never divided.

use super::hist::Bins;
use super::name::{host_of_folders, host_of_results};
use super::results::{Direction, Job, LATENCIES, Latencies, Results};
use crate::input::Input;
use crate::series_rows::{SeriesHeader, SeriesRow, SeriesRows};
use crate::{Error, Position, ReadOptions};
use latscope_event::{Anomaly, Clock, Context, Note};
use latscope_histogram::Sparse;

const MS: i64 = 1_000_000;

/// Reads all of it.
pub fn open(input: Input<'static>, _: &ReadOptions) -> Result<Box<dyn SeriesRows>, Error> {
    Ok(Box::new(FioJson::open(input)?))
}

/// The histograms of the jobs.
struct FioJson {
    header: SeriesHeader,
    context: Context,
    rows: std::vec::IntoIter<SeriesRow>,
}

impl FioJson {
    fn open(mut input: Input) -> Result<FioJson, Error> {
        let file = input.name.clone();
        let fail = |message: String| Error::new(&file, Position::File, message);
        let results = Results::read(&mut input)?;
        let mut context = Context::new(format!("fio json, {file}"), Clock::wall());
        context.tally = results.tally.clone();
        if let Some(version) = &results.version {
            context.properties.insert("fio_version".into(), version.clone());
        }
        let path = input.path.as_deref();
        let host = path.and_then(|path| host_of_results(path).or_else(|| host_of_folders(path)));
        let starts_ms = results.group_starts_ms();
        let mut rows = Vec::new();
        let mut lacks = Vec::new();
        for job in &results.jobs {
            note_options(job, &mut context);
            context.tally.add(Anomaly::FailedJobs, u64::from(results.has_failed(job)));
            let estimated_ms = starts_ms.get(&(job.hostname.as_deref(), job.group)).copied();
            let (start_ns, width_ns) = span(job, estimated_ms);
            let name = job.name.as_deref().unwrap_or("-");
            for (kind, direction) in &job.kinds {
                let damaged = |why| fail(format!("The histogram of job {name} ({kind}) is damaged: {why}."));
                let Some(histogram) = histogram(direction).map_err(damaged)? else {
                    lacks.extend(lacking(job, direction).map(|why| format!("Job {name} ({kind}): {why}")));
                    continue;
                };
                let hostname = job.hostname.clone().or_else(|| host.clone()).unwrap_or_else(|| "-".into());
                let groups = [kind.to_string(), name.to_string(), hostname].into();
                context.cover(start_ns);
                context.cover(start_ns.saturating_add_unsigned(width_ns));
                rows.push(SeriesRow { time_ns: start_ns, width_ns, groups, histogram, waiting: None });
            }
        }
        match &lacks[..] {
            [] => {}
            [first, ..] if rows.is_empty() => return Err(fail(first.clone())),
            [first, more @ ..] => context.note(Note::NoHistogram { first: first.clone(), more: more.len() as u64 }),
        }
        // A job that ended has no I/O left.
        context.properties.insert(Context::COMPLETE.into(), "histograms of whole jobs".into());
        context.tally.add(Anomaly::WholeJobs, rows.len() as u64);
        let group_fields = ["kind", "job", "host"].map(str::to_string).to_vec();
        let header = SeriesHeader { group_fields, value: "latency".into(), weight: "count".into() };
        Ok(FioJson { header, context, rows: rows.into_iter() })
    }
}

impl SeriesRows for FioJson {
    fn header(&self) -> &SeriesHeader {
        &self.header
    }

    fn context(&self) -> &Context {
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
fn note_options(job: &Job, context: &mut Context) {
    for (name, value) in job.options.iter().filter(|(name, _)| name.len() < 64) {
        let text = value.chars().take(256).collect();
        context.properties.entry(format!("fio_{name}")).or_insert(text);
    }
}

/// Start and length of a job: fio records the start from 3.36 on, before that only the end of the run.
fn span(job: &Job, estimated_ms: Option<i64>) -> (i64, u64) {
    let width_ns = job.runtime_ms().unwrap_or(1) * MS;
    let start_ms = job.start_ms.or(estimated_ms).unwrap_or(0);
    (start_ms.saturating_mul(MS).clamp(0, i64::MAX - width_ns), width_ns as u64)
}

/// Why a direction that has I/Os has no histogram, and what to do about it.
fn lacking(job: &Job, direction: &Direction) -> Option<String> {
    direction.total_ios.filter(|&count| count > 0)?;
    let completed = direction.latencies.iter().flatten().find_map(|latencies| latencies.count);
    if job.error != 0 && completed == Some(0) && direction.runtime_ms.is_none() {
        let why = i32::try_from(job.error).map_or_else(|_| job.error.to_string(), os_error);
        return Some(format!("It failed before an I/O completed: error {why}."));
    }
    Some(why_no_bins(direction).to_string())
}

/// `25 (Inappropriate ioctl for device)`.
fn os_error(number: i32) -> String {
    let text = std::io::Error::from_raw_os_error(number).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    format!("{number} ({text})")
}

fn why_no_bins(direction: &Direction) -> &'static str {
    if direction.latencies.iter().flatten().any(|latencies| latencies.has_percentiles) {
        return "It has percentiles but no histograms, and percentiles cannot be merged; run fio with \
                --output-format=json+.";
    }
    let [clat_ns, ..] = &direction.latencies;
    match clat_ns.as_ref().and_then(|latencies| latencies.count) {
        Some(0) => {
            "It has no histograms because completion latencies were not measured (disable_clat=1); remove that \
             from the job, or add lat_percentiles=1, and run fio with --output-format=json+."
        }
        _ => {
            "It has no histograms because percentiles were switched off (clat_percentiles=0); remove that from the \
             job and run fio with --output-format=json+."
        }
    }
}

/// The histogram of a direction; none when it has no bins.
fn histogram(direction: &Direction) -> Result<Option<Sparse>, String> {
    let has_bins = |latencies: &&Latencies| latencies.bins.as_ref().map_or(true, |bins| !bins.is_empty());
    let all = direction.latencies.iter().zip(LATENCIES);
    let found = all.into_iter().find_map(|(latencies, (_, count))| Some((latencies.as_ref().filter(has_bins)?, count)));
    let Some((latencies, count)) = found else { return Ok(None) };
    let mut bins = Bins::with_count(count).ok_or("no version of fio has such bins")?;
    let values = latencies.bins.as_ref().map_err(String::clone)?;
    let mut counts: Vec<_> =
        values.iter().filter(|(_, count)| *count > 0).map(|&(value, count)| (bins.of_value(value), count)).collect();
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
    let in_ns = |value: Option<f64>| value.map(|value| value * bins.unit_ns as f64);
    let exact = (in_ns(latencies.min), in_ns(latencies.max), in_ns(latencies.mean));
    bins.histogram(&counts)
        .map(|histogram| Some(with_exact(histogram, exact)))
        .ok_or("its counts exceed 64 bits".into())
}

/// fio knows the smallest, the largest and the mean exactly; they are taken where they agree with the bins.
fn with_exact(histogram: Sparse, (min, max, mean): (Option<f64>, Option<f64>, Option<f64>)) -> Sparse {
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
    Sparse::from_parts(histogram.grid(), indices, counts, None, totals).unwrap_or(histogram)
}
