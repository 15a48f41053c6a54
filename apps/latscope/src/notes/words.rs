//! What each kind of anomaly is in words.

use latscope_event::Anomaly;

/// The phrase of an anomaly, with `{}` in the place of its number, and `[one|many]` where the number decides. A driver of Spark that was
/// asked lacks something else than a log.
pub fn words(anomaly: Anomaly, is_of_driver: bool) -> &'static str {
    match anomaly {
        Anomaly::MissingParts if is_of_driver => {
            "{} job[|s] or stage[|s] forgotten by the driver (spark.ui.retainedJobs, spark.ui.retainedStages), with [its|their] tasks: \
             the event log has [it|them]"
        }
        Anomaly::LostTasks if is_of_driver => {
            "{} task[|s] forgotten by the driver (spark.ui.retainedTasks), or shown without start or duration: the event log has [it|them]"
        }
        Anomaly::NotSent => {
            "{} request[|s] due before the probe ended [was|were] not made: the target was too slow for the rate"
        }
        Anomaly::DroppedIntervals => "{} record[|s] of intervals dropped by an agent: its queue was full or damaged",
        Anomaly::ClockStep => "the wall clock was set {} time[|s] during the capture: intervals go on by the new time",
        Anomaly::Withheld => {
            "{} request[|s] completed just before another hung, with [a latency|latencies] that only the hung thread knows"
        }
        Anomaly::Truncated => "{} truncated input[|s]: the rest is missing",
        Anomaly::MissingInputs => "the events of {} job[|s], host[|s] or file[|s] of the folder",
        Anomaly::FailedJobs => "{} job[|s] for which fio reports an error: what [it|they] did not do",
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
        Anomaly::Unlogged => "{} I/O[|s] that the JSON beside the log counts and no row has",
        Anomaly::MaybeLostTail => {
            "up to about {} I/O[|s] after the last row of histogram logs: fio does not log [it|them]"
        }
        Anomaly::NoUpperHalf => {
            "{} histogram log[|s] without latencies above 786 us: fio 3.6 to 3.16 loses them (the JSON output beside a \
             log has its fio version)"
        }
        Anomaly::ForeignCalls => "{} system call[|s] of 32-bit programs left out",
        Anomaly::SilentRequest => "{} io_uring request[|s] left out: no completion is posted for [it|them]",
        Anomaly::NegativeLatency => "{} event[|s] left out: the latency is negative",
        Anomaly::RepeatedTasks => {
            "{} more end[|s] of tasks that the log had already, left out: the executor with [its|their] results was lost, or parts \
             of the log overlap"
        }
        Anomaly::SetBack => {
            "{} task[|s] whose finish is before [its|their] launch, as the clock of the driver was set back: the time that \
             [its executor|their executors] measured counts instead"
        }
        Anomaly::UnparsedLines => "{} malformed row[|s]",
        Anomaly::DamagedRecords => "{} damaged record[|s] skipped",
        Anomaly::MissingParts => {
            "{} part[|s] of the rolled log missing, or compacted without the jobs that had finished: the tasks and the names in [it|them] are lost"
        }
        Anomaly::LostTasks => {
            "{} task[|s] of which the log has neither start nor end, as the numbers of tasks and the sizes of stages show: Spark drops \
             events when its listener falls behind"
        }
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
        Anomaly::MergedIntervals => {
            "{} interval[|s] merged into longer ones by an agent whose queue was nearly full: percentiles over whole minutes are exact"
        }
        Anomaly::SummedRows => {
            "{} row[|s] of histogram logs that the fio server had added to earlier ones, separated again"
        }
        Anomaly::MaybeSummedRows => {
            "{} row[|s] that may include earlier rows, as the fio server writes them: the log is too short or incomplete \
             to decide"
        }
        Anomaly::LastBin => {
            "{} I/O[|s] in the last, open bucket of the source: [its latency is a lower bound|their latencies are lower bounds]"
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
        Anomaly::CounterReset => "{} interval[|s] left out: the counters of the source were reset in [it|them]",
        Anomaly::AssumedWidth => "{} histogram[|s] of unknown duration, assumed to cover one second",
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
        Anomaly::InferredFile => {
            "{} sync[|s] without a file descriptor, attributed to the file that [its thread|their threads] wrote last"
        }
        Anomaly::UnknownRecords => "{} record[|s] of unknown types skipped",
        Anomaly::NoIo => "{} record[|s] of system calls that do no I/O (-s syscall includes them)",
        Anomaly::OtherRecords => "{} record[|s] without a latency skipped",
    }
}
