//! Text of `perf script` of which every latency is known, because it was made up from the latencies.
//!
//! A *life* is what happens to one request: the lines that a kernel would print, at times chosen here, and what a
//! correct reader must make of them. Lives never share a sector while they overlap, so nothing has to be paired to
//! know the truth. All moments are distinct, so the order of lines is no matter of taste.

mod lives;

use std::collections::{BTreeMap, HashSet};

/// What to make.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    pub seed: u64,
    pub lives: usize,
    pub era: Era,
    pub columns: Columns,
    /// `perf script --ns`.
    pub nanoseconds: bool,
    /// How many times the tracer loses records.
    pub losses: usize,
    /// Neighbouring lines change places, as in the text of a folder of threads.
    pub shuffled: bool,
    /// Lines that are no requests: other events, stacks, headers, lines that nobody understands.
    pub noise: bool,
}

/// How the kernel of that time prints a block record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Era {
    /// Linux 3: bytes are always 0, commands of passthrough requests stand in the brackets.
    Old,
    /// Linux 4.11 to 6.10.
    Middle,
    /// Linux 6.11 and later: with the priority.
    Priority,
}

/// Which columns `-F` chose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Columns {
    Default,
    PidAndTid,
    NoCpu,
}

/// An event as it has to come out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub time_ns: i64,
    pub latency_ns: u64,
    pub queue_ns: u64,
    pub size: u64,
    pub offset: u64,
    pub kind: String,
    pub name: String,
    pub device: String,
    pub dev: String,
    pub comm: String,
    pub pid: Option<i64>,
    pub tid: Option<i64>,
    pub error: Option<String>,
}

/// A generated text and everything that is true about it.
pub struct Truth {
    pub text: Vec<u8>,
    /// In the order of completion.
    pub events: Vec<Event>,
    /// Anomalies by their key, those that occurred.
    pub counts: BTreeMap<&'static str, u64>,
    /// Start and least latency of what was unfinished, longest first.
    pub unfinished: Vec<(i64, u64)>,
    /// Moment, CPU and number of each loss.
    pub losses: Vec<(i64, Option<u32>, u64)>,
}

/// Marsaglia's xorshift64*.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 0 to below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Thread names are free text of 15 bytes; these were all chosen to mislead a reader that counts words.
const COMMS: &[&[u8]] = &[
    b"fio",
    b"kworker/0:1H",
    b"tokio-runtime-w",
    b"my app [x]",
    b"a: b",
    b"1 2 [003]",
    b"Web Content",
    b"x] + 8 [0",
    b"(sd-pam)",
    b"2.5: tar: c",
    b"na\xc3\xafve-d\xc3\xa9mon",
    // The kernel cuts a name in the middle of a character.
    b"abcdefghijklmn\xc3",
];

/// Major, minor, name that a view shows.
const DEVICES: &[(u32, u32, &str)] =
    &[(254, 0, "254:0"), (8, 17, "sdb1"), (7, 0, "loop0"), (259, 3, "259:3"), (202, 16, "xvdb"), (9, 127, "md127")];

const LETTERS: &[(&str, &str)] = &[
    ("R", "read"),
    ("RA", "read"),
    ("RSM", "read"),
    ("W", "write"),
    ("WS", "write"),
    ("WSM", "write"),
    ("FWFS", "write"),
    ("WFS", "write"),
    ("D", "discard"),
    ("DS", "discard"),
];

/// Makes the text.
pub fn generate(recipe: Recipe) -> Truth {
    let mut generator = Generator::new(recipe);
    if recipe.losses > 0 {
        generator.lose();
    }
    while generator.lives < recipe.lives {
        generator.life();
        generator.lives += 1;
    }
    generator.finish()
}

struct Line {
    time_ns: i64,
    text: Vec<u8>,
    /// The event that this line completes.
    event: Option<Event>,
}

/// The unchanging part of a life.
#[derive(Clone, Copy)]
struct Request {
    device: (u32, u32, &'static str),
    letters: &'static str,
    kind: &'static str,
    sector: u64,
    sectors: u64,
    comm: &'static [u8],
    tid: i64,
}

struct Generator {
    recipe: Recipe,
    random: Random,
    lives: usize,
    lines: Vec<Line>,
    taken: HashSet<i64>,
    next_sector: u64,
    /// When the last flush of each device completed: flushes pair in order, so they must not overtake.
    flushed_ns: Vec<i64>,
    losses: Vec<(i64, Option<u32>, u64)>,
    counts: BTreeMap<&'static str, u64>,
    /// Requests in flight at the end, by the time of their issue.
    open: Vec<i64>,
}

const START_NS: i64 = 1_217_000_000_000;

impl Generator {
    fn new(recipe: Recipe) -> Generator {
        Generator {
            recipe,
            random: Random::new(recipe.seed),
            lives: 0,
            lines: Vec::new(),
            taken: HashSet::new(),
            next_sector: 2048,
            flushed_ns: vec![START_NS; DEVICES.len()],
            losses: Vec::new(),
            counts: BTreeMap::new(),
            open: Vec::new(),
        }
    }

    /// Smallest difference of two times that the text can represent.
    fn step(&self) -> i64 {
        if self.recipe.nanoseconds { 1 } else { 1000 }
    }

    fn span_ns(&self) -> u64 {
        self.recipe.lives as u64 * 30_000 + 1_000_000
    }

    fn count(&mut self, key: &'static str) {
        *self.counts.entry(key).or_insert(0) += 1;
    }

    /// The first free moment at or after this one.
    fn moment(&mut self, at_ns: i64) -> i64 {
        let step = self.step();
        let mut at_ns = at_ns - at_ns % step;
        while !self.taken.insert(at_ns) {
            at_ns += step;
        }
        at_ns
    }

    fn start(&mut self) -> i64 {
        let at_ns = START_NS + self.random.below(self.span_ns()) as i64;
        self.moment(at_ns)
    }

    /// Some time after: microseconds, milliseconds or, seldom, much longer.
    fn after(&mut self, before_ns: i64) -> i64 {
        let scale = self.random.pick(&[3_000, 90_000, 90_000, 2_000_000, 2_000_000, 40_000_000]);
        let wait = 1 + self.random.below(scale) as i64;
        let at_ns = before_ns + wait.max(self.step());
        self.moment(at_ns)
    }

    fn request(&mut self) -> Request {
        let (letters, kind) = self.random.pick(LETTERS);
        let sectors = 8 * (1 + self.random.below(64));
        // Far apart, so that no part of one is the start of another.
        self.next_sector += 4096;
        Request {
            device: self.random.pick(DEVICES),
            letters,
            kind,
            sector: self.next_sector,
            sectors,
            comm: self.random.pick(COMMS),
            tid: 1 + self.random.below(99_999) as i64,
        }
    }

    /// Whether records were lost between two moments.
    fn lost_between(&self, from_ns: i64, to_ns: i64) -> bool {
        self.losses.iter().any(|&(at_ns, ..)| from_ns < at_ns && at_ns < to_ns)
    }

    fn event(&mut self, request: &Request, first_ns: i64, issued_ns: i64, done_ns: i64, error: Option<&str>) -> Event {
        if self.lost_between(first_ns, done_ns) {
            self.count("doubtful");
        }
        let (major, minor, name) = request.device;
        Event {
            time_ns: issued_ns,
            latency_ns: (done_ns - issued_ns) as u64,
            queue_ns: (issued_ns - first_ns) as u64,
            size: request.sectors * 512,
            offset: request.sector * 512,
            kind: request.kind.into(),
            name: request.letters.into(),
            device: name.into(),
            dev: format!("{major}:{minor}"),
            comm: String::from_utf8_lossy(request.comm).into(),
            pid: (self.recipe.columns == Columns::PidAndTid).then_some(request.tid + 1),
            tid: Some(request.tid),
            error: error.map(str::to_string),
        }
    }

    /// The columns before the event's name.
    fn left(&mut self, time_ns: i64, comm: &[u8], tid: i64) -> Vec<u8> {
        let mut line = vec![b' '; 16usize.saturating_sub(comm.len())];
        line.extend_from_slice(comm);
        let ids = match self.recipe.columns {
            Columns::PidAndTid => format!(" {:5}/{:<5}", tid + 1, tid),
            _ => format!(" {tid:5}"),
        };
        line.extend_from_slice(ids.as_bytes());
        if self.recipe.columns != Columns::NoCpu {
            line.extend_from_slice(format!(" [{:03}]", self.random.below(4)).as_bytes());
        }
        let (seconds, fraction) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let time = match self.recipe.nanoseconds {
            true => format!(" {seconds:5}.{fraction:09}: "),
            false => format!(" {seconds:5}.{:06}: ", fraction / 1000),
        };
        line.extend_from_slice(time.as_bytes());
        line
    }

    fn priority(&mut self) -> &'static str {
        match self.recipe.era {
            Era::Priority => self.random.pick(&["0x2,0,4 ", "none,0,0 ", "be,0,4 "]),
            _ => "",
        }
    }

    /// A line that names the issuer: issue, insert, io_start.
    fn issuing(&mut self, event: &str, time_ns: i64, request: &Request) {
        let bytes = match self.recipe.era {
            Era::Old => 0,
            _ => request.sectors * 512,
        };
        let mut line = self.left(time_ns, request.comm, request.tid);
        let (major, minor, _) = request.device;
        let priority = self.priority();
        line.extend_from_slice(
            format!(
                "{event:>24}: {major},{minor} {} {bytes} () {} + {} {priority}[",
                request.letters, request.sector, request.sectors
            )
            .as_bytes(),
        );
        line.extend_from_slice(request.comm);
        line.push(b']');
        self.lines.push(Line { time_ns, text: line, event: None });
    }

    fn issue(&mut self, time_ns: i64, request: &Request) {
        self.issuing("block:block_rq_issue", time_ns, request);
    }

    /// A line of whoever was interrupted: completion, requeue, io_done.
    fn ending(&mut self, event: &str, time_ns: i64, request: &Request, error: i32, completes: Option<Event>) {
        let (interrupted, tid) = (self.random.pick(COMMS), self.random.below(9999) as i64);
        let mut line = self.left(time_ns, interrupted, tid);
        let (major, minor, _) = request.device;
        let (letters, priority) = (request.letters, self.priority());
        let bytes = if event.ends_with("done") { "0 " } else { "" };
        let (sector, sectors) = (request.sector, request.sectors);
        line.extend_from_slice(
            format!("{event:>24}: {major},{minor} {letters} {bytes}() {sector} + {sectors} {priority}[{error}]")
                .as_bytes(),
        );
        self.lines.push(Line { time_ns, text: line, event: completes });
    }

    fn complete(&mut self, time_ns: i64, request: &Request, error: i32, completes: Option<Event>) {
        self.ending("block:block_rq_complete", time_ns, request, error, completes);
    }

    fn requeue(&mut self, time_ns: i64, request: &Request) {
        self.ending("block:block_rq_requeue", time_ns, request, 0, None);
    }

    /// Moments of loss have to be known before the lives that they touch.
    fn lose(&mut self) {
        for _ in 0..self.recipe.losses {
            let at_ns = self.start();
            let records = 1 + self.random.below(500);
            let before = self.left(at_ns, b"swapper", 0);
            let cpu = (self.recipe.columns != Columns::NoCpu).then(|| {
                let open = before.iter().rposition(|&byte| byte == b'[').expect("a column of CPUs");
                String::from_utf8_lossy(&before[open + 1..open + 4]).parse().expect("a number")
            });
            let text = [&before[..], format!("PERF_RECORD_LOST lost {records}").as_bytes()].concat();
            self.lines.push(Line { time_ns: at_ns, text, event: None });
            self.losses.push((at_ns, cpu, records));
            *self.counts.entry("lost_records").or_insert(0) += records;
        }
        self.losses.sort_unstable();
    }

    fn finish(mut self) -> Truth {
        self.lines.sort_by_key(|line| line.time_ns);
        let end_ns = self.lines.last().map_or(0, |line| line.time_ns);
        let events = self.lines.iter().filter_map(|line| line.event.clone()).collect();
        if self.recipe.shuffled {
            let mut at = 1;
            while at < self.lines.len() {
                if self.random.one_in(20) {
                    self.lines.swap(at - 1, at);
                }
                at += 2;
            }
        }
        let mut text = Vec::new();
        if self.recipe.noise {
            text.extend_from_slice(b"# ========\n# hostname : store-7\n# os release : 6.18.0\n#\n");
        }
        let lines = std::mem::take(&mut self.lines);
        for line in &lines {
            text.extend_from_slice(&line.text);
            text.push(b'\n');
            if self.recipe.noise {
                self.noise(&mut text, line.time_ns);
            }
        }
        let mut unfinished: Vec<_> = self.open.iter().map(|&at_ns| (at_ns, (end_ns - at_ns) as u64)).collect();
        if !unfinished.is_empty() {
            self.counts.insert("unfinished", unfinished.len() as u64);
        }
        unfinished.sort_by_key(|&(start_ns, at_least_ns)| (std::cmp::Reverse(at_least_ns), start_ns));
        Truth { text, events, counts: self.counts, unfinished, losses: self.losses }
    }

    fn noise(&mut self, text: &mut Vec<u8>, time_ns: i64) {
        match self.random.below(40) {
            0 => text.extend_from_slice(b"\tffffffff81b056df blk_mq_start_request+0xcf ([kernel.kallsyms])\n\n"),
            1 => {
                text.extend_from_slice(&self.left(time_ns, b"swapper", 0));
                text.extend_from_slice(b"sched:sched_switch: prev_comm=fio prev_pid=7 ==> next_comm=tar [120]\n");
                self.count("other_records");
            }
            2 => {
                text.extend_from_slice(&self.left(time_ns, b"tar", 9));
                text.extend_from_slice(b"block:block_bio_queue: 254,0 RM 2048 + 8 [tar]\n");
                self.count("other_records");
            }
            3 => {
                text.extend_from_slice(b"what is this line: nobody knows\n");
                self.count("unparsed_lines");
            }
            4 => {
                // A record whose end is missing.
                text.extend_from_slice(&self.left(time_ns, b"tar", 9));
                text.extend_from_slice(b"block:block_rq_issue: 254,0 R 4096 () 20\n");
                self.count("unparsed_lines");
            }
            _ => {}
        }
    }
}
