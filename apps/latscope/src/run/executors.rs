//! `latscope spark --sample`, and the same beside `lab spark`: what the control groups of executors count, once a second.

use super::{output, reports};
use crate::Failure;
use crate::plan::SparkSample as Plan;
use latscope_event::format_count;
use latscope_pipeline::{Executor, Executors, OwnGroups, now_ns};
use latscope_series::spark::UsageRow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The time from sample to sample.
const EVERY: Duration = Duration::from_secs(1);
/// How often a signal is looked for.
const TURN: Duration = Duration::from_millis(50);

/// Runs until Ctrl-C, or for a time.
pub fn run(plan: &Plan) -> Result<(), Failure> {
    let is_over = reports::interrupted();
    let for_ = plan.for_ns.map(Duration::from_nanos);
    say!("latscope: sampling the control groups of executors on this machine; Ctrl-C ends it");
    let sampled = sample(&plan.output, None, false, &|since| {
        is_over.load(Ordering::Relaxed) || for_.is_some_and(|for_| since >= for_)
    })?;
    match sampled {
        0 => Err(Failure::Input(format!(
            "{}: No executor of Spark ran on this machine meanwhile, so there is no sample. Executors are processes with --executor-id among their arguments.",
            plan.output.display()
        ))),
        executors => {
            let plural = if executors == 1 { "" } else { "s" };
            let count = format_count(executors as u64);
            say!("latscope: {}: samples of {count} executor{plural}", plan.output.display());
            Ok(())
        }
    }
}

/// Samples executors until it shall end, and returns how many there were. With `only`, those that have it among their arguments; set
/// apart, each in a control group of its own.
fn sample(
    path: &Path,
    only: Option<&str>,
    sets_apart: bool,
    is_over: &dyn Fn(Duration) -> bool,
) -> Result<usize, Failure> {
    let fail = |error: std::io::Error| Failure::Input(format!("{}: Cannot be written: {error}.", path.display()));
    let mut out = output::open(Some(path))?.growing();
    writeln!(out, "{}", UsageRow::header()).map_err(fail)?;
    let executors = Executors::new(Path::new("/"), only);
    let (mut own, mut known) = (BTreeMap::<u32, Option<OwnGroups>>::new(), BTreeSet::new());
    let (start, mut next) = (Instant::now(), Instant::now());
    loop {
        let ends = is_over(start.elapsed());
        if ends || Instant::now() >= next {
            let found = executors.find();
            for executor in &found {
                if sets_apart {
                    own.entry(executor.pid).or_insert_with(|| apart(&executors, executor));
                }
                let Some(row) = executors.sample(executor, now_ns()) else { continue };
                writeln!(out, "{}", row.line()).map_err(fail)?;
                known.insert((executor.app.clone(), executor.id.clone()));
            }
            out.flush().map_err(fail)?;
            // What an executor did before it was set apart is not in its group, so the first ones are looked for more often.
            next = Instant::now() + if found.is_empty() && sets_apart { EVERY / 10 } else { EVERY };
        }
        if ends {
            out.finish().map_err(fail)?;
            return Ok(known.len());
        }
        thread::sleep(TURN);
    }
}

fn apart(executors: &Executors, executor: &Executor) -> Option<OwnGroups> {
    let name = format!("latscope-{}-{}", executor.id, executor.pid);
    match executors.set_apart(executor, &name) {
        Ok(own) => Some(own),
        Err(error) => {
            say!("latscope: executor {} stays in the control group that it has: {error}", executor.id);
            None
        }
    }
}

/// Samples beside a turn of the lab.
pub struct Sampling {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<usize, Failure>>,
}

impl Sampling {
    /// Starts it, for executors that have these words among their arguments.
    pub fn start(path: PathBuf, only: String) -> Sampling {
        let is_over = Arc::<AtomicBool>::default();
        let flag = Arc::clone(&is_over);
        let thread = thread::spawn(move || sample(&path, Some(&only), true, &|_| flag.load(Ordering::Relaxed)));
        Sampling { is_over, thread }
    }

    /// Ends it; returns whether there was an executor.
    pub fn finish(self) -> Result<bool, Failure> {
        self.is_over.store(true, Ordering::Relaxed);
        let sampled = self.thread.join();
        sampled.map_or(Ok(false), |sampled| sampled.map(|executors| executors > 0))
    }
}
