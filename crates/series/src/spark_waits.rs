//! What the tasks of a Spark application waited for, by what the kernels of its hosts saw meanwhile: the remainder of their run time in
//! parts.
//!
//! A process is an executor by its arguments, and the thread that runs tasks is known by its name. A wait of such a thread belongs to the
//! task that ran on the executor then; where several did, to each of them in equal shares, as the log does not name threads.

use latscope_event::{Batch, Field, FieldSet, MISSING_CODE, MISSING_I64, MISSING_U64};
use std::collections::{BTreeMap, HashMap};

/// What the kernel calls a thread that runs tasks: the first letters of "Executor task launch worker".
const TASK_THREAD: &str = "Executor task l";
/// Waits for a device or a file system, by their class.
const DISK: [&str; 33] = [
    "direct read",
    "direct write",
    "direct I/O of others",
    "page-cache miss",
    "mmap fault",
    "swap in",
    "metadata read",
    "page lock",
    "page under writeback",
    "fsync data",
    "fsync metadata",
    "journal commit",
    "journal space",
    "journal buffer",
    "device flush",
    "discard",
    "sync",
    "device queue full",
    "writeback throttle",
    "io.latency throttle",
    "io.cost throttle",
    "cgroup I/O delay",
    "dirty throttle",
    "device command",
    "frozen file system",
    "device mapper",
    "libaio",
    "io_uring",
    "other block I/O",
    "NFS",
    "SMB",
    "FUSE",
    "Ceph",
];
/// A longer chain of parents is not followed.
const ANCESTORS: usize = 8;

/// What a task waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SparkWait {
    /// A device or a file system.
    Disk,
    /// A CPU, which others had.
    RunQueue,
    /// Its Python worker, whatever that did.
    Python,
    /// A socket with anything else at its other end.
    Network,
    /// Locks, timers, pipes to other programs and other threads of the executor, less GC and fetch wait, which Spark counts.
    Other,
}

impl SparkWait {
    /// All of them, in the order of [`SparkWaitSums::waits_ns`].
    pub const ALL: [SparkWait; 5] =
        [SparkWait::Disk, SparkWait::RunQueue, SparkWait::Python, SparkWait::Network, SparkWait::Other];

    /// Its name in JSON, without a unit.
    pub fn name(self) -> &'static str {
        match self {
            SparkWait::Disk => "disk",
            SparkWait::RunQueue => "run_queue",
            SparkWait::Python => "python",
            SparkWait::Network => "network",
            SparkWait::Other => "other_waits",
        }
    }
}

/// What tasks waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SparkWaitSums {
    /// How many there are.
    pub tasks: u64,
    /// Run time that Spark does not explain, nanoseconds.
    pub remainder_ns: u64,
    /// By kind of wait, in the order of [`SparkWait::ALL`], nanoseconds.
    pub waits_ns: [u64; SparkWait::ALL.len()],
    /// Of what remains, at most this time passed while nothing was recorded of their executor, nanoseconds.
    pub unrecorded_ns: u64,
    /// How many of them ran while nothing was recorded of their executor, in whole or in part.
    pub unrecorded_tasks: u64,
    /// What they read from block devices, bytes.
    pub read_bytes: u64,
}

impl SparkWaitSums {
    /// Time of this kind, nanoseconds.
    pub fn get(&self, wait: SparkWait) -> u64 {
        self.waits_ns[wait as usize]
    }

    /// The remainder without all waits, and without the time that was not recorded: shorter waits than were recorded, native threads,
    /// what the clocks round, nanoseconds.
    pub fn unexplained_ns(&self) -> u64 {
        self.remainder_ns.saturating_sub(self.all_waits_ns()).saturating_sub(self.unrecorded_ns)
    }

    /// Waits beyond the remainder: in time that Spark counts as GC, fetch wait or shuffle write, or of another task that ran on the
    /// executor at the same time, nanoseconds. Remainder and excess are all waits and what is unexplained.
    pub fn excess_ns(&self) -> u64 {
        self.all_waits_ns().saturating_sub(self.remainder_ns)
    }

    fn all_waits_ns(&self) -> u64 {
        self.waits_ns.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }

    pub(crate) fn merge(&mut self, other: &SparkWaitSums) {
        self.tasks += other.tasks;
        self.remainder_ns += other.remainder_ns;
        self.waits_ns.iter_mut().zip(other.waits_ns).for_each(|(sum, more)| *sum += more);
        self.unrecorded_ns += other.unrecorded_ns;
        self.unrecorded_tasks += other.unrecorded_tasks;
        self.read_bytes += other.read_bytes;
    }
}

/// A task and what it waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparkTaskWaits {
    /// Its number.
    pub task: i64,
    /// Stage and attempt.
    pub stage: (i64, i64),
    /// Its executor.
    pub executor: String,
    /// What it waited for.
    pub sums: SparkWaitSums,
}

struct Task {
    id: i64,
    stage: (i64, i64),
    /// When it ran: the time on the executor ends with the task, but for its result.
    from_ns: i64,
    to_ns: i64,
    remainder_ns: u64,
    /// Waits that Spark counts itself.
    counted_ns: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Class {
    Disk,
    RunQueue,
    /// A socket, or several files at once.
    Peer,
    /// What only another process of the same host can be at the other end of.
    Pipe,
    Other,
}

impl Class {
    /// Whether somebody else has to send or take something.
    fn is_peer(self) -> bool {
        matches!(self, Class::Peer | Class::Pipe)
    }
}

struct Event {
    process: u32,
    from_ns: i64,
    to_ns: i64,
    /// Of a wait; none of a request, which has bytes.
    class: Option<Class>,
    bytes: u64,
}

struct Process {
    /// Code of the arguments from which the rest follows.
    arguments: u32,
    parent: Option<(u32, i64)>,
    executor: Option<String>,
    is_python: bool,
    /// When anything was seen of it.
    span_ns: (i64, i64),
}

/// Tasks and waits in the making.
#[derive(Default)]
pub struct SparkWaits {
    app: String,
    tasks: BTreeMap<String, Vec<Task>>,
    /// Of which host an event is: pids are those of one.
    host: u32,
    numbers: HashMap<(u32, i64), u32>,
    processes: Vec<Process>,
    /// Of threads that run tasks, and of Python.
    events: Vec<Event>,
    /// From when to when each host was recorded.
    recorded_ns: BTreeMap<u32, Span>,
}

fn number(batch: &Batch, field: Field, row: usize) -> Option<i64> {
    batch.i64s(field).map(|values| values[row]).filter(|&value| value != MISSING_I64)
}

fn duration(batch: &Batch, field: Field, row: usize) -> u64 {
    batch.u64s(field).map(|values| values[row]).filter(|&value| value != MISSING_U64).unwrap_or(0)
}

/// What follows a word of a command line.
fn word_after<'a>(arguments: &'a str, word: &str) -> Option<&'a str> {
    let mut words = arguments.split(' ');
    words.find(|found| *found == word)?;
    words.next()
}

/// Whether an application, whose later attempts have their number behind its identifier, has this identifier.
fn is_of(app: &str, id: &str) -> bool {
    let attempt = app.strip_prefix(id).map(|rest| rest.strip_prefix('_').unwrap_or(rest));
    attempt.is_some_and(|attempt| attempt.bytes().all(|digit| digit.is_ascii_digit()))
}

impl SparkWaits {
    /// The fields of a task that are needed.
    pub fn task_fields() -> FieldSet {
        FieldSet::ALWAYS.with(&[
            Field::Kind,
            Field::App,
            Field::Executor,
            Field::Task,
            Field::Stage,
            Field::StageAttempt,
            Field::RunTime,
            Field::Remainder,
            Field::GcTime,
            Field::FetchWait,
            Field::ResultSerialization,
            Field::GettingResult,
        ])
    }

    /// The fields of what the kernel saw that are needed.
    pub fn kernel_fields() -> FieldSet {
        FieldSet::ALWAYS.with(&[
            Field::Kind,
            Field::Size,
            Field::Pid,
            Field::Ppid,
            Field::Comm,
            Field::Process,
            Field::Args,
            Field::WaitClass,
        ])
    }

    /// Adds a task of the log; other rows are passed over.
    pub fn add_task(&mut self, batch: &Batch, row: usize) {
        if batch.text(Field::Kind, row) != Some("task") {
            return;
        }
        if self.app.is_empty() {
            self.app = batch.text(Field::App, row).unwrap_or_default().into();
        }
        let ns = |field| duration(batch, field, row);
        let after = ns(Field::ResultSerialization).saturating_add(ns(Field::GettingResult));
        let end_ns = batch.time()[row].saturating_add_unsigned(batch.latency()[row]);
        let to_ns = end_ns.saturating_sub_unsigned(after);
        let task = Task {
            id: number(batch, Field::Task, row).unwrap_or(0),
            stage: (
                number(batch, Field::Stage, row).unwrap_or(0),
                number(batch, Field::StageAttempt, row).unwrap_or(0),
            ),
            from_ns: to_ns.saturating_sub_unsigned(ns(Field::RunTime)).max(batch.time()[row]),
            to_ns,
            remainder_ns: ns(Field::Remainder),
            counted_ns: ns(Field::GcTime).saturating_add(ns(Field::FetchWait)),
        };
        let executor = batch.text(Field::Executor, row).unwrap_or_default();
        match self.tasks.get_mut(executor) {
            Some(tasks) => tasks.push(task),
            None => drop(self.tasks.insert(executor.into(), vec![task])),
        }
    }

    /// What follows is of another host, whose processes are others.
    pub fn start_host(&mut self) {
        self.host += 1;
    }

    /// From when to when this host was recorded, nanoseconds; `None` where nothing was.
    pub fn end_host(&mut self, span_ns: Option<(i64, i64)>) {
        self.recorded_ns.extend(span_ns.map(|span_ns| (self.host, span_ns)));
    }

    /// When each executor was recorded, in order and apart from each other.
    fn recorded(&self) -> HashMap<&str, Vec<Span>> {
        let mut recorded = HashMap::<&str, Vec<Span>>::new();
        for ((host, _), at) in &self.numbers {
            let executor = self.processes[*at as usize].executor.as_deref();
            if let (Some(executor), Some(span_ns)) = (executor, self.recorded_ns.get(host)) {
                recorded.entry(executor).or_default().push(*span_ns);
            }
        }
        for spans in recorded.values_mut() {
            spans.sort_unstable();
            let mut until_ns = i64::MIN;
            for span in spans.iter_mut() {
                span.0 = span.0.max(until_ns);
                until_ns = until_ns.max(span.1);
            }
        }
        recorded
    }

    /// Adds a wait or a request of a kernel. All tasks were added.
    pub fn add_event(&mut self, batch: &Batch, row: usize) {
        let Some(pid) = number(batch, Field::Pid, row) else { return };
        let (from_ns, latency_ns) = (batch.time()[row], batch.latency()[row]);
        let to_ns = from_ns.saturating_add_unsigned(latency_ns);
        let at = self.process(batch, row, pid, (from_ns, to_ns));
        let process = &mut self.processes[at as usize];
        process.span_ns = (process.span_ns.0.min(from_ns), process.span_ns.1.max(to_ns));
        let class = batch.text(Field::WaitClass, row).map(|class| match class {
            "run queue" => Class::RunQueue,
            class if DISK.contains(&class) => Class::Disk,
            class if class.starts_with("pipe ") => Class::Pipe,
            class if ["socket ", "poll"].iter().any(|start| class.starts_with(start)) => Class::Peer,
            _ => Class::Other,
        });
        let is_task = batch.text(Field::Comm, row) == Some(TASK_THREAD);
        if class.is_none() && batch.text(Field::Kind, row) != Some("read") {
            return;
        }
        if is_task || process.is_python && class.is_some_and(Class::is_peer) {
            let bytes = if class.is_none() { duration(batch, Field::Size, row) } else { 0 };
            self.events.push(Event { process: at, from_ns, to_ns, class, bytes });
        }
    }

    /// The number of a process, which is described by the first event that has its arguments, and again where these change: until a
    /// process that was forked runs another program, it has those of its parent.
    fn process(&mut self, batch: &Batch, row: usize, pid: i64, span_ns: (i64, i64)) -> u32 {
        let next = self.processes.len() as u32;
        let at = *self.numbers.entry((self.host, pid)).or_insert(next);
        if at == next {
            let (arguments, parent, executor) = (MISSING_CODE, None, None);
            self.processes.push(Process { arguments, parent, executor, is_python: false, span_ns });
        }
        let process = &mut self.processes[at as usize];
        let arguments = batch.codes(Field::Args).map_or(MISSING_CODE, |codes| codes[row]);
        if process.parent.is_none() || arguments != MISSING_CODE && arguments != process.arguments {
            process.arguments = arguments;
            process.executor = None;
            process.parent = number(batch, Field::Ppid, row).map(|parent| (self.host, parent));
            process.is_python = batch.text(Field::Process, row).is_some_and(|name| name.starts_with("python"));
            if let Some(arguments) = batch.text(Field::Args, row)
                && word_after(arguments, "--app-id").is_some_and(|app| is_of(&self.app, app))
            {
                process.executor = word_after(arguments, "--executor-id").map(str::to_string);
            }
        }
        at
    }

    /// The executor that a process is, or that a Python worker serves, and how many processes are between them.
    fn executor_of(&self, at: u32) -> Option<(&str, usize)> {
        let mut process = &self.processes[at as usize];
        for generation in 0..ANCESTORS {
            if let Some(executor) = &process.executor {
                return Some((executor, generation));
            }
            process = &self.processes[*self.numbers.get(&process.parent?)? as usize];
        }
        None
    }

    /// The Python of each executor.
    fn python(&self) -> HashMap<&str, Python> {
        let mut python = HashMap::<&str, Python>::new();
        let mut places = HashMap::new();
        for (at, process) in self.processes.iter().enumerate().filter(|(_, process)| process.is_python) {
            let Some((executor, generation)) = self.executor_of(at as u32) else { continue };
            let of_executor = python.entry(executor).or_default();
            of_executor.spans_ns.push(process.span_ns);
            // The daemon, of which workers are forked, does nothing for tasks itself.
            if generation < 2 {
                continue;
            }
            places.insert(at as u32, (executor, of_executor.workers.len()));
            of_executor.workers.push(Worker { span_ns: process.span_ns, idle: Vec::new() });
        }
        for event in self.events.iter().filter(|event| event.class.is_some_and(Class::is_peer)) {
            if let Some((executor, at)) = places.get(&event.process)
                && let Some(of_executor) = python.get_mut(executor)
            {
                of_executor.workers[*at].idle.push((event.from_ns, event.to_ns));
            }
        }
        python
    }

    /// The waits of each task, in the order of executors and of the tasks' starts, and the executors that no kernel saw.
    pub fn finish(mut self) -> (Vec<SparkTaskWaits>, Vec<String>) {
        let mut tasks = std::mem::take(&mut self.tasks);
        let mut sums = BTreeMap::<&str, Vec<SparkWaitSums>>::new();
        tasks.values_mut().for_each(|tasks| tasks.sort_by_key(|task| (task.from_ns, task.id)));
        for (executor, tasks) in &tasks {
            let sum =
                |task: &Task| SparkWaitSums { tasks: 1, remainder_ns: task.remainder_ns, ..SparkWaitSums::default() };
            sums.insert(executor, tasks.iter().map(sum).collect());
        }
        let longest: HashMap<&str, u64> = tasks
            .iter()
            .map(|(executor, tasks)| {
                let lengths = tasks.iter().map(|task| task.to_ns.abs_diff(task.from_ns));
                (&**executor, lengths.max().unwrap_or(0))
            })
            .collect();
        let python = self.python();
        let mut seen: BTreeMap<&str, bool> = BTreeMap::new();
        for event in &self.events {
            let Some((executor, 0)) = self.executor_of(event.process) else { continue };
            let (Some(tasks), Some(sums)) = (tasks.get(executor), sums.get_mut(executor)) else { continue };
            seen.insert(executor, true);
            let wait = event.class.map(|class| match class {
                Class::Disk => SparkWait::Disk,
                Class::RunQueue => SparkWait::RunQueue,
                Class::Other => SparkWait::Other,
                Class::Peer => {
                    let mut workers = python.get(executor).into_iter().flat_map(|python| &python.workers);
                    let is_python = workers.any(|worker| worker.works((event.from_ns, event.to_ns)));
                    if is_python { SparkWait::Python } else { SparkWait::Network }
                }
                Class::Pipe => {
                    let mut spans = python.get(executor).into_iter().flat_map(|python| &python.spans_ns);
                    let is_python = spans.any(|span| span.0 < event.to_ns && event.from_ns < span.1);
                    if is_python { SparkWait::Python } else { SparkWait::Other }
                }
            });
            // None that started so long before can still run.
            let first = event.from_ns.saturating_sub_unsigned(longest[executor]);
            let range = tasks.partition_point(|task| task.from_ns < first)
                ..tasks.partition_point(|task| task.from_ns <= event.to_ns);
            let common = |task: &Task| (task.from_ns.max(event.from_ns), task.to_ns.min(event.to_ns));
            for at in range.clone() {
                let (from_ns, to_ns) = common(&tasks[at]);
                if from_ns > to_ns {
                    continue;
                }
                let beside = |task: &&Task| task.from_ns < to_ns && from_ns < task.to_ns;
                let share = tasks[range.clone()].iter().filter(beside).count().max(1) as u64;
                match wait {
                    Some(wait) => sums[at].waits_ns[wait as usize] += to_ns.abs_diff(from_ns) / share,
                    None => sums[at].read_bytes += event.bytes / share,
                }
            }
        }
        let unseen = tasks.keys().filter(|executor| !seen.contains_key(executor.as_str())).cloned().collect();
        let (mut found, recorded) = (Vec::new(), self.recorded());
        for (executor, tasks) in &tasks {
            let recorded = recorded.get(&**executor).map_or(&[][..], Vec::as_slice);
            for (task, sums) in tasks.iter().zip(&sums[&**executor]) {
                let mut sums = *sums;
                let other = &mut sums.waits_ns[SparkWait::Other as usize];
                *other = other.saturating_sub(task.counted_ns);
                let inside = recorded.iter().filter_map(|span| {
                    let (from_ns, to_ns) = (task.from_ns.max(span.0), task.to_ns.min(span.1));
                    (from_ns < to_ns).then(|| to_ns.abs_diff(from_ns))
                });
                let outside_ns = task.to_ns.abs_diff(task.from_ns).saturating_sub(inside.sum());
                sums.unrecorded_tasks = u64::from(outside_ns > 0);
                sums.unrecorded_ns = outside_ns.min(sums.unexplained_ns());
                found.push(SparkTaskWaits { task: task.id, stage: task.stage, executor: executor.clone(), sums });
            }
        }
        (found, unseen)
    }
}

/// What tasks waited for, by stage and executor.
pub fn waits_of_stages(tasks: &[SparkTaskWaits]) -> BTreeMap<((i64, i64), &str), SparkWaitSums> {
    let mut stages = BTreeMap::<_, SparkWaitSums>::new();
    for task in tasks {
        stages.entry((task.stage, &*task.executor)).or_default().merge(&task.sums);
    }
    stages
}

/// From when to when, nanoseconds.
type Span = (i64, i64);

/// The Python of an executor.
#[derive(Default)]
struct Python {
    /// When any of it lived, the daemon too.
    spans_ns: Vec<Span>,
    workers: Vec<Worker>,
}

/// A process that runs code for tasks: when it lived, and when it waited for the executor to send it something.
struct Worker {
    span_ns: Span,
    idle: Vec<Span>,
}

impl Worker {
    /// Whether it did something in most of this time.
    fn works(&self, (from_ns, to_ns): (i64, i64)) -> bool {
        let common = |span: (i64, i64)| to_ns.min(span.1).saturating_sub(from_ns.max(span.0)).max(0);
        let idle: i64 = self.idle.iter().map(|&span| common(span)).sum();
        common(self.span_ns).saturating_sub(idle).saturating_mul(2) >= to_ns.saturating_sub(from_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn tasks(rows: &[(i64, &str, i64, i64)]) -> Batch {
        tasks_that_write(rows, 0)
    }

    /// Tasks with so many milliseconds of shuffle write each.
    fn tasks_that_write(rows: &[(i64, &str, i64, i64)], write_ms: i64) -> Batch {
        let mut batch = Batch::new(SparkWaits::task_fields());
        for &(id, executor, start_ms, run_ms) in rows {
            batch.push_i64(Field::Time, start_ms * MS);
            batch.push_u64(Field::Latency, (run_ms * MS) as u64);
            batch.push_text(Field::Kind, Some(b"task"));
            batch.push_text(Field::App, Some(b"app-1"));
            batch.push_text(Field::Executor, Some(executor.as_bytes()));
            batch.push_i64(Field::Task, id);
            batch.push_i64(Field::Stage, 3);
            batch.push_i64(Field::StageAttempt, 0);
            batch.push_u64(Field::RunTime, (run_ms * MS) as u64);
            batch.push_u64(Field::Remainder, ((run_ms - write_ms) * MS) as u64);
            for field in [Field::GcTime, Field::FetchWait, Field::ResultSerialization, Field::GettingResult] {
                batch.push_u64(field, 0);
            }
            batch.end_row();
        }
        batch
    }

    /// Waits: pid, parent, process, thread, class, start and length in milliseconds.
    fn waits(rows: &[(i64, i64, &str, &str, &str, i64, i64)]) -> Batch {
        let mut batch = Batch::new(SparkWaits::kernel_fields());
        for &(pid, parent, process, comm, class, start_ms, ms) in rows {
            let executor = pid % 10;
            let arguments = format!("-cp x Backend --executor-id {executor} --cores 1 --app-id app-1 --x");
            let arguments = if process.starts_with("python") { "-m pyspark.daemon".into() } else { arguments };
            batch.push_i64(Field::Time, start_ms * MS);
            batch.push_u64(Field::Latency, (ms * MS) as u64);
            batch.push_text(Field::Kind, Some(b"wait"));
            batch.push_u64(Field::Size, MISSING_U64);
            batch.push_i64(Field::Pid, pid);
            batch.push_i64(Field::Ppid, parent);
            batch.push_text(Field::Process, Some(process.as_bytes()));
            batch.push_text(Field::Comm, Some(comm.as_bytes()));
            batch.push_text(Field::Args, Some(arguments.as_bytes()));
            batch.push_text(Field::WaitClass, Some(class.as_bytes()));
            batch.end_row();
        }
        batch
    }

    #[test]
    fn waits_belong_to_the_task_that_ran() {
        let tasks = tasks(&[(1, "0", 100, 100), (2, "0", 200, 100), (3, "1", 100, 200), (4, "7", 100, 100)]);
        let kernel = waits(&[
            (10, 5, "java", TASK_THREAD, "page-cache miss", 120, 30),
            // Half of it in each task.
            (10, 5, "java", TASK_THREAD, "run queue", 190, 20),
            (11, 5, "java", TASK_THREAD, "socket read", 110, 50),
            // Its worker does something meanwhile, and nothing later.
            (21, 11, "python3", "python3", "poll", 0, 1000),
            (31, 21, "python3", "python3", "sleep", 110, 50),
            (31, 21, "python3", "python3", "socket read", 160, 140),
            (11, 5, "java", TASK_THREAD, "poll", 200, 40),
            (11, 5, "java", TASK_THREAD, "futex", 250, 10),
            (11, 5, "java", "shuffle-client-", "page-cache miss", 120, 30),
            (99, 5, "java", "main", "page-cache miss", 120, 30),
        ]);
        let mut join = SparkWaits::default();
        (0..tasks.len()).for_each(|row| join.add_task(&tasks, row));
        (0..kernel.len()).for_each(|row| join.add_event(&kernel, row));
        join.end_host(Some((0, 1000 * MS)));
        let (found, unseen) = join.finish();
        assert_eq!(unseen, ["7"]);
        let ms: Vec<(i64, [u64; 5], u64)> = found
            .iter()
            .map(|task| {
                let ms = |ns: u64| ns / MS as u64;
                (task.task, task.sums.waits_ns.map(ms), ms(task.sums.unexplained_ns()))
            })
            .collect();
        let none = [0; 5];
        let expected =
            [(1, [30, 10, 0, 0, 0], 60), (2, [0, 10, 0, 0, 0], 90), (3, [0, 0, 50, 40, 10], 100), (4, none, 0)];
        assert_eq!(ms, expected);
        let unrecorded: Vec<u64> = found.iter().map(|task| task.sums.unrecorded_ns / MS as u64).collect();
        assert_eq!(unrecorded, [0, 0, 0, 100], "nothing was recorded of executor 7");
        let stages = waits_of_stages(&found);
        assert_eq!((stages.len(), stages[&((3, 0), "0")].get(SparkWait::RunQueue)), (3, 20 * MS as u64));
    }

    fn join(tasks: &Batch, kernel: &Batch) -> Vec<SparkTaskWaits> {
        let mut join = SparkWaits::default();
        (0..tasks.len()).for_each(|row| join.add_task(tasks, row));
        (0..kernel.len()).for_each(|row| join.add_event(kernel, row));
        join.end_host(Some((0, 1000 * MS)));
        join.finish().0
    }

    /// A stage before the recording, one that it covers in part, and one after it.
    #[test]
    fn what_ran_outside_of_the_recording_is_not_recorded() {
        let tasks = tasks(&[(1, "0", 100, 100), (2, "0", 200, 100), (3, "0", 400, 100)]);
        let kernel = waits(&[(10, 5, "java", TASK_THREAD, "page-cache miss", 260, 30)]);
        let mut join = SparkWaits::default();
        (0..tasks.len()).for_each(|row| join.add_task(&tasks, row));
        for span_ns in [(230, 290), (250, 295)] {
            join.start_host();
            (0..kernel.len()).for_each(|row| join.add_event(&kernel, row));
            join.end_host(Some((span_ns.0 * MS, span_ns.1 * MS)));
        }
        let (found, _) = join.finish();
        let ms: Vec<_> = found.iter().map(|task| [task.sums.unrecorded_ns, task.sums.unexplained_ns()]).collect();
        // Both recordings have the wait.
        let expected = [[100, 0], [35, 5], [100, 0]].map(|pair| pair.map(|ms| ms * MS as u64));
        assert_eq!(ms, expected);
        assert_eq!(waits_of_stages(&found).values().map(|sums| sums.unrecorded_tasks).sum::<u64>(), 3);
    }

    #[test]
    fn a_fork_of_the_executor_that_runs_python_is_python() {
        let kernel = waits(&[
            // Forked of the thread that runs the task, which waits for its first words meanwhile.
            (20, 10, TASK_THREAD, TASK_THREAD, "page-cache miss", 105, 5),
            (20, 10, "python", "python", "run queue", 110, 10),
            (20, 10, "python", "python", "poll", 120, 100),
            (30, 20, "python", "python", "sleep", 130, 50),
            (10, 5, "java", TASK_THREAD, "pipe read", 105, 20),
            (10, 5, "java", TASK_THREAD, "socket read", 130, 50),
        ]);
        let found = join(&tasks(&[(1, "0", 100, 100)]), &kernel);
        assert_eq!(found[0].sums.waits_ns.map(|ns| ns / MS as u64), [0, 0, 70, 0, 0]);
    }

    #[test]
    fn a_pipe_is_no_network_and_waits_may_exceed_the_remainder() {
        let kernel = waits(&[
            (10, 5, "java", TASK_THREAD, "pipe read", 100, 60),
            (10, 5, "java", TASK_THREAD, "run queue", 160, 40),
        ]);
        let task = [(1, "0", 100, 100)];
        let found = join(&tasks(&task), &kernel);
        assert_eq!(found[0].sums.waits_ns.map(|ns| ns / MS as u64), [0, 40, 0, 0, 60]);
        assert_eq!([found[0].sums.unexplained_ns(), found[0].sums.excess_ns()], [0, 0]);
        let sums = join(&tasks_that_write(&task, 30), &kernel)[0].sums;
        assert_eq!([sums.unexplained_ns(), sums.excess_ns()], [0, 30 * MS as u64]);
    }
}
