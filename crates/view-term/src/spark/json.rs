//! The report as JSON: times in milliseconds where sparkMeasure has them so, else in nanoseconds.

use super::SparkReport;
use super::words::{causes, part_name};
use latscope_event::Field;
use latscope_event::spark::MEMORY_METRICS;
use latscope_series::spark::{
    Finding, Peaks, SparkExclusion, SparkGroup, SparkMeasures, SparkStage, Straggler, TIME_PARTS, TaskSums,
};
use latscope_view::json_text;
use std::fmt::Write;

/// So many columns of the breakdown.
const COLUMNS: usize = 200;

/// How sparkMeasure calls a counter, and the field that it adds up. Times are milliseconds there.
const COUNTERS: [(&str, Field); 24] = [
    ("executorRunTime", Field::RunTime),
    ("executorCpuTime", Field::CpuTime),
    ("executorDeserializeTime", Field::Deserialize),
    ("executorDeserializeCpuTime", Field::DeserializeCpu),
    ("resultSerializationTime", Field::ResultSerialization),
    ("jvmGCTime", Field::GcTime),
    ("shuffleFetchWaitTime", Field::FetchWait),
    ("shuffleWriteTime", Field::ShuffleWrite),
    ("resultSize", Field::ResultSize),
    ("diskBytesSpilled", Field::DiskSpilled),
    ("memoryBytesSpilled", Field::Spilled),
    ("peakExecutionMemory", Field::PeakMemory),
    ("recordsRead", Field::InputRecords),
    ("bytesRead", Field::InputBytes),
    ("recordsWritten", Field::OutputRecords),
    ("bytesWritten", Field::OutputBytes),
    ("shuffleRecordsRead", Field::ShuffleRecords),
    ("shuffleLocalBlocksFetched", Field::LocalBlocks),
    ("shuffleRemoteBlocksFetched", Field::RemoteBlocks),
    ("shuffleLocalBytesRead", Field::ShuffleLocal),
    ("shuffleRemoteBytesRead", Field::ShuffleRemote),
    ("shuffleRemoteBytesReadToDisk", Field::ShuffleToDisk),
    ("shuffleBytesWritten", Field::ShuffleWritten),
    ("shuffleRecordsWritten", Field::ShuffleWrittenRecords),
];
/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// Texts between commas.
pub(super) fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",\n")
}

/// The counters of sparkMeasure, which rounds times down to milliseconds for each stage before it adds them up.
fn counters<'a>(sums: &TaskSums, stages: impl Iterator<Item = &'a TaskSums> + Clone, json: &mut String) {
    let _ = write!(json, ",\"numTasks\":{}", sums.tasks);
    for (name, field) in COUNTERS {
        let value = match field.name().ends_with("_ns") {
            true => stages.clone().map(|stage| stage.get(field) / MS).sum(),
            false => sums.get(field),
        };
        let _ = write!(json, ",\"{name}\":{value}");
    }
    let blocks = sums.get(Field::LocalBlocks) + sums.get(Field::RemoteBlocks);
    let bytes = sums.get(Field::ShuffleLocal) + sums.get(Field::ShuffleRemote);
    let _ = write!(json, ",\"shuffleTotalBlocksFetched\":{blocks},\"shuffleTotalBytesRead\":{bytes}");
}

fn span(span_ns: Option<(i64, i64)>) -> String {
    span_ns.map_or("null,\"end_ns\":null".into(), |(start_ns, end_ns)| format!("{start_ns},\"end_ns\":{end_ns}"))
}

fn stage_ids(ids: &[(i64, i64)]) -> String {
    let ids: Vec<String> = ids.iter().map(|(stage, attempt)| format!("[{stage},{attempt}]")).collect();
    format!("[{}]", ids.join(","))
}

/// Why something failed; null where it did not, or where that is not known.
fn reason(reason: &str) -> String {
    if reason.is_empty() { "null".into() } else { json_text(reason).to_string() }
}

fn sums(sums: &TaskSums) -> String {
    format!(
        "\"failed_tasks\":{},\"killed_tasks\":{},\"task_ns\":{},\"unknown_ns\":{},\"remainder_ns\":{},\"scheduler_delay_ns\":{}",
        sums.failed,
        sums.killed,
        sums.task_ns,
        sums.unknown_ns,
        sums.remainder_ns(),
        sums.scheduler_delay_ns()
    )
}

fn findings(findings: &[Finding]) -> String {
    let finding = |finding: &Finding| {
        format!(
            "{{\"verdict\":{},\"value\":{:.6},\"limit\":{},\"confidence\":\"{}\",\"evidence\":{}}}",
            json_text(finding.verdict.word()),
            finding.value,
            finding.limit,
            finding.confidence.word(),
            json_text(&finding.evidence)
        )
    };
    format!("[{}]", list(findings.iter().map(finding)))
}

/// What was sampled; what is missing was not.
fn peaks(peaks: &Peaks) -> String {
    let sampled = MEMORY_METRICS.iter().filter_map(|name| Some(format!("\"{name}\":{}", peaks.get(name)?)));
    format!("{{{}}}", sampled.collect::<Vec<_>>().join(","))
}

fn straggler(straggler: &Straggler) -> String {
    let cause = |cause: &latscope_series::spark::Cause| {
        let numbers =
            cause.numbers().map_or(String::new(), |[own, usual]| format!(",\"value\":{own},\"median\":{usual}"));
        format!("{{\"cause\":\"{}\"{numbers}}}", cause.word())
    };
    format!(
        "{{\"task\":{},\"stage\":{},\"attempt\":{},\"executor\":{},\"host\":{},\"start_ns\":{},\"latency_ns\":{},\
         \"median_ns\":{},\"running\":{},\"cause\":{},\"causes\":[{}]}}",
        straggler.task,
        straggler.stage.0,
        straggler.stage.1,
        json_text(&straggler.executor[0]),
        json_text(&straggler.executor[1]),
        straggler.span_ns.0,
        straggler.took_ns[0],
        straggler.took_ns[1],
        straggler.is_running,
        json_text(&causes(straggler)),
        straggler.causes.iter().map(cause).collect::<Vec<_>>().join(",")
    )
}

fn exclusion(exclusion: &SparkExclusion) -> String {
    let text = |text: &str| if text.is_empty() { "null".into() } else { json_text(text).to_string() };
    format!(
        "{{\"executor\":{},\"host\":{},\"stage\":{},\"attempt\":{},\"start_ns\":{},\"end_ns\":{},\"ended_by\":{},\"failures\":{}}}",
        text(&exclusion.executor),
        text(&exclusion.host),
        exclusion.stage.map_or("null".into(), |stage| stage.0.to_string()),
        exclusion.stage.map_or("null".into(), |stage| stage.1.to_string()),
        exclusion.span_ns.0,
        exclusion.span_ns.1,
        text(&exclusion.ended),
        exclusion.failures.map_or("null".into(), |failures| failures.to_string())
    )
}

impl SparkReport<'_> {
    /// Everything as JSON.
    pub fn json(&self) -> String {
        let analysis = &self.analysis;
        let (tasks, total) = (analysis.tasks, &analysis.observed.sums);
        let spans = || tasks.stages.values().filter_map(|stage| stage.span_ns);
        let elapsed_ns = match (spans().map(|span| span.0).min(), spans().map(|span| span.1).max()) {
            (Some(start_ns), Some(end_ns)) => end_ns.abs_diff(start_ns),
            _ => 0,
        };
        let duration_ns: u64 = tasks.stages.values().map(SparkStage::wall_ns).sum();
        // Writing to a String does not fail.
        let mut json = format!("{{\"application\":{}", json_text(&self.title()));
        let _ = write!(json, ",\"start_ns\":{}", span(tasks.extent_ns()));
        let _ =
            write!(json, ",\"ended\":{}", !self.context.properties.contains_key(latscope_event::Context::SPARK_END));
        let _ = write!(json, ",\"exit_code\":{}", tasks.exit_code.map_or("null".into(), |code| code.to_string()));
        let unknown: Vec<String> = tasks.unknown_executors().iter().map(|id| json_text(id).to_string()).collect();
        let _ = write!(json, ",\"unknown_executors\":[{}]", unknown.join(","));
        let anomalies = self.context.tally.iter().map(|(anomaly, count)| format!("\"{}\":{count}", anomaly.key()));
        let _ = write!(json, ",\"anomalies\":{{{}}}", anomalies.collect::<Vec<_>>().join(","));
        let _ = write!(json, ",\"counters\":{{\"numStages\":{}", tasks.stages.len());
        let _ = write!(json, ",\"elapsedTime\":{},\"stageDuration\":{}", elapsed_ns / MS, duration_ns / MS);
        counters(total, tasks.stages.values().map(|stage| &stage.sums), &mut json);
        let measures = SparkMeasures::new(tasks);
        let measure = |(name, value): (&str, Option<f64>)| {
            format!("\"{name}\":{}", value.map_or("null".into(), |value| value.to_string()))
        };
        let measures: Vec<String> = measures.iter().map(measure).collect();
        let load = &analysis.load;
        let _ = write!(
            json,
            "}},{},\"running_tasks\":{},\"measures\":{{{}}},\"findings\":{},\"active_tasks\":{{\"most\":{},\"cores\":{},\"task_ns\":{},\"core_ns\":{},\
             \"idle_ns\":{},\"steps\":[",
            sums(total),
            tasks.running(),
            measures.join(","),
            findings(&analysis.observed.findings()),
            load.tasks,
            self.of_cores(load.cores.into()),
            load.task_ns,
            self.of_cores(load.core_ns),
            self.of_cores(load.idle_ns)
        );
        for (at, step) in analysis.active.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = write!(json, "{comma}[{},{},{}]", step.start_ns, step.tasks, step.cores);
        }
        json += "]},\n\"idle\":";
        json += &self.idle_json();
        json += ",\n\"breakdown\":";
        json += &self.breakdown_json();
        let _ = write!(
            json,
            ",\n\"stages\":[{}]",
            list(tasks.stages.iter().map(|(id, stage)| self.stage_json(*id, stage)))
        );
        let _ = write!(json, ",\n\"jobs\":[{}]", list(tasks.jobs().iter().map(|job| self.group_json("job", job))));
        let _ = write!(json, ",\n\"sql\":[{}]", list(tasks.executions().iter().map(|sql| self.group_json("sql", sql))));
        let _ = write!(json, ",\n\"stragglers\":[{}]", list(analysis.stragglers.iter().map(straggler)));
        let _ = write!(json, ",\n\"executors\":[{}]", self.executors_json());
        let _ = write!(json, ",\n\"exclusions\":[{}]", list(tasks.exclusions.iter().map(exclusion)));
        let _ = write!(json, ",\n\"cgroups\":[{}]", self.usage_json());
        json += ",\n\"memory\":";
        json += &self.memory_json();
        let simulated = analysis.simulated.iter().map(|run| {
            format!(
                "{{\"factor\":{},\"cores\":{},\"wall_ns\":{},\"busy\":{:.4}}}",
                run.factor, run.cores, run.wall_ns, run.busy
            )
        });
        let _ =
            write!(json, ",\n\"what_if\":{{\"wall_ns\":{},\"simulated\":[{}]}}", analysis.wall_ns(), list(simulated));
        json + "}\n"
    }

    /// A number that needs the cores to be known.
    fn of_cores(&self, number: u128) -> String {
        if self.analysis.load.cores > 0 { number.to_string() } else { "null".into() }
    }

    fn idle_json(&self) -> String {
        let idle = &self.analysis.idle;
        let causes = idle.by_cause().into_iter().map(|(cause, (wall_ns, core_ns))| {
            format!("{{\"cause\":\"{}\",\"wall_ns\":{wall_ns},\"core_ns\":{core_ns}}}", cause.word())
        });
        let stretches = idle.stretches.iter().map(|stretch| {
            let stage = stretch.stage.map_or("null".into(), |id| format!("[{},{}]", id.0, id.1));
            format!(
                "[{},{},\"{}\",{},{stage}]",
                stretch.span_ns.0,
                stretch.span_ns.1,
                stretch.cause.word(),
                stretch.core_ns
            )
        });
        format!("{{\"causes\":[{}],\"stretches\":[{}]}}", list(causes), list(stretches))
    }

    fn breakdown_json(&self) -> String {
        let breakdown = self.analysis.tasks.breakdown(&self.analysis.active, COLUMNS);
        let numbers = |values: &mut dyn Iterator<Item = f64>| {
            values.map(|ns| (ns.round() as i64).to_string()).collect::<Vec<_>>().join(",")
        };
        let mut json = format!("{{\"start_ns\":{},\"width_ns\":{}", breakdown.start_ns, breakdown.width_ns);
        let names = TIME_PARTS.iter().map(|&part| part_name(part)).chain(["unknown"]);
        for (at, name) in names.enumerate() {
            let _ = write!(json, ",\n\"{name}\":[{}]", numbers(&mut breakdown.parts.iter().map(|parts| parts[at])));
        }
        let _ = write!(json, ",\n\"idle\":[{}]", numbers(&mut breakdown.idle.iter().copied()));
        let _ = write!(json, ",\n\"cores\":[{}]}}", numbers(&mut breakdown.cores.iter().copied()));
        json
    }

    fn stage_json(&self, id: (i64, i64), stage: &SparkStage) -> String {
        let sql = stage.sql.map_or("null".into(), |sql| sql.to_string());
        let mut json = format!(
            "{{\"stage\":{},\"attempt\":{},\"name\":{},\"job\":{},\"sql\":{sql},\"start_ns\":{},\"failed\":{},\"running\":{},\"ended\":{},\"reason\":{},\"stageDuration\":{}",
            id.0,
            id.1,
            json_text(&stage.name),
            json_text(&stage.job),
            span(stage.span_ns),
            stage.has_failed,
            stage.is_running,
            !stage.is_bound(),
            reason(&stage.reason),
            stage.wall_ns() / MS
        );
        counters(&stage.sums, [&stage.sums].into_iter(), &mut json);
        let tail = self.analysis.tails.get(&id).copied().unwrap_or_default();
        let of_stage = findings(&self.analysis.findings_in(stage));
        let _ = write!(
            json,
            ",{},\"running_tasks\":{},\"tail_start_ns\":{},\"tail_core_ns\":{},\"findings\":{of_stage}}}",
            sums(&stage.sums),
            stage.running,
            tail.span_ns.0,
            self.of_cores(tail.core_ns)
        );
        json
    }

    fn group_json(&self, kind: &str, group: &SparkGroup) -> String {
        let mut json = format!(
            "{{\"{kind}\":{},\"name\":{},\"start_ns\":{},\"failed\":{},\"cancelled\":{},\"running\":{},\"ended\":{},\"reason\":{},\"stages\":{}",
            group.id,
            json_text(&group.name),
            span(group.span_ns),
            group.has_failed && !group.was_cancelled(),
            group.was_cancelled(),
            group.is_running,
            !group.is_running && !group.is_open,
            reason(&group.reason),
            stage_ids(&group.stages)
        );
        let of_group = group.stages.iter().filter_map(|id| self.analysis.tasks.stages.get(id)).map(|stage| &stage.sums);
        counters(&group.sums, of_group, &mut json);
        let _ = write!(json, ",{}}}", sums(&group.sums));
        json
    }

    fn executors_json(&self) -> String {
        let all = self.analysis.tasks.peaks_by_executor();
        list(self.analysis.tasks.executors.iter().map(|executor| {
            format!(
                "{{\"executor\":{},\"host\":{},\"cores\":{},\"start_ns\":{},\"end_ns\":{},\"removed\":{},\"lost\":{},\"peaks\":{}}}",
                json_text(&executor.id),
                json_text(&executor.host),
                executor.cores,
                executor.span_ns.0,
                executor.span_ns.1,
                json_text(&executor.removed),
                executor.is_lost(),
                all.get(executor.id.as_str()).map_or("{}".into(), peaks)
            )
        }))
    }

    fn memory_json(&self) -> String {
        let (tasks, pool) = (self.analysis.tasks, &self.analysis.pool);
        let by_executor = tasks.peaks_by_executor();
        let by_executor = by_executor.iter().map(|(executor, of)| format!("{}:{}", json_text(executor), peaks(of)));
        let by_stage = tasks.peaks_by_stage().map(|((stage, attempt), executor, of)| {
            format!(
                "{{\"stage\":{stage},\"attempt\":{attempt},\"executor\":{},\"peaks\":{}}}",
                json_text(executor),
                peaks(of)
            )
        });
        let advice = self.analysis.advice.iter().map(|advice| {
            format!(
                "{{\"setting\":\"{}\",\"now\":{},\"advised\":{},\"why\":{}}}",
                advice.setting,
                json_text(&advice.now),
                advice.advised.as_ref().map_or("null".into(), |text| json_text(text).to_string()),
                json_text(&advice.why)
            )
        });
        // Without settings there are the defaults of Spark, which are not what the application had.
        let known = |number: String| if pool.is_known { number } else { "null".into() };
        let is_sampled = tasks.peaks_by_executor().values().any(Peaks::is_sampled);
        let profiles = tasks.profiles().into_iter();
        let profiles = profiles.map(|(profile, stages)| format!("{{\"profile\":{profile},\"stages\":{stages}}}"));
        let profiles = profiles.collect::<Vec<_>>().join(",");
        let reported = pool.reported.map_or("null".into(), |bytes| bytes.to_string());
        format!(
            "{{\"sampled\":{is_sampled},\"profiles\":[{profiles}],\"heap\":{},\"fraction\":{},\"storage_fraction\":{},\"unified\":{},\"reported\":{reported},\
             \"off_heap\":{},\"overhead\":{},\"container\":{},\"tasks_at_a_time\":{},\"peaks\":{{{}}},\n\"stages\":[{}],\n\"advice\":[{}]}}",
            known(pool.heap.to_string()),
            known(pool.fraction.to_string()),
            known(pool.storage_fraction.to_string()),
            known(pool.unified.to_string()),
            known(pool.off_heap.to_string()),
            known(pool.overhead.to_string()),
            known(pool.container().to_string()),
            pool.tasks,
            list(by_executor),
            list(by_stage),
            list(advice)
        )
    }

    /// What a part of the time of all tasks is called, and its nanoseconds.
    pub(super) fn parts(total: &TaskSums) -> impl Iterator<Item = (&'static str, u64)> {
        TIME_PARTS.into_iter().map(|part: Field| (part_name(part), total.get(part)))
    }
}
