use super::*;
use crate::SparkCgroups;
use latscope_series::SparkExecutorNow;

/// A machine in a folder: its mounts, and an executor with the groups and files that are given.
fn machine(mounts: &str, groups: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("proc/self/mounts", mounts);
    let words = [
        "java",
        "-cp",
        "/opt/one/jars/*",
        "org.apache.spark.executor.CoarseGrainedExecutorBackend",
        "--executor-id",
        "7",
    ];
    write("proc/41/cmdline", &[&words[..], &["--app-id", "app-1", ""]].concat().join("\0"));
    // What it has just forked.
    write("proc/44/cmdline", &[&words[..], &["--app-id", "app-1", ""]].concat().join("\0"));
    write("proc/42/cmdline", "sh\0-c\0java CoarseGrainedExecutorBackend --executor-id 7 --app-id app-1\0");
    write("proc/43/cmdline", "bash\0");
    write("proc/41/cgroup", groups);
    // From a host with two interfaces.
    write(
        "proc/41/net/dev",
        "Inter-|   Receive                                                |  Transmit\n \
        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
        lo: 5000 10 0 0 0 0 0 0 5000 10 0 0 0 0 0 0\n  eth0: 1200 3 0 0 0 0 0 0 340 2 0 0 0 0 0 0\neth1:1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n",
    );
    files.iter().for_each(|(path, text)| write(path, text));
    root
}

fn sampled(root: &Path) -> UsageRow {
    let executors = Executors::new(root, Some("/opt/one/"));
    assert_eq!(Executors::new(root, Some("/opt/two/")).find(), []);
    let found = executors.find();
    assert_eq!(found, [Executor { pid: 41, app: "app-1".into(), id: "7".into() }]);
    executors.sample(&found[0], 5).unwrap()
}

fn values(row: &UsageRow) -> Vec<(&'static str, u64)> {
    Usage::ALL.iter().zip(row.sample.values).filter_map(|(of, value)| Some((of.name(), value?))).collect()
}

/// Files of a container on a host with version 2, as the kernel writes them.
#[test]
fn version_2_is_read() {
    let root = machine(
        "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0\n",
        "0::/kubepods.slice/pod-1\n",
        &[
            (
                "sys/fs/cgroup/kubepods.slice/pod-1/cpu.stat",
                "usage_usec 2340567\nuser_usec 1000000\nsystem_usec 1340567\nnice_usec 0\nnr_periods 120\nnr_throttled 30\nthrottled_usec 987654\nnr_bursts 0\nburst_usec 0\n",
            ),
            ("sys/fs/cgroup/kubepods.slice/pod-1/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/kubepods.slice/pod-1/memory.current", "734003200\n"),
            ("sys/fs/cgroup/kubepods.slice/pod-1/memory.max", "1073741824\n"),
            (
                "sys/fs/cgroup/kubepods.slice/pod-1/memory.stat",
                "anon 600000000\nfile 100000000\nkernel 5000000\nfile_mapped 7\n",
            ),
            (
                "sys/fs/cgroup/kubepods.slice/pod-1/io.stat",
                "8:0 rbytes=1000 wbytes=200 rios=3 wios=1 dbytes=0 dios=0\n259:1 rbytes=24 wbytes=0 rios=1 wios=0 dbytes=9 dios=1\n",
            ),
        ],
    );
    let row = sampled(root.path());
    assert_eq!((row.group.clone(), row.sample.time_ns), (("/kubepods.slice/pod-1".to_string(), 2), 5));
    let expected = [
        ("cpu_ns", 2_340_567_000),
        ("periods", 120),
        ("throttled_periods", 30),
        ("throttled_ns", 987_654_000),
        ("quota_millicores", 1500),
        ("memory", 734_003_200),
        ("memory_limit", 1 << 30),
        ("anonymous", 600_000_000),
        ("file_cache", 100_000_000),
        ("block_read", 1024),
        ("block_written", 200),
        ("network_received", 1201),
        ("network_sent", 342),
        ("loopback", 5000),
    ];
    assert_eq!(values(&row), expected);
}

/// Version 1 beside an empty version 2; there is neither a quota nor a limit.
#[test]
fn version_1_is_read() {
    let root = machine(
        "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
         cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
        "9:name=systemd:/\n4:memory:/a\n3:cpu,cpuacct:/a\n2:blkio:/gone\n0::/\n",
        &[
            ("sys/fs/cgroup/cpu,cpuacct/a/cpuacct.usage", "123456789\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.stat", "nr_periods 10\nnr_throttled 4\nthrottled_time 55555\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4096\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/a/memory.stat", "cache 1\nrss 2\ntotal_cache 3\ntotal_rss 4\n"),
            // The group has another name outside of the container.
            (
                "sys/fs/cgroup/blkio/blkio.throttle.io_service_bytes",
                "8:0 Read 10\n8:0 Write 20\n8:0 Sync 30\n8:0 Total 30\n9:0 Read 1\nTotal 31\n",
            ),
        ],
    );
    let row = sampled(root.path());
    let bytes = root.path().join("sys/fs/cgroup/blkio/blkio.throttle.io_service_bytes");
    fs::write(&bytes, "Total 0\n").unwrap();
    let uncounted = sampled(root.path()).sample.values;
    assert_eq!([uncounted[Usage::Read as usize], uncounted[Usage::Written as usize]], [None; 2], "this is not zero");
    assert_eq!(row.group, ("/a".to_string(), 1));
    let expected = [
        ("cpu_ns", 123_456_789),
        ("periods", 10),
        ("throttled_periods", 4),
        ("throttled_ns", 55_555),
        ("memory", 4096),
        ("anonymous", 4),
        ("file_cache", 3),
        ("block_read", 11),
        ("block_written", 20),
        ("network_received", 1201),
        ("network_sent", 342),
        ("loopback", 5000),
    ];
    assert_eq!(values(&row), expected);
}

/// The kernel's own files: the CPU time of the group of this test grows as it works.
#[test]
fn the_group_of_this_process_is_read() {
    let executors = Executors::new(Path::new("/"), None);
    let own = Executor { pid: std::process::id(), app: "app-1".into(), id: "0".into() };
    let Some(before) = executors.sample(&own, 0) else { return skipped!("control groups cannot be read here") };
    let cpu = |row: &UsageRow| row.sample.values[Usage::Cpu as usize];
    let Some(start) = cpu(&before) else { return skipped!("control groups do not count CPU time here") };
    let worked = (0..20_000_000_u64).fold(1, |sum, number| std::hint::black_box(sum ^ number));
    let after = cpu(&executors.sample(&own, 1).unwrap()).unwrap();
    assert!(after > start, "{start} {after} {worked}");
}

/// An executor that never ends by itself.
struct Busy(std::process::Child);

impl Drop for Busy {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// A group of version 2 that this kernel counts: CPU time, and the quota and limit of memory where version 2 has these controllers here.
#[test]
fn a_group_of_version_2_in_this_kernel_is_read() {
    let all = Executors::new(Path::new("/"), Some("latscope-v2-test"));
    let Some(mount) = all.mounts.get("").cloned() else { return skipped!("version 2 is not mounted") };
    let executors = Executors { mounts: BTreeMap::from([(String::new(), mount.clone())]), ..all };
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "while :; do :; done", BACKEND, "--app-id", "latscope-v2-test", "--executor-id", "7"]);
    let busy = Busy(command.spawn().unwrap());
    let executor = Executor { pid: busy.0.id(), app: "latscope-v2-test".into(), id: "7".into() };
    while executors.find().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(executors.find(), std::slice::from_ref(&executor));
    let name = format!("latscope-test-{}", executor.pid);
    let Ok(own) = executors.set_apart(&executor, &name) else { return skipped!("no group can be made, not root") };
    let file = |file: &str| mount.join(&name).join(file);
    let limits = [("cpu.max", "20000 100000"), ("memory.max", "104857600")];
    let [has_quota, has_limit] = limits.map(|(limit, text)| fs::write(file(limit), text).is_ok());
    let counted =
        |from: &str, name: &str| fs::read_to_string(file(from)).ok().and_then(|text| field(&Some(text), name));
    let now = || executors.sample(&executor, 1).unwrap().sample.values;
    let enough = |values: &[Option<u64>; Usage::ALL.len()]| {
        let is_kept = values[Usage::Throttled as usize] > Some(1);
        values[Usage::Cpu as usize] > Some(50_000_000) && (is_kept || !has_quota)
    };
    while !enough(&now()) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let within = |of: Usage, from: &str, name: &str, unit: u64| {
        let before = counted(from, name);
        let value = now()[of as usize].map(|value| value / unit);
        let is_between = before <= value && value <= counted(from, name);
        assert!(is_between, "{name}: {before:?} {value:?}");
    };
    within(Usage::Cpu, "cpu.stat", "usage_usec", 1000);
    if has_quota {
        within(Usage::Periods, "cpu.stat", "nr_periods", 1);
        within(Usage::Throttled, "cpu.stat", "nr_throttled", 1);
        within(Usage::ThrottledTime, "cpu.stat", "throttled_usec", 1000);
    }
    let values = now();
    assert_eq!(values[Usage::Quota as usize], has_quota.then_some(200));
    assert_eq!(values[Usage::MemoryLimit as usize], has_limit.then_some(100 << 20));
    assert_eq!(values[Usage::Memory as usize].is_some_and(|bytes| bytes <= 100 << 20), has_limit);
    drop(busy);
    drop(own);
    assert!(!mount.join(&name).exists(), "the group is removed");
}

#[test]
fn files_of_samples_are_hostile() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("executors.csv");
    let root = machine("", "", &[]);
    let executor = Executor { pid: 41, app: "app-1".into(), id: "7".into() };
    assert_eq!(Executors::new(root.path(), None).sample(&executor, 1), None, "no hierarchy is mounted");
    let row = UsageRow {
        app: "app-1".into(),
        executor: "7".into(),
        group: ("/".into(), 2),
        sample: UsageSample { time_ns: 9, values: [None; Usage::ALL.len()] },
    };
    let whole = format!("{}\n{}\n", UsageRow::header(), row.line());
    let read = |text: &str, app: &str| {
        fs::write(&file, text).unwrap();
        let mut rows = Vec::new();
        read_usage(&file, app, &mut |row| rows.push(row)).map(|_| rows).map_err(|error| error.to_string())
    };
    assert_eq!(read(&whole, "app-1_2").unwrap(), std::slice::from_ref(&row), "the second attempt");
    assert_eq!(read(&format!("{whole}12,app-1,7"), "app-1").unwrap(), [row], "the last line is cut");
    // Its writer was killed in the middle of a line, and started again.
    let again = format!("{whole}12,app-1,7\n{whole}");
    assert_eq!(read(&again, "app-1").unwrap().len(), 2);
    let file = root.path().join("again.csv");
    fs::write(&file, again).unwrap();
    let note = read_usage(&file, "app-1", &mut |_| {}).unwrap().unwrap();
    assert!(note.ends_with("again.csv: left out: Line 3: 3 columns, not 19."), "{note}");
    for (text, app, words) in [
        (whole.as_str(), "app-2", "It has executors of app-1, and none of app-2."),
        ("", "app-1", "It has no sample of an executor."),
        ("a,b\n", "app-1", "Line 1: 2 columns, not 19; the program writes such files with --sample."),
        (&"x".repeat(9000), "app-1", "Line 1: 1 columns, not 19"),
    ] {
        let message = read(text, app).unwrap_err();
        assert!(message.contains(words), "{message}");
    }
}

/// What a control group did between two turns, in cores: once with a quota that was used up, and then in another group.
#[test]
fn an_executor_that_reports_has_its_control_group() {
    let mount = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
    let root = machine(mount, "0::/pod-1\n", &[]);
    let write = |path: &str, text: &str| {
        fs::create_dir_all(root.path().join(path).parent().unwrap()).unwrap();
        fs::write(root.path().join(path), text).unwrap();
    };
    let mut groups = SparkCgroups::new(Executors::new(root.path(), None));
    let mut turn = |pod: &str, time_ns: i64, used_us: u64, kept_us: u64, memory: u64| {
        write("proc/41/cgroup", &format!("0::/{pod}\n"));
        write(
            &format!("sys/fs/cgroup/{pod}/cpu.stat"),
            &format!("usage_usec {used_us}\nthrottled_usec {kept_us}\nnr_periods 5\nnr_throttled 1\n"),
        );
        write(&format!("sys/fs/cgroup/{pod}/memory.current"), &format!("{memory}\n"));
        let of = |app: &str| SparkExecutorNow { app: app.into(), executor: "7".into(), ..SparkExecutorNow::default() };
        let mut reported = [of("app-2"), of("app-1")];
        groups.add(&mut reported, time_ns);
        assert_eq!(reported[0].group, None, "it is of another application");
        reported[1].group.clone().map(|group| (group.name, group.cpu, group.throttled, group.memory))
    };
    let second = 1_000_000_000;
    let found = |name: &str, cpu, throttled, memory| Some((name.to_string(), cpu, throttled, Some(memory)));
    assert_eq!(turn("pod-1", second, 4_000_000, 100_000, 70), found("/pod-1", None, None, 70));
    assert_eq!(turn("pod-1", 3 * second, 7_000_000, 600_000, 80), found("/pod-1", Some(1.5), Some(0.25), 80));
    assert_eq!(turn("pod-2", 4 * second, 9_000_000, 700_000, 90), found("/pod-2", None, None, 90));
}
