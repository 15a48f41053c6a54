//! What a reader, a capture or a filter notes of a trace beyond what it counts: typed, so that it can be stored, merged and
//! tested. The program words it (see [`Wording`]).

use serde::{Deserialize, Serialize};

/// Something worth knowing of a trace that is not a count.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Note {
    /// Where the first malformed row is: their number is that of [`Anomaly::UnparsedLines`].
    MalformedRow {
        /// Its position, counted from 1.
        line: u64,
        /// What it has, as its format words it: `a negative number`.
        why: String,
    },
    /// Columns of a table that are not fields of events.
    UnknownColumns {
        /// Their headings.
        names: Vec<String>,
    },
    /// No event has any of these fields, which the filter names.
    FieldsOfFilter {
        /// Their names.
        names: Vec<String>,
    },
    /// Clock offsets were given for hosts (or jobs of them) that no input is from.
    UnusedOffsets {
        /// The file of offsets.
        file: String,
        /// The hosts.
        hosts: Vec<String>,
    },
    /// Reading was interrupted before the end of the input.
    Interrupted,
    /// The times span so long that their unit is probably another one.
    ImplausibleSpan {
        /// First to last event, nanoseconds.
        span_ns: u64,
    },
    /// The events are so frequent that the unit of their times is probably another one.
    ImplausibleRate {
        /// Events per second.
        per_s: u64,
    },
    /// So many events overlap that the unit of their latencies is probably another one.
    ImplausibleOverlap {
        /// Events in flight on average.
        in_flight: u64,
    },
    /// Jobs whose results hold no histogram of latencies.
    NoHistogram {
        /// The first of them and why, as its format words it: `Job a (read): It failed before an I/O completed.`
        first: String,
        /// How many more there are.
        more: u64,
    },
    /// The running kernel lacks something that a live capture can do without.
    KernelLacks {
        /// What it lacks.
        feature: KernelFeature,
    },
    /// A database was asked what its processes do, while events were captured: how far tags and events may be apart.
    TagsAsked {
        /// How often.
        count: u64,
        /// From one answer to the next, nanoseconds.
        every_ns: u64,
        /// The median and the longest time that an answer took, nanoseconds.
        took_ns: [u64; 2],
        /// Why the last one failed; empty if it did not.
        failure: String,
    },
    /// No event has the tag that groups were asked for.
    TagUnknown {
        /// Its key.
        key: String,
        /// The keys of tags that events have, up to a few dozen of them.
        known: Vec<String>,
    },
    /// Programs wrote lines of tags to a socket while events were captured.
    TagsReceived {
        /// How many.
        lines: u64,
        /// How many of them said nothing that could be understood.
        malformed: u64,
        /// The first of these and its reason, or empty.
        first: String,
        /// How many writers were refused, as too many wrote already.
        refused_writers: u64,
    },
    /// Devices passed their requests on to others of the same trace. Each of these requests is an event of both, unless those of
    /// the upper ones were left out.
    StackedDevices {
        /// The upper ones, as the field `device` names them: `253:0`.
        devices: Vec<String>,
        /// The same as the field `dev` has them: `9:0` of `md0`.
        #[serde(default)]
        numbers: Vec<String>,
        /// How many of their events were left out, since those of the devices below stand for them; 0: none.
        #[serde(default)]
        left_out: u64,
    },
    /// Behind compressed data there was something that is not compressed; it was not read.
    TrailingBytes {
        /// Its length.
        bytes: u64,
    },
    /// The times of this trace count from another moment than those of another one that is shown with it.
    UnrelatedClocks {
        /// Where the other one was read from.
        first: String,
        /// The names of the clocks: that of the other one, and that of this trace.
        clocks: [String; 2],
    },
    /// The input is damaged at a place behind which nothing could be read.
    Damage {
        /// Where, in bytes from the start of the uncompressed input.
        byte: u64,
        /// What is there, as its format words it: `a block of an impossible length`.
        what: String,
    },
    /// Histograms that a hub merged: which hosts they are of.
    Hosts {
        /// Hosts in the last closed interval.
        present: u64,
        /// Those that should be in it, too.
        missing: Vec<String>,
        /// Intervals in which some host is missing.
        incomplete: u64,
        /// Intervals that may still change.
        provisional: u64,
        /// Intervals that changed after they were closed.
        amended: u64,
        /// Records of intervals that the hub does not keep in memory.
        outside: u64,
        /// Hosts whose clock is off by a tenth of an interval or more, and by how many nanoseconds it is behind that of the hub.
        #[serde(default)]
        clocks: Vec<(String, i64)>,
    },
    /// The events are counts without times.
    NoTimes,
    /// Latencies shall count from the creation of requests, and no request has the time of its creation.
    NoQueueTimes,
    /// The names of all counted stacks end in a number, which may be another count.
    NumbersInNames,
    /// Threads were looked at again and again: latencies of waits are sums of the intervals between looks that saw them.
    Sampling {
        /// The interval that was asked for, nanoseconds.
        asked_ns: u64,
        /// Its measured median, nanoseconds.
        median_ns: u64,
        /// 95 % of the intervals were no longer, nanoseconds.
        p95_ns: u64,
        /// The longest of them, nanoseconds. Traces of older versions have none.
        #[serde(default)]
        longest_ns: u64,
        /// How often was looked.
        passes: u64,
        /// How many looks were left out, as they would have exceeded the budget or came late.
        skipped: u64,
        /// In 95 % of the samples, state and stack were no further apart, nanoseconds.
        parts_ns: u64,
        /// Samples without a user stack, as too many threads waited and others were drawn.
        capped: u64,
        /// Waits with a stack that stand for the others, where these are left out; 0 where they are not.
        #[serde(default)]
        drawn: u64,
        /// Waits that were left out, as they were never drawn.
        #[serde(default)]
        left_out: u64,
        /// Samples without stacks, as their thread went on meanwhile.
        moved: u64,
    },
    /// Waits were timed, and the short ones are no events.
    ShortWaits {
        /// They are below this, nanoseconds.
        below_ns: u64,
        /// How many they are.
        count: u64,
        /// Their sum, nanoseconds.
        time_ns: u64,
        /// The sum of all waits that were timed, nanoseconds.
        of_ns: u64,
        /// The threads whose waits were timed: what the kernel tests of the filter; empty for all, `None` in older traces.
        #[serde(default)]
        threads: Option<String>,
    },
    /// Block requests have stacks of their issuers.
    RequestStacks {
        /// From this latency on they were asked for, nanoseconds; `None`: only when requests were issued.
        slow_ns: Option<u64>,
        /// Requests at least so slow.
        slow: u64,
        /// Of these, those whose issuer still waited for them.
        waiting: u64,
        /// Of these, those whose stack ends in the kernel, as the thread did not return to its own code.
        #[serde(default)]
        bare: u64,
        /// Requests, of all, that have the stack of their issue.
        issued: u64,
        /// Slow requests whose issuer did something else by then, so that they have no stack.
        moved_on: u64,
        /// Faster requests.
        fast: u64,
        /// Of these, those whose issuer was looked at and still waited for them.
        baseline: u64,
        /// Requests so slow that had not completed, and those of them that have a stack.
        #[serde(default)]
        unfinished: [u64; 2],
        /// Slow requests without a stack that threads of the kernel issued, those of which nobody saw the issuer, and of those that
        /// had not completed the ones that were issued before the capture.
        #[serde(default)]
        without: [u64; 3],
        /// Which requests were counted: what the kernel tests of the filter; empty for all, `None` in older traces.
        #[serde(default)]
        counted: Option<String>,
    },
    /// Waits had begun before the capture and ended during it: they count from its start, so that their latencies are lower bounds.
    BegunBefore {
        /// How many.
        count: u64,
        /// The longest of these bounds, nanoseconds.
        longest_ns: u64,
    },
    /// Waits for storage, of which nobody knows the device, were left out by a filter that asks for one.
    UnknownDevice {
        /// How many.
        count: u64,
        /// Their sum, nanoseconds.
        time_ns: u64,
    },
    /// JVMs were asked for the names of the code that they compiled.
    JvmMaps {
        /// How often one was asked.
        asked: u64,
        /// How often it wrote them.
        written: u64,
        /// Why the last one that did not; empty if all did.
        failure: String,
    },
    /// A kind of a later version.
    #[serde(other)]
    Unknown,
}

/// What a kernel may lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelFeature {
    /// Its own type information.
    Btf,
    /// The tracepoint that has the process of each block request.
    RequestStart,
    /// Programs that walk over the tags of a disk.
    TagWalk,
    /// Tracepoints of io_uring requests in a form that is known.
    UringTracepoints,
    /// A feature of a later version.
    #[serde(other)]
    Unknown,
}

impl Note {
    /// Its stable name, as in recordings.
    pub fn key(&self) -> &'static str {
        match self {
            Note::MalformedRow { .. } => "malformed_row",
            Note::UnknownColumns { .. } => "unknown_columns",
            Note::FieldsOfFilter { .. } => "fields_of_filter",
            Note::UnusedOffsets { .. } => "unused_offsets",
            Note::Interrupted => "interrupted",
            Note::ImplausibleSpan { .. } => "implausible_span",
            Note::ImplausibleRate { .. } => "implausible_rate",
            Note::ImplausibleOverlap { .. } => "implausible_overlap",
            Note::NoHistogram { .. } => "no_histogram",
            Note::KernelLacks { .. } => "kernel_lacks",
            Note::TagsAsked { .. } => "tags_asked",
            Note::TagsReceived { .. } => "tags_received",
            Note::TagUnknown { .. } => "tag_unknown",
            Note::StackedDevices { .. } => "stacked_devices",
            Note::TrailingBytes { .. } => "trailing_bytes",
            Note::UnrelatedClocks { .. } => "unrelated_clocks",
            Note::Damage { .. } => "damage",
            Note::Hosts { .. } => "hosts",
            Note::NoTimes => "no_times",
            Note::NoQueueTimes => "no_queue_times",
            Note::NumbersInNames => "numbers_in_names",
            Note::Sampling { .. } => "sampling",
            Note::ShortWaits { .. } => "short_waits",
            Note::RequestStacks { .. } => "request_stacks",
            Note::BegunBefore { .. } => "begun_before",
            Note::UnknownDevice { .. } => "unknown_device",
            Note::JvmMaps { .. } => "jvm_maps",
            Note::Unknown => "unknown",
        }
    }

    /// The note for the time since an earlier state of it, whose counts are subtracted. Lengths of intervals stay those of the whole capture.
    #[must_use]
    pub fn since(mut self, earlier: &Note) -> Note {
        let less = |counts: &mut [(&mut u64, u64)]| {
            counts.iter_mut().for_each(|(count, earlier)| **count = count.saturating_sub(*earlier));
        };
        match (&mut self, earlier) {
            (
                Note::Sampling { passes, skipped, capped, drawn, left_out, moved, .. },
                &Note::Sampling { passes: p, skipped: s, capped: c, drawn: d, left_out: l, moved: m, .. },
            ) => less(&mut [(passes, p), (skipped, s), (capped, c), (drawn, d), (left_out, l), (moved, m)]),
            (
                Note::ShortWaits { count, time_ns, of_ns, .. },
                &Note::ShortWaits { count: c, time_ns: t, of_ns: o, .. },
            ) => less(&mut [(count, c), (time_ns, t), (of_ns, o)]),
            (
                Note::RequestStacks { slow, waiting, bare, issued, moved_on, fast, baseline, without, .. },
                &Note::RequestStacks {
                    slow: s,
                    waiting: w,
                    bare: bare_before,
                    issued: i,
                    moved_on: m,
                    fast: f,
                    baseline: b,
                    without: [k, u, _],
                    ..
                },
            ) => {
                less(&mut [(slow, s), (waiting, w), (issued, i), (moved_on, m), (fast, f), (baseline, b)]);
                let [kernel, unknown, _] = without;
                less(&mut [(bare, bare_before), (kernel, k), (unknown, u)]);
            }
            (Note::JvmMaps { asked, written, .. }, &Note::JvmMaps { asked: a, written: w, .. }) => {
                less(&mut [(asked, a), (written, w)]);
            }
            (Note::TagsAsked { count, .. }, &Note::TagsAsked { count: c, .. }) => less(&mut [(count, c)]),
            (
                Note::TagsReceived { lines, malformed, refused_writers, .. },
                &Note::TagsReceived { lines: l, malformed: m, refused_writers: r, .. },
            ) => less(&mut [(lines, l), (malformed, m), (refused_writers, r)]),
            _ => {}
        }
        self
    }

    /// Whether one of the two is enough for several traces: the first malformed row of many stands for those of the others.
    pub(crate) fn is_like(&self, other: &Note) -> bool {
        matches!((self, other), (Note::MalformedRow { .. }, Note::MalformedRow { .. })) || self == other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_since_another_counts_what_came_between() {
        let stacks = |slow, kernel| Note::RequestStacks {
            slow_ns: Some(5),
            slow,
            waiting: 1,
            bare: 0,
            issued: 0,
            moved_on: slow - 1,
            fast: 7,
            baseline: 2,
            unfinished: [1, 1],
            without: [kernel, 0, 1],
            counted: None,
        };
        let Note::RequestStacks { slow, waiting, moved_on, fast, unfinished, without, .. } =
            stacks(30, 9).since(&stacks(20, 4))
        else {
            panic!("another kind");
        };
        // What has not ended is of a moment.
        assert_eq!((slow, waiting, moved_on, fast, unfinished, without), (10, 0, 10, 0, [1, 1], [5, 0, 1]));
        let short =
            |count| Note::ShortWaits { below_ns: 9, count, time_ns: count * 2, of_ns: count * 3, threads: None };
        assert_eq!(short(50).since(&short(20)), short(30));
        assert_eq!(short(50).since(&stacks(3, 0)), short(50));
    }
}
