//! What only happens on other kernels than the one that runs the tests.

#[allow(dead_code, reason = "the tests beside the crate use more of it")]
#[path = "../../tests/block/device.rs"]
mod device;

use super::account::IGNORE_STAMPS;
use super::devices::{self, Stamp};
use super::events::BlockEvents;
use super::histograms::BlockHistograms;
use super::layout::{BlockIssuer, OBJECT};
use crate::loader::{MonotonicClock, Opened, Raw};
use crate::probe::Kernel;
use crate::{Events, Histograms, Options, PushDown, Source};
use latscope_event::{Anomaly, Field, FieldSet};
use std::ops::ControlFlow;

/// The verifier sees other programs on kernels without BTF.
#[test]
fn raw_programs_load_and_run() {
    let Ok(mut kernel) = Kernel::look() else {
        skipped!("no right to capture here");
        return;
    };
    let options = Options { ring_bytes: 1 << 20, ..Options::new(Source::Block, FieldSet::EVERY) };
    let opened = || Opened::open(OBJECT).unwrap().with_raw_programs();
    let events = BlockEvents::start(&mut kernel, opened(), &options).unwrap();
    for from_queue in [false, true] {
        let options = Options { from_queue, ..options.clone() };
        BlockHistograms::start(&mut kernel, opened(), &options).unwrap();
    }
    let mut rows = 0;
    Box::new(events)
        .finish(&mut |_, batch| {
            rows += batch.len();
            ControlFlow::Continue(())
        })
        .unwrap();
    eprintln!("{rows} events meanwhile");
}

/// Where the kernel keeps no stamps at all, ours are taken as soon as that is noticed, and nothing stays behind.
#[test]
fn own_stamps_replace_those_of_the_kernel() {
    let Some(_alone) = device::alone() else { return };
    IGNORE_STAMPS.set(true);
    let device = device::LoopDevice::new();
    let push_down = PushDown { devices: vec![device.name.clone()], ..PushDown::default() };
    let options = Options { ring_bytes: 1 << 20, push_down, ..Options::new(Source::Block, FieldSet::EVERY) };
    let expected = devices::disks().into_iter().any(|dev| devices::is_unstamped(dev, Stamp::Issue));
    let mut events = super::events(&options).unwrap();
    let mut counted = super::histograms(&options).unwrap();
    let count_of = |counted: &mut Box<dyn Histograms>| -> u64 {
        let taken = counted.take().unwrap();
        let own = |key| counted.keys().text(Field::Device, key) == Some(&device.name);
        taken.iter().filter(|taken| own(taken.key)).map(|taken| taken.histogram.totals().count).sum()
    };
    device.load(5);
    events.refresh().unwrap();
    counted.refresh().unwrap();
    let missed = events.context().tally.get(Anomaly::OrphanCompletion);
    assert_eq!(missed, 0, "events have stamps of their own from the start");
    let missed = counted.context().tally.get(Anomaly::OrphanCompletion);
    // The kernel counts what it misses of all disks together, of which others may be busy.
    let own = count_of(&mut counted);
    assert!(missed >= 20 && own == 0 || expected && own == 20, "{missed} missed, {own} counted");
    device.load(5);
    let (mut rows, mut sum) = (0, 0);
    let context = events
        .finish(&mut |_, batch| {
            rows += batch.len();
            sum += batch.latency().iter().sum::<u64>();
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((rows, count_of(&mut counted)), (40, 20));
    let (from_ns, to_ns) = context.span_ns.unwrap();
    assert!(sum > 0 && sum < (to_ns - from_ns) as u64, "one at a time");
    assert_eq!(context.tally.get(Anomaly::Unfinished), 0);
    assert_eq!(context.properties["own_stamps"], "40");
}

/// A request that completed where no program runs stays in the table. It does not wait: no tag is its own.
#[test]
fn what_completed_unseen_does_not_wait() {
    let Ok(mut kernel) = Kernel::look() else {
        skipped!("no right to capture here");
        return;
    };
    let options = Options { ring_bytes: 1 << 20, ..Options::new(Source::Block, FieldSet::EVERY) };
    let mut events = BlockEvents::start(&mut kernel, Opened::open(OBJECT).unwrap(), &options).unwrap();
    let mut issuer = BlockIssuer::read(&[]);
    (issuer.dev, issuer.pid) = (devices::number_of(4095, 7), 1);
    issuer.start_ns = MonotonicClock::measure().now_stamp_ns() - 2_000_000_000;
    issuer.issue_ns = issuer.start_ns + 1;
    events.leave_behind(u64::MAX - 8, &issuer);
    let is_it = |name: &str| name.starts_with("4095:7");
    let waiting = events.waiting().unwrap();
    assert!((0..waiting.len()).all(|row| !waiting.text(Field::Device, row).is_some_and(is_it)));
    events.refresh().unwrap();
    assert!(events.context().unfinished.iter().all(|unfinished| !is_it(&unfinished.what)));
    let context = Box::new(events).finish(&mut |_, _| ControlFlow::Continue(())).unwrap();
    assert!(context.unfinished.iter().all(|unfinished| !is_it(&unfinished.what)));
    assert!(context.tally.get(Anomaly::LostCompletion) >= 1, "its end was not seen");
}

/// The statistics of the disk know of requests whose completion no program saw.
#[test]
fn histograms_say_how_many_requests_they_lack() {
    let Some(_alone) = device::alone() else { return };
    let device = device::LoopDevice::new();
    let push_down = PushDown { devices: vec![device.name.clone()], ..PushDown::default() };
    let options = Options { push_down, ..Options::new(Source::Block, FieldSet::EVERY) };
    let mut kernel = Kernel::look().unwrap();
    let mut counted = BlockHistograms::start(&mut kernel, Opened::open(OBJECT).unwrap(), &options).unwrap();
    let stat = || -> u64 {
        let text = std::fs::read_to_string(format!("/sys/block/{}/stat", device.name)).unwrap();
        let fields: Vec<u64> = text.split_whitespace().map(|field| field.parse().unwrap()).collect();
        fields[0] + fields[4] + fields[11]
    };
    let mut lacking = |sees: bool| {
        counted.see(sees);
        let before = stat();
        device.load(5);
        let made = stat() - before;
        let taken = counted.take().unwrap();
        let of_disk = |key| counted.keys().text(Field::Device, key) == Some(&device.name);
        let counts: u64 =
            taken.iter().filter(|taken| of_disk(taken.key)).map(|taken| taken.histogram.totals().count).sum();
        counted.refresh().unwrap();
        (made, counts, counted.context().tally.get(Anomaly::Uncounted))
    };
    // Where the machine itself hides completions, those lack too.
    let (made, counts, first) = lacking(true);
    assert!(made > 0 && first == made.saturating_sub(counts), "{made} made, {counts} counted, {first} uncounted");
    let (made, counts, all) = lacking(false);
    assert_eq!((counts, all), (0, first + made));
}

/// The statistics of the disk count the parents of flushes as writes: they were not lost.
#[test]
fn parents_of_flushes_are_not_lost() {
    let Some(_alone) = device::alone() else { return };
    let device = device::LoopDevice::new();
    let push_down = PushDown { devices: vec![device.name.clone()], ..PushDown::default() };
    let options = Options { push_down, ..Options::new(Source::Block, FieldSet::EVERY) };
    let mut kernel = Kernel::look().unwrap();
    let mut counted = BlockHistograms::start(&mut kernel, Opened::open(OBJECT).unwrap(), &options).unwrap();
    let written = || -> u64 {
        let text = std::fs::read_to_string(format!("/sys/block/{}/stat", device.name)).unwrap();
        text.split_whitespace().nth(4).unwrap().parse().unwrap()
    };
    let before = written();
    for _ in 0..5 {
        let target = format!("of={}", device.path);
        let words = ["if=/dev/zero", &target, "bs=4k", "count=1", "oflag=direct", "conv=notrunc,fsync"];
        assert!(std::process::Command::new("dd").args(words).output().unwrap().status.success());
    }
    let made = written() - before;
    let taken = counted.take().unwrap();
    let is_write = |key| {
        let text = |field| counted.keys().text(field, key);
        text(Field::Device) == Some(&device.name) && text(Field::Kind) == Some("write")
    };
    let counts: u64 =
        taken.iter().filter(|taken| is_write(taken.key)).map(|taken| taken.histogram.totals().count).sum();
    counted.refresh().unwrap();
    let tally = &counted.context().tally;
    let (parents, uncounted) = (tally.get(Anomaly::FlushParent), tally.get(Anomaly::Uncounted));
    eprintln!("{made} writes, {counts} counted, {parents} parents of flushes, {uncounted} uncounted");
    assert!(parents >= 5 && made > counts);
    assert_eq!(uncounted, made.saturating_sub(counts + parents));
}
