//! `latscope agent`.

mod check;
mod probe;
mod rights;

use self::rights::{Rights, keep_only};
use super::output::{self, Output};
use super::{push, reports};
use crate::Failure;
use crate::plan::Agent as Plan;
use latscope_capture_bpf::{Capabilities, Source, usual};
use latscope_capture_file::LatWriter;
use latscope_capture_probe::FILLS;
use latscope_event::{Anomaly, Batch, Context, FieldSet, Mask, format_count, format_duration, parse_duration};
use latscope_pipeline::{Intervals, Pipeline, keep_passing};
use latscope_series::HistogramSeries;
use latscope_wire::exports::{AgentState, Exporter, Passing, PushChange, Settings};
use latscope_wire::{Hello, Progress, Queue, Reducer, Sender, Usage, new_id};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

/// How long the hubs have for what is left at the end. Their disks may be busy; who does not want to wait presses Ctrl-C again.
const PATIENCE: Duration = Duration::from_secs(10);

pub fn run(pipeline: &Pipeline, plan: &Plan) -> Result<(), Failure> {
    if let Some(path) = plan.tee.as_ref().filter(|_| !plan.force) {
        output::refuse_existing(path)?;
    }
    let hello = hello(pipeline, plan)?;
    if plan.is_check {
        return check::run(pipeline, plan, &hello);
    }
    // What cannot be read now would not be found out before a reconnect.
    plan.credentials.client().map_err(|why| Failure::Input(format!("{why}.")))?;
    let hung_up = reports::hung_up();
    let clock_moved_ns = || moved_ns(plan);
    let opened = Queue::open(plan.queue.as_deref(), plan.queue_limits, plan.hubs.len(), &hello);
    let (queue, found) = opened.map_err(|error| {
        let folder = plan.queue.as_ref().map_or(String::new(), |folder| folder.display().to_string());
        Failure::Input(format!("{folder}: The queue cannot be read: {error}."))
    })?;
    if found > 0 {
        say!("latscope: queue: {} records of earlier runs", format_count(found as u64));
    }
    let exporter = exporter(plan, &hello)?;
    let is_over = AtomicBool::new(false);
    let exports_end = || is_over.load(Ordering::Relaxed);
    let tee_fields = tee_fields(pipeline, plan);
    let filtered = pipeline.reading().filter.as_ref().map_or(FieldSet::default(), |filter| filter.fields());
    let rights =
        Rights::needed(plan, plan.folding.by.iter().copied().collect::<FieldSet>().union(filtered).union(tee_fields));
    scope(|scope| {
        let (queue, hello, exporter) = (&queue, &hello, &exporter);
        let (clock_moved_ns, exports_end, files) = (&clock_moved_ns, &exports_end, rights.files);
        // A thread has the rights of the one that started it.
        scope.spawn(move || {
            keep_only(files);
            scope.spawn(|| queue.write());
            if let Some(exporter) = exporter {
                exporter.start(scope, exports_end, &push::report);
            }
            for (number, address) in plan.hubs.iter().enumerate() {
                let sender = Sender {
                    queue,
                    hub: number,
                    address,
                    credentials: &plan.credentials,
                    hello,
                    is_synchronised: &latscope_capture_bpf::clock_is_synchronised,
                    clock_moved_ns,
                };
                scope.spawn(move || {
                    sender.run(&|progress| match progress {
                        Progress::Connected => say!("latscope: {address}: connected"),
                        Progress::Lost(why) => say!("latscope: {address}: not connected: {why}; records are kept"),
                    });
                });
            }
        });
        let mut agent = Agent {
            queue,
            reducer: Reducer::new(hello.run, plan.width_ns, plan.most_groups),
            tee: None,
            plan,
            tee_fields,
            rights: Some(rights.capture).filter(|_| plan.probes.is_empty()),
            dropped: 0,
            failure: None,
            hung_up,
            exporter: exporter.as_ref().map(|exporter| (exporter, Passing::new(hello))),
        };
        if !plan.probes.is_empty() {
            // The threads that make requests have those of this one.
            keep_only(rights.files);
        }
        let done = probe::intervals(pipeline, plan, &mut agent);
        let done = done.and_then(|context| agent.finish(pipeline, context));
        queue.end(Instant::now() + PATIENCE);
        is_over.store(true, Ordering::Relaxed);
        if let Some(Err(why)) = exporter.as_ref().map(|exporter| exporter.end(&push::report)) {
            push::report(PushChange::Unwritten(why));
        }
        done
    })?;
    let left = (0..plan.hubs.len()).map(|hub| queue.backlog(hub)).max().unwrap_or(0);
    let left = format_count(left as u64);
    match plan.queue {
        _ if left == "0" => Ok(()),
        Some(_) => {
            say!("latscope: {left} records are not stored by every hub; the next run with this --queue sends them.");
            Ok(())
        }
        None => Err(Failure::Input(format!("{left} records were not sent and are lost; --queue FOLDER keeps them."))),
    }
}

/// What pushes, where something is pushed.
fn exporter(plan: &Plan, hello: &Hello) -> Result<Option<Exporter>, Failure> {
    if plan.exports.targets.is_empty() {
        return Ok(None);
    }
    let mut labels = plan.exports.labels.clone();
    if labels.iter().all(|(name, _)| name != "host") {
        labels.push(("host".into(), hello.host.clone()));
    }
    push::open(&Settings { labels, ..plan.exports.clone() }).map(Some)
}

/// The fields that are recorded beside the histograms.
fn tee_fields(pipeline: &Pipeline, plan: &Plan) -> FieldSet {
    match (&pipeline.reading().live, &plan.tee) {
        (Some(live), Some(_)) => usual(live.source),
        (None, Some(_)) => FILLS,
        _ => FieldSet::default(),
    }
}

fn hello(pipeline: &Pipeline, plan: &Plan) -> Result<Hello, Failure> {
    let own = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_string();
    let host = plan.name.clone().unwrap_or_else(own);
    if host.is_empty() {
        return Err(Failure::Usage("This host has no name; give --name.".into()));
    }
    let source = pipeline.reading().live.as_ref().map_or("probe", |live| match live.source {
        Source::Block => "block requests",
        Source::Io => "system calls that do I/O",
        Source::Syscall => "system calls",
        Source::Stacks(_) => "stacks",
        Source::Beside(..) => "requests and stacks",
    });
    Ok(Hello {
        run: new_id().map_err(|error| Failure::Input(format!("The kernel gives no random numbers: {error}.")))?,
        host,
        source: source.into(),
        filter: pipeline.reading().filter.as_ref().map(ToString::to_string).unwrap_or_default(),
        width_ns: plan.width_ns,
        fields: plan.folding.by.iter().map(|field| field.name().to_string()).collect(),
        is_wall: true,
    })
}

/// How far the clock is moved for a test, nanoseconds.
fn moved_ns(plan: &Plan) -> i64 {
    let text = plan.test_clock.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let (sign, time) = text.trim().strip_prefix('-').map_or((1, text.trim()), |time| (-1, time));
    parse_duration(time).map_or(0, |ns| sign * i64::try_from(ns).unwrap_or(0))
}

/// Takes intervals as they pass.
struct Agent<'a> {
    queue: &'a Queue,
    reducer: Reducer,
    tee: Option<LatWriter<Output>>,
    plan: &'a Plan,
    tee_fields: FieldSet,
    /// What is kept once everything is attached; `None`: all others were given up.
    rights: Option<Capabilities>,
    /// Records that the queue had no room for.
    dropped: u64,
    /// Why the disk of the queue took nothing when it was last looked at.
    failure: Option<String>,
    /// SIGHUP came.
    hung_up: &'a AtomicBool,
    exporter: Option<(&'a Exporter, Passing)>,
}

impl Agent<'_> {
    fn finish(self, pipeline: &Pipeline, mut context: Context) -> Result<(), Failure> {
        let Some(tee) = self.tee else { return Ok(()) };
        keep_passing(pipeline.reading(), &mut context);
        tee.finish(&context).and_then(Output::finish).map(drop).map_err(|error| Failure::output(&error))
    }

    /// Reports when the disk of the queue fails, and when it works again.
    fn look_at_disk(&mut self) {
        let failure = self.queue.failure();
        match (&self.failure, &failure) {
            (None, Some(why)) => say!("latscope: The queue cannot be written: {why}. 4 MiB are kept in memory."),
            (Some(_), None) => say!("latscope: The queue is written again."),
            _ => {}
        }
        self.failure = failure;
    }
}

impl Intervals for Agent<'_> {
    type Error = Failure;

    fn fields(&self) -> FieldSet {
        self.tee_fields
    }

    fn events(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) -> Result<(), Failure> {
        let Some(path) = &self.plan.tee else { return Ok(()) };
        let fail = |error: std::io::Error| Failure::output(&error);
        let tee = match &mut self.tee {
            Some(tee) => tee,
            // The first batch may be an empty one without the columns.
            None if batch.is_empty() => return Ok(()),
            none => {
                let out = output::open(Some(path))?.growing();
                none.insert(LatWriter::create(out, batch.fields(), context).map_err(fail)?)
            }
        };
        if batch.is_empty() { tee.flush_if_due().map_err(fail) } else { tee.write(batch, mask).map_err(fail) }
    }

    fn clock_stepped(&mut self, step_ns: i64) {
        let side = if step_ns < 0 { "back" } else { "forward" };
        say!("latscope: the wall clock was set {side} by {}", format_duration(step_ns.unsigned_abs()));
        self.reducer.clock_stepped();
        if let Some((_, passing)) = &mut self.exporter {
            passing.clock_stepped();
        }
    }

    fn passed(&mut self, series: &HistogramSeries, before: i64, context: &Context) -> Result<(), Failure> {
        if let Some(rights) = self.rights.take() {
            keep_only(rights);
        }
        if self.hung_up.swap(false, Ordering::Relaxed) {
            self.queue.reconnect();
        }
        self.dropped += self.queue.take_dropped();
        self.reducer.move_by(moved_ns(self.plan));
        let mut tally = context.tally.clone();
        tally.add(Anomaly::DroppedIntervals, self.dropped);
        if let Some((exporter, passing)) = &mut self.exporter {
            exporter.add(&passing.closed(series, before, &tally));
            let queue_bytes = (!self.plan.hubs.is_empty()).then(|| self.queue.fill().0);
            exporter.set_agent(AgentState { queue_bytes, usage: Usage::own() });
        }
        self.queue.push(self.reducer.records(series, before, &tally));
        self.look_at_disk();
        Ok(())
    }
}
