use super::Source;
use clap::Args;
use latscope_capture_bpf::{RequestStacks, Requests, StackKinds, StackOptions};

/// How stacks are captured.
#[derive(Args, Clone, Debug, Default)]
pub struct StackCapture {
    /// With -s block: stacks of the threads that issue requests: slow[=50ms], all, or 1/N of them; or slow and 1/N
    ///
    /// slow takes them when a request completes, if the thread still waits for it, and of some faster ones to compare with. all and
    /// 1/N take them when requests are issued, also of threads that do not wait.
    #[arg(long, value_name = "WHICH", value_parser = request_stacks, help_heading = "Stacks")]
    pub stacks: Option<RequestStacks>,
    /// Sampling rate per second, if the CPU budget allows it [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Stacks")]
    pub hz: Option<u32>,
    /// Share of one CPU that sampling and unwinding may take; beyond it, the sampling rate falls [default: 1%]
    #[arg(long, value_name = "PERCENT", value_parser = budget, help_heading = "Stacks")]
    pub cpu_budget: Option<f64>,
    /// Also sample threads that do not wait for I/O
    #[arg(long, help_heading = "Stacks")]
    pub all_threads: bool,
    /// Leave out the frames of user space; nothing is read from the memory of processes then
    #[arg(long, help_heading = "Stacks")]
    pub no_user_stacks: bool,
    /// Replace the names of functions by hashes, the same on every host
    #[arg(long, help_heading = "Stacks")]
    pub hash_names: bool,
    /// Ask JVMs (17 or later) for the names of their compiled code; they stand still for some ten milliseconds, and write
    /// /tmp/perf-PID.map
    #[arg(long, help_heading = "Stacks")]
    pub jvm_maps: bool,
}

impl StackCapture {
    /// The first of these options that was given.
    pub fn given(&self) -> Option<&'static str> {
        self.stacks.map(|_| "--stacks").or(self.given_of_sampler()).or(self.given_of_names())
    }

    /// The first that was given of those for samples of threads.
    pub fn given_of_sampler(&self) -> Option<&'static str> {
        first(&[
            ("--hz", self.hz.is_some()),
            ("--cpu-budget", self.cpu_budget.is_some()),
            ("--all-threads", self.all_threads),
        ])
    }

    /// The first that was given of those for whatever has stacks.
    pub fn given_of_names(&self) -> Option<&'static str> {
        first(&[
            ("--no-user-stacks", self.no_user_stacks),
            ("--hash-names", self.hash_names),
            ("--jvm-maps", self.jvm_maps),
        ])
    }

    /// What they mean, with what is typed behind `-s`.
    pub fn options(&self, source: Option<Source>) -> StackOptions {
        let usual = StackOptions::default();
        let (off_cpu_ns, on_cpu_hz) = match source {
            Some(Source::Stacks { off_cpu_ns, on_cpu_hz, .. } | Source::Beside { off_cpu_ns, on_cpu_hz, .. }) => {
                (off_cpu_ns, on_cpu_hz)
            }
            _ => (None, None),
        };
        StackOptions {
            hz: self.hz.unwrap_or(usual.hz),
            budget: self.cpu_budget.unwrap_or(usual.budget),
            all_threads: self.all_threads,
            off_cpu_ns: off_cpu_ns.unwrap_or(usual.off_cpu_ns),
            on_cpu_hz: on_cpu_hz.unwrap_or(usual.on_cpu_hz),
            user_stacks: !self.no_user_stacks,
            hashed_names: self.hash_names,
            jvm_maps: self.jvm_maps,
            requests: self.stacks,
            ..usual
        }
    }
}

impl Source {
    /// As it is typed behind `-s`.
    pub fn words(self) -> String {
        match self {
            Source::Block => "block".into(),
            Source::Io => "io".into(),
            Source::Syscall => "syscall".into(),
            Source::Spark => "spark".into(),
            Source::Beside { requests, kinds, off_cpu_ns, on_cpu_hz } => {
                let stacks = Source::Stacks { kinds, off_cpu_ns, on_cpu_hz };
                format!("{},{}", requests.source().words(), stacks.words())
            }
            Source::Stacks { kinds, off_cpu_ns, on_cpu_hz } => {
                let off_cpu = off_cpu_ns.map_or("offcpu".into(), |ns| format!("offcpu={ns}ns"));
                let on_cpu = on_cpu_hz.map_or("oncpu".into(), |hz| format!("oncpu={hz}hz"));
                let words = [(kinds.sampled, "stacks".into()), (kinds.off_cpu, off_cpu), (kinds.on_cpu, on_cpu)];
                words
                    .into_iter()
                    .filter_map(|(is, word): (bool, String)| is.then_some(word))
                    .collect::<Vec<_>>()
                    .join(",")
            }
        }
    }
}

fn first(options: &[(&'static str, bool)]) -> Option<&'static str> {
    options.iter().find(|(_, is_given)| *is_given).map(|(option, _)| *option)
}

/// What is typed behind `--stacks`.
fn request_stacks(text: &str) -> Result<RequestStacks, String> {
    let mut stacks = RequestStacks { slow_ns: u64::MAX, issue_one_in: 0 };
    for word in text.split(',') {
        let is_slow = word.starts_with("slow");
        if is_slow && stacks.slow_ns < u64::MAX || !is_slow && stacks.issue_one_in > 0 {
            return Err("give slow once, and all or a ratio once".into());
        }
        match word.split_once('=').map_or((word, None), |(word, value)| (word, Some(value))) {
            ("slow", None) => stacks.slow_ns = RequestStacks::SLOW.slow_ns,
            ("slow", Some(value)) if !value.ends_with(|letter: char| letter.is_ascii_alphabetic()) => {
                return Err(format!("slow={value} needs a unit, such as slow=50ms"));
            }
            ("slow", Some(value)) => {
                stacks.slow_ns = latscope_event::parse_duration(value).map_err(|error| format!("slow: {error}"))?;
            }
            ("all", None) => stacks.issue_one_in = 1,
            (ratio, None) => match ratio.strip_prefix("1/").map(str::parse) {
                Some(Ok(one_in)) if one_in > 0 => stacks.issue_one_in = one_in,
                _ => {
                    return Err(format!(
                        "{ratio} is not valid here; give slow, slow=50ms, all, or a ratio such as 1/64"
                    ));
                }
            },
            _ => return Err(format!("{word} is not valid here; give slow, slow=50ms, all, or a ratio such as 1/64")),
        }
    }
    Ok(stacks)
}

fn budget(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').ok_or("it needs a percent sign, as in 1%")?;
    let percent: f64 = number.parse().map_err(|_| "it is not a percentage such as 1%".to_string())?;
    if percent > 0.0 && percent <= 100.0 { Ok(percent / 100.0) } else { Err("it is not between 0% and 100%".into()) }
}

/// What is typed behind `-s`: `block`, `io`, `syscall`, or one or several of `stacks`, `offcpu=1ms` and `oncpu=99hz`, or both.
pub fn source(text: &str) -> Result<Source, String> {
    match text {
        "block" => return Ok(Source::Block),
        "io" => return Ok(Source::Io),
        "syscall" => return Ok(Source::Syscall),
        "spark" => return Ok(Source::Spark),
        _ => {}
    }
    let (mut kinds, mut off_cpu_ns, mut on_cpu_hz) = (StackKinds::default(), None, None);
    let mut beside = None;
    for word in text.split(',') {
        match word.split_once('=').map_or((word, None), |(word, value)| (word, Some(value))) {
            ("stacks", None) => kinds.sampled = true,
            ("offcpu", value) => {
                kinds.off_cpu = true;
                let parse = |value| latscope_event::parse_duration(value).map_err(|error| format!("offcpu: {error}"));
                off_cpu_ns = value.map(parse).transpose()?;
            }
            ("oncpu", value) => {
                kinds.on_cpu = true;
                let parse = |value: &str| match value.strip_suffix("hz").unwrap_or(value).parse() {
                    Ok(hz @ 1..=10_000) => Ok(hz),
                    _ => Err(format!("oncpu: {value} is not a rate such as 99hz, up to 10000hz")),
                };
                on_cpu_hz = value.map(parse).transpose()?;
            }
            ("spark", None) => return Err(format!("{word} cannot be combined with others")),
            ("block" | "io" | "syscall", None) if beside.is_some() => {
                return Err(format!("{word}: only one of block, io and syscall can be captured at a time"));
            }
            ("block", None) => beside = Some(Requests::Block),
            ("io", None) => beside = Some(Requests::Io),
            ("syscall", None) => beside = Some(Requests::Syscall),
            _ => {
                return Err(format!(
                    "{word} is no source; use block, io, syscall or spark, or of stacks, offcpu[=1ms] and oncpu[=99hz] one or \
                     several, separated by commas"
                ));
            }
        }
    }
    Ok(match beside {
        Some(requests) => Source::Beside { requests, kinds, off_cpu_ns, on_cpu_hz },
        None => Source::Stacks { kinds, off_cpu_ns, on_cpu_hz },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_stacks_combine() {
        let all = StackKinds { sampled: true, off_cpu: true, on_cpu: true };
        let expected = Source::Stacks { kinds: all, off_cpu_ns: Some(500_000), on_cpu_hz: Some(49) };
        assert_eq!(source("stacks,offcpu=500us,oncpu=49hz"), Ok(expected));
        assert_eq!(source(&expected.words()), Ok(expected));
        assert_eq!(source("io"), Ok(Source::Io));
        let sampled = StackKinds { sampled: true, ..StackKinds::default() };
        let both = Source::Beside { requests: Requests::Block, kinds: sampled, off_cpu_ns: None, on_cpu_hz: None };
        assert_eq!((source("block,stacks"), both.words()), (Ok(both), "block,stacks".to_string()));
        for wrong in ["stack", "block,io", "block,block", "stacks,", "oncpu=0", "offcpu=soon", "stacks=1"] {
            assert!(source(wrong).is_err(), "{wrong}");
        }
        let requests = |slow_ns, issue_one_in| Ok(RequestStacks { slow_ns, issue_one_in });
        assert_eq!(request_stacks("slow"), requests(50_000_000, 0));
        assert_eq!(request_stacks("slow=20ms,1/64"), requests(20_000_000, 64));
        assert_eq!(request_stacks("all"), requests(u64::MAX, 1));
        for words in ["slow=20ms", "slow=1.5ms,1/64", "all", "1/8", "slow=1ms,1/1"] {
            assert_eq!(request_stacks(words).unwrap().to_string(), words);
        }
        for wrong in ["", "slow=", "slow=5", "slow,slow=5ms", "all,1/4", "1/4,1/8", "1/0", "2/3", "all=1", "fast"] {
            assert!(request_stacks(wrong).is_err(), "{wrong}");
        }
        assert_eq!((budget("0.5%"), budget("1").is_err(), budget("0%").is_err()), (Ok(0.005), true, true));
    }
}
