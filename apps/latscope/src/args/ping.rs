//! What was typed after `ping`, or after `ioping`. The words are read as `getopt_long_only` reads them, since that is how
//! ioping does: `-c 3`, `-c3`, `-count 3`, `--count=3`, `-cou 3`, `-WWW`, options after the target.

mod described;

use super::ping_units::{count, duration, size};
use clap::Args;
use std::iter::{Map, Peekable};
use std::path::PathBuf;
use std::slice::Iter;

/// Measure the latency of a directory, file or device, like ioping
#[derive(Args, Debug)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct PingWords {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS AND TARGETS")]
    pub words: Vec<String>,
}

/// What was typed, understood word by word.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ping {
    pub targets: Vec<PathBuf>,
    pub help: bool,
    pub version: bool,
    pub warmup: Option<u64>,
    pub burst: u64,
    pub count: Option<u64>,
    pub seed: u64,
    pub interval_ns: Option<u64>,
    pub speed_limit: Option<u64>,
    pub rate_limit: Option<u64>,
    pub min_time_ns: Option<u64>,
    pub max_time_ns: Option<u64>,
    pub size: Option<u64>,
    pub work_size: Option<u64>,
    pub work_offset: u64,
    pub work_time_ns: Option<u64>,
    pub print_count: Option<u64>,
    pub print_interval_ns: Option<u64>,
    pub aio: bool,
    pub cached: bool,
    pub direct: bool,
    pub nowait: bool,
    pub hipri: bool,
    pub open_sync: bool,
    pub open_dsync: bool,
    /// How often `-W` was given.
    pub write: u32,
    pub read_write: bool,
    pub linear: bool,
    pub rapid: bool,
    pub keep: bool,
    pub batch: bool,
    pub quiet: bool,
    pub json: bool,
    /// Of `strftime`.
    pub time_format: Option<String>,
    pub native: Native,
}

/// What ioping does not have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Native {
    /// Requests per second of an open loop.
    pub rate: Option<u64>,
    pub depth: Option<u32>,
    pub threads: Option<u32>,
    pub engine: Option<String>,
    pub sync: Option<String>,
    pub append: bool,
    pub cache: Option<String>,
    pub strict_cache: bool,
    pub realtime: bool,
    pub busy: bool,
    pub spin_ns: Option<u64>,
    pub cpu: Option<u32>,
    pub json_lines: bool,
    pub fail_if: Option<String>,
    pub on_error: Option<String>,
    pub timeout_ns: Option<u64>,
    pub write_trace: Option<PathBuf>,
    pub force: bool,
    pub spectrogram: bool,
}

/// The words that were not looked at yet.
type Words<'a> = Peekable<Map<Iter<'a, String>, fn(&String) -> &str>>;

/// Of `--sync HOW`.
pub const SYNCS: [&str; 5] = ["none", "fdatasync", "fsync", "dsync", "sync"];

/// An option: letter, long name, what it takes, what it does.
struct Known {
    letter: Option<char>,
    name: &'static str,
    takes: Takes,
    native: bool,
    meaning: &'static str,
    set: fn(&mut Ping, &str) -> Result<(), String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Takes {
    Nothing,
    Value(&'static str),
    /// In the same word only.
    Perhaps(&'static str),
}

macro_rules! known {
    ($($native:ident $letter:literal $name:literal $takes:expr, $meaning:literal, |$to:ident, $text:tt| $set:expr;)*) => {
        &[$(Known {
            letter: match $letter { ' ' => None, letter => Some(letter) },
            name: $name,
            takes: $takes,
            native: stringify!($native).as_bytes()[0] == b'n',
            meaning: $meaning,
            set: |$to: &mut Ping, $text: &str| {
                $set;
                Ok(())
            },
        },)*]
    };
}

const NOTHING: Takes = Takes::Nothing;

/// Every option. `ioping` marks those that ioping has.
const KNOWN: &[Known] = known! {
    ioping 'a' "warmup" Takes::Value("N"), "do not count the first N requests (default 1)", |to, text| to.warmup = Some(count(text)?);
    ioping 'b' "burst" Takes::Value("N"), "make N requests back to back per interval", |to, text| to.burst = count(text)?;
    ioping 'c' "count" Takes::Value("N"), "stop after N requests", |to, text| to.count = Some(count(text)?);
    ioping 'e' "entropy" Takes::Value("N"), "seed for offsets and data (default: the clock)", |to, text| to.seed = count(text)?;
    ioping 'i' "interval" Takes::Value("TIME"), "time between requests (default 1s)", |to, text| to.interval_ns = Some(duration(text)?);
    ioping 'l' "speed-limit" Takes::Value("SIZE"), "limit throughput to SIZE per second", |to, text| to.speed_limit = Some(size(text)?);
    ioping 'r' "rate-limit" Takes::Value("N"), "limit the rate to N requests per second", |to, text| to.rate_limit = Some(count(text)?);
    ioping 't' "min-time" Takes::Value("TIME"), "ignore faster requests", |to, text| to.min_time_ns = Some(duration(text)?);
    ioping 'T' "max-time" Takes::Value("TIME"), "ignore slower requests", |to, text| to.max_time_ns = Some(duration(text)?);
    ioping 's' "size" Takes::Value("SIZE"), "request size (default 4k; 256k with -L)", |to, text| to.size = Some(size(text)?);
    ioping 'S' "work-size" Takes::Value("SIZE"), "working set (default: 1m in a directory, 64m with -R; otherwise the whole target)", |to, text| to.work_size = Some(size(text)?);
    ioping 'o' "work-offset" Takes::Value("SIZE"), "start of the working set", |to, text| to.work_offset = size(text)?;
    ioping 'w' "work-time" Takes::Value("TIME"), "stop after TIME", |to, text| to.work_time_ns = Some(duration(text)?);
    ioping 'p' "print-count" Takes::Value("N"), "print raw statistics for every N requests", |to, text| to.print_count = Some(count(text)?).filter(|&n| n > 0);
    ioping 'P' "print-interval" Takes::Value("TIME"), "print raw statistics every TIME", |to, text| to.print_interval_ns = Some(duration(text)?).filter(|&ns| ns > 0);
    ioping 'A' "async" NOTHING, "use libaio", |to, _| to.aio = true;
    ioping 'C' "cached" NOTHING, "use the page cache, and do not sync after writes", |to, _| to.cached = true;
    ioping 'D' "direct" NOTHING, "bypass the page cache (O_DIRECT)", |to, _| to.direct = true;
    ioping 'N' "nowait" NOTHING, "fail rather than wait (RWF_NOWAIT)", |to, _| to.nowait = true;
    ioping 'H' "hipri" NOTHING, "poll for completions (RWF_HIPRI)", |to, _| to.hipri = true;
    ioping 'Y' "sync" NOTHING, "open with O_SYNC", |to, _| to.open_sync = true;
    ioping 'y' "dsync" NOTHING, "open with O_DSYNC", |to, _| to.open_dsync = true;
    ioping 'W' "write" NOTHING, "write instead of read; -WWW overwrites a file or device", |to, _| to.write += 1;
    ioping 'G' "read-write" NOTHING, "alternate writes and reads", |to, _| to.read_write = true;
    ioping 'L' "linear" NOTHING, "sequential instead of random offsets", |to, _| to.linear = true;
    ioping 'R' "rapid" NOTHING, "as fast as possible: -q -i 0 -w 3, working set 64m", |to, _| to.rapid = true;
    ioping 'k' "keep" NOTHING, "keep and reuse the file ioping.tmp in a directory", |to, _| to.keep = true;
    ioping 'B' "batch" NOTHING, "print one raw line at the end", |to, _| to.batch = true;
    ioping 'q' "quiet" NOTHING, "do not print a line per request", |to, _| to.quiet = true;
    ioping 'J' "json" NOTHING, "print JSON", |to, _| to.json = true;
    ioping 'I' "time" Takes::Perhaps("FORMAT"), "print the time before every line, in strftime format", |to, text| to.time_format = Some(if text.is_empty() { "%b %d %H:%M:%S" } else { text }.into());
    ioping 'h' "help" NOTHING, "print this help", |to, _| to.help = true;
    ioping 'v' "version" NOTHING, "print the version", |to, _| to.version = true;
    native ' ' "rate" Takes::Value("N"), "open loop: N requests per second, whatever the target does; latency counts from when each was due", |to, text| to.native.rate = Some(count(text)?);
    native ' ' "depth" Takes::Value("N"), "requests in flight per thread, by io_uring (default 1; 64 with --rate)", |to, text| to.native.depth = Some(small(text)?);
    native ' ' "threads" Takes::Value("N"), "threads per target (default 1)", |to, text| to.native.threads = Some(small(text)?);
    native ' ' "engine" Takes::Value("NAME"), "pread, libaio or io_uring", |to, text| to.native.engine = Some(text.into());
    native ' ' "append" NOTHING, "append to a growing file", |to, _| to.native.append = true;
    native ' ' "cache" Takes::Value("STATE"), "cache state before each read: cold (evicted and verified), any, hot", |to, text| to.native.cache = Some(text.into());
    native ' ' "strict-cache" NOTHING, "fail if a read found its data in another cache state", |to, _| to.native.strict_cache = true;
    native ' ' "rt" NOTHING, "real-time scheduling (SCHED_FIFO)", |to, _| to.native.realtime = true;
    native ' ' "busy" NOTHING, "wait without sleeping, so that the CPU stays awake", |to, _| to.native.busy = true;
    native ' ' "spin-before" Takes::Value("TIME"), "wake up TIME before each request (default 0; with --rate a tenth of the interval, at most 100us)", |to, text| to.native.spin_ns = Some(duration(text)?);
    native ' ' "cpu" Takes::Value("N"), "make the requests on this CPU only", |to, text| to.native.cpu = Some(small(text)?);
    native ' ' "jsonl" NOTHING, "print JSON, one object per line, as soon as it is known", |to, _| to.native.json_lines = true;
    native ' ' "fail-if" Takes::Value("CONDITION"), "exit with status 1 if this holds, e.g. 'p99 > 10ms'", |to, text| to.native.fail_if = Some(text.into());
    native ' ' "on-error" Takes::Value("WHAT"), "after a failed request: stop or continue (default continue)", |to, text| to.native.on_error = Some(text.into());
    native ' ' "timeout" Takes::Value("TIME"), "warn about requests pending longer than TIME (default 5s)", |to, text| to.native.timeout_ns = Some(duration(text)?);
    native ' ' "trace" Takes::Value("FILE"), "record every request to a trace (.lat); also -w FILE.lat", |to, text| to.native.write_trace = Some(text.into());
    native 'f' "force" NOTHING, "replace the trace if it exists", |to, _| to.native.force = true;
    native ' ' "spectrogram" NOTHING, "show a spectrogram instead of lines", |to, _| to.native.spectrogram = true;
};

fn small(text: &str) -> Result<u32, String> {
    u32::try_from(count(text)?).map_err(|_| format!("integer overflow at parsing argument: {text}"))
}

impl Ping {
    /// Reads words; `compatible` knows the options of ioping only.
    ///
    /// # Errors
    /// What is wrong, as ioping says it.
    pub fn parse(words: &[String], compatible: bool) -> Result<Ping, String> {
        let mut ping = Ping::default();
        let mut words: Words = words.iter().map(String::as_str as fn(&String) -> &str).peekable();
        while let Some(word) = words.next() {
            match word {
                "--" => ping.targets.extend(words.by_ref().map(PathBuf::from)),
                "-" => ping.targets.push(word.into()),
                _ if !word.starts_with('-') => ping.targets.push(word.into()),
                _ => ping.option(word, &mut words, compatible)?,
            }
        }
        Ok(ping)
    }

    fn option<'a>(&mut self, word: &'a str, words: &mut Words<'a>, compatible: bool) -> Result<(), String> {
        let long = word.strip_prefix("--");
        let text = long.unwrap_or(&word[1..]);
        let first = text.chars().next();
        let letter = |letter: char| find_letter(letter, compatible);
        // One letter alone is that letter; more are a long name if there is one that starts so.
        if long.is_some() || text.chars().count() > 1 || first.is_none_or(|first| letter(first).is_none()) {
            let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            match find_name(name, compatible)? {
                Some(known) => return self.long(known, value, words, compatible),
                None if long.is_some() || first.is_none_or(|first| letter(first).is_none()) => {
                    return Err(format!("unrecognized option '{word}'"));
                }
                None => {}
            }
        }
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let known = letter(first).ok_or_else(|| format!("invalid option -- '{first}'"))?;
            rest = &rest[first.len_utf8()..];
            match known.takes {
                Takes::Nothing => (known.set)(self, "")?,
                Takes::Perhaps(_) => return (known.set)(self, std::mem::take(&mut rest)),
                Takes::Value(_) => {
                    let value = if rest.is_empty() { words.next() } else { Some(std::mem::take(&mut rest)) };
                    let value = value.ok_or_else(|| format!("option requires an argument -- '{first}'"))?;
                    // Everywhere else in latscope -w is the trace to write, and no time ends in .lat.
                    if first == 'w' && !compatible && value.ends_with(".lat") {
                        self.native.write_trace = Some(value.into());
                        return Ok(());
                    }
                    return (known.set)(self, value);
                }
            }
        }
        Ok(())
    }

    fn long<'a>(
        &mut self,
        known: &Known,
        value: Option<&'a str>,
        words: &mut Words<'a>,
        compatible: bool,
    ) -> Result<(), String> {
        match (known.takes, value) {
            (Takes::Nothing, Some(how)) if known.name == "sync" && !compatible => {
                self.native.sync = Some(how.into());
                Ok(())
            }
            (Takes::Nothing, Some(_)) => Err(format!("option '{}' doesn't allow an argument", known.name)),
            (Takes::Nothing, None) if known.name == "sync" && !compatible => {
                // ioping's own option takes nothing; which target has such a name?
                match words.next_if(|word| SYNCS.contains(word)) {
                    Some(how) => self.native.sync = Some(how.into()),
                    None => self.open_sync = true,
                }
                Ok(())
            }
            (Takes::Nothing, None) => (known.set)(self, ""),
            (Takes::Perhaps(_), value) => (known.set)(self, value.unwrap_or("")),
            (Takes::Value(_), value) => {
                let value = value.or_else(|| words.next());
                (known.set)(self, value.ok_or_else(|| format!("option '{}' requires an argument", known.name))?)
            }
        }
    }

    /// The help.
    pub fn help(compatible: bool) -> String {
        let mut text = if compatible {
            "Usage: ioping [OPTION]... TARGET\n\nMeasures the latency of a directory, file or device.\n".to_string()
        } else {
            INTRODUCTION.to_string()
        };
        for native in [false, true].into_iter().filter(|native| !(native & compatible)) {
            text += if native { BEYOND } else { "\nOptions (long ones also with a single dash, as in ioping):\n" };
            for known in KNOWN.iter().filter(|known| known.native == native) {
                let letter = known.letter.map_or("    ".into(), |letter| format!("-{letter}, "));
                let takes = match known.takes {
                    Takes::Nothing => String::new(),
                    Takes::Value(name) => format!(" {name}"),
                    Takes::Perhaps(name) => format!("[={name}]"),
                };
                // Our own option of this name takes more.
                let long = if known.name == "sync" && !compatible {
                    "-Y".into()
                } else {
                    format!("{letter}--{}{takes}", known.name)
                };
                text += &format!("  {long:<28} {}\n", known.meaning);
            }
        }
        text += "\nSizes: b sector k page m g t (k = 1024). Counts: k m g t (k = 1000). Times: ns us ms s m h (default: seconds).\n";
        text + if compatible { "" } else { EXAMPLES }
    }
}

const INTRODUCTION: &str = "\
Measures the latency of directories, files and devices.

Usage: latscope ping [OPTION]... TARGET...

Takes the options of ioping. Reads never modify the target. In a directory, a file without a name is used, which
disappears with the process.
";

const BEYOND: &str = "
Beyond ioping:
      --sync HOW               how writes are synced: none, fdatasync, fsync, dsync or sync (default fdatasync; none with
                               -C); without HOW, the same as -Y
";

const EXAMPLES: &str = "
Examples:
  latscope ping -c 3 .                               # three reads, one per second
  latscope ping -D -i 0 -w 2 -q .                    # as fast as possible for two seconds, without the page cache
  latscope ping -W --sync fdatasync -i 10ms -w 2 . /tmp    # durable writes in two directories
  latscope ping --rate 1000 -w 2 -q -w probe.lat .   # open loop, recorded to a trace
  latscope ping -q -c 1000 -i 1ms --fail-if 'p99 > 1s' .

Exit status: 0 done, 1 --fail-if or --strict-cache failed, 2 wrong usage, 3 the measurement failed.
";

fn find_letter(letter: char, compatible: bool) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.letter == Some(letter) && !(compatible && known.native))
}

/// The option of this name, or of the one name that starts so.
fn find_name(name: &str, compatible: bool) -> Result<Option<&'static Known>, String> {
    let candidates = || KNOWN.iter().filter(|known| !(compatible && known.native));
    if let Some(known) = candidates().find(|known| known.name == name) {
        return Ok(Some(known));
    }
    let mut prefixed = candidates().filter(|known| !name.is_empty() && known.name.starts_with(name));
    match (prefixed.next(), prefixed.next()) {
        (Some(_), Some(_)) => Err(format!("option '{name}' is ambiguous")),
        (found, _) => Ok(found),
    }
}

#[cfg(test)]
#[path = "ping_tests.rs"]
mod tests;
