//! The programs at work: configured, attached, and their account.

use super::lottery::Lottery;
use super::pace::Pace;
use super::places::LEFT_OUT;
use super::shared::{CALLS, COUNTS, Config, Count, NO_THRESHOLD, OBJECT, call, place};
use crate::loader::{Loaded, MonotonicClock, Opened};
use crate::probe::{Kernel, read_trimmed};
use crate::wanted::Wanted;
use crate::{Error, Options, PushDown, StackKinds};
use latscope_event::kernel::{ASYNC_WAITS, FdFrom, Machine, call_shape};
use latscope_event::{Anomaly, Clock, Context, Field, LossRange, Note};
use libbpf_rs::{Link, MapType};
use std::time::{Duration, Instant};

/// What stands in a file of its own for each map or program is asked so seldom: reading all of them costs as much as looking at a hundred
/// threads.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// Attached programs.
pub struct Programs {
    pub loaded: Loaded,
    pub clock: MonotonicClock,
    pub context: Context,
    /// Since when events count, by the clock of the kernel.
    pub started_ns: u64,
    /// Short waits and their time before that.
    short_before: [u64; 2],
    /// Whether a thread shows its user stack when it returns from a wait that was timed.
    pub sees_returns: bool,
    sampler: Link,
    threshold_ns: u64,
    /// Whose waits are timed, in words.
    threads: String,
    calls: [u8; CALLS],
    lost: u64,
    refreshed_ns: i64,
    /// What the maps occupy, how often a program did not run, and when that was asked.
    asked: Option<(Instant, [u64; 2])>,
    /// As the programs have it.
    drawn: Option<u32>,
    /// When the programs were stopped.
    ended_ns: Option<i64>,
}

fn config(options: &Options, kinds: StackKinds, places: u32) -> Config {
    let (push_down, how) = (&options.push_down, &options.stacks);
    let any = |list: &[Field]| list.iter().any(|&field| options.fields.contains(field));
    let machine = Machine::from_arch(std::env::consts::ARCH);
    let mut calls = [0; CALLS];
    for (number, bits) in calls.iter_mut().enumerate() {
        let Some(name) = machine.syscall(number as u32) else { continue };
        if call_shape(name.as_bytes()).fd == FdFrom::Argument {
            *bits |= call::FD;
        }
        if ASYNC_WAITS.contains(&name) {
            *bits |= call::ASYNC;
        }
    }
    Config {
        threshold_ns: if kinds.off_cpu { how.off_cpu_ns } else { NO_THRESHOLD },
        threads: Wanted::new(push_down),
        user_stacks: u32::from(how.user_stacks),
        all_threads: u32::from(how.all_threads || kinds.off_cpu),
        copies: how.copies.saturating_mul(2),
        want_file: u32::from(any(&[
            Field::Path,
            Field::FdType,
            Field::Device,
            Field::Dev,
            Field::DiskModel,
            Field::Rotational,
        ])),
        places,
        pad: 0,
        calls,
    }
}

/// Which threads the programs look at: `pid in (5, 7) and comm = dd`; nothing for all.
fn in_words(push_down: &PushDown) -> String {
    let tested = Wanted::new(push_down);
    let pids: Vec<String> = push_down.pids.iter().map(u32::to_string).collect();
    let lists = [
        ("pid", &pids, tested.pids_len),
        ("comm", &push_down.comms, tested.comms_len),
        ("process", &push_down.processes, tested.processes_len),
    ];
    let lists = lists.into_iter().filter(|&(.., len)| len > 0);
    let lists = lists.map(|(name, list, _)| match &list[..] {
        [one] => format!("{name} = {one}"),
        several => format!("{name} in ({})", several.join(", ")),
    });
    let containers = push_down.containers.is_some().then(|| "a selected container".to_string());
    lists.chain(containers).collect::<Vec<_>>().join(" and ")
}

impl Programs {
    /// Loads and attaches; `places` are what the keys of what is left out are.
    pub fn start(options: &Options, kinds: StackKinds, places: u32) -> Result<Programs, Error> {
        let kernel = Kernel::look()?;
        kernel.need_btf()?;
        kernel.need_map(MapType::TaskStorage)?;
        let mut programs = vec!["sample"];
        if kinds.off_cpu {
            if kernel.tracepoint_arguments("sched_switch") != Some(4) {
                return Err(Error::Unsupported(format!(
                    "Waits are timed by the scheduler's own tracepoint, whose form in {} is not known; use -s stacks.",
                    kernel.release
                )));
            }
            programs.push("switched");
        }
        if kinds.on_cpu {
            programs.push("tick");
        }
        let can_return = kernel.has_function("bpf_task_work_schedule_resume_impl");
        let sees_returns = kinds.off_cpu && options.stacks.user_stacks && can_return;
        let mut opened = Opened::open_single(OBJECT)?;
        let config = config(options, kinds, places);
        opened.configure(&config)?;
        if places != place::NONE {
            opened.set_entries("left_out", LEFT_OUT)?;
        }
        let smallest = Options::RING_BYTES.min(1 << 20);
        opened.set_entries("events", options.ring_bytes.max(smallest).next_power_of_two())?;
        let mut loaded = opened.load(&programs)?;
        let sampler = loaded.iterator("sample")?;
        let clock = MonotonicClock::measure();
        let mut context = Context::new(format!("live {}", kinds.words()), Clock::wall());
        context.host = read_trimmed("/proc/sys/kernel/hostname");
        for (key, value) in [
            ("kernel", kernel.release.clone()),
            ("clock_offset_start_ns", clock.offset_ns.to_string()),
            ("excluded", format!("our own process, {}", std::process::id())),
        ] {
            context.properties.insert(key.into(), value);
        }
        kernel.lacks().for_each(|feature| context.note(Note::KernelLacks { feature }));
        if kinds.off_cpu && options.stacks.user_stacks {
            let how = if can_return { "of all waits, taken when they end" } else { "only of those that were sampled" };
            context.properties.insert("stacks.user_of_waits".into(), how.into());
        }
        if kinds.off_cpu {
            loaded.attach("switched")?;
            // The sampler counts in the scheduler's clock, which the programs know from the first switch on: this one.
            std::thread::sleep(Duration::from_millis(1));
        }
        if kinds.on_cpu {
            super::timer::attach(&mut loaded, "tick", options.stacks.on_cpu_hz)?;
        }
        let now_ns = clock.now_ns();
        context.cover(now_ns);
        Ok(Programs {
            loaded,
            clock,
            context,
            started_ns: clock.now_stamp_ns(),
            short_before: [0; 2],
            sees_returns,
            sampler,
            threshold_ns: config.threshold_ns,
            threads: in_words(&options.push_down),
            calls: config.calls,
            lost: 0,
            refreshed_ns: now_ns,
            asked: None,
            drawn: None,
            ended_ns: None,
        })
    }

    /// From here on events count: attaching programs, and reading the names of all that runs, takes a while.
    pub fn begin(&mut self) -> Result<(), Error> {
        let counts = self.loaded.counts::<COUNTS>()?;
        self.short_before = [Count::Short, Count::ShortNs].map(|count| counts[count as usize]);
        self.started_ns = self.clock.now_stamp_ns();
        self.refreshed_ns = self.clock.now_ns();
        self.context.span_ns = Some((self.refreshed_ns, self.refreshed_ns));
        self.context.begun_before_ns = vec![self.clock.unix_ns(self.started_ns)];
        Ok(())
    }

    /// Has the sampler look at all threads; what it finds is in the ring then. Of 2^32 user stacks it copies so many.
    pub fn pass(&mut self, drawn: u32) -> Result<(), Error> {
        if self.drawn != Some(drawn) {
            self.loaded.set_variable(".data.drawn", drawn)?;
            self.drawn = Some(drawn);
        }
        self.loaded.set_variable(".data.copied", 0)?;
        self.loaded.run_iterator(&self.sampler)
    }

    /// Whether a call waits for completions of requests that its thread handed in before.
    pub fn is_async(&self, number: i32) -> bool {
        usize::try_from(number).is_ok_and(|number| self.calls.get(number).is_some_and(|bits| bits & call::ASYNC != 0))
    }

    /// Brings the account up to date.
    /// `timed_ns`: the sum of the waits that became events.
    pub fn account(
        &mut self,
        pace: Option<&Pace>,
        lottery: &Lottery,
        unknown: u64,
        timed_ns: u64,
    ) -> Result<(), Error> {
        if self.clock.follow() {
            self.context.count_begun_from(self.clock.unix_ns(self.started_ns));
        }
        let mut counts = self.loaded.counts::<COUNTS>()?;
        for (count, before) in [Count::Short, Count::ShortNs].into_iter().zip(self.short_before) {
            counts[count as usize] -= before;
        }
        let of = |count: Count| counts[count as usize];
        let recent = self.asked.filter(|(asked, _)| self.ended_ns.is_none() && asked.elapsed() < ASK_EVERY);
        let ask = || (Instant::now(), [self.loaded.memory_bytes(), self.loaded.recursion_misses()]);
        let (_, [memory_bytes, misses]) = *self.asked.insert(recent.unwrap_or_else(ask));
        let tally = &mut self.context.tally;
        *tally = Default::default();
        let lost = of(Count::RingFull) + of(Count::Unknown);
        tally.add(Anomaly::LostRecords, lost + misses);
        tally.add(Anomaly::ProcessGone, unknown);
        let now_ns = self.ended_ns.unwrap_or_else(|| self.clock.now_ns());
        let newly_lost = lost.saturating_sub(self.lost);
        if newly_lost > 0 && self.context.loss_ranges.len() < Context::LOSS_RANGES_KEPT {
            let range = LossRange { start_ns: self.refreshed_ns, end_ns: now_ns, cpu: None, records: newly_lost };
            self.context.loss_ranges.push(range);
        }
        self.lost = lost;
        self.refreshed_ns = now_ns;
        self.context.cover(now_ns);
        let mut property = |key: &str, value: u64| {
            self.context.properties.insert(key.into(), value.to_string());
        };
        property("stacks.copied_bytes", of(Count::Copied));
        property("stacks.short_waits", of(Count::Short));
        property("stacks.short_wait_ns", of(Count::ShortNs));
        property("stacks.locked", of(Count::Locked));
        property("stacks.threads_looked_at", of(Count::Seen));
        property("stacks.left_out", of(Count::LeftOut));
        property("kernel_memory_bytes", memory_bytes);
        if of(Count::Short) > 0 {
            let (below_ns, count, time_ns) = (self.threshold_ns, of(Count::Short), of(Count::ShortNs));
            self.context.notes.retain(|note| !matches!(note, Note::ShortWaits { .. }));
            let threads = Some(self.threads.clone());
            self.context.note(Note::ShortWaits { below_ns, count, time_ns, of_ns: time_ns + timed_ns, threads });
        }
        if let Some(pace) = pace
            && let [Some([median_ns, p95_ns, longest_ns]), parts] = pace.quantiles()
        {
            let note = Note::Sampling {
                asked_ns: pace.asked_ns(),
                median_ns,
                p95_ns,
                longest_ns,
                passes: pace.passes,
                skipped: pace.skipped(),
                parts_ns: parts.map_or(0, |[_, p95_ns, _]| p95_ns),
                capped: of(Count::Capped),
                drawn: lottery.kept,
                left_out: lottery.left_out,
                moved: of(Count::Moved),
            };
            self.context.notes.retain(|note| !matches!(note, Note::Sampling { .. }));
            self.context.note(note);
        }
        Ok(())
    }

    /// Detaches all programs.
    pub fn stop(&mut self) {
        self.ended_ns = Some(self.clock.now_ns());
        self.loaded.detach_all();
        let offset_ns = MonotonicClock::measure().offset_ns;
        self.context.properties.insert("clock_offset_end_ns".into(), offset_ns.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_named_by_what_is_tested_of_them() {
        let of = |pids: &[u32], comms: usize| {
            let comms = (0..comms).map(|number| format!("dd{number}")).collect();
            in_words(&PushDown { pids: pids.into(), comms, ..PushDown::default() })
        };
        assert_eq!(of(&[], 0), "");
        assert_eq!(of(&[5], 0), "pid = 5");
        assert_eq!(of(&[5, 7], 1), "pid in (5, 7) and comm = dd0");
        assert_eq!(of(&[], 9), "", "a list that is too long is not tested in the kernel");
    }
}
