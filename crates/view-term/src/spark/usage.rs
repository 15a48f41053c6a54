//! What the control groups of executors counted, as text and as JSON.

use super::json::list;
use super::{SparkReport, Text};
use crate::{Align, Table};
use latscope_event::{format_count, format_duration, format_size};
use latscope_series::spark::{ExecutorUsage, Usage};
use latscope_view::json_text;

impl SparkReport<'_> {
    pub(super) fn usage(&self, text: &mut Text) {
        let usage = &self.analysis.tasks.usage;
        if usage.is_empty() {
            return;
        }
        let titles = ["CPU", "most", "quota", "throttled", "for", "memory", "limit", "cache", "read", "written"];
        let titles = titles.into_iter().chain(["received", "sent", "loopback"]).map(|title| (title, Align::Right));
        let first = [("executor", Align::Left)].into_iter().chain(titles);
        let mut table = Table::new(first.chain([("control group", Align::Left)]));
        let count = usage.iter().count();
        for (executor, of) in usage.iter().take(text.most) {
            let bytes = |value: Option<u64>| value.map_or("-".into(), format_size);
            let grown = |counter| all(of, counter);
            let cores = of.cores();
            let cell = |cores: Option<f64>| cores.map_or("-".into(), |cores| format!("{cores:.2}"));
            let throttled = of.throttled().map(|(some, all)| 100.0 * some as f64 / all as f64);
            let shared = if usage.is_shared(executor) { " (shared)" } else { "" };
            table.push(vec![
                executor.into(),
                cell(cores.map(|cores| cores.0)),
                cell(cores.map(|cores| cores.1)),
                of.most(Usage::Quota).map_or(String::new(), |quota| format!("{:.2}", quota as f64 / 1000.0)),
                throttled.map_or(String::new(), |share| format!("{share:.1}%")),
                grown(Usage::ThrottledTime).filter(|&ns| ns > 0).map_or(String::new(), format_duration),
                bytes(of.most(Usage::Memory)),
                of.most(Usage::MemoryLimit).map_or(String::new(), format_size),
                bytes(of.most(Usage::FileCache)),
                bytes(grown(Usage::Read)),
                bytes(grown(Usage::Written)),
                bytes(grown(Usage::Received)),
                bytes(grown(Usage::Sent)),
                bytes(grown(Usage::Loopback)),
                format!("{}{shared}", of.group.0),
            ]);
        }
        text.table(table);
        text.more(count, "executors");
        let samples: usize = usage.iter().map(|(_, of)| of.samples.len()).sum();
        let shared = usage.iter().any(|(executor, _)| usage.is_shared(executor));
        let shared =
            if shared { " Where a control group is shared, its numbers are those of all that is in it." } else { "" };
        text.push(&format!(
            "By {} samples of control groups: CPU in cores, on average and at most; memory at most. What was received and sent is of the network namespace, \
             which executors of a host may share.{shared}",
            format_count(samples as u64)
        ));
    }

    pub(super) fn usage_json(&self) -> String {
        let usage = &self.analysis.tasks.usage;
        list(usage.iter().map(|(executor, of)| {
            let samples = of.samples.iter().map(|sample| {
                let values = Usage::ALL.iter().zip(sample.values);
                let values = values.filter_map(|(of, value)| Some(format!(",\"{}\":{}", of.name(), value?)));
                format!("{{\"time_ns\":{}{}}}", sample.time_ns, values.collect::<String>())
            });
            format!(
                "{{\"executor\":{},\"cgroup\":{},\"version\":{},\"shared\":{},\"samples\":[{}]}}",
                json_text(executor),
                json_text(&of.group.0),
                of.group.1,
                usage.is_shared(executor),
                list(samples)
            )
        }))
    }
}

/// How much a counter grew from the first to the last sample; none where it was not counted.
fn all(of: &ExecutorUsage, counter: Usage) -> Option<u64> {
    let steps = of.steps(counter);
    (!steps.is_empty()).then(|| steps.iter().map(|(_, more)| more).sum())
}
