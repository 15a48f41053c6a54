//! How threads were sampled, and which requests have stacks, in words.

use super::plural;
use latscope_event::{Note, format_count, format_duration};

/// The sentence of [`Note::Sampling`].
pub fn sampling(note: &Note) -> String {
    let Note::Sampling {
        asked_ns,
        median_ns,
        p95_ns,
        longest_ns,
        passes,
        skipped,
        parts_ns,
        capped,
        drawn,
        left_out,
        moved,
    } = note
    else {
        return String::new();
    };
    let [asked, median, p95, parts] = [asked_ns, median_ns, p95_ns, parts_ns].map(|&ns| format_duration(ns));
    let longest =
        if longest_ns > p95_ns { format!(", the longest {}", format_duration(*longest_ns)) } else { String::new() };
    let mut text = format!(
        "threads were sampled {}, every {median} (95 % within {p95}{longest}, asked for {asked}): sums of latencies are \
         shares of the time waited, but a wait that was seen once has the interval as its latency, and most shorter ones \
         were not seen (-s offcpu times every wait)",
        plural(*passes, "time")
    );
    if *parts_ns > 0 {
        text += &format!("; state and stack of a sample are at most {parts} apart (95 %)");
    }
    if *left_out > 0 {
        text += &format!(
            "; too many threads waited at a time to take the stack of each, so {} that chance drew {} for {} that {} left \
             out (sample_weight)",
            plural(*drawn, "wait"),
            if *drawn == 1 { "stands" } else { "stand" },
            format_count(*left_out),
            if *left_out == 1 { "was" } else { "were" },
        );
    }
    let capped = if *left_out > 0 { &0 } else { capped };
    for (count, what, does, rest) in [
        (*skipped, "round", ["was", "were"], "left out, because of --cpu-budget or while symbols were read"),
        (*capped, "sample", ["lacks its", "lack their"], "user stack, as there were too many at a time"),
        (*moved, "sample", ["has", "have"], "no stack, as the thread went on meanwhile"),
    ] {
        if count > 0 {
            text += &format!("; {} {} {rest}", plural(count, what), does[usize::from(count > 1)]);
        }
    }
    text
}

/// The sentence of [`Note::ShortWaits`].
pub fn short_waits(note: &Note) -> String {
    let Note::ShortWaits { below_ns, count, time_ns, of_ns, threads } = note else {
        return String::new();
    };
    let share = *time_ns as f64 / (*of_ns).max(1) as f64;
    // Other conditions of a filter can be tested only of events.
    let threads = match threads.as_deref() {
        None => String::new(),
        Some("") => ", over all threads of the machine (filters do not apply)".into(),
        Some(words) => format!(", over threads with {words} (other filters do not apply)"),
    };
    format!(
        "{} shorter than {} {} not shown and in no stack: {} of {} off the CPU ({:.1} %){threads}",
        plural(*count, "wait"),
        format_duration(*below_ns),
        if *count == 1 { "is" } else { "are" },
        format_duration(*time_ns),
        format_duration(*of_ns),
        100.0 * share
    )
}

/// The sentence of [`Note::RequestStacks`].
pub fn request_stacks(note: &Note) -> String {
    let &Note::RequestStacks {
        slow_ns,
        slow,
        waiting,
        bare,
        issued,
        moved_on,
        fast,
        baseline,
        unfinished,
        without,
        ref counted,
    } = note
    else {
        return String::new();
    };
    let has = |count| if count == 1 { "has" } else { "have" };
    let of_issue = format!("{} {} the stack of the issue", plural(issued, "request"), has(issued));
    let Some(slow_ns) = slow_ns else { return of_issue };
    let mut text = format!(
        "of {} of {} or more, {} {} the stack of the thread that waited",
        plural(slow, "request"),
        format_duration(slow_ns),
        format_count(waiting),
        has(waiting)
    );
    if bare > 0 {
        let of = if waiting == 1 { "it ends".into() } else { format!("{} of them end", format_count(bare)) };
        text += &format!(" ({of} in the kernel: the thread did not return to its own code, or was not seen to)");
    }
    let [kernel, unknown, before] = without;
    for (count, why) in [
        (moved_on, "as the issuer had moved on (--stacks 1/N takes stacks at the issue)"),
        (kernel, "as a thread of the kernel issued it for others (writeback, a journal, io_uring, a cgroup's limit)"),
        (unknown, "as it was issued before the capture, or by an unknown thread"),
    ] {
        if count > 0 {
            let why =
                if count == 1 { why.into() } else { why.replace(" it ", " them ").replace("them was", "they were") };
            text += &format!(", and {} {} none, {why}", format_count(count), has(count));
        }
    }
    if unfinished[0] > 0 {
        text += &format!(
            "; {} more {} not completed, and {} of them {} a stack",
            format_count(unfinished[0]),
            has(unfinished[0]),
            format_count(unfinished[1]),
            has(unfinished[1])
        );
        if before > 0 {
            let (who, was) = if before == 1 { ("1", "was") } else { (&*format_count(before), "were") };
            text += &format!(" ({who} {was} issued before the capture: whose code waits is not known)");
        }
    }
    if issued > 0 {
        text += &format!("; {of_issue}");
    }
    // Other conditions of a filter are tested of events, which come later.
    match counted.as_deref() {
        None => {}
        Some("") => text += "; counted over all requests (filters do not apply)",
        Some(words) => text += &format!("; counted over requests with {words} (other filters do not apply)"),
    }
    let which = if moved_on + kernel + unknown > 0 { "the slow ones that have one" } else { "slow ones" };
    text + &format!(
        "; {} of {} {} one to compare with, so shares are right among {which} only (lat >= {})",
        format_count(baseline),
        plural(fast, "faster request"),
        has(baseline),
        format_duration(slow_ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_several() {
        let note = |skipped, capped| Note::Sampling {
            asked_ns: 50_000_000,
            median_ns: 50_000_000,
            p95_ns: 60_000_000,
            longest_ns: 900_000_000,
            passes: skipped,
            skipped,
            parts_ns: 1000,
            capped,
            drawn: 0,
            left_out: 0,
            moved: 0,
        };
        let one = sampling(&note(1, 1));
        assert!(
            one.contains("sampled 1 time, every 50ms (95 % within 60ms, the longest 900ms, asked for 50ms)")
                && one.contains("1 round was left out"),
            "{one}"
        );
        assert!(one.contains("1 sample lacks its user stack") && !one.contains("dropped"), "{one}");
        let many = sampling(&note(2, 2000));
        let note = Note::Sampling {
            asked_ns: 1,
            median_ns: 1,
            p95_ns: 1,
            longest_ns: 1,
            passes: 9,
            skipped: 0,
            parts_ns: 0,
            capped: 5000,
            drawn: 1200,
            left_out: 1,
            moved: 0,
        };
        let drawn = "so 1,200 waits that chance drew stand for 1 that was left out (sample_weight)";
        assert!(sampling(&note).contains(drawn) && !sampling(&note).contains("5,000"), "{}", sampling(&note));
        assert!(many.contains("2 rounds were left out") && many.contains("2,000 samples lack their"), "{many}");
    }

    #[test]
    fn the_share_of_short_waits_is_of_all_waits() {
        let note = |count, threads: Option<&str>| {
            let threads = threads.map(str::to_string);
            Note::ShortWaits { below_ns: 1_000_000, count, time_ns: 30_000_000, of_ns: 1_200_000_000, threads }
        };
        let words = "2,000 waits shorter than 1ms are not shown and in no stack: 30ms of 1.2s off the CPU (2.5 %)";
        assert_eq!(short_waits(&note(2000, None)), words);
        assert_eq!(
            short_waits(&note(2000, Some(""))),
            format!("{words}, over all threads of the machine (filters do not apply)")
        );
        assert_eq!(
            short_waits(&note(2000, Some("pid = 5"))),
            format!("{words}, over threads with pid = 5 (other filters do not apply)")
        );
        assert!(short_waits(&note(1, None)).starts_with("1 wait shorter than 1ms is not shown"));
    }

    #[test]
    fn requests_with_stacks_are_counted_in_words() {
        let note = |slow_ns, moved_on, kernel| Note::RequestStacks {
            slow_ns,
            slow: 12,
            waiting: 11,
            bare: kernel,
            issued: 0,
            moved_on,
            fast: 3000,
            baseline: 1,
            unfinished: [u64::from(kernel > 0), 0],
            without: [kernel, 0, u64::from(kernel > 0)],
            counted: (kernel > 0).then(|| "device in (loop0)".into()),
        };
        assert_eq!(
            request_stacks(&note(Some(50_000_000), 1, 0)),
            "of 12 requests of 50ms or more, 11 have the stack of the thread that waited, and 1 has none, as the issuer \
             had moved on (--stacks 1/N takes stacks at the issue); 1 of 3,000 faster requests has one to compare with, so shares are \
             right among the slow ones that have one only (lat >= 50ms)"
        );
        let of_kernel = request_stacks(&note(Some(50_000_000), 0, 2));
        assert!(of_kernel.contains("and 2 have none, as a thread of the kernel issued them for others"), "{of_kernel}");
        let counted = "; counted over requests with device in (loop0) (other filters do not apply); 1 of 3,000";
        assert!(of_kernel.contains(counted), "{of_kernel}");
        assert!(of_kernel.contains("waited (2 of them end in the kernel: the thread did not return"), "{of_kernel}");
        assert!(
            of_kernel
                .contains("0 of them have a stack (1 was issued before the capture: whose code waits is not known)"),
            "{of_kernel}"
        );
        assert_eq!(request_stacks(&note(None, 0, 0)), "0 requests have the stack of the issue");
    }
}
