//! The one place where what is noted of a trace becomes a sentence, and where it says what to do about it.

use latscope_event::{
    Anomaly, Context, KernelFeature, Lacking, Note, Severity, Unfinished, Wait, Wording, format_count, format_duration,
};
use std::collections::BTreeMap;

/// For views that print notes.
pub const WORDING: Wording = Wording(sentences);

/// Names shown of a list.
const NAMES_SHOWN: usize = 5;

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
    let phrase = |(anomaly, count)| counted_phrase(words(anomaly), count) + &traces(context, anomaly);
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

fn words(anomaly: Anomaly) -> &'static str {
    match anomaly {
        Anomaly::NotSent => {
            "{} request[|s] due before the probe ended [was|were] not made: the target was too slow for the rate"
        }
        Anomaly::Withheld => {
            "{} request[|s] completed just before another hung, with [a latency|latencies] that only the hung thread knows"
        }
        Anomaly::Truncated => "{} truncated input[|s]: the rest is missing",
        Anomaly::LostRecords => "{} record[|s] lost by the tracer",
        Anomaly::LostCompletion => "{} request[|s] left out: issued again without a completion in between",
        Anomaly::Uncounted => {
            "{} request[|s] completed according to the disk statistics, but in no histogram (completion not seen)"
        }
        Anomaly::OrphanCompletion => {
            "{} unpaired completion[|s] (issued before the trace started, or the issue was lost)"
        }
        Anomaly::MismatchedCompletion => {
            "{} completion[|s] that [does|do] not match the open request of [its|their] sector, both left out"
        }
        Anomaly::EvictedInFlight => "{} request[|s] left out: more were in flight than the table holds",
        Anomaly::UnpairedExit => "{} system call[|s] left out: the return was seen, the start was not",
        Anomaly::UnpairedEnter => "{} system call[|s] left out: started again without a return",
        Anomaly::LostTail => "{} I/O[|s] after the last row of histogram logs: fio does not log [it|them]",
        Anomaly::MaybeLostTail => {
            "up to about {} I/O[|s] after the last row of histogram logs: fio does not log [it|them]"
        }
        Anomaly::NoUpperHalf => {
            "{} histogram log[|s] without latencies above 786 us: fio 3.6 to 3.16 loses them (the JSON output beside a \
             log has its fio version)"
        }
        Anomaly::ForeignCalls => "{} system call[|s] of 32-bit programs left out",
        Anomaly::SilentRequest => "{} io_uring request[|s] left out: no completion is posted for [it|them]",
        Anomaly::NegativeLatency => "{} event[|s] left out: the end is before the start (the clock stepped)",
        Anomaly::UnparsedLines => "{} malformed row[|s]",
        Anomaly::DamagedRecords => "{} damaged record[|s] skipped",
        Anomaly::DamagedBatches => "{} damaged part[|s] of the trace left out (up to 32,768 events each)",
        Anomaly::TextOverflow => "{} column[|s] with too many distinct values, the rest shown as one",
        Anomaly::Doubtful => {
            "{} request[|s] in flight while records were lost: right, unless [its|their] completion and the next issue \
             of the sector were both lost"
        }
        Anomaly::OpenAfterLoss => {
            "{} request[|s] without a completion after records were lost (which may include [it|them])"
        }
        Anomaly::Unfinished => {
            "{} request[|s] without a completion when the trace ended (unless the tracer missed [it|them])"
        }
        Anomaly::RequeuedOnly => {
            "{} request[|s] requeued and not issued again at the same sector (merged, or still waiting)"
        }
        Anomaly::OrphanRequeue => "{} unpaired requeue[|s] (the issue was not seen)",
        Anomaly::SummedRows => {
            "{} row[|s] of histogram logs that the fio server had added to earlier ones, separated again"
        }
        Anomaly::MaybeSummedRows => {
            "{} row[|s] that may include earlier rows, as the fio server writes them: the log is too short or incomplete \
             to decide"
        }
        Anomaly::LastBin => {
            "{} I/O[|s] in fio's last bin: [its latency is a lower bound|their latencies are lower bounds]"
        }
        Anomaly::AssumedUnit => {
            "{} log[|s] of an old fio with an assumed unit of latency (--latency-unit us or ns sets it)"
        }
        Anomaly::EstimatedStart => {
            "{} log[|s] with an estimated start: the end in fio's JSON output minus the run time (fio 3.36 and later \
             report the start)"
        }
        Anomaly::StrangePriority => {
            "{} row[|s] of fio logs with a priority other than 0 and 1, perhaps another column (--log-columns names the \
             columns)"
        }
        Anomaly::AssumedStart => {
            "{} log[|s] of unknown start, assumed to start with the others (--offsets FILE sets it)"
        }
        Anomaly::WholeJobs => {
            "{} histogram[ of a whole job|s of whole jobs]: one interval from start to end, since the times of the I/Os in \
             between are not known"
        }
        Anomaly::SpreadRows => {
            "{} stored histogram[ is|s are] longer than the intervals shown and spread evenly: the times within [it|them] \
             are not known"
        }
        Anomaly::WindowedRows => "{} row[ is an average|s are averages] over a window, not [a single I/O|single I/Os]",
        Anomaly::OutOfOrder => "{} record[|s] out of order by more than the sorting window",
        Anomaly::Omitted => "{} request[|s] added to correct coordinated omission (--correct-omission)",
        Anomaly::NotCold => "{} read[|s] found [its|their] data in memory instead of on the device",
        Anomaly::NotHot => "{} read[|s] did not find [its|their] data in memory",
        Anomaly::FailedRequests => "{} failed request[|s]",
        Anomaly::ShortRequests => "{} request[|s] moved fewer bytes than requested",
        Anomaly::Requeue => "{} request[|s] requeued and issued again",
        Anomaly::PartialCompletion => "{} partial completion[|s], counted with [its request|their requests]",
        Anomaly::FlushParent => "{} completion[|s] of flush parents, which are not requests of their own",
        Anomaly::NeverIssued => "{} request[|s] queued but never issued (most were merged into others)",
        Anomaly::FailedUnissued => "{} request[|s] left out: failed before reaching the device",
        Anomaly::IssuerUnknown => {
            "{} request[|s] of an unknown process (issued before the capture started, or more in flight than the table \
             holds)"
        }
        Anomaly::ReversedStamps => {
            "{} negative wait[|s] counted as zero (the kernel reads its clock once for several requests)"
        }
        Anomaly::EdgeExtremes => {
            "{} [minimum or maximum|minima and maxima] rounded to the edge of a bucket (an event was counted while the \
             interval ended)"
        }
        Anomaly::NeverReturn => "{} system call[|s] that never return[s|] (exit)",
        Anomaly::PathGone => "{} event[|s] without a path or address: the file was closed before its name was read",
        Anomaly::ProcessGone => "{} event[|s] of an unknown process: it ended before it was described",
        Anomaly::EmptyLog => "{} empty log[|s] (of jobs without such I/O)",
        Anomaly::LeftOut => "{} request[|s] left out as by ioping (warm-up, too fast, too slow)",
        Anomaly::EarlierReports => "{} earlier report[|s] of a run (--status-interval), included in the last one",
        Anomaly::OtherRecords => "{} record[|s] without a latency skipped",
    }
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

/// Names, the first of many.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(NAMES_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The request that waits longest, and how many do not count as waiting.
fn longest_unfinished(unfinished: &[Unfinished]) -> Option<(Severity, String)> {
    let oldest = unfinished.first()?;
    let mut left_out = BTreeMap::<Wait, u64>::new();
    unfinished.iter().for_each(|request| *left_out.entry(request.wait).or_insert(0) += 1);
    let reasons = left_out.iter().filter_map(|(wait, &count)| Some((count, not_waiting(*wait)?)));
    let does = |count| if count == 1 { "does" } else { "do" };
    let text = |(count, reason)| format!("; {} {} not count as waiting: {reason}", format_count(count), does(count));
    let reasons: String = reasons.map(text).collect();
    let age = format_duration(oldest.at_least_ns);
    Some((Severity::Open, format!("longest without a completion: {}, at least {age}{reasons}", oldest.what)))
}

/// Why a request does not count as waiting; `None` where it does, and where nothing is known.
fn not_waiting(wait: Wait) -> Option<&'static str> {
    match wait {
        Wait::Counts | Wait::Unknown => None,
        Wait::LeftBehind => Some({
            "their devices went on and completed later requests for longer than their slowest took, so most likely the \
             tracer lost the completions"
        }),
        Wait::Lossy => Some("the trace lacks completions"),
        Wait::Elsewhere => Some("such calls also wait for other processes and for messages"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::Clock;

    fn texts(context: &Context) -> Vec<String> {
        WORDING.lines(context).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn the_worst_is_noted_first() {
        let mut context = Context::new("perf script", Clock::unanchored("boot"));
        context.tally.add(Anomaly::Requeue, 258);
        context.tally.add(Anomaly::LostRecords, 12_345);
        context.tally.add(Anomaly::Unfinished, 0);
        context.tally.add(Anomaly::FlushParent, 2);
        let request = |wait, at_least_ns| Unfinished {
            what: "7:0 write".into(),
            start_ns: 0,
            at_least_ns,
            wait,
            values: Default::default(),
        };
        context.unfinished = vec![request(Wait::Counts, 31_000_000), request(Wait::Lossy, 5)];
        context.note(Note::Interrupted);
        assert_eq!(
            texts(&context),
            [
                "missing: 12,345 records lost by the tracer",
                "note: 258 requests requeued and issued again",
                "longest without a completion: 7:0 write, at least 31ms; 1 does not count as waiting: the trace \
                 lacks completions",
                "interrupted: the rest of the input was not read",
            ]
        );
        let detail = "detail: 2 completions of flush parents, which are not requests of their own";
        assert_eq!(super::detail(&context).as_deref(), Some(detail));
    }

    #[test]
    fn every_kind_has_words_for_one_and_for_many() {
        for &anomaly in Anomaly::ALL {
            for count in [1, 1234] {
                let phrase = counted_phrase(words(anomaly), count);
                assert!(phrase.contains(&format_count(count)), "{phrase}");
                assert!(!phrase.contains(['[', ']', '|', '{', '}']) && !phrase.contains("  "), "{phrase}");
            }
        }
        assert_eq!(counted_phrase(words(Anomaly::NeverReturn), 1), "1 system call that never returns (exit)");
        assert_eq!(counted_phrase(words(Anomaly::NeverReturn), 2), "2 system calls that never return (exit)");
    }

    #[test]
    fn lists_name_the_first_of_many() {
        let mut context = Context::new("a.csv", Clock::wall());
        context.note(Note::UnknownColumns { names: (1..=7).map(|at| format!("c{at}")).collect() });
        context.note(Note::FieldsOfFilter { names: vec!["disk.dev".into()] });
        context.note(Note::MalformedRow { line: 3, why: "a negative number".into() });
        let columns = "columns that are not fields of events are ignored: c1, c2, c3, c4, c5 and 2 more";
        assert_eq!(texts(&context), [columns, "no event has disk.dev, a field of the filter"]);
        context.tally.add(Anomaly::UnparsedLines, 1);
        let first = "the first malformed row is line 3: it has a negative number";
        assert_eq!(
            texts(&context)[..],
            ["missing: 1 malformed row", columns, "no event has disk.dev, a field of the filter", first]
        );
    }
}
