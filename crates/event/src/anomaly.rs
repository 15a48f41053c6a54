//! Why records did not become events one to one: the kinds, what each does to the numbers, and how many there were.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    ($($variant:ident $key:literal $severity:ident $meaning:literal;)*) => {
        /// A reason for which records did not become events one to one.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Anomaly {
            $(#[doc = $meaning] $variant,)*
        }

        impl Anomaly {
            /// All kinds, in the order in which views show them.
            pub const ALL: &'static [Anomaly] = &[$(Anomaly::$variant,)*];

            /// Its stable name, as in recordings.
            pub fn key(self) -> &'static str {
                match self { $(Anomaly::$variant => $key,)* }
            }

            /// What it does to the numbers.
            pub fn severity(self) -> Severity {
                match self { $(Anomaly::$variant => Severity::$severity,)* }
            }
        }
    };
}

anomalies! {
    NotSent "not_sent" Lost "Requests that were due and never made.";
    DroppedIntervals "dropped_intervals" Lost "Records of intervals that an agent dropped.";
    Withheld "withheld" Lost "Completed requests whose times a hanging thread holds.";
    Truncated "truncated" Lost "Inputs that end in the middle of a row or record.";
    MissingInputs "missing_inputs" Lost "Jobs, hosts and files of a folder whose events are missing.";
    FailedJobs "failed_jobs" Lost "Jobs for which fio reports an error.";
    LostRecords "lost_records" Lost "Records that the tracer lost.";
    LostCompletion "lost_completion" Lost "Requests issued again without a completion in between.";
    Uncounted "uncounted" Lost "Requests that the statistics of the disk have and no histogram has.";
    OrphanCompletion "orphan_completion" Lost "Completions without an issue.";
    MismatchedCompletion "mismatched_completion" Lost "Completions that do not match the open request of their sector.";
    EvictedInFlight "evicted_in_flight" Lost "Requests in flight beyond what the table holds.";
    UnpairedExit "unpaired_exit" Lost "System calls that returned without having been seen to start.";
    UnpairedEnter "unpaired_enter" Lost "System calls that started twice without returning.";
    LostTail "lost_tail" Lost "I/Os after the last row of a log.";
    Unlogged "unlogged" Lost "I/Os that the JSON beside a log counts and no row has.";
    MaybeLostTail "maybe_lost_tail" Lost "At most so many I/Os after the last row of a log, where the exact number is not known.";
    NoUpperHalf "no_upper_half" Repaired "Logs whose upper half of the histogram may have been lost by their writer.";
    ForeignCalls "foreign_calls" Lost "System calls of 32-bit programs.";
    SilentRequest "silent_request" Lost "Requests that do not report their completion.";
    NegativeLatency "negative_latency" Lost "Events that ended before they started.";
    UnparsedLines "unparsed_lines" Lost "Malformed rows.";
    DamagedRecords "damaged_records" Lost "Damaged records that were skipped.";
    MissingParts "missing_parts" Lost "Parts of a rolled log that are not there.";
    LostTasks "lost_tasks" Lost "Tasks of which a log has neither the start nor the end.";
    DamagedBatches "damaged_batches" Lost "Damaged batches that were skipped.";
    TextOverflow "text_overflow" Lost "Columns with too many distinct values.";
    Doubtful "doubtful" Open "Requests in flight while records were lost.";
    OpenAfterLoss "open_after_loss" Open "Requests without a completion after records were lost.";
    Unfinished "unfinished" Open "Requests without a completion in the trace.";
    RequeuedOnly "requeued_only" Open "Requests that were requeued and not issued again.";
    OrphanRequeue "orphan_requeue" Repaired "Requeues of requests whose issue was not seen.";
    MergedIntervals "merged_intervals" Repaired "Intervals that an agent merged into longer ones.";
    ClockStep "clock_step" Repaired "Times that the wall clock was set while it was captured.";
    SummedRows "summed_rows" Repaired "Rows that were sums of earlier ones and were separated again.";
    MaybeSummedRows "maybe_summed_rows" Repaired "Rows that may be sums of earlier ones.";
    LastBin "last_bin" Repaired "Events in the open last bucket of a histogram: their latency is a lower bound.";
    AssumedUnit "assumed_unit" Repaired "Logs whose unit of latency is assumed.";
    EstimatedStart "estimated_start" Repaired "Logs whose start is estimated.";
    StrangePriority "strange_priority" Repaired "Rows whose priority is not one, so their columns may be others.";
    AssumedStart "assumed_start" Repaired "Logs whose start is assumed.";
    WholeJobs "whole_jobs" Repaired "Histograms of a whole job, without times inside it.";
    CounterReset "counter_reset" Lost "Intervals in which counters started again.";
    AssumedWidth "assumed_width" Repaired "Histograms of an unknown time, taken as a second.";
    SpreadRows "spread_rows" Repaired "Stored histograms of longer intervals than those shown.";
    WindowedRows "windowed_rows" Repaired "Rows that are averages over a window.";
    OutOfOrder "out_of_order" Repaired "Records out of order by more than the sorting window.";
    RepeatedTasks "repeated_tasks" Repaired "Ends of tasks that the log had already.";
    SetBack "set_back" Repaired "Tasks whose finish is before their launch, by a clock that was set back.";
    Omitted "omitted" Repaired "Requests added to correct coordinated omission.";
    NotCold "not_cold" Repaired "Reads that found their data in memory and should not have.";
    NotHot "not_hot" Repaired "Reads that did not find their data in memory and should have.";
    FailedRequests "failed_requests" Repaired "Requests that failed.";
    ShortRequests "short_requests" Repaired "Requests that moved less than was asked for.";
    Requeue "requeue" Note "Requests that were requeued and issued again.";
    PartialCompletion "partial_completion" Note "Partial completions, counted with their request.";
    FlushParent "flush_parent" Detail "Completions of the parent of a flush, which is no request of its own.";
    NeverIssued "never_issued" Note "Requests that were queued and never issued.";
    FailedUnissued "failed_unissued" Lost "Requests that failed before they reached the device.";
    IssuerUnknown "issuer_unknown" Note "Requests of an unknown process.";
    ReversedStamps "reversed_stamps" Note "Negative waits that count as zero.";
    EdgeExtremes "edge_extremes" Note "Minima and maxima that are edges of buckets.";
    NeverReturn "never_return" Note "System calls that never return.";
    PathGone "path_gone" Note "Events whose file was gone before its name was known.";
    ProcessGone "process_gone" Note "Events whose process was gone before it was described.";
    EmptyLog "empty_log" Note "Logs without a row.";
    LeftOut "left_out" Note "Requests that the generator left out of its own statistics.";
    EarlierReports "earlier_reports" Note "Interim reports that a later one includes.";
    InferredFile "inferred_file" Note "Syncs whose file is inferred.";
    UnknownRecords "unknown_records" Note "Records of a later version of their format.";
    NoIo "no_io" Detail "Records of system calls that do no I/O and are left out.";
    OtherRecords "other_records" Note "Records without a latency.";
}

/// Counts of anomalies.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tally(pub(crate) BTreeMap<Anomaly, u64>);

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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_recordings() {
        for &anomaly in Anomaly::ALL {
            assert_eq!(serde_json::to_value(anomaly).unwrap(), anomaly.key());
        }
    }

    #[test]
    fn counts_stop_at_the_top() {
        let mut tally = Tally::default();
        tally.add(Anomaly::OrphanRequeue, u64::MAX);
        tally.add(Anomaly::OrphanRequeue, 5);
        assert_eq!(tally.get(Anomaly::OrphanRequeue), u64::MAX);
    }
}
