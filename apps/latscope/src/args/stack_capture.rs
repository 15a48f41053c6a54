use super::Source;
use clap::Args;
use latscope_capture_bpf::{RequestStacks, StackOptions};

/// How stacks are captured.
#[derive(Args, Clone, Debug, Default)]
pub struct StackCapture {
    /// With -s block: stacks of the threads that issue requests: slow[=50ms], all, or 1/N of them; or slow and 1/N
    ///
    /// slow takes them when a request completes, if the thread still waits for it, and of some faster ones to compare with. all and
    /// 1/N take them when requests are issued, also of threads that do not wait.
    #[arg(long, value_name = "WHICH", value_parser = RequestStacks::parse, help_heading = "Stacks")]
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
        let usual = source.map(Source::stack_options).unwrap_or_default();
        StackOptions {
            hz: self.hz.unwrap_or(usual.hz),
            budget: self.cpu_budget.unwrap_or(usual.budget),
            all_threads: self.all_threads,
            user_stacks: !self.no_user_stacks,
            hashed_names: self.hash_names,
            jvm_maps: self.jvm_maps,
            requests: self.stacks,
            ..usual
        }
    }
}

fn first(options: &[(&'static str, bool)]) -> Option<&'static str> {
    options.iter().find(|(_, is_given)| *is_given).map(|(option, _)| *option)
}

fn budget(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').ok_or("it needs a percent sign, as in 1%")?;
    let percent: f64 = number.parse().map_err(|_| "it is not a percentage such as 1%".to_string())?;
    if percent > 0.0 && percent <= 100.0 { Ok(percent / 100.0) } else { Err("it is not between 0% and 100%".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_of_requests_and_budgets() {
        let requests = |slow_ns, issue_one_in| Ok(RequestStacks { slow_ns, issue_one_in });
        assert_eq!(RequestStacks::parse("slow"), requests(50_000_000, 0));
        assert_eq!(RequestStacks::parse("slow=20ms,1/64"), requests(20_000_000, 64));
        assert_eq!(RequestStacks::parse("all"), requests(u64::MAX, 1));
        for words in ["slow=20ms", "slow=1.5ms,1/64", "all", "1/8", "slow=1ms,1/1"] {
            assert_eq!(RequestStacks::parse(words).unwrap().to_string(), words);
        }
        for wrong in ["", "slow=", "slow=5", "slow,slow=5ms", "all,1/4", "1/4,1/8", "1/0", "2/3", "all=1", "fast"] {
            assert!(RequestStacks::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!((budget("0.5%"), budget("1").is_err(), budget("0%").is_err()), (Ok(0.005), true, true));
    }
}
