//! What surrounds a measurement, for the context of a trace: nobody can compare two without it.

use crate::target::Target;
use crate::{AfterWrite, OpenSync, Operation, Order, Probe, cpu};
use latscope_event::{Context, format_duration_exact, format_rate, format_size_exact};
use std::fs;

/// Of the machine.
pub fn of_machine(context: &mut Context) {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_string());
    context.host = read("/proc/sys/kernel/hostname");
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    for (key, value) in [("kernel", read("/proc/sys/kernel/osrelease")), ("clock_source", read(clock))] {
        value.into_iter().for_each(|value| drop(context.properties.insert(key.into(), value)));
    }
    if let Some(load) = read("/proc/loadavg") {
        let load = load.split_whitespace().next().unwrap_or_default().to_string();
        context.properties.insert("load_at_start".into(), load);
    }
    let limits = cgroup_limits();
    if !limits.is_empty() {
        context.properties.insert("cgroup_limits".into(), limits.join("; "));
    }
}

/// What a probe does, and where; with `suffix` behind the names.
pub fn of_probe(context: &mut Context, probe: &Probe, target: &Target, engine: &str, suffix: &str) {
    let work = &probe.work;
    let mut put = |key: &str, value: String| drop(context.properties.insert(format!("{key}{suffix}"), value));
    put("target", probe.target.to_string_lossy().into_owned());
    put("fs", target.place.fstype.clone());
    put("device", target.place.device.clone());
    put("mount_options", target.place.mount_options.clone());
    target.place.queue().into_iter().for_each(|(key, value)| put(key, value));
    if let Some(align) = target.direct_align {
        put("direct_align_bytes", align.to_string());
    }
    let operation = match work.operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Alternate => "write, read in turn",
    };
    put("operation", operation.into());
    put("size", format_size_exact(work.size));
    put("working_set", format!("{} at {}", format_size_exact(target.len), format_size_exact(target.start)));
    let order = match work.order {
        Order::Random => "random",
        Order::Linear => "linear",
        Order::Once => "once",
        Order::Listed => "listed",
        Order::Append => "append",
    };
    put("order", format!("{order}, seed {}", probe.seed));
    put("cache", if work.direct { "direct".into() } else { work.cache.word().into() });
    if work.operation != Operation::Read {
        put("sync", sync(probe));
    }
    let interval = format_duration_exact(probe.pace.interval_ns as u64);
    put("interval", if probe.pace.burst > 1 { format!("{interval}, {} at once", probe.pace.burst) } else { interval });
    put(
        "loop",
        if probe.pace.open { format!("open, {}", format_rate(1e9 / probe.pace.interval_ns)) } else { "closed".into() },
    );
    put("engine", engine.into());
    put("in_flight", format!("{} threads, depth {}", probe.threads, probe.depth));
    put(
        "scheduling",
        [if probe.realtime { "fifo" } else { cpu::class() }.to_string()]
            .into_iter()
            .chain(probe.cpu.map(|cpu| format!("on CPU {cpu}")))
            .chain(match probe.spin_ns {
                0 => None,
                Probe::BUSY => Some("busy".into()),
                ns => Some(format!("busy {} before", format_duration_exact(ns))),
            })
            .collect::<Vec<_>>()
            .join(", "),
    );
}

fn sync(probe: &Probe) -> String {
    let opened = match probe.work.open_sync {
        OpenSync::None => None,
        OpenSync::Dsync => Some("dsync"),
        OpenSync::Sync => Some("sync"),
    };
    let after = match probe.work.after_write {
        AfterWrite::None => None,
        AfterWrite::Fdatasync => Some("fdatasync"),
        AfterWrite::Fsync => Some("fsync"),
    };
    let words: Vec<&str> = opened.into_iter().chain(after).collect();
    if words.is_empty() { "none".into() } else { words.join(" and ") }
}

/// What may slow this process down beside the disk: limits of its control group, as the kernel writes them.
fn cgroup_limits() -> Vec<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (folder, files): (String, &[&str]) = match controllers {
            "" => (format!("/sys/fs/cgroup{path}"), &["io.max", "cpu.max"]),
            "blkio" => (
                format!("/sys/fs/cgroup/blkio{path}"),
                &[
                    "blkio.throttle.read_iops_device",
                    "blkio.throttle.write_iops_device",
                    "blkio.throttle.read_bps_device",
                    "blkio.throttle.write_bps_device",
                ],
            ),
            _ => continue,
        };
        for file in files {
            let text = fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            if !text.is_empty() && !text.starts_with("max") {
                limits.push(format!("{file} {text}"));
            }
        }
    }
    limits
}
