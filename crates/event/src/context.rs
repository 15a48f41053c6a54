//! What a trace says about itself beside its events: where it comes from, what its clock means,
//! and an account of everything lost, repaired or unfinished. Views print it under every picture.

use crate::{TraceStart, Unfinished, Wait, format_count, format_duration};
use serde::{Deserialize, Serialize};

/// How bad an anomaly is for the numbers on the screen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Nothing to worry about: records that are no requests. Views leave it out.
    Detail,
    /// Worth knowing; every number is right.
    Note,
    /// Something was mended, assumed or is not what it seems; the numbers are right about what they cover.
    Repaired,
    /// Something was unfinished; the numbers are right about what they cover.
    Open,
    /// Something is missing from the numbers.
    Lost,
}

macro_rules! anomalies {
    ($($variant:ident $key:literal $severity:ident $sentence:literal;)*) => {
        /// A reason for which records did not become events one to one.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Anomaly {
            $(#[doc = $sentence] $variant,)*
        }

        impl Anomaly {
            /// All anomalies, in the order in which views show them.
            pub const ALL: &'static [Anomaly] = &[$(Anomaly::$variant,)*];

            /// The key in JSON output.
            pub fn key(self) -> &'static str {
                match self { $(Anomaly::$variant => $key,)* }
            }

            /// What it does to the numbers.
            pub fn severity(self) -> Severity {
                match self { $(Anomaly::$variant => Severity::$severity,)* }
            }

            fn words(self) -> &'static str {
                match self { $(Anomaly::$variant => $sentence,)* }
            }

            /// So many of it; the number comes first, unless it has another place.
            fn phrase(self, count: &str) -> String {
                match self.words().split_once("{}") {
                    Some((before, behind)) => format!("{before}{count}{behind}"),
                    None => format!("{count} {}", self.words()),
                }
            }
        }
    };
}

anomalies! {
    NotSent "not_sent" Lost "requests due before the probe ended and never made: the target was too slow for the rate";
    Withheld "withheld" Lost "requests that completed just before one hung, whose times the hanging thread holds";
    Truncated "truncated" Lost "cut in the middle: what follows is missing";
    LostRecords "lost_records" Lost "records lost by the tracer";
    LostCompletion "lost_completion" Lost "issued again without a completion in between, left out";
    Uncounted "uncounted" Lost "requests that completed by the statistics of the disk and are in no histogram (their completion was not seen)";
    OrphanCompletion "orphan_completion" Lost "completions without an issue (begun before the trace, or the issue was lost)";
    MismatchedCompletion "mismatched_completion" Lost "completions that do not fit the open request of their sector, both left out";
    EvictedInFlight "evicted_in_flight" Lost "in flight beyond what the table holds, left out";
    UnpairedExit "unpaired_exit" Lost "system calls that returned without having been seen to start, left out";
    UnpairedEnter "unpaired_enter" Lost "system calls started twice without returning, the first left out";
    LostTail "lost_tail" Lost "I/Os after the last row of histogram logs: fio writes none for them";
    MaybeLostTail "maybe_lost_tail" Lost "up to about {} I/Os after the last row of histogram logs: fio writes none for them";
    NoUpperHalf "no_upper_half" Repaired "histogram logs with nothing above 786 us: fio 3.6 to 3.16 would have lost it (fio's JSON beside a log tells the version)";
    ForeignCalls "foreign_calls" Lost "system calls of 32-bit programs, left out";
    SilentRequest "silent_request" Lost "io_uring requests that do not tell of their completion, left out";
    NegativeLatency "negative_latency" Lost "completed before they started (the clock stepped), left out";
    UnparsedLines "unparsed_lines" Lost "lines not understood";
    DamagedRecords "damaged_records" Lost "records damaged and skipped";
    DamagedBatches "damaged_batches" Lost "parts of the trace damaged and left out (up to 32,768 events each)";
    TextOverflow "text_overflow" Lost "columns with too many different texts, the rest shown as one";
    Doubtful "doubtful" Open "in flight while records were lost: right, unless the completion and the next issue of their sector were both lost";
    OpenAfterLoss "open_after_loss" Open "without a completion after records were lost (unfinished, or it is among the lost)";
    Unfinished "unfinished" Open "without a completion when the trace ended (unfinished, or the tracer missed it)";
    RequeuedOnly "requeued_only" Open "requeued and not issued again under the same sector (merged, or still waiting)";
    OrphanRequeue "orphan_requeue" Repaired "requeues of requests that were not seen to be issued";
    SummedRows "summed_rows" Repaired "rows of histogram logs that fio's server had added to earlier ones, taken apart again";
    MaybeSummedRows "maybe_summed_rows" Repaired "rows that may hold those before them too, as fio's server writes them: the log is too short, or only a part, to tell";
    LastBin "last_bin" Repaired "I/Os in fio's last bin: they took as long as that or longer";
    AssumedUnit "assumed_unit" Repaired "logs of an old fio whose unit of latency is a guess (--latency-unit us or ns says it)";
    EstimatedStart "estimated_start" Repaired "logs whose start is estimated: the end in fio's JSON less the run time (fio tells the start from 3.36 on)";
    StrangePriority "strange_priority" Repaired "rows of fio's logs whose priority is neither 0 nor 1, so it may be another column (--log-columns names them)";
    AssumedStart "assumed_start" Repaired "logs whose start is not known, taken to begin with the others (--offsets FILE says it)";
    WholeJobs "whole_jobs" Repaired "histograms of whole jobs: each is one interval from start to end, since when in between its I/Os were is not known";
    SpreadRows "spread_rows" Repaired "stored histograms of longer intervals than those shown, spread evenly over several: when in them is not known";
    WindowedRows "windowed_rows" Repaired "rows that are averages over a window, not single I/Os";
    OutOfOrder "out_of_order" Repaired "records out of order by more than the sorting window";
    Omitted "omitted" Repaired "requests added that the generator left out while it waited (--correct-omission)";
    NotCold "not_cold" Repaired "reads that found their data in memory, though they were to come from the device";
    NotHot "not_hot" Repaired "reads that did not find their data in memory, though they were to";
    FailedRequests "failed_requests" Repaired "requests that failed";
    ShortRequests "short_requests" Repaired "requests that moved less than was asked for";
    Requeue "requeue" Note "requeued and issued again";
    PartialCompletion "partial_completion" Note "partial completions, counted with their request";
    FlushParent "flush_parent" Detail "completion lines of the parent of a flush, not requests of their own";
    NeverIssued "never_issued" Note "queued but never issued (most were merged into others)";
    FailedUnissued "failed_unissued" Lost "requests that failed before the device got them, left out";
    IssuerUnknown "issuer_unknown" Note "requests of an unknown process (begun before the capture, or more in flight than the table holds)";
    ReversedStamps "reversed_stamps" Note "waits below zero taken as zero (the kernel reads its clock once for several requests)";
    EdgeExtremes "edge_extremes" Note "minima and maxima that are edges of buckets (an event was counted while the interval ended)";
    NeverReturn "never_return" Note "system calls that never return (exit)";
    PathGone "path_gone" Note "events whose path or address is missing: their file was gone before its name was known";
    ProcessGone "process_gone" Note "events whose process is not known: it was gone before it could be described";
    EmptyLog "empty_log" Note "empty logs (of jobs without such I/O)";
    LeftOut "left_out" Note "requests left out as ioping did (warm-up, too fast, too slow)";
    EarlierReports "earlier_reports" Note "reports of a run that went on (--status-interval), all of them in the last one";
    OtherRecords "other_records" Note "records of kinds that carry no latency, skipped";
}

/// Counts of anomalies.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tally(std::collections::BTreeMap<Anomaly, u64>);

impl Tally {
    /// Counts `count` more of this kind. A file may say any number of times that any number was lost: it stops at the top.
    pub fn add(&mut self, anomaly: Anomaly, count: u64) {
        if count > 0 {
            let sum = self.0.entry(anomaly).or_insert(0);
            *sum = sum.saturating_add(count);
        }
    }

    /// How many of this kind were counted.
    pub fn get(&self, anomaly: Anomaly) -> u64 {
        self.0.get(&anomaly).copied().unwrap_or(0)
    }

    /// Adds all counts of another tally.
    pub fn merge(&mut self, other: &Tally) {
        other.0.iter().for_each(|(&anomaly, &count)| self.add(anomaly, count));
    }

    /// What was counted since an earlier state of the same tally.
    #[must_use]
    pub fn since(&self, earlier: &Tally) -> Tally {
        let mut tally = Tally::default();
        self.iter().for_each(|(anomaly, count)| tally.add(anomaly, count.saturating_sub(earlier.get(anomaly))));
        tally
    }

    /// The kinds that occurred, worst first within the order of [`Anomaly::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Anomaly, u64)> + '_ {
        self.0.iter().map(|(&anomaly, &count)| (anomaly, count))
    }

    /// A phrase for each kind that occurred: `258 requeued and issued again`.
    pub fn phrases(&self) -> Vec<(Severity, String)> {
        self.iter().map(|(anomaly, count)| (anomaly.severity(), anomaly.phrase(&format_count(count)))).collect()
    }
}

/// What the numbers in [`Field::Time`](crate::Field::Time) mean.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Clock {
    /// Name of the clock: `wall`, `boot`, `monotonic`, `relative` ...
    pub name: String,
    /// What to add to a time to get nanoseconds since the Unix epoch: 0 for a wall clock, `None` when unknown.
    pub to_unix_ns: Option<i64>,
    /// Whether [`Clock::to_unix_ns`] is an estimate (seconds), good for labels only.
    pub approximate: bool,
}

impl Clock {
    /// A clock that counts from the Unix epoch.
    pub fn wall() -> Clock {
        Clock { name: "wall".into(), to_unix_ns: Some(0), approximate: false }
    }

    /// A clock with an arbitrary zero.
    pub fn unanchored(name: &str) -> Clock {
        Clock { name: name.into(), to_unix_ns: None, approximate: false }
    }
}

/// A stretch of time in which the tracer lost records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LossRange {
    /// First moment at which records may be missing.
    #[serde(alias = "from_ns")]
    pub start_ns: i64,
    /// Last moment at which records may be missing.
    #[serde(alias = "to_ns")]
    pub end_ns: i64,
    /// CPU whose records were lost, when known.
    pub cpu: Option<u32>,
    /// Number of records lost; 0 when the tracer does not say.
    pub records: u64,
}

/// What notes begin with, the worst first.
const LEVELS: [(Severity, &str); 4] =
    [(Severity::Lost, "missing"), (Severity::Open, "open"), (Severity::Repaired, "caveat"), (Severity::Note, "note")];

/// A kind of note.
#[derive(PartialEq)]
enum Note {
    Counted(Anomaly),
    Unfinished,
    Said(String),
}

/// What a trace says about itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Context {
    /// What made the trace and where it was read from, for titles: `perf script, out.txt`.
    pub source: String,
    /// Host of the trace.
    pub host: Option<String>,
    /// Meaning of the times.
    pub clock: Clock,
    /// First and last moment that the trace covers (records, not only events).
    pub span_ns: Option<(i64, i64)>,
    /// When what was measured began, where that is known: whatever seems to have started earlier did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<i64>,
    /// What was lost, repaired, unfinished.
    pub tally: Tally,
    /// The longest of the unfinished, longest first, at most [`Context::UNFINISHED_KEPT`].
    pub unfinished: Vec<Unfinished>,
    /// Whether [`Context::unfinished`] is all that was in flight when the trace ended (up to its limit). Logs of completed
    /// I/O do not know, nor do traces of older versions.
    #[serde(default)]
    pub knows_unfinished: bool,
    /// Where records were lost, at most [`Context::LOSS_RANGES_KEPT`].
    pub loss_ranges: Vec<LossRange>,
    /// Anything else worth keeping: command line, kernel, tool version, filter ...
    pub properties: std::collections::BTreeMap<String, String>,
}

impl Context {
    /// How many unfinished requests are kept.
    pub const UNFINISHED_KEPT: usize = 4096;
    /// How many loss ranges are kept.
    pub const LOSS_RANGES_KEPT: usize = 4096;
    /// The property of a trace in which nothing can be missing, and how that is known.
    pub const COMPLETE: &str = "complete";
    /// The property that names the first line not understood and why: `3: a negative number`.
    pub const FIRST_LINE: &str = "first_line_not_understood";

    /// What properties of disks begin with: `disk.sda.model`, `disk.sda.rotational` (`1` or `0`).
    pub const DISK: &str = "disk.";

    /// Model and whether it rotates, of a disk of which the trace tells either.
    pub fn disk(&self, name: &str) -> (Option<&str>, Option<bool>) {
        let told = |what: &str| self.properties.get(&format!("{}{name}.{what}", Context::DISK)).map(String::as_str);
        (told("model"), told("rotational").map(|rotational| rotational == "1"))
    }

    /// A context that says only where the trace comes from.
    pub fn new(source: impl Into<String>, clock: Clock) -> Context {
        Context {
            source: source.into(),
            host: None,
            clock,
            span_ns: None,
            start_ns: None,
            tally: Tally::default(),
            unfinished: Vec::new(),
            knows_unfinished: false,
            loss_ranges: Vec::new(),
            properties: Default::default(),
        }
    }

    /// Puts the unfinished in order, the longest first, and keeps as many as there is room for. Those of one age are in the
    /// order of their words, so that a trace is described in the same way each time.
    pub fn sort_unfinished(&mut self) {
        self.unfinished.sort_by(|a, b| (b.at_least_ns, a.start_ns, &a.what).cmp(&(a.at_least_ns, b.start_ns, &b.what)));
        self.unfinished.truncate(Context::UNFINISHED_KEPT);
    }

    /// From when on events may be missing because they had not completed when the traces ended; `None` where none can be.
    /// `slowest_ns` is the latency of the slowest event: where a trace does not know what was in flight, one as slow may have
    /// been.
    pub fn open_since_ns(contexts: &[Context], slowest_ns: u64) -> Option<i64> {
        let known = contexts.iter().filter(|context| context.knows_unfinished).flat_map(|context| &context.unfinished);
        let waiting = known.filter(|request| request.counts()).map(|request| request.start_ns).min();
        let is_unknown = |context: &Context| !context.knows_unfinished && !context.is_complete();
        let end_ns = contexts.iter().filter_map(|context| context.span_ns).map(|(_, to_ns)| to_ns).max();
        let unknown = end_ns.filter(|_| contexts.iter().any(is_unknown));
        waiting.into_iter().chain(unknown.map(|end_ns| end_ns.saturating_sub_unsigned(slowest_ns))).min()
    }

    /// What several traces say together, for views that show them as one: what they share is kept, counts add up.
    pub fn merged(contexts: &[Context]) -> Context {
        let [first, rest @ ..] = contexts else { return Context::new("nothing", Clock::unanchored("none")) };
        let mut all = first.clone();
        for other in rest {
            if all.host != other.host {
                all.host = None;
            }
            if all.clock != other.clock {
                all.clock = Clock::unanchored("several");
            }
            // A trace without a record says nothing of when the others began.
            all.start_ns = match (all.span_ns, other.span_ns) {
                (Some(_), None) => all.start_ns,
                (None, Some(_)) => other.start_ns,
                _ => all.start_ns.zip(other.start_ns).map(|(one, other)| one.min(other)),
            };
            for moment in other.span_ns.iter().flat_map(|&(from, to)| [from, to]) {
                all.cover(moment);
            }
            all.tally.merge(&other.tally);
            all.unfinished.extend_from_slice(&other.unfinished);
            all.knows_unfinished &= other.knows_unfinished;
            all.loss_ranges.extend_from_slice(&other.loss_ranges);
            all.properties.retain(|key, value| other.properties.get(key) == Some(value));
        }
        if !rest.is_empty() {
            all.source = format!("{} and {} more", all.source, rest.len());
        }
        all.unfinished.sort_by_key(|unfinished| std::cmp::Reverse(unfinished.at_least_ns));
        all.unfinished.truncate(Context::UNFINISHED_KEPT);
        all.loss_ranges.truncate(Context::LOSS_RANGES_KEPT);
        all
    }

    /// Whether it is known that every request that was issued is in the trace; otherwise some may have been in flight when it
    /// ended.
    pub fn is_complete(&self) -> bool {
        self.properties.contains_key(Context::COMPLETE)
    }

    /// Widens the span so that it covers this moment.
    #[inline]
    pub fn cover(&mut self, time_ns: i64) {
        let (from, to) = self.span_ns.get_or_insert((time_ns, time_ns));
        *from = (*from).min(time_ns);
        *to = (*to).max(time_ns);
    }

    /// The start against which relative times and times of day are read.
    pub fn trace_start(&self) -> TraceStart {
        TraceStart { start_ns: self.trace_start_ns(), to_unix_ns: self.clock.to_unix_ns }
    }

    /// When the trace began: when what was measured did, where that is known, else its first moment.
    pub fn trace_start_ns(&self) -> Option<i64> {
        self.start_ns.or(self.span_ns.map(|(from_ns, _)| from_ns))
    }

    /// Where elapsed time counts from, in intervals of this width of which the first with events begins at `first_ns`: the
    /// begin of the interval in which the measurement began, where that is known; else of that in which the trace does, or
    /// its first event. All views go by it, so a moment has one name.
    pub fn axis_start_ns(&self, first_ns: Option<i64>, width_ns: u64) -> i64 {
        let covered = [first_ns, self.span_ns.map(|(from_ns, _)| from_ns)].into_iter().flatten().min();
        let from_ns = self.start_ns.or(covered).unwrap_or(0);
        let width_ns = i64::try_from(width_ns).unwrap_or(i64::MAX).max(1);
        from_ns.div_euclid(width_ns).saturating_mul(width_ns)
    }

    /// The [notes](Context::notes) of several traces, each kind once with the traces that have it (`a and 7 more`): counts
    /// of one kind are added up, and kinds that the same traces have stand in one note.
    pub fn notes_of(contexts: &[Context]) -> Vec<(String, String)> {
        let mut kinds: Vec<(Note, Vec<usize>)> = Vec::new();
        for (at, context) in contexts.iter().enumerate() {
            let counted = context.tally.iter().map(|(anomaly, _)| Note::Counted(anomaly));
            let unfinished = context.unfinished.first().map(|_| Note::Unfinished);
            for note in counted.chain(unfinished).chain(context.properties.get("missing").cloned().map(Note::Said)) {
                match kinds.iter_mut().find(|(known, _)| *known == note) {
                    Some((_, traces)) => traces.push(at),
                    None => kinds.push((note, vec![at])),
                }
            }
        }
        let mut sets: Vec<Vec<usize>> = Vec::new();
        for (_, traces) in &kinds {
            if !sets.contains(traces) {
                sets.push(traces.clone());
            }
        }
        sets.sort();
        let notes = sets.into_iter().flat_map(|set| {
            let only = |context: &Context| {
                let mut context = context.clone();
                let has = |note: Note| kinds.iter().any(|(known, traces)| *known == note && *traces == set);
                context.tally.0.retain(|&anomaly, _| has(Note::Counted(anomaly)));
                context.unfinished.retain(|_| has(Note::Unfinished));
                context.properties.retain(|key, text| key == "missing" && has(Note::Said(text.clone())));
                // Of many first lines the first is named.
                if let Some(line) = contexts[set[0]].properties.get(Context::FIRST_LINE)
                    && has(Note::Counted(Anomaly::UnparsedLines))
                {
                    context.properties.insert(Context::FIRST_LINE.into(), line.clone());
                }
                context
            };
            let merged = Context::merged(&set.iter().map(|&at| only(&contexts[at])).collect::<Vec<_>>());
            merged.notes().into_iter().map(move |note| (merged.source.clone(), note))
        });
        notes.collect()
    }

    /// A sentence about what alters no number and is no news to who looks at a view; traces have it, and who writes one is told.
    pub fn details(&self) -> Option<String> {
        let phrases = self.tally.phrases().into_iter().filter(|&(severity, _)| severity == Severity::Detail);
        let phrases: Vec<_> = phrases.map(|(_, phrase)| phrase).collect();
        (!phrases.is_empty()).then(|| format!("detail: {}", phrases.join("; ")))
    }

    /// Sentences about what was lost, repaired and unfinished, the worst first; empty when all is well.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (severity, word) in LEVELS {
            let phrases: Vec<_> =
                self.tally.phrases().into_iter().filter(|&(at, _)| at == severity).map(|(_, phrase)| phrase).collect();
            if !phrases.is_empty() {
                notes.push(format!("{word}: {}", phrases.join("; ")));
            }
        }
        if let Some(oldest) = self.unfinished.first() {
            let left_out = Wait::phrase(&self.unfinished).map(|phrase| format!("; {phrase}")).unwrap_or_default();
            notes.push(format!(
                "longest without a completion: {}, at least {}{left_out}",
                oldest.what,
                format_duration(oldest.at_least_ns)
            ));
        }
        let not_understood = self.tally.get(Anomaly::UnparsedLines) > 0;
        let first = self.properties.get(Context::FIRST_LINE).filter(|_| not_understood);
        notes.extend(first.map(|line| format!("the first line not understood: {line}")));
        notes.extend(self.properties.get("missing").cloned());
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_names_that_json_uses() {
        for &anomaly in Anomaly::ALL {
            assert_eq!(serde_key(anomaly), anomaly.key());
        }
    }

    /// What is no request and alters nothing is counted, and no note.
    #[test]
    fn details_are_no_notes() {
        let mut context = Context::new("a", Clock::wall());
        context.tally.add(Anomaly::FlushParent, 2);
        assert!(context.notes().is_empty() && Context::notes_of(std::slice::from_ref(&context)).is_empty());
        let detail = context.details().unwrap();
        assert!(detail.starts_with("detail: 2 completion lines of the parent of a flush"), "{detail}");
        context.tally.add(Anomaly::Requeue, 1);
        assert_eq!(context.notes(), ["note: 1 requeued and issued again"]);
        assert_eq!((context.details(), context.tally.get(Anomaly::FlushParent)), (Some(detail), 2));
    }

    #[test]
    fn notes_of_several_traces_are_told_once() {
        let trace = |name: &str, rows: u64| {
            let mut context = Context::new(name, Clock::wall());
            context.tally.add(Anomaly::LostRecords, rows);
            context
        };
        let mut traces = [trace("a", 5), trace("b", 0), trace("c", 7)];
        traces[2].tally.add(Anomaly::Requeue, 1);
        traces[0].properties.insert("missing".into(), "the end".into());
        for (at, trace) in traces.iter_mut().enumerate() {
            trace.tally.add(Anomaly::UnparsedLines, at as u64);
            trace.properties.insert(Context::FIRST_LINE.into(), format!("{at}: why"));
        }
        let waiting = |at_least_ns| Unfinished {
            what: "7:0 write".into(),
            start_ns: 0,
            at_least_ns,
            wait: Wait::Counts,
            values: Default::default(),
        };
        traces[0].unfinished.push(waiting(5_000_000));
        traces[2].unfinished.push(waiting(31_000_000));
        let told: Vec<String> =
            Context::notes_of(&traces).into_iter().map(|(source, note)| format!("{source}: {note}")).collect();
        assert_eq!(
            told,
            [
                "a: the end",
                "a and 1 more: missing: 12 records lost by the tracer",
                "a and 1 more: longest without a completion: 7:0 write, at least 31ms",
                "b and 1 more: missing: 3 lines not understood",
                "b and 1 more: the first line not understood: 1: why",
                "c: note: 1 requeued and issued again",
            ]
        );
        for trace in &traces {
            let alone = Context::notes_of(std::slice::from_ref(trace)).into_iter().map(|(_, note)| note);
            assert_eq!(alone.collect::<Vec<_>>(), trace.notes());
        }
    }

    fn serde_key(anomaly: Anomaly) -> String {
        // The derived name, without a JSON crate: snake_case of the variant.
        let mut key = String::new();
        for letter in format!("{anomaly:?}").chars() {
            if letter.is_uppercase() && !key.is_empty() {
                key.push('_');
            }
            key.extend(letter.to_lowercase());
        }
        key
    }

    #[test]
    fn several_traces_keep_what_they_share() {
        let mut a = Context::new("a", Clock::wall());
        a.cover(5);
        a.tally.add(Anomaly::Requeue, 2);
        a.host = Some("one".into());
        let mut b = Context { source: "b".into(), ..a.clone() };
        b.cover(50);
        let both = Context::merged(&[a.clone(), b]);
        assert_eq!((both.span_ns, both.tally.get(Anomaly::Requeue)), (Some((5, 50)), 4));
        assert_eq!((both.host.as_deref(), both.source.as_str()), (Some("one"), "a and 1 more"));
        assert_eq!(Context::merged(&[a.clone()]), a);
    }

    #[test]
    fn notes_name_the_worst_first() {
        let mut context = Context::new("perf script", Clock::unanchored("boot"));
        context.tally.add(Anomaly::Requeue, 258);
        context.tally.add(Anomaly::LostRecords, 12_345);
        context.tally.add(Anomaly::Unfinished, 0);
        context.tally.add(Anomaly::OrphanRequeue, u64::MAX);
        context.tally.add(Anomaly::OrphanRequeue, 5);
        assert_eq!(context.tally.get(Anomaly::OrphanRequeue), u64::MAX);
        context.tally.0.remove(&Anomaly::OrphanRequeue);
        context.unfinished.push(Unfinished {
            what: "7:0 write".into(),
            start_ns: 0,
            at_least_ns: 31_000_000,
            wait: Wait::Counts,
            values: Default::default(),
        });
        assert_eq!(
            context.notes(),
            [
                "missing: 12,345 records lost by the tracer",
                "note: 258 requeued and issued again",
                "longest without a completion: 7:0 write, at least 31ms"
            ]
        );
    }
}
