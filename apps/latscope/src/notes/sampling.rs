//! How threads were sampled, in words.

use latscope_event::{Note, format_count, format_duration};

/// The sentence of [`Note::Sampling`].
pub fn sampling(note: &Note) -> String {
    let Note::Sampling { asked_ns, median_ns, p95_ns, passes, skipped, parts_ns, capped, moved } = note else {
        return String::new();
    };
    let [asked, median, p95, parts] = [asked_ns, median_ns, p95_ns, parts_ns].map(|&ns| format_duration(ns));
    let mut text = format!(
        "threads were sampled {} times, every {median} (95 % within {p95}, asked for {asked}), so the latency of a wait is \
         right within an interval and sums of latencies are unbiased; state and stack of a sample are at most {parts} apart \
         (95 %)",
        format_count(*passes)
    );
    for (count, what) in [
        (skipped, "rounds were left out (--cpu-budget allows more)"),
        (capped, "samples lack their user stack, as there were too many at a time"),
        (moved, "samples were dropped, as the thread went on meanwhile"),
    ] {
        if *count > 0 {
            text += &format!("; {} {what}", format_count(*count));
        }
    }
    text
}
