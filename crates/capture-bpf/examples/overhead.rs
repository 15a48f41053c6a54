//! What a capture of system calls costs the traced thread, and how many events a second come through.
//!
//! A child makes calls and reads its own CPU clock (our own process is never traced); around each measurement with the
//! programs attached lie two without, and the difference to their mean counts. Run by `benches/overhead.sh`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("load") => load::serve(),
        Some("rate") => measure::rate(),
        Some("hold") => measure::hold(arguments.get(1).map(String::as_str)),
        Some("empty") => empty::hold(),
        pairs => measure::costs(pairs.and_then(|pairs| pairs.parse().ok()).unwrap_or(15)),
    }
}

/// The least that can be attached: what the kernel's statistics say of it is their own share.
#[cfg(target_os = "linux")]
mod empty {
    use libbpf_rs::libbpf_sys::{BPF_PROG_TYPE_RAW_TRACEPOINT, bpf_insn, bpf_prog_load, bpf_raw_tracepoint_open};

    /// Attaches `return 0` to the completion of block requests, until it is killed.
    pub fn hold() {
        // r0 = 0; exit
        let mut insns = [bpf_insn::default(); 2];
        insns[0].code = 0xb7;
        insns[1].code = 0x95;
        let (kind, name, licence) = (BPF_PROG_TYPE_RAW_TRACEPOINT, c"empty".as_ptr(), c"GPL".as_ptr());
        // SAFETY: both take what outlives the calls; no options are null.
        let link = unsafe {
            let program = bpf_prog_load(kind, name, licence, insns.as_ptr(), insns.len() as u64, std::ptr::null_mut());
            assert!(program >= 0, "the kernel refuses a program: {program}");
            bpf_raw_tracepoint_open(c"block_rq_complete".as_ptr(), program)
        };
        assert!(link >= 0, "the kernel does not attach it: {link}");
        loop {
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
    }
}

/// The child.
#[cfg(target_os = "linux")]
mod load {
    use std::io::{BufRead, Write};
    use std::os::fd::AsRawFd;

    const CALLS: u32 = 20_000;

    fn cpu_ns() -> i64 {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is a timespec that outlives the call, which writes nothing else.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    }

    fn batch(call: impl Fn()) -> f64 {
        let start = cpu_ns();
        (0..CALLS).for_each(|_| call());
        (cpu_ns() - start) as f64 / f64::from(CALLS)
    }

    /// For each line that names a call answers what one of them cost.
    pub fn serve() {
        let zero = std::fs::File::open("/dev/zero").unwrap();
        let fd = zero.as_raw_fd();
        for line in std::io::stdin().lock().lines() {
            let mut byte = 0u8;
            let at = std::ptr::from_mut(&mut byte).cast();
            let once = || match line.as_deref().unwrap() {
                // SAFETY: one byte is read to where one byte is.
                "pread" => batch(|| assert_eq!(unsafe { libc::pread(fd, at, 1, 0) }, 1)),
                // SAFETY: getppid touches no memory.
                _ => batch(|| assert!(unsafe { libc::syscall(libc::SYS_getppid) } >= 0)),
            };
            println!("{}", once().min(once()));
            std::io::stdout().flush().unwrap();
        }
    }
}

#[cfg(target_os = "linux")]
mod measure {
    use latscope_capture_bpf::{EventCapture, HistogramCapture, Options, PushDown, Source};
    use latscope_event::{Anomaly, Field, FieldSet};
    use std::io::{BufRead, BufReader, Write};
    use std::ops::ControlFlow;
    use std::process::{Child, ChildStdin, Command, Stdio};
    use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
    use std::time::{Duration, Instant};

    /// A base so much slower than the fastest so far shows that somebody else is tracing: such a pair does not count.
    const BUSY: f64 = 1.2;
    /// How long to try for pairs that count.
    const PATIENCE: Duration = Duration::from_secs(20);

    struct Load {
        child: Child,
        ask: ChildStdin,
        answers: Receiver<f64>,
    }

    impl Load {
        fn start() -> Load {
            let program = std::env::current_exe().unwrap();
            let mut child =
                Command::new(program).arg("load").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (ask, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let (send, answers) = channel();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines() {
                    let _ = send.send(line.unwrap().parse().unwrap());
                }
            });
            Load { child, ask, answers }
        }

        /// Nanoseconds of a call, while `meanwhile` runs again and again.
        fn ask(&mut self, call: &str, mut meanwhile: impl FnMut()) -> f64 {
            writeln!(self.ask, "{call}").unwrap();
            loop {
                match self.answers.recv_timeout(Duration::from_millis(1)) {
                    Ok(answer) => return answer,
                    Err(RecvTimeoutError::Timeout) => meanwhile(),
                    Err(RecvTimeoutError::Disconnected) => panic!("the load ended"),
                }
            }
        }
    }

    /// How a capture runs while the load does.
    enum Attached {
        Events(EventCapture),
        Histograms { _running: HistogramCapture },
    }

    fn attach(options: &Options, events: bool) -> Attached {
        if events {
            Attached::Events(EventCapture::start(options).unwrap())
        } else {
            Attached::Histograms { _running: HistogramCapture::start(options).unwrap() }
        }
    }

    fn quartiles(values: &mut [f64]) -> String {
        values.sort_by(f64::total_cmp);
        let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
        format!("{:>6.0} {:>6.0} {:>6.0}", at(1), at(2), at(3))
    }

    pub fn costs(pairs: usize) {
        let plain = |source| Options::new(source, FieldSet::ALWAYS);
        let usual = [Field::Name, Field::Kind, Field::Size, Field::Offset, Field::Fd, Field::FdType, Field::Device];
        let usual: FieldSet = usual.into_iter().chain([Field::Pid, Field::Tid, Field::Comm, Field::Result]).collect();
        let nobody = PushDown { pids: vec![u32::MAX], ..PushDown::default() };
        let pread = |options: Options| Options { calls: Some(vec!["pread64".into()]), ..options };
        let modes: [(&str, Options, bool); 8] = [
            ("histograms, -s io", plain(Source::Io), false),
            ("histograms, -s syscall", plain(Source::Syscall), false),
            ("histograms, --calls pread64", pread(plain(Source::Io)), false),
            ("events, -s io", Options::new(Source::Io, usual), true),
            ("events, -s syscall", Options::new(Source::Syscall, usual), true),
            ("events, -s syscall, no fields", plain(Source::Syscall), true),
            ("events, --calls pread64", pread(Options::new(Source::Io, usual)), true),
            ("events of another process", Options { push_down: nobody, ..plain(Source::Syscall) }, true),
        ];
        let mut load = Load::start();
        let mut quiet = std::collections::HashMap::new();
        println!(
            "added nanoseconds per call (quarter, median, three quarters of {pairs} pairs) over the base's median"
        );
        for (name, options, events) in &modes {
            for call in ["pread", "getppid"] {
                let (mut bases, mut added) = (Vec::new(), Vec::new());
                let quiet = quiet.entry(call).or_insert(f64::MAX);
                *quiet = (0..20).map(|_| load.ask(call, || ())).fold(*quiet, f64::min);
                let quiet = *quiet * BUSY;
                let until = Instant::now() + PATIENCE;
                while added.len() < pairs && Instant::now() < until {
                    let before = load.ask(call, || ());
                    if before > quiet {
                        continue;
                    }
                    let mut attached = attach(options, *events);
                    let with = load.ask(call, || {
                        if let Attached::Events(capture) = &mut attached {
                            let flow = capture.poll(Duration::ZERO, &mut |_, _| ControlFlow::Continue(()));
                            flow.map(|_| ()).unwrap();
                        }
                    });
                    drop(attached);
                    let after = load.ask(call, || ());
                    if after > quiet {
                        continue;
                    }
                    bases.push((before + after) / 2.0);
                    added.push(with - (before + after) / 2.0);
                }
                if added.is_empty() {
                    println!("{name:32} {call:8} somebody else traced all the time");
                    continue;
                }
                let (pairs, base) = (added.len(), quartiles(&mut bases));
                println!("{name:32} {call:8} {}   base {base}   {pairs} pairs", quartiles(&mut added));
            }
        }
        drop(load.ask);
        load.child.wait().unwrap();
    }

    /// Holds a capture of histograms and reads it twice a second, until it is killed.
    pub fn hold(source: Option<&str>) {
        let source = match source {
            Some("io") => Source::Io,
            Some("block") => Source::Block,
            _ => Source::Syscall,
        };
        let mut capture = HistogramCapture::start(&Options::new(source, FieldSet::ALWAYS)).unwrap();
        loop {
            std::thread::sleep(Duration::from_millis(500));
            capture.take().unwrap();
            capture.refresh().unwrap();
        }
    }

    /// Two processes make calls as fast as they can; what comes through is counted.
    pub fn rate() {
        let fields = [Field::Name, Field::Size, Field::Fd, Field::FdType, Field::Pid, Field::Comm, Field::Result];
        let mut capture = EventCapture::start(&Options::new(Source::Io, fields.into_iter().collect())).unwrap();
        let arguments = ["if=/dev/zero", "of=/dev/null", "bs=1", "count=3000000"];
        let dd = || Command::new("dd").args(arguments).stderr(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        let mut children = [dd(), dd()];
        let mut events = 0;
        let mut count = |_: &_, batch: &latscope_event::Batch| {
            events += batch.len();
            ControlFlow::Continue(())
        };
        while !children.iter_mut().all(|child| child.try_wait().unwrap().is_some()) {
            let flow = capture.poll(Duration::from_millis(10), &mut count);
            flow.map(|_| ()).unwrap();
        }
        let took = start.elapsed();
        let context = capture.finish(&mut count).unwrap();
        let lost = context.tally.get(Anomaly::LostRecords);
        let rate = |count: f64| count / took.as_secs_f64() / 1e3;
        println!(
            "12,000,000 calls of two dd in {:.1} s: {:.0} k events/s came through, {:.0} k/s were lost and counted",
            took.as_secs_f64(),
            rate(events as f64),
            rate(lost as f64)
        );
    }
}
