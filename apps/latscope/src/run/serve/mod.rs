//! `latscope serve`: the page of `report`, live.

mod feed;
mod gate;
mod http;

use super::{report, reports};
use crate::Failure;
use crate::notes::WORDING;
use crate::plan::Serve;
use feed::Feed;
use gate::Gate;
use http::Server;
use latscope_capture_file::is_pipe;
use latscope_event::{Batch, Context, Field, FieldSet, Mask, Unfinished, Wait};
use latscope_pipeline::{Pipeline, cube_fields, describe};
use latscope_series::{CubeBuilder, CubeKey, CubeLimits};
use latscope_view_report::{ReportOptions, live_report};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// How often pages are sent what is new.
const TURN: Duration = Duration::from_secs(1);
/// Most combinations of attributes in a turn: a page that is open for long holds those of all turns.
const COMBINATIONS: usize = 1 << 12;

pub fn run(pipeline: &Pipeline, plan: &Serve) -> Result<(), Failure> {
    reports::ends_by_signal(pipeline.reading());
    report::refuse_stored(pipeline)?;
    let token = plan.needs_token.then(secret).transpose()?;
    let failed = |error: std::io::Error| Failure::Input(format!("The server cannot be started: {error}."));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(failed)?;
    let listener = runtime.block_on(TcpListener::bind(plan.listen)).map_err(|error| {
        Failure::Input(format!("--listen {}: {error}. Another port may be free: --listen 127.0.0.1:0.", plan.listen))
    })?;
    let address = listener.local_addr().map_err(failed)?;
    let options = ReportOptions {
        title: report::title(pipeline),
        wording: WORDING,
        filter: Some(pipeline.reading().filter_text()).filter(|text| !text.is_empty()),
        source: plan.source.clone(),
        traces: report::traces(pipeline),
        spots: Vec::new(),
        waiting: None,
        section: None,
    };
    let gate = Gate::new(address, &plan.hosts, token.clone());
    let (page, policy) = live_report(&options.title);
    let policy = policy.parse().map_err(|_| Failure::Input("The page has no content security policy.".into()))?;
    let server = Server::new(gate, page, policy, Feed::new(secret()?, options, plan.history_ns));
    let feed = server.feed();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            runtime.block_on(server.run(listener));
            // A silent pipe is read until its writer ends, which nobody waits for after the pages know of the end.
            if pipeline.reading().files.iter().any(|file| is_pipe(file)) {
                std::process::exit(0);
            }
        });
        say!("latscope: http://{address}/{}", token.map_or(String::new(), |token| format!("#k={token}")));
        let done = reader(pipeline, plan, &feed).run();
        feed.end();
        done
    })
}

fn reader<'a>(pipeline: &'a Pipeline, plan: &Serve, feed: &'a Feed) -> Reader<'a> {
    let keys = report::keys(pipeline, false);
    let limits = CubeLimits { width_ns: Some(plan.interval_ns), combinations: COMBINATIONS, ..CubeLimits::default() };
    let builder = CubeBuilder::new(&keys, limits);
    let turn = Turn { builder, contexts: Vec::new(), waiting: None, is_new: true };
    Reader { pipeline, feed, keys, limits, turn: Mutex::new(turn) }
}

/// Events that no turn has yet, and what is known of the traces.
struct Turn {
    builder: CubeBuilder,
    contexts: Vec<Context>,
    waiting: Option<Vec<Unfinished>>,
    is_new: bool,
}

/// What is read, and where it goes.
struct Reader<'a> {
    pipeline: &'a Pipeline,
    feed: &'a Feed,
    keys: Vec<CubeKey>,
    limits: CubeLimits,
    turn: Mutex<Turn>,
}

impl Reader<'_> {
    /// Reads until the end of everything, or a signal, and hands each turn to the feed. What was read stays to be looked at.
    fn run(&self) -> Result<(), Failure> {
        std::thread::scope(|scope| {
            let (ended, ends) = mpsc::channel::<()>();
            // A reading may wait for its input for longer than a turn.
            scope.spawn(move || {
                let mut published = Instant::now();
                while ends.recv_timeout(TURN / 10) == Err(mpsc::RecvTimeoutError::Timeout) {
                    if reports::interrupted().load(Ordering::Relaxed) {
                        return self.feed.end();
                    }
                    if published.elapsed() >= TURN {
                        self.publish();
                        published = Instant::now();
                    }
                }
            });
            let done = match self.pipeline.reading().live {
                Some(_) => self.capture(),
                None => self.files(),
            };
            while done.is_ok() && !reports::interrupted().load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
            }
            drop(ended);
            done
        })
    }

    fn files(&self) -> Result<(), Failure> {
        let mut trace = 0;
        let contexts = self.pipeline.each_batch(cube_fields(&self.keys), |context, batch, mask, starts| {
            trace += usize::from(starts);
            self.add(trace.saturating_sub(1), context, batch, mask);
            ControlFlow::<Failure>::Continue(())
        })?;
        let mut turn = self.turn();
        (turn.contexts, turn.is_new) = (contexts, true);
        Ok(())
    }

    fn capture(&self) -> Result<(), Failure> {
        // By its number, a waiting request is known for one of a disk, and described by its direction.
        let fields = cube_fields(&self.keys).union(FieldSet::EMPTY.with(&[Field::Dev]));
        let mut events = self.pipeline.capture(fields)?;
        let mut looked = Instant::now();
        let add = &mut |context: &Context, batch: &Batch, mask: Option<&Mask>| {
            self.add(0, context, batch, mask);
            ControlFlow::<Failure>::Continue(())
        };
        while !events.is_over() {
            events.poll(TURN / 10, add)?;
            if looked.elapsed() >= TURN {
                looked = Instant::now();
                events.waiting::<Failure>(&mut |_, batch, mask| {
                    let (mut turn, waiting) = (self.turn(), waiting(batch, mask));
                    // While a disk hangs, this is all that is new.
                    turn.is_new |= !waiting.is_empty() || turn.waiting.as_ref().is_some_and(|known| !known.is_empty());
                    turn.waiting = Some(waiting);
                    ControlFlow::Continue(())
                })?;
            }
        }
        let context = events.finish(add)?;
        let mut turn = self.turn();
        (turn.contexts, turn.is_new) = (vec![context], true);
        Ok(())
    }

    fn add(&self, trace: usize, context: &Context, batch: &Batch, mask: Option<&Mask>) {
        let mut turn = self.turn();
        turn.builder.start_trace(trace);
        turn.builder.add(context, batch, mask);
        match turn.contexts.get_mut(trace) {
            Some(known) => known.clone_from(context),
            None => turn.contexts.push(context.clone()),
        }
        turn.is_new = true;
    }

    fn publish(&self) {
        let mut turn = self.turn();
        if std::mem::take(&mut turn.is_new) {
            let mut builder = std::mem::replace(&mut turn.builder, CubeBuilder::new(&self.keys, self.limits));
            let (contexts, waiting) = (turn.contexts.clone(), turn.waiting.clone());
            drop(turn);
            builder.keep_common_values();
            self.feed.add(builder.finish(), contexts, waiting);
        }
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What waits for storage, of the rows that pass.
fn waiting(batch: &Batch, mask: Option<&Mask>) -> Vec<Unfinished> {
    let is_stall = |row: &usize| Wait::of_row(batch, *row) == Wait::Counts;
    let row = |row| Unfinished::from_row(describe(batch, row), Wait::Counts, batch, row);
    match mask {
        None => (0..batch.len()).filter(is_stall).map(row).collect(),
        Some(mask) => mask.ones().filter(is_stall).map(row).collect(),
    }
}

/// 128 random bits.
fn secret() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    got.map_err(|error| Failure::Input(format!("The kernel gives no random numbers: {error}.")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
