//! `latscope hub`.

use super::{alerts, push, reports};
use crate::Failure;
use crate::plan::Hub as Plan;
use latscope_capture_file::SeriesTables;
use latscope_event::{format_count, format_duration};
use latscope_wire::alerts::{RulesFile, Watcher, check_deliveries};
use latscope_wire::exports::{Api, Extras, HubState, PushChange, Receiver};
use latscope_wire::{Address, Change, Hub, Listener, Storage};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// How often closed intervals are exported.
const TURN: Duration = Duration::from_millis(200);
/// How long the hub has for its end; connections, deliveries and exports have less.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often the state of the hub itself is exported.
const LOOK: Duration = Duration::from_secs(1);

pub fn run(plan: &Plan) -> Result<(), Failure> {
    let (hung_up, interrupted) = (reports::hung_up(), reports::interrupted());
    let rules = alerts::rules(plan.alerts.as_deref())?;
    check_deliveries(&rules).map_err(|why| Failure::Input(format!("Alerts: {why}")))?;
    let file = plan.alerts.clone().map(|path| RulesFile { path, read: &alerts::read });
    let storage = |folder: &PathBuf| Storage {
        folder: folder.clone(),
        file_time: plan.file_time,
        history: Some((plan.keep.clone(), Arc::new(SeriesTables))),
    };
    let opened = Hub::open(plan.limits, plan.data.as_ref().map(storage), &plan.credentials);
    let (hub, replayed) = opened.map_err(|why| Failure::Input(format!("{why}.")))?;
    if replayed.records + replayed.damaged > 0 {
        let damaged = match replayed.damaged {
            0 => String::new(),
            count => format!(", {} damaged parts skipped", format_count(count)),
        };
        say!("latscope: journal: {} records{damaged}", format_count(replayed.records));
    }
    let fail = |error: std::io::Error| Failure::Input(format!("--listen {}: {error}.", plan.listen));
    let listener = plan.listen.listen().map_err(fail)?;
    say!("latscope: listening on {}", listener.address().map_err(fail)?);
    let end = plan.for_time.map(|time| Instant::now() + time);
    let state = plan.data.as_ref().map(|folder| folder.join("alerts.json"));
    let watcher = Watcher::open(rules, file, &alerts::filters, state);
    let watcher = watcher.map_err(|why| Failure::Input(format!("Alerts: {why}")))?;
    let is_over = || {
        if hung_up.swap(false, Ordering::Relaxed) {
            hub.reload();
            watcher.reload();
        }
        interrupted.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end)
    };
    bound_end();
    let has_ended = AtomicBool::new(false);
    let report_both = |change: Change| {
        match &change {
            Change::Unwritten(why) => watcher.set_journal(Some(why.clone())),
            Change::Written => watcher.set_journal(None),
            _ => {}
        }
        report(change);
    };
    scope(|scope| {
        let (hub, watcher, has_ended) = (&hub, &watcher, &has_ended);
        scope.spawn(move || watcher.run(hub, &|| has_ended.load(Ordering::Relaxed), &alerts::report));
        let served = serve(plan, (hub, watcher), &listener, &is_over, &report_both);
        has_ended.store(true, Ordering::Relaxed);
        served
    })
}

/// Ends the program some time after it was told to: a disk that hangs would keep it for ever. What is not confirmed is sent again.
fn bound_end() {
    std::thread::spawn(|| {
        let interrupted = reports::interrupted();
        while !interrupted.load(Ordering::Relaxed) {
            sleep(TURN);
        }
        sleep(PATIENCE);
        say!(
            "latscope: The hub could not end within 20 s: the disk of --data, or a program, does not answer. It ends without; agents send again what was not confirmed."
        );
        std::process::exit(3);
    });
}

/// Serves agents, views and who scrapes, and pushes.
fn serve(
    plan: &Plan,
    (hub, watcher): (&Hub, &Watcher),
    listener: &Listener,
    is_over: &(dyn Fn() -> bool + Sync),
    report: &(dyn Fn(Change) + Sync),
) -> Result<(), Failure> {
    let fail = |what: &str, error: std::io::Error| Failure::Input(format!("{what}: {error}."));
    if plan.metrics.is_none() && plan.exports.targets.is_empty() {
        return hub.serve(listener, is_over, report).map_err(|error| fail(&format!("--listen {}", plan.listen), error));
    }
    let exporter = push::open(&plan.exports)?;
    let scraped = plan.metrics.as_ref().map(Address::listen).transpose().map_err(|error| fail("--metrics", error))?;
    if let Some(listener) = &scraped {
        let address = listener.address().map_err(|error| fail("--metrics", error))?;
        say!("latscope: metrics at {address}");
    }
    hub.keep_closed();
    let add = || hub.take_closed().iter().for_each(|closed| exporter.add(closed));
    // What was scraped before a restart may be newer than the state that was kept: the journal has it.
    hub.close();
    add();
    scope(|scope| {
        exporter.start(scope, is_over, &push::report);
        if let Some(listener) = &scraped {
            let exporter = &exporter;
            scope.spawn(move || {
                let active = || watcher.active();
                let refused = |why| push::report(PushChange::Refused(why));
                let (receiver, api) = (Receiver::new(hub, &refused), Api::new(hub, &active, &alerts::filters));
                exporter.serve(listener, Some(Extras { receiver: &receiver, api: &api }), is_over)
            });
        }
        scope.spawn(|| {
            let mut looked = None::<Instant>;
            while !is_over() {
                sleep(TURN);
                add();
                if looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
                    looked = Some(Instant::now());
                    exporter.set_state(&HubState::new(hub, watcher.active()));
                }
            }
        });
        let served = hub.serve(listener, is_over, report);
        add();
        if let Err(why) = exporter.end(&push::report) {
            push::report(PushChange::Unwritten(why));
        }
        served.map_err(|error| fail(&format!("--listen {}", plan.listen), error))
    })
}

fn report(change: Change) {
    match change {
        Change::Connected(host) => say!("latscope: {host}: connected"),
        Change::Left(host) => say!("latscope: {host}: ended"),
        Change::Lost(host, why) => say!("latscope: {host}: connection lost: {why}"),
        Change::Refused(host, why) => say!("latscope: {host}: refused: {why}"),
        Change::Missing(hosts) if hosts.is_empty() => say!("latscope: all hosts are in the last interval"),
        Change::Missing(hosts) => say!("latscope: missing: {}", hosts.join(", ")),
        Change::Clock(host, 0) => say!("latscope: {host}: its clock agrees with the clock of the hub again"),
        Change::Clock(host, offset_ns) => {
            let by = format_duration(offset_ns.unsigned_abs());
            let side = if offset_ns > 0 { "behind" } else { "ahead of" };
            say!("latscope: {host}: its clock is {by} {side} the clock of the hub");
        }
        Change::Stepped(step_ns) => {
            let side = if step_ns < 0 { "back" } else { "forward" };
            say!("latscope: the wall clock of the hub was set {side} by {}", format_duration(step_ns.unsigned_abs()));
        }
        Change::Reloaded => say!("latscope: certificates and tokens were read again"),
        Change::Unloaded(why) => say!("latscope: {why}. The certificates and tokens from before stay."),
        Change::Unwritten(why) => {
            say!("latscope: The journal cannot be written: {why}. Nothing is confirmed until it can be.");
        }
        Change::Uncompacted(why) => {
            say!("latscope: The journal cannot be compacted: {why}. It is kept, and compaction is tried again.");
        }
        Change::Removed(count) => {
            let tables = if count == 1 { "table" } else { "tables" };
            say!(
                "latscope: Less than 5% of the disk of --data is free: {} {tables} of the finest intervals were removed before their time. Use a larger disk, or keep less (--keep).",
                format_count(count)
            );
        }
        Change::Compacted => say!("latscope: The journal is compacted again."),
        Change::Written => say!("latscope: The journal is written again."),
    }
}
