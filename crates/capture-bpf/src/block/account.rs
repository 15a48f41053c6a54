//! What both modes share: starting the programs, the context, and the account of losses.

use super::devices::{self, Stamp};
use super::layout::{BlockConfig, COUNTERS, Counter};
use super::waiting::{Row, Sight, Waiting, Wanted};
use crate::loader::{Loaded, MonotonicClock, Opened};
use crate::probe::{Kernel, read_trimmed};
use crate::{Error, Options, process};
use latscope_event::{Anomaly, Clock, Context, Field, Note, Tally};

/// A capture of block requests in the kernel.
pub struct Capture {
    pub loaded: Loaded,
    pub clock: MonotonicClock,
    pub context: Context,
    /// The programs that take stamps of our own, attached once the kernel's are missing.
    fallback: &'static [&'static str],
    needs: Stamp,
    waiting: Waiting,
    from_queue: bool,
    /// The program that sees completions.
    completes: &'static str,
    /// Since when our own stamps are taken.
    own_stamps_ns: Option<u64>,
    /// When the programs were stopped.
    ended_ns: Option<i64>,
    /// When requests began to count, by the clock of the kernel.
    pub started_ns: u64,
}

impl Capture {
    /// Loads and attaches. `always` is attached at once (completion before start, so that nothing is remembered whose
    /// end nobody sees), `fallback` when
    /// requests turn out not to have the stamp that is needed.
    pub fn start(
        kernel: &mut Kernel,
        mut opened: Opened,
        from_queue: bool,
        always: &[&'static str],
        (needs, fallback): (Stamp, &'static [&'static str]),
        mode: &str,
    ) -> Result<Capture, Error> {
        let mut programs: Vec<&str> = always.iter().chain(fallback).copied().collect();
        opened.set_entries("desks", 1)?;
        if always.contains(&"start_stacked") {
            programs.push("look_at_hung");
        } else {
            ["stack_desks", "returning", "hung"].iter().try_for_each(|map| opened.leave_out(map))?;
        }
        let mut loaded = opened.load(&programs)?;
        let waiting = Waiting::new(kernel, &loaded, from_queue);
        for program in always {
            loaded.attach(program)?;
        }
        let clock = MonotonicClock::measure();
        let mut context = Context::new("live block requests", Clock::wall());
        context.host = read_trimmed("/proc/sys/kernel/hostname");
        let mut property = |key: &str, value: String| context.properties.insert(key.to_owned(), value);
        property("kernel", kernel.release.clone());
        property("mode", mode.to_owned());
        property("clock_offset_start_ns", clock.offset_ns.to_string());
        property("kernel_memory_bytes", loaded.memory_bytes().to_string());
        kernel.lacks().for_each(|feature| context.note(Note::KernelLacks { feature }));
        context.properties.extend(devices::described());
        context.cover(clock.now_ns());
        let own_stamps_ns = always.iter().any(|name| name.starts_with("issue")).then(|| clock.now_stamp_ns());
        let completes = always.first().copied().unwrap_or_default();
        let started_ns = clock.now_stamp_ns();
        Ok(Capture {
            loaded,
            clock,
            context,
            fallback,
            needs,
            waiting,
            from_queue,
            completes,
            own_stamps_ns,
            ended_ns: None,
            started_ns,
        })
    }

    /// From here on requests count.
    pub fn run(&mut self) -> Result<(), Error> {
        if devices::disks().into_iter().any(|dev| devices::is_unstamped(dev, self.needs)) {
            self.attach_fallback()?;
        }
        self.started_ns = self.clock.now_stamp_ns();
        self.loaded.set_variable(".data.running", 1)
    }

    /// They go on to count; of so many fast requests in 2^32 the issuer is looked at.
    pub fn look_at_fast(&self, looks: u32) -> Result<(), Error> {
        self.loaded.set_variable(".data.running", looks.max(1))
    }

    /// From here on none do; the programs are detached.
    pub fn stop(&mut self) -> Result<(), Error> {
        // What completes from here on, while the programs are detached, nobody sees.
        self.ended_ns = Some(self.clock.now_ns());
        let stopped = self.loaded.set_variable(".data.running", 0);
        self.loaded.detach_all();
        let offset_ns = MonotonicClock::measure().offset_ns;
        self.context.properties.insert("clock_offset_end_ns".into(), offset_ns.to_string());
        stopped
    }

    /// Brings the account up to date; attaches what takes our own stamps when the kernel's turned out to be missing.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.clock.follow();
        let counts = self.loaded.counts::<COUNTERS>()?;
        let count = |counter: Counter| counts[counter as usize];
        let mut tally = Tally::default();
        tally.add(Anomaly::LostRecords, count(Counter::RingFull) + count(Counter::KeysFull));
        tally.add(Anomaly::LostRecords, self.loaded.misses_of(self.completes));
        tally.add(Anomaly::LostCompletion, count(Counter::UnseenEnd));
        tally.add(Anomaly::OrphanCompletion, count(Counter::Unstamped));
        tally.add(Anomaly::FailedUnissued, count(Counter::NeverIssued));
        tally.add(Anomaly::IssuerUnknown, count(Counter::NoIssuer));
        tally.add(Anomaly::PartialCompletion, count(Counter::Partial));
        tally.add(Anomaly::FlushParent, count(Counter::FlushParent));
        tally.add(Anomaly::ReversedStamps, count(Counter::Reversed));
        self.context.tally = tally;
        self.context.cover(self.ended_ns.unwrap_or_else(|| self.clock.now_ns()));
        for (key, counter) in [("own_stamps", Counter::OwnStamps), ("failed", Counter::Failed)] {
            if count(counter) > 0 {
                self.context.properties.insert(key.to_owned(), count(counter).to_string());
            }
        }
        if count(Counter::Unstamped) > 0 { self.attach_fallback() } else { Ok(()) }
    }

    /// Attaches the programs that take our own stamps.
    pub fn attach_fallback(&mut self) -> Result<(), Error> {
        self.loaded.set_variable(".data.fallback", 1)?;
        self.fallback.iter().try_for_each(|program| self.loaded.attach(program))?;
        self.own_stamps_ns.get_or_insert(self.clock.now_stamp_ns());
        Ok(())
    }

    /// Looks at what waits now; returns it as rows, and how to look at them.
    pub fn look<'a>(&'a mut self, wanted: Option<&'a Wanted>) -> Result<(&'a [Row], Sight<'a>), Error> {
        let now_ns = self.clock.now_stamp_ns();
        self.waiting.look(self.own_stamps_ns, now_ns)?;
        let (clock, from_queue) = (self.clock, self.from_queue);
        // What completed since the walk must not look older than it became.
        let (rows, now_ns) = (self.waiting.rows(), self.waiting.walked_ns());
        let sight = Sight { clock, now_ns, wanted, from_queue, from_issue: wanted.is_some() };
        self.context.unfinished = sight.unfinished(rows);
        Ok((rows, sight))
    }

    /// Whether a request that the device got at this moment is over although no program ran when it completed: the last
    /// look did not meet it.
    pub fn is_over(&self, request: u64, issue_ns: u64) -> bool {
        let met = || self.waiting.rows().iter().any(|row| row.request.request == request);
        issue_ns != 0 && self.waiting.would_know(issue_ns) && !met()
    }

    /// What `look` does, if that was not done within the last second.
    pub fn keep_looking(&mut self, wanted: Option<&Wanted>) -> Result<(), Error> {
        if self.waiting.is_due() { self.look(wanted).map(|_| ()) } else { Ok(()) }
    }
}

/// The configuration that `options` ask for.
pub fn config(options: &Options, events: bool) -> BlockConfig {
    let push_down = &options.push_down;
    let sample = options.sample;
    BlockConfig {
        min_latency_ns: push_down.min_latency_ns,
        slow_ns: sample.map_or(0, |sample| sample.slow_ns),
        wanted: super::letters::wanted(push_down),
        slow_stack_ns: options.stacks.requests.map_or(u64::MAX, |stacks| stacks.slow_ns),
        one_in: sample.map_or(0, |sample| sample.one_in),
        events: events.into(),
        from_queue: options.from_queue.into(),
        some_devices: 0,
        some_pids: (!push_down.pids.is_empty()).into(),
        some_comms: 0,
        issuer_at_issue: 0,
        power: 6,
        #[cfg(test)]
        ignore_stamps: IGNORE_STAMPS.get().into(),
        #[cfg(not(test))]
        ignore_stamps: 0,
        some_processes: 0,
        want_about: process::is_wanted(options.fields).into(),
        want_process: ([Field::Process, Field::Cmdline].iter().any(|&field| options.fields.contains(field))
            || !push_down.processes.is_empty())
        .into(),
        keys: 0,
        issue_one_in: options.stacks.requests.map_or(0, |stacks| stacks.issue_one_in),
        user_stacks: options.stacks.user_stacks.into(),
        pad: 0,
    }
}

#[cfg(test)]
thread_local! {
    /// Captures that are started by this thread do as if the kernel kept no stamps.
    pub static IGNORE_STAMPS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}
