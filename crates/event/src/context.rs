//! What a trace says about itself beside its events: where it comes from, what its clock means,
//! and an account of everything lost, repaired or unfinished. Views print it under every picture.

use crate::{Anomaly, Note, Severity, Tally, TraceStart, Unfinished, Wait};
use serde::{Deserialize, Serialize};

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

/// Which of several traces lack events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lacking {
    /// Why.
    pub anomaly: Anomaly,
    /// Where the first of them was read from.
    pub first: String,
    /// How many more there are.
    pub more: u64,
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
    /// When what was measured started, where that is known: whatever seems to have started earlier did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<i64>,
    /// From when on counts what had begun before the capture, where nobody saw when it did: a wait that starts then is a lower bound.
    /// Several where captures that started one after the other are in one trace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun_before_ns: Vec<i64>,
    /// What was lost, repaired, unfinished.
    pub tally: Tally,
    /// The longest of the unfinished, longest first and threads that sleep last, at most [`Context::UNFINISHED_KEPT`].
    pub unfinished: Vec<Unfinished>,
    /// Whether [`Context::unfinished`] is all that was in flight when the trace ended (up to its limit). Logs of completed
    /// I/O do not know, nor do traces of older versions.
    #[serde(default)]
    pub knows_unfinished: bool,
    /// Where records were lost, at most [`Context::LOSS_RANGES_KEPT`].
    pub loss_ranges: Vec<LossRange>,
    /// What else is worth knowing, as views print it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// Of several traces merged: which of them lack something, by what they lack.
    #[serde(skip)]
    pub lacking: Vec<Lacking>,
    /// For how long each host was observed, nanoseconds, where hosts were observed at different times.
    #[serde(skip)]
    pub observed_ns: std::collections::BTreeMap<String, u64>,
    /// Intervals that came again as a clock was set back: by the host, or an empty name for the average of all, their start on the
    /// trace's clock, and for how much longer than their width they were observed, nanoseconds.
    #[serde(skip)]
    pub repeated_ns: std::collections::BTreeMap<String, std::collections::BTreeMap<i64, u64>>,
    /// Anything else worth keeping: command line, kernel, tool version, filter ...
    pub properties: std::collections::BTreeMap<String, String>,
}

impl Context {
    /// What the source of the event log of a Spark application starts with.
    pub const SPARK_LOG: &str = "Spark event log";
    /// The property of a Spark application that is `REST` where that was asked, which does not have all that a log has.
    pub const SPARK_SOURCE: &str = "latscope.spark.source";
    /// The property of a Spark application that is `missing` where neither the log nor the REST API has its end.
    pub const SPARK_END: &str = "latscope.spark.end";
    /// The property of a Spark application that is `missing` where its log lacks the settings.
    pub const SPARK_SETTINGS: &str = "latscope.spark.settings";
    /// What properties of resource profiles of a Spark application start with: `latscope.spark.profile.1.cpus` (of a task), `.cores`, `.memory`.
    pub const SPARK_PROFILE: &str = "latscope.spark.profile.";
    /// How many unfinished requests are kept.
    pub const UNFINISHED_KEPT: usize = 4096;
    /// How many loss ranges are kept.
    pub const LOSS_RANGES_KEPT: usize = 4096;
    /// The property of a trace in which nothing can be missing, and how that is known.
    pub const COMPLETE: &str = "complete";
    /// The property of a recording that ends without its account, and why.
    pub const CUT: &str = "cut";
    /// How many notes are kept.
    pub const NOTES_KEPT: usize = 256;

    /// What properties of disks start with: `disk.sda.model`, `disk.sda.rotational` (`1` or `0`).
    pub const DISK: &str = "disk.";

    /// Model and whether it rotates, of a disk of which the trace gives either.
    pub fn disk(&self, name: &str) -> (Option<&str>, Option<bool>) {
        let property = |what: &str| self.properties.get(&format!("{}{name}.{what}", Context::DISK)).map(String::as_str);
        (property("model"), property("rotational").map(|rotational| rotational == "1"))
    }

    /// A context that says only where the trace comes from.
    pub fn new(source: impl Into<String>, clock: Clock) -> Context {
        Context {
            source: source.into(),
            host: None,
            clock,
            span_ns: None,
            start_ns: None,
            begun_before_ns: Vec::new(),
            tally: Tally::default(),
            unfinished: Vec::new(),
            knows_unfinished: false,
            loss_ranges: Vec::new(),
            notes: Vec::new(),
            lacking: Vec::new(),
            observed_ns: Default::default(),
            repeated_ns: Default::default(),
            properties: Default::default(),
        }
    }

    /// Whether a wait that starts at this moment had begun before the capture, so that its latency is a lower bound.
    pub fn had_begun(&self, start_ns: i64) -> bool {
        self.begun_before_ns.contains(&start_ns)
    }

    /// Waits that had begun before the capture count from this moment, too: once more where the wall clock was set meanwhile.
    pub fn count_begun_from(&mut self, moment_ns: i64) {
        if !self.had_begun(moment_ns) && self.begun_before_ns.len() < Context::LOSS_RANGES_KEPT {
            self.begun_before_ns.push(moment_ns);
        }
    }

    /// Whether the trace ends before the capture did: what waited at its end went on to wait.
    pub fn is_cut(&self) -> bool {
        self.properties.contains_key(Context::CUT)
    }

    /// Puts the unfinished in order, the longest first and threads that sleep last, and keeps as many as there is room for. Those of
    /// one age are in the order of their words, so that a trace is described in the same way each time.
    pub fn sort_unfinished(&mut self) {
        let sleeps = |request: &Unfinished| request.wait == Wait::Sleeps;
        let key = |a: &Unfinished, b: &Unfinished| (sleeps(a), b.at_least_ns, a.start_ns);
        self.unfinished.sort_by(|a, b| key(a, b).cmp(&key(b, a)).then_with(|| a.what.cmp(&b.what)));
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
            // A trace without a record says nothing of when the others started.
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
            all.begun_before_ns.extend_from_slice(&other.begun_before_ns);
            all.knows_unfinished &= other.knows_unfinished;
            all.loss_ranges.extend_from_slice(&other.loss_ranges);
            other.notes.iter().for_each(|note| all.note(note.clone()));
            for (host, &observed_ns) in &other.observed_ns {
                *all.observed_ns.entry(host.clone()).or_insert(0) += observed_ns;
            }
            for (host, repeated) in &other.repeated_ns {
                all.repeated_ns.entry(host.clone()).or_default().extend(repeated);
            }
            all.properties.retain(|key, value| other.properties.get(key) == Some(value));
        }
        if !rest.is_empty() {
            all.lacking = lacking(contexts);
            all.source = format!("{} and {} more", all.source, rest.len());
        }
        all.sort_unfinished();
        all.begun_before_ns.sort_unstable();
        all.begun_before_ns.dedup();
        all.loss_ranges.truncate(Context::LOSS_RANGES_KEPT);
        all.notes.truncate(Context::NOTES_KEPT);
        all
    }

    /// Whether nothing is noted of the trace, and nothing was counted that a view would print.
    pub fn is_plain(&self) -> bool {
        let is_detail = |(anomaly, _): (Anomaly, u64)| anomaly.severity() == Severity::Detail;
        self.notes.is_empty() && self.unfinished.is_empty() && self.tally.iter().all(is_detail)
    }

    /// What of the trace was lost.
    fn lost(&self) -> impl Iterator<Item = Anomaly> {
        let counted = self.tally.iter().filter(|&(anomaly, count)| anomaly.severity() == Severity::Lost && count > 0);
        counted.map(|(anomaly, _)| anomaly)
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

    /// When the trace started: when what was measured did, where that is known, else its first moment.
    pub fn trace_start_ns(&self) -> Option<i64> {
        self.start_ns.or(self.span_ns.map(|(from_ns, _)| from_ns))
    }

    /// Where elapsed time counts from, in intervals of this width of which the first with events starts at `first_ns`: the
    /// start of the interval in which the measurement started, where that is known; else of that in which the trace does, or
    /// its first event. All views go by it, so a moment has one name.
    pub fn axis_start_ns(&self, first_ns: Option<i64>, width_ns: u64) -> i64 {
        let covered = [first_ns, self.span_ns.map(|(from_ns, _)| from_ns)].into_iter().flatten().min();
        let from_ns = self.start_ns.or(covered).unwrap_or(0);
        let width_ns = i64::try_from(width_ns).unwrap_or(i64::MAX).max(1);
        from_ns.div_euclid(width_ns).saturating_mul(width_ns)
    }
}

/// Which of these traces lack events, once for each reason.
fn lacking(contexts: &[Context]) -> Vec<Lacking> {
    let mut all: Vec<Lacking> = Vec::new();
    for (context, anomaly) in contexts.iter().flat_map(|context| context.lost().map(move |lost| (context, lost))) {
        let known = context.lacking.iter().find(|lacking| lacking.anomaly == anomaly).cloned();
        // The format stands before the path.
        let path = || context.source.split_once(", ").map_or(&*context.source, |(_, path)| path).to_owned();
        let own = known.unwrap_or_else(|| Lacking { anomaly, first: path(), more: 0 });
        match all.iter_mut().find(|lacking| lacking.anomaly == anomaly) {
            Some(lacking) => lacking.more += own.more + 1,
            None => all.push(own),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_is_lost_has_its_trace() {
        let trace = |name: &str, lost: u64| {
            let mut context = Context::new(format!("fio log, {name}"), Clock::wall());
            context.tally.add(Anomaly::UnparsedLines, lost);
            context
        };
        let pair = Context::merged(&[trace("a", 0), trace("b, c", 1)]);
        let lacking = |first: &str, more| vec![Lacking { anomaly: Anomaly::UnparsedLines, first: first.into(), more }];
        assert_eq!(pair.lacking, lacking("b, c", 0));
        assert_eq!(Context::merged(&[trace("d", 0), pair, trace("e", 2)]).lacking, lacking("b, c", 1));
    }
}
