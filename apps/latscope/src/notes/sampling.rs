//! How threads were sampled, and which requests have stacks, in words.

use super::plural;
use latscope_event::{Note, format_duration};

/// The sentence of [`Note::Sampling`].
pub fn sampling(note: &Note) -> String {
    let Note::Sampling { asked_ns, median_ns, p95_ns, passes, skipped, parts_ns, capped, moved } = note else {
        return String::new();
    };
    let [asked, median, p95, parts] = [asked_ns, median_ns, p95_ns, parts_ns].map(|&ns| format_duration(ns));
    let mut text = format!(
        "threads were sampled {}, every {median} (95 % within {p95}, asked for {asked}), so the latency of a wait is \
         right within an interval and sums of latencies are unbiased",
        plural(*passes, "time")
    );
    if *parts_ns > 0 {
        text += &format!("; state and stack of a sample are at most {parts} apart (95 %)");
    }
    for (count, what, does, rest) in [
        (*skipped, "round", ["was", "were"], "left out (--cpu-budget allows more)"),
        (*capped, "sample", ["lacks its", "lack their"], "user stack, as there were too many at a time"),
        (*moved, "sample", ["was", "were"], "dropped, as the thread went on meanwhile"),
    ] {
        if count > 0 {
            text += &format!("; {} {} {rest}", plural(count, what), does[usize::from(count > 1)]);
        }
    }
    text
}

/// The sentence of [`Note::ShortWaits`].
pub fn short_waits(note: &Note) -> String {
    let &Note::ShortWaits { below_ns, count, time_ns, of_ns } = note else {
        return String::new();
    };
    let share = time_ns as f64 / of_ns.max(1) as f64;
    format!(
        "{} shorter than {} {} not shown and in no stack: {} of {} off the CPU ({:.1} %)",
        plural(count, "wait"),
        format_duration(below_ns),
        if count == 1 { "is" } else { "are" },
        format_duration(time_ns),
        format_duration(of_ns),
        100.0 * share
    )
}

/// The sentence of [`Note::RequestStacks`].
pub fn request_stacks(note: &Note) -> String {
    let &Note::RequestStacks { slow_ns, slow, waiting, issued, moved_on, fast, baseline } = note else {
        return String::new();
    };
    let has = |count| if count == 1 { "has" } else { "have" };
    let of_issue = format!("{} {} the stack of the issue", plural(issued, "request"), has(issued));
    let Some(slow_ns) = slow_ns else { return of_issue };
    let mut text = format!(
        "of {} of {} or more, {} {} the stack of the thread that waited",
        plural(slow, "request"),
        format_duration(slow_ns),
        latscope_event::format_count(waiting),
        has(waiting)
    );
    if moved_on > 0 {
        text += &format!(
            ", and {} {} none, as the issuer had moved on (--stacks 1/N takes stacks at the issue)",
            latscope_event::format_count(moved_on),
            has(moved_on)
        );
    }
    if issued > 0 {
        text += &format!("; {of_issue}");
    }
    text + &format!(
        "; {} of {} {} one to compare with, so shares are right among slow ones only (lat >= {})",
        latscope_event::format_count(baseline),
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
            passes: skipped,
            skipped,
            parts_ns: 1000,
            capped,
            moved: 0,
        };
        let one = sampling(&note(1, 1));
        assert!(one.contains("sampled 1 time,") && one.contains("1 round was left out"), "{one}");
        assert!(one.contains("1 sample lacks its user stack") && !one.contains("dropped"), "{one}");
        let many = sampling(&note(2, 2000));
        assert!(many.contains("2 rounds were left out") && many.contains("2,000 samples lack their"), "{many}");
    }

    #[test]
    fn the_share_of_short_waits_is_of_all_waits() {
        let note = |count| Note::ShortWaits { below_ns: 1_000_000, count, time_ns: 30_000_000, of_ns: 1_200_000_000 };
        assert_eq!(
            short_waits(&note(2000)),
            "2,000 waits shorter than 1ms are not shown and in no stack: 30ms of 1.2s off the CPU (2.5 %)"
        );
        assert!(short_waits(&note(1)).starts_with("1 wait shorter than 1ms is not shown"));
    }

    #[test]
    fn requests_with_stacks_are_counted_in_words() {
        let note = |slow_ns, moved_on| Note::RequestStacks {
            slow_ns,
            slow: 12,
            waiting: 11,
            issued: 0,
            moved_on,
            fast: 3000,
            baseline: 1,
        };
        assert_eq!(
            request_stacks(&note(Some(50_000_000), 1)),
            "of 12 requests of 50ms or more, 11 have the stack of the thread that waited, and 1 has none, as the issuer \
             had moved on (--stacks 1/N takes stacks at the issue); 1 of 3,000 faster requests has one to compare with, so shares are \
             right among slow ones only (lat >= 50ms)"
        );
        assert_eq!(request_stacks(&note(None, 0)), "0 requests have the stack of the issue");
    }
}
