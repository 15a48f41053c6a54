//! The one place where what is noted of a trace becomes a sentence, and where it says what to do about it.

#[path = "notes/hosts.rs"]
mod hosts;
#[path = "notes/sampling.rs"]
mod sampling;
#[path = "notes/words.rs"]
mod words;

use hosts::{hosts, listed};
use latscope_event::{
    Anomaly, Context, KernelFeature, Lacking, Note, Severity, Unfinished, Wait, Wording, format_count, format_duration,
};
use sampling::{request_stacks, sampling, short_waits};
use std::collections::BTreeMap;
use words::words;

/// For views that print notes.
pub const WORDING: Wording = Wording(sentences);

/// What sentences start with, the worst first.
const LEVELS: [(Severity, &str); 4] = [
    (Severity::Lost, "missing"),
    (Severity::Open, "unfinished"),
    (Severity::Repaired, "caveat"),
    (Severity::Note, "note"),
];

/// What changes no number and what no view shows: only who writes a trace is to know.
pub fn detail(context: &Context) -> Option<String> {
    counted(context, Severity::Detail, "detail")
}

/// Sentences about what was lost, unfinished and repaired, the worst first; none when all is well.
fn sentences(context: &Context) -> Vec<(Severity, String)> {
    let levels = LEVELS.iter().filter_map(|&(severity, word)| Some((severity, counted(context, severity, word)?)));
    let noted = context.notes.iter().filter_map(|note| Some((Severity::Note, noted(context, note)?)));
    levels.chain(longest_unfinished(&context.unfinished)).chain(noted).collect()
}

fn counted(context: &Context, severity: Severity, word: &str) -> Option<String> {
    let kinds = context.tally.iter().filter(|(anomaly, _)| anomaly.severity() == severity);
    let is_of_driver = context.properties.contains_key(Context::SPARK_SOURCE);
    let phrase = |(anomaly, count)| counted_phrase(words(anomaly, is_of_driver), count) + &traces(context, anomaly);
    let phrases: Vec<String> = kinds.map(phrase).collect();
    (!phrases.is_empty()).then(|| format!("{word}: {}", phrases.join("; ")))
}

/// Which of several traces lack something: `, in b.log and 2 more`.
fn traces(context: &Context, anomaly: Anomaly) -> String {
    match context.lacking.iter().find(|lacking| lacking.anomaly == anomaly) {
        None => String::new(),
        Some(Lacking { first, more: 0, .. }) => format!(", in {first}"),
        Some(Lacking { first, more, .. }) => format!(", in {first} and {} more", format_count(*more)),
    }
}

/// So many of something: `1 event`, `2 events`.
pub fn plural(count: u64, word: &str) -> String {
    format!("{} {word}{}", format_count(count), if count == 1 { "" } else { "s" })
}

/// A phrase with its number in the place of `{}`, and of each `[one|many]` the form that goes with it.
fn counted_phrase(words: &str, count: u64) -> String {
    let words = words.replace("{}", &format_count(count));
    let mut parts = words.split('[');
    let mut phrase = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (forms, rest) = part.split_once(']').unwrap_or((part, ""));
        let (one, many) = forms.split_once('|').unwrap_or((forms, forms));
        phrase += if count == 1 { one } else { many };
        phrase += rest;
    }
    phrase
}

/// A note in words; `None` for what another sentence says already.
fn noted(context: &Context, note: &Note) -> Option<String> {
    let text = match note {
        // A last line that is cut counts as truncated.
        Note::MalformedRow { .. } if context.tally.get(Anomaly::UnparsedLines) == 0 => return None,
        Note::MalformedRow { line, why } => {
            let lacking = context.lacking.iter().find(|lacking| lacking.anomaly == Anomaly::UnparsedLines);
            let file = lacking.map_or(String::new(), |lacking| format!(" of {}", lacking.first));
            format!("the first malformed row is line {line}{file}: it has {why}")
        }
        Note::UnknownColumns { names } => {
            format!("columns that are not fields of events are ignored: {}", listed(names))
        }
        Note::FieldsOfFilter { names } => {
            let are = if names.len() == 1 { "a field" } else { "fields" };
            format!("no event has {}, {are} of the filter", names.join(" or "))
        }
        Note::UnusedOffsets { file, hosts } => format!("--offsets {file}: no input is from {}", hosts.join(", ")),
        Note::Interrupted => "interrupted: the rest of the input was not read".into(),
        Note::ImplausibleSpan { span_ns } => {
            let span = format_duration(*span_ns);
            format!("the times span {span}, perhaps in another unit (--unitstime ms, us or ns sets it)")
        }
        Note::ImplausibleRate { per_s } => {
            let rate = format_count(*per_s);
            format!("{rate} events per second, perhaps with times in another unit (--unitstime s, ms or us sets it)")
        }
        Note::ImplausibleOverlap { in_flight } => {
            let in_flight = format_count(*in_flight);
            format!(
                "{in_flight} requests in flight on average, perhaps with latencies in another unit (--unitslat ms, us or \
                 ns sets it)"
            )
        }
        Note::NoHistogram { first, more } => match more {
            0 => first.clone(),
            1 => format!("{first} 1 more has no histogram."),
            _ => format!("{first} {} more have no histogram.", format_count(*more)),
        },
        Note::KernelLacks { feature } => lack(*feature).into(),
        Note::TagsAsked { count, every_ns, took_ns: [median_ns, longest_ns], failure } => {
            let times = [every_ns, median_ns, longest_ns].map(|ns| format_duration(*ns));
            let failure = if failure.is_empty() { String::new() } else { format!("; the last one failed: {failure}") };
            format!(
                "the database was asked {} times, every {}, and took {} (median) to {}: tags may be off by as much{failure}",
                format_count(*count),
                times[0],
                times[1],
                times[2]
            )
        }
        Note::TagUnknown { key, known } => match &known[..] {
            [] => format!("no event has the tag {key}, nor any other; --tag-file gives events tags"),
            known => format!("no event has the tag {key}; there are {}", known.join(", ")),
        },
        Note::TagsReceived { lines, malformed, first, refused_writers } => {
            let lines = format_count(*lines);
            let malformed = match malformed {
                0 => String::new(),
                count => format!("; {} of them were malformed, the first was {first}", format_count(*count)),
            };
            let refused = match refused_writers {
                0 => String::new(),
                count => format!("; {} writers were refused, as too many wrote already", format_count(*count)),
            };
            format!("{lines} lines of tags came by the socket{malformed}{refused}")
        }
        Note::StackedDevices { devices, left_out: 0, .. } => {
            let devices = devices.join(", ");
            format!(
                "requests of {devices} are passed on to other devices of this trace and are events of both; filter or \
                 group by device (the total of a summary leaves {devices} out)"
            )
        }
        Note::StackedDevices { devices, left_out, .. } => {
            let (devices, left_out) = (devices.join(", "), format_count(*left_out));
            format!(
                "requests of {devices} ({left_out}) are passed on to other devices of this trace and count there only; \
                 --by device shows both"
            )
        }
        Note::TrailingBytes { bytes } => {
            format!("{} behind the end of the gzip data not read: not compressed with gzip", plural(*bytes, "byte"))
        }
        Note::UnrelatedClocks { first, clocks: [other, own] } => format!(
            "its clock ({own}) and that of {first} ({other}) count from different moments, so their times cannot be \
             compared; --align-starts lets each trace count from its own start"
        ),
        Note::Damage { byte, what } => {
            format!("the input is damaged at byte {}: it has {what}; the rest was not read", format_count(*byte))
        }
        Note::Hosts { .. } => hosts(note),
        Note::NoQueueTimes => {
            "no request has the time of its creation, so --latency request is the latency of the device; record \
             block_rq_insert, too, or use latscope record"
                .into()
        }
        Note::NoTimes => {
            "its stacks are counted without times: every sample shows at one moment, so views over time say nothing \
             (flamegraph and stacks do); if the numbers are times, as those of offcputime, give their unit: --unitslat us"
                .into()
        }
        Note::NumbersInNames => {
            "every stack ends in a number that is read as part of its name; --format difffolded reads two counts".into()
        }
        Note::Sampling { .. } => sampling(note),
        Note::ShortWaits { .. } => short_waits(note),
        Note::RequestStacks { .. } => request_stacks(note),
        Note::BegunBefore { count, longest_ns } => {
            let (counts, of) = if *count == 1 { ("counts", "") } else { ("count", "the longest took ") };
            let (waits, longest) = (plural(*count, "wait"), format_duration(*longest_ns));
            format!("{waits} had begun before the capture and {counts} from its start: {of}at least {longest}")
        }
        Note::UnknownDevice { count, time_ns } => {
            let (are, of) = if *count == 1 { ("is", "its device is") } else { ("are", "their devices are") };
            format!(
                "the filter asks for a device, and {} for storage of {} {are} left out as {of} not known (page faults of mapped files, \
                 frozen file systems)",
                plural(*count, "wait"),
                format_duration(*time_ns)
            )
        }
        Note::JvmMaps { asked, written, failure } => {
            let failure = if failure.is_empty() { String::new() } else { format!("; the last failure: {failure}") };
            let [asked, written] = [asked, written].map(|count| format_count(*count));
            format!("JVMs were asked for the names of their code: {written} of {asked} requests succeeded{failure}")
        }
        Note::Unknown => "a note of a later version of latscope is not shown".into(),
    };
    Some(text)
}

fn lack(feature: KernelFeature) -> &'static str {
    match feature {
        KernelFeature::Btf => {
            "this kernel has no BTF type information (CONFIG_DEBUG_INFO_BTF): events cost more, and capture needs a \
             vmlinux with BTF in /boot"
        }
        KernelFeature::RequestStart => {
            "this kernel has no tracepoint block_io_start (Linux 6.5): the process of a request is the one that issued it \
             to the device, for delayed requests a kernel worker"
        }
        KernelFeature::TagWalk => {
            "this kernel runs no BPF program over the tags of a disk (Linux 5.17): requests that hang are known only by \
             their count in /sys/block/*/inflight"
        }
        KernelFeature::UringTracepoints => {
            "this kernel has no io_uring tracepoints that latscope knows: io_uring requests are left out"
        }
        KernelFeature::Unknown => "the kernel lacked something that a later version of latscope looks for",
    }
}

/// The request that waits longest, and how many do not count as waiting; and how many threads sleep, which stalls nothing.
fn longest_unfinished(unfinished: &[Unfinished]) -> impl Iterator<Item = (Severity, String)> {
    let (sleeps, requests): (Vec<&Unfinished>, Vec<&Unfinished>) =
        unfinished.iter().partition(|request| request.wait == Wait::Sleeps);
    let mut left_out = BTreeMap::<Wait, u64>::new();
    requests.iter().for_each(|request| *left_out.entry(request.wait).or_insert(0) += 1);
    let reasons = left_out.iter().filter_map(|(wait, &count)| Some((count, not_waiting(*wait)?)));
    let does = |count| if count == 1 { "does" } else { "do" };
    let text = |(count, reason)| format!("; {} {} not count as waiting: {reason}", format_count(count), does(count));
    let reasons: String = reasons.map(text).collect();
    let longest = requests.first().map(|oldest| {
        let age = match oldest.at_least_ns {
            0 => "which had just begun".into(),
            age_ns => format!("at least {}", format_duration(age_ns)),
        };
        (Severity::Open, format!("longest without a completion: {}, {age}{reasons}", oldest.what))
    });
    let asleep = (!sleeps.is_empty()).then(|| {
        let (has, counts) = if sleeps.len() == 1 { ("has", "counts with its") } else { ("have", "count with their") };
        let waits = plural(sleeps.len() as u64, "wait");
        let text = format!(
            "{waits} for something other than storage (a timer, a lock, a message, a CPU) {has} not ended and {counts} time so far"
        );
        (Severity::Note, text)
    });
    longest.into_iter().chain(asleep)
}

/// Why a request does not count as waiting; `None` where it does, and where nothing is known.
fn not_waiting(wait: Wait) -> Option<&'static str> {
    match wait {
        Wait::Counts | Wait::Sleeps | Wait::Unknown => None,
        Wait::LeftBehind => Some({
            "their devices went on and completed later requests for longer than their slowest took, so most likely the \
             tracer lost the completions"
        }),
        Wait::Lossy => Some("the trace lacks completions"),
        Wait::Elsewhere => Some("such calls also wait for other processes and for messages"),
    }
}

#[cfg(test)]
#[path = "notes_tests.rs"]
mod tests;
