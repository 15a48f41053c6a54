//! `latscope lab scan`: a device is read once, and what was slow or failed is read again, to tell a defect from a moment.

use super::output;
use crate::Failure;
use crate::plan::Scan as Plan;
use crate::run::ping::{Signals, Trace, failure};
use latscope_capture_probe::{Capture, Order, Probe, Work};
use latscope_event::kernel::error_name;
use latscope_event::{escape_json, format_count, format_duration, format_size_exact};
use latscope_series::slow_places::{again, slower, suspects};
use latscope_view_term::{Align, Table};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// How long samples are waited for before signals are looked at.
const WAIT: Duration = Duration::from_millis(100);
/// Requests in flight get so long to end, nanoseconds.
const GRACE_NS: u64 = 1_000_000_000;
/// A read that hangs is reported when it has waited for so long, and then each time that it has waited twice as long.
const LONG_NS: u64 = 5_000_000_000;
/// A read that has waited for so long ends the scan.
const HANGS_NS: u64 = 60_000_000_000;
/// So many stretches of slow reads are read again, beside those that failed.
const MOST: usize = 64;

/// One read.
#[derive(Clone, Copy)]
struct Read {
    offset: u64,
    latency_ns: u64,
    /// Bytes, or a negative error number.
    result: i32,
}

/// What came of reading.
struct Pass {
    reads: Vec<Read>,
    is_whole: bool,
    /// Where a read was not answered, and for how long, nanoseconds.
    hung: Option<(u64, u64)>,
}

/// A part of the device.
struct Region {
    rows: Range<usize>,
    /// Reads that failed, and with what.
    failed: Vec<i32>,
    again_ns: Vec<u64>,
    failed_again: usize,
    /// Its factor, if it is slow again.
    slower: Option<f64>,
}

pub fn run(plan: &Plan) -> Result<(), Failure> {
    let folder = &plan.output;
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::Input(format!("{}: Cannot be made: {error}.", folder.display())))?;
    let (trace, repeated) = (folder.join("scan.lat"), folder.join("again.lat"));
    [&trace, &repeated].iter().try_for_each(|path| match path.exists() {
        true => Err(Failure::Usage(format!("{} exists; give another folder with -o.", path.display()))),
        false => Ok(()),
    })?;
    let signals = Signals::new();
    let Pass { reads, is_whole, mut hung } = pass(&plan.probe, &trace, &signals, true)?;
    let size = plan.probe.work.size;
    if !is_whole && let Some(next) = hung.map(|(offset, _)| offset).or(reads.last().map(|last| last.offset)) {
        say!("latscope: ended early; another -o FOLDER and --start {} go on", format_size_exact(next + size));
    } else if reads.is_empty() {
        return Err(Failure::Input("Nothing could be read.".into()));
    }
    let (mut regions, left_out) = regions(&reads);
    let mut others_ns = Vec::new();
    if is_whole && !regions.is_empty() {
        let places: Vec<Range<usize>> = regions.iter().map(|region| region.rows.clone()).collect();
        let list = again(&places, reads.len(), plan.probe.seed);
        let offsets = list.iter().map(|&(_, row)| reads[row].offset).collect();
        let work = Work { order: Order::Listed, offsets, work_offset: 0, ..plan.probe.work.clone() };
        say!("latscope: {} regions are read again, among others", regions.len());
        let found = pass(&Probe { work, ..plan.probe.clone() }, &repeated, &signals, false)?;
        hung = found.hung;
        for (&(place, _), read) in list.iter().zip(&found.reads) {
            match place {
                None if read.result >= 0 => others_ns.push(read.latency_ns),
                Some(number) if read.result >= 0 => regions[number].again_ns.push(read.latency_ns),
                Some(number) => regions[number].failed_again += 1,
                None => {}
            }
        }
    }
    // Which are tested was decided by other reads.
    let tests = regions.len();
    regions.iter_mut().for_each(|region| region.slower = slower(&region.again_ns, &others_ns, tests));
    if left_out > 0 {
        say!("latscope: {left_out} more regions had a slow read, and were not read again");
    }
    let (slow, broken) = (
        regions.iter().filter(|region| region.slower.is_some()).count(),
        regions.iter().filter(|region| !region.failed.is_empty()).count(),
    );
    match plan.json {
        true => output::text(None, &escape_json(&json(plan, (&reads, hung), &regions)))?,
        false => table(plan, (&reads, is_whole), &regions)?,
    }
    let target = plan.probe.target.display();
    let hung = hung.map(|(offset, age_ns)| {
        let (offset, age) = (format_size_exact(offset), format_duration(age_ns));
        format!("the read at {offset} was not answered within {age}")
    });
    match (slow, broken, hung) {
        (0, 0, None) if is_whole => {
            say!("latscope: {target}: no region is slower than the others, and no read failed");
            Ok(())
        }
        (0, 0, None) => {
            say!("latscope: {target}: no read failed so far; which regions are slow is judged when all is read");
            Ok(())
        }
        (0, 0, Some(hung)) => Err(Failure::Exceeded(format!("{target}: {hung}."))),
        (_, _, hung) => Err(Failure::Exceeded(format!(
            "{target}: {slow} regions are slow, {broken} have errors{}.",
            hung.map_or_else(String::new, |hung| format!("; {hung}"))
        ))),
    }
}

/// Makes the reads of a probe into a trace; whether all of them, and where one hung.
fn pass(probe: &Probe, path: &Path, signals: &Signals, shows: bool) -> Result<Pass, Failure> {
    let mut capture = Capture::start(vec![probe.clone()]).map_err(|error| failure(&error))?;
    let size = capture.place(0).size;
    let mut trace = Trace::create(path, &capture)?;
    let (mut reads, mut more, mut shown, mut ended_ns) = (Vec::new(), true, 0, None);
    let (mut hung, mut said_ns) = (None, LONG_NS);
    while more && ended_ns.is_none_or(|ended_ns| capture.elapsed_ns() < ended_ns + GRACE_NS) {
        let mut taken = Vec::new();
        more = capture.poll(WAIT, &mut |_, samples| taken.extend_from_slice(samples));
        trace.write(capture.events(0, &taken))?;
        trace.flush_if_due()?;
        reads.extend(taken.iter().map(|sample| Read {
            offset: sample.offset,
            latency_ns: sample.latency_ns(),
            result: sample.result,
        }));
        let tenths = reads.last().filter(|_| size > 0).map_or(0, |last| last.offset * 10 / size);
        if shows && tenths > shown {
            shown = tenths;
            say!("latscope: {shown}0 % read");
        }
        let waits = capture.outstanding().first().map(|request| request.age_ns).filter(|&age_ns| age_ns >= LONG_NS);
        hung = waits.and_then(|age_ns| Some((place_of(probe, capture.made(0).checked_sub(1)?)?, age_ns)));
        said_ns = if hung.is_none() { LONG_NS } else { said_ns };
        if let Some((offset, age_ns)) = hung.filter(|&(_, age_ns)| age_ns >= said_ns) {
            said_ns = said_ns.saturating_mul(2);
            let (offset, age) = (format_size_exact(offset), format_duration(age_ns));
            say!("latscope: the read at {offset} has waited for {age}");
        }
        let is_over = signals.ended().is_some() || hung.is_some_and(|(_, age_ns)| age_ns >= HANGS_NS);
        if is_over && ended_ns.is_none() {
            capture.stop();
            ended_ns = Some(capture.elapsed_ns());
        }
    }
    trace.finish(&capture.finish(&mut |_, _| {}))?;
    Ok(Pass { reads, is_whole: ended_ns.is_none(), hung })
}

/// The offset of a read by its number.
fn place_of(probe: &Probe, number: u64) -> Option<u64> {
    let work = &probe.work;
    match work.order {
        Order::Listed => work.offsets.get(usize::try_from(number).ok()?).copied(),
        _ => Some(work.work_offset + number * work.size),
    }
}

/// What is read again, by offset, and how many more stretches were slow.
fn regions(reads: &[Read]) -> (Vec<Region>, usize) {
    // One that failed is as slow as the fastest, so that it is no suspect.
    let fastest = reads.iter().filter(|read| read.result >= 0).map(|read| read.latency_ns).min().unwrap_or(1);
    let latencies: Vec<u64> =
        reads.iter().map(|read| if read.result < 0 { fastest } else { read.latency_ns }).collect();
    let (mut found, left_out) = suspects(&latencies, MOST);
    let mut failed: Vec<Range<usize>> = Vec::new();
    for row in (0..reads.len()).filter(|&row| reads[row].result < 0) {
        match failed.last_mut() {
            Some(last) if last.end == row => last.end = row + 1,
            _ => failed.push(row..row + 1),
        }
    }
    // What is slow beside an error is a region of its own.
    found.retain(|rows| !reads[rows.clone()].iter().any(|read| read.result < 0));
    found.extend(failed);
    found.sort_by_key(|rows| rows.start);
    let region = |rows: Range<usize>| Region {
        failed: reads[rows.clone()].iter().map(|read| read.result).filter(|&result| result < 0).collect(),
        again_ns: Vec::new(),
        failed_again: 0,
        slower: None,
        rows,
    };
    (found.into_iter().map(region).collect(), left_out)
}

/// Count, p50, p99 and maximum of latencies, by nearest rank.
fn numbers(latencies: impl Iterator<Item = u64>) -> Option<[u64; 4]> {
    let mut sorted: Vec<u64> = latencies.collect();
    sorted.sort_unstable();
    let rank = |part: f64| sorted.get(((sorted.len() as f64 * part).ceil() as usize).saturating_sub(1)).copied();
    Some([sorted.len() as u64, rank(0.5)?, rank(0.99)?, rank(1.0)?])
}

/// Latencies of the reads that moved something.
fn moved(reads: &[Read]) -> impl Iterator<Item = u64> {
    reads.iter().filter(|read| read.result >= 0).map(|read| read.latency_ns)
}

/// The reads outside of these regions.
fn rest<'a>(reads: &[Read], regions: impl Iterator<Item = &'a Region> + Clone) -> Vec<Read> {
    let is_in = |row: usize| regions.clone().any(|region| region.rows.contains(&row));
    (0..reads.len()).filter(|&row| !is_in(row)).map(|row| reads[row]).collect()
}

/// `EIO, 2 of 3 reads`.
fn errors(region: &Region) -> String {
    let Some(name) = region.failed.first().and_then(|&result| error_name(i64::from(result))) else {
        return String::new();
    };
    format!("{} x {name}, again {}", region.failed.len(), region.failed_again)
}

fn table(plan: &Plan, (reads, is_whole): (&[Read], bool), regions: &[Region]) -> Result<(), Failure> {
    let titles = ["offset", "length", "reads", "p50", "p99", "max", "again p50", "slower", "errors"];
    let mut table = Table::new(titles.map(|title| (title, Align::Right)));
    let row = |first: String, length: String, latencies: Option<[u64; 4]>, more: [String; 3]| {
        let mut row = vec![first, length];
        let [count, times @ ..] = latencies.unwrap_or_default();
        row.push(format_count(count));
        row.extend(times.map(|ns| if count > 0 { format_duration(ns) } else { "-".into() }));
        row.extend(more);
        row
    };
    let is_named = |region: &&Region| region.slower.is_some() || !region.failed.is_empty();
    for region in regions.iter().filter(is_named) {
        let of_region = &reads[region.rows.clone()];
        let length = of_region.len() as u64 * plan.probe.work.size;
        let again = numbers(region.again_ns.iter().copied()).map_or("-".into(), |[_, p50, ..]| format_duration(p50));
        let slower = region.slower.map_or("-".into(), |factor| format!("{factor:.1}x"));
        table.push(row(
            format_size_exact(of_region[0].offset),
            format_size_exact(length),
            numbers(moved(of_region)),
            [again, slower, errors(region)],
        ));
    }
    let once = regions.iter().filter(|region| !is_named(region)).count();
    let rest = numbers(moved(&rest(reads, regions.iter().filter(is_named))));
    table.push(row("others".into(), String::new(), rest, Default::default()));
    let columns = output::columns(&None).max(120);
    let lines = [table.heading(columns)].into_iter().chain(table.take_lines(columns)).collect::<Vec<_>>();
    output::lines(None, lines)?;
    if once > 0 {
        let again = if is_whole { "were not slow again" } else { "were not read again" };
        say!("latscope: {once} more regions had a slow read and {again}");
    }
    Ok(())
}

fn json(plan: &Plan, (reads, hung): (&[Read], Option<(u64, u64)>), regions: &[Region]) -> String {
    let of = |reads: &[Read]| {
        let [count, p50, p99, max] = numbers(moved(reads)).unwrap_or_default();
        serde_json::json!({ "count": count, "p50_ns": p50, "p99_ns": p99, "max_ns": max })
    };
    let object = |region: &Region| {
        let of_region = &reads[region.rows.clone()];
        let mut object = of(of_region);
        object["start_bytes"] = of_region[0].offset.into();
        object["length_bytes"] = (of_region.len() as u64 * plan.probe.work.size).into();
        object["slower"] = region.slower.into();
        object["again_ns"] = region.again_ns.clone().into();
        object["errors"] = region.failed.len().into();
        object["errors_again"] = region.failed_again.into();
        object
    };
    let regions_json: Vec<serde_json::Value> = regions.iter().map(object).collect();
    let mut all = serde_json::json!({ "regions": regions_json, "others": of(&rest(reads, regions.iter())) });
    if let Some((offset, age_ns)) = hung {
        all["unanswered"] = serde_json::json!({ "start_bytes": offset, "age_ns": age_ns });
    }
    format!("{all:#}\n")
}
