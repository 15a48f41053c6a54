//! Every example of a help text and of the documentation is run as it stands.

use crate::program::{LATSCOPE, command, end, installed, is_root, latscope, root, testdata, unpacked};
use std::path::{Path, PathBuf};

/// The commands of a help text.
fn examples(help: &str) -> Vec<String> {
    let (_, after) = help.split_once("Examples:\n").expect("the help has examples");
    let lines = after.lines().take_while(|line| line.starts_with("  "));
    lines.map(|line| line.trim().to_string()).collect()
}

fn verbs() -> Vec<String> {
    let help = latscope(&["--help"]).success();
    let (_, commands) = help.split_once("Commands:\n").expect("the help lists the verbs");
    let lines = commands.lines().take_while(|line| line.starts_with("  "));
    // A long meaning goes on in lines of its own, further in.
    let names = lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    // The others take nothing but --json.
    names.filter(|name| !["help", "fields", "formats"].contains(name)).map(str::to_string).collect()
}

/// What the examples read.
fn furnish(folder: &Path) {
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect(name);
    write("perf.data", &unpacked("perf_data/block_mixed.data.zst"));
    write("out.txt.gz", &std::fs::read(testdata("perf_script/story_2s.txt.gz")).expect("the trace is there"));
    write("jhiccup.hlog", &std::fs::read(testdata("hlog/jhiccup_v2.hlog")).expect("the log is there"));
    for (recorded, name) in [("fsync_io", "io.lat"), ("fsync_block", "block.lat")] {
        write(name, &std::fs::read(testdata(&format!("lat/{recorded}.lat"))).expect("the recording is there"));
    }
    write("out.lat_us", &unpacked("two_columns/out.lat_us.gz"));
    for (packed, name) in [("compare/volA.txt", "gp2.txt"), ("compare/volB.txt", "gp3.txt")] {
        write(name, &unpacked(packed));
    }
    let (data, run) = (folder.join("perf.data"), folder.join("run.lat"));
    // As perf script --header starts, from which the time of day is known.
    let header = b"# captured on    : Sat Nov 21 10:32:07 2026\n# time of last sample : 2288.609000\n";
    for name in ["out.txt", "out.blockio"] {
        write(name, &[&header[..], &unpacked("perf_script/story_2s.txt.gz")].concat());
    }
    write("run.scap", &crate::scap::captures()["sysflow-objectstore_download"]);
    write("sda.blktrace.0", &unpacked("blktrace/vda.bin.zst"));
    write("trace.dat", &unpacked("trace_dat/same_run_v6.dat.zst"));
    write("trace.txt", &unpacked("ftrace/lost.txt.gz"));
    write("sda.txt", &unpacked("blkparse/vda.txt.gz"));
    for (packed, name) in [
        ("strace/f_tt_y.txt.zst", "strace.txt"),
        ("perf_trace/tar.txt.zst", "perf_trace.txt"),
        ("snoop/bcc.txt.zst", "biosnoop.txt"),
        ("oracle_10046/waits.trc.zst", "orcl_ora_1234.trc"),
        ("histogram_text/biolatency_DT.txt.zst", "biolatency.txt"),
        ("pylatencymap/oracle.txt.zst", "records.txt"),
        ("spark_eventlog/tpcds_lab.json.zst", "app-20261121011349-0000"),
    ] {
        write(name, &unpacked(packed));
    }
    for name in ["out.folded", "out.collapsed"] {
        write(name, &unpacked("folded/mix.folded"));
    }
    let rolled = testdata("spark_eventlog/eventlog_v2_local-1795226752528");
    std::os::unix::fs::symlink(rolled, folder.join("eventlog_v2_app-20261121012754-0002")).expect("a link");
    let samples = "1795483934688000000,app-20261121011349-0000,0,/a,2,1,,,,,,,,,,,,,\n";
    write("executors.csv", format!("{}\n{samples}", latscope_series::spark::UsageRow::header()).as_bytes());
    write("profile.pb.gz", &std::fs::read(testdata("pprof/slow_io.pb.gz")).expect("the profile is there"));
    write("maps.txt", &unpacked("bpftrace_stacks/slow_io.txt"));
    write("stacks.txt", &unpacked("stap_stacks/made_up.txt"));
    latscope(&[
        "convert",
        "-r",
        "testdata/stap_stacks/made_up.txt",
        "-w",
        folder.join("commits.lat").to_str().expect("UTF-8"),
    ])
    .success();
    write("waits.csv", &unpacked("flamegraph/slow_io.csv.gz"));
    ["queries.txt", "stages.txt"].iter().for_each(|name| write(name, b"4711 1763892725.25 1763892727.5 query=q17\n"));
    write("mine.toml", &std::fs::read(root().join("crates/capture-probe/experiments/etcd.toml")).expect("a lab"));
    std::os::unix::fs::symlink(root().join("testdata"), folder.join("testdata")).expect("a link");
    // What fio and smallfile leave, under the names that the documentation gives them.
    write("offsets", b"vm1 0\nvm2 -30\n");
    write("alerts.toml", b"[[alert]]\nname = 'slow'\nif = 'p99 > 1s'\nby = ['device']\n");
    ["results", "run", "stall"].iter().for_each(|name| std::fs::create_dir_all(folder.join(name)).expect("a folder"));
    for (packed, names) in [
        ("fio_hist/H_clat_hist.1.log.127.0.0.2.zst", ["run_clat_hist.1.log.vm1", "results/run_clat_hist.1.log.vm1"]),
        ("fio_hist/H_clat_hist.1.log.127.0.0.3.zst", ["run_clat_hist.1.log.vm2", "results/run_clat_hist.1.log.vm2"]),
        ("fio_log/H_clat.1.log.127.0.0.2.zst", ["run_clat.1.log.vm1", "run/run_clat.1.log.vm1"]),
        ("fio_log/H_clat.2.log.127.0.0.2.zst", ["run_clat.2.log.vm1", "run/run_clat.2.log.vm1"]),
        ("fio_log/H_clat.1.log.127.0.0.3.zst", ["run_clat.1.log.vm2", "run/run_clat.1.log.vm2"]),
        ("fio_log/H_clat.2.log.127.0.0.3.zst", ["run_clat.2.log.vm2", "run/run_clat.2.log.vm2"]),
        ("fio_json/H.json.zst", ["run.json", "output.0.vm1"]),
        ("stall/stall_clat.log.zst", ["stall_clat.log", "stall/stall_clat.log"]),
        ("stall/stall_clat_hist.log.zst", ["stall_clat_hist.log", "stall/stall_clat_hist.log"]),
    ] {
        names.iter().for_each(|name| write(name, &unpacked(packed)));
    }
    latscope(&["convert", "-r", data.to_str().expect("UTF-8"), "-w", run.to_str().expect("UTF-8")]).success();
    ["journal", "data", "volumes"].iter().for_each(|name| std::fs::create_dir(folder.join(name)).expect("a folder"));
    let journal = folder.join("journal/1.frames");
    let words = ["convert", "-r", run.to_str().expect("UTF-8"), "-w", journal.to_str().expect("UTF-8"), "-i", "1s"];
    latscope(&words).success();
    std::fs::copy(&journal, folder.join("data/001764000000000.frames")).expect("a journal");
    if installed("openssl") {
        let lines = [
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=ca -keyout ca.key -out ca.pem",
            "cp ca.pem hub.pem",
            "cp ca.key hub.key",
            "openssl rand -hex 16 > token",
            "cp token tokens",
        ];
        end(command("bash").args(["-c", &lines.join(" && ")]).current_dir(folder), b"").success();
    }
    for copy in ["t.lat", "volumes/direct.mnt-ssd.1.lat", "volumes/direct.mnt-ebs1.1.lat"] {
        std::fs::copy(&run, folder.join(copy)).expect("a copy");
    }
    // Runs of their own: each lacks one more of the fastest requests.
    let csv = latscope(&["events", "--csv", "--columns", "latency_ns", "-r", run.to_str().expect("UTF-8")]).success();
    let mut latencies: Vec<u64> = csv.lines().skip(1).map(|line| line.parse().expect("a number")).collect();
    latencies.sort_unstable();
    latencies.dedup();
    let turns = ["a", "b"].iter().flat_map(|side| (1..=4).map(move |turn| format!("{side}{turn}.lat")));
    for (name, least) in turns.chain(["today.lat".into(), "yesterday.lat".into()]).zip(latencies) {
        let (to, filter) = (folder.join(name), format!("lat > {least}ns"));
        latscope(&["convert", "-r", run.to_str().expect("UTF-8"), "-w", to.to_str().expect("UTF-8"), &filter])
            .success();
    }
    for (side, recording) in [("before", "yesterday.lat"), ("after", "today.lat")] {
        std::fs::create_dir(folder.join(side)).expect("a folder");
        std::fs::copy(folder.join(recording), folder.join(side).join(recording)).expect("a copy");
    }
}

/// Whether a command captures: it reads no file.
fn is_live(example: &str) -> bool {
    let reads = ["-r ", "compare ", "--help", "fields", "formats", "--explain-filter", "completions ", "latscope man"];
    // What a probe measures is nobody's business but its own.
    example.contains("latscope ")
        && !["latscope ping ", "latscope lab "].iter().any(|verb| example.contains(verb))
        && !reads.iter().any(|word| example.contains(word))
}

/// What no test of the documentation can run: words of such a command, and why. Other tests run most of them.
const LEFT_OUT: &[(&str, &str)] = &[
    ("hub://", "a hub on another machine"),
    ("hub+unix:", "a running hub"),
    ("-r http://", "a running Spark driver"),
    ("curl ", "a running server"),
    ("socat ", "a running capture"),
    ("perf record", "ten seconds of this machine"),
    ("perf trace", "a command that goes on until Ctrl-C"),
    ("trace_pipe", "a command that goes on until Ctrl-C"),
    ("/sys/", "another tracer of this machine"),
    ("events/block/", "another tracer of this machine"),
    ("blktrace -d", "another tracer of this machine"),
    ("trace-cmd record", "another tracer of this machine"),
    ("strace -f", "a command of the reader"),
    ("sysdig -w", "a kernel module"),
    ("-bpfcc", "tools of bcc"),
    ("pgbench", "a PostgreSQL server with a database"),
    ("--tag-postgres", "a PostgreSQL server"),
    ("--tag-socket", "a program that sends tags"),
    ("job.fio", "a fio job of the reader"),
    ("/mnt/", "a file system of the reader"),
    ("ssh ", "another machine"),
    ("agent --check", "a configuration in /etc"),
    ("lab scan /dev/", "a disk that may be overwritten"),
    ("lab spark tables ", "Spark and minutes of its time"),
    ("lab spark --conf ", "Spark and minutes of its time"),
    ("--conf spark.", "Spark and minutes of its time"),
    ("lab storage --quick da1 da2 -o aa", "minutes of two disks"),
    ("base.1/", "folders of a lab"),
    ("sdb/", "folders of a lab"),
    ("cargo run", "a build of its own"),
    ("fuzz", "a nightly toolchain"),
    ("pip install", "the package index: make python-package-test"),
];

/// Whether a command is run here; says why if not.
fn can_run(example: &str) -> bool {
    let needs = LEFT_OUT.iter().find(|(words, _)| example.contains(words)).map(|(_, reason)| reason.to_string());
    let needs = needs.or_else(|| (is_live(example) && !is_root()).then(|| "root".into()));
    let is_word = |name: &str| example.split([' ', '|']).any(|word| word == name);
    let encrypted = (example.contains("--ca ") || example.contains("--cert ")) && !installed("openssl");
    let needs = needs.or_else(|| encrypted.then(|| "openssl".into()));
    let mut programs = ["perf", "jq", "less", "openssl"].into_iter().filter(|name| is_word(name));
    let needs = needs.or_else(|| programs.find(|name| !installed(name)).map(str::to_string));
    let needs = needs.or_else(|| (is_word("duckdb") && python().is_none()).then(|| "Python with duckdb".into()));
    if let Some(needs) = &needs {
        eprintln!("left out, needs {needs}: {example}");
    }
    needs.is_none()
}

/// The Python that make installs for the tests.
fn python() -> Option<String> {
    std::env::var("LATSCOPE_PYTHON").ok().filter(|python| Path::new(python).is_file())
}

/// Runs a command as a user would paste it; false when this version or this machine cannot.
#[track_caller]
fn runs(example: &str, folder: &Path) -> bool {
    if !can_run(example) {
        return false;
    }
    let live = is_live(example);
    // Captures that come and go must not disturb the tests that count every event.
    let _alone = if live { crate::live::alone() } else { None };
    let programs = Path::new(LATSCOPE).parent().expect("a folder").display();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    // perf script reads a pipe before it looks for perf.data.
    let mut script = format!("set -o pipefail; exec < /dev/null; {example} ");
    if let Some(until) = example.find("--for ").filter(|_| live) {
        // A moment is enough to see that it works.
        let duration = example[until + "--for ".len()..].split(' ').next().expect("a duration");
        script = script.replace(&format!("--for {duration}"), "--for 300ms");
    } else if live {
        // What would go on until Ctrl-C.
        for verb in verbs() {
            script = script.replace(&format!("latscope {verb} "), &format!("latscope {verb} --for 300ms "));
        }
    }
    if example.contains("--follow") || example.contains("latscope serve") {
        script = script.replace("latscope ", "timeout --foreground --preserve-status --signal=INT 2 latscope ");
    }
    // Its port may be taken.
    script = script.replace("--listen 0.0.0.0 ", "--listen 127.0.0.1:0 ");
    script = script.replace("latscope serve ", "latscope serve --listen 127.0.0.1:0 ");
    script = script.replace("--graphite 127.0.0.1:2003 ", "--graphite 127.0.0.1:0 ");
    if example.contains("spark --sample ") {
        // A process that is called as an executor is, once a busy machine has started it; what the other commands read stays.
        let executor =
            "bash -c 'sleep 4; :' CoarseGrainedExecutorBackend --executor-id 0 --app-id app-1 > /dev/null & sleep 1;";
        script = format!("{executor} {}", script.replace(" executors.csv", " sampled.csv"));
    }
    if let Some(python) = python() {
        let ask = "-c 'import duckdb, sys; print(duckdb.sql(sys.argv[1]))'";
        script = script.replace("duckdb -c ", &format!("{python} {ask} "));
    }
    // Other commands read what was there.
    script = script.replace("> out.txt", "> printed.txt");
    // Documents use one name for many recordings.
    for verb in ["record", "convert", "ping"] {
        script = script.replace(&format!("latscope {verb} "), &format!("latscope {verb} -f "));
    }
    let ended = end(command("bash").args(["-c", &script]).current_dir(folder).env("PATH", path), b"");
    // A second of this machine is too little for a comparison, and it says so.
    let undecided = (example.contains("compare") || example.contains("gate.sh"))
        && ended.status == Some(3)
        && ended.err.contains("cannot be decided");
    assert!(undecided || ended.status == Some(0), "{example}\n{:?} {}", ended.status, ended.err);
    if live && example.contains("-w t.lat") {
        // An idle disk has nothing to record, and what looks at the trace later needs an event.
        let recorded = folder.join("t.lat");
        let events = latscope(&["events", "--csv", "-r", recorded.to_str().expect("UTF-8")]).success();
        if events.lines().count() < 2 {
            eprintln!("nothing happened while {example} ran");
            std::fs::copy(folder.join("run.lat"), recorded).expect("a copy");
        }
    }
    true
}

#[test]
fn examples_of_every_help_work() {
    let folder = tempfile::tempdir().unwrap();
    furnish(folder.path());
    let mut texts = vec![latscope(&["--help"]).success()];
    texts.extend(verbs().iter().map(|verb| latscope(&[verb, "--help"]).success()));
    assert!(texts.len() >= 7, "no verb is without examples");
    let run = texts.iter().flat_map(|text| examples(text)).filter(|example| runs(example, folder.path())).count();
    assert!(run > 15, "{run} examples were run");
    for picture in ["latency.svg", "waiting.svg", "zoom.svg", "seeks.svg", "out.svg"] {
        let svg = std::fs::read_to_string(folder.path().join(picture)).expect(picture);
        assert!(svg.starts_with("<svg") || svg.starts_with("<?xml"), "{picture}");
    }
}

/// The pages for users: README and docs, without the journal, which stays as it was written.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        for path in entries.filter(|path| !path.ends_with("journal")) {
            match path.extension().and_then(|ending| ending.to_str()) {
                None => folders.push(path),
                Some("md") => pages.push(path),
                Some(_) => {}
            }
        }
    }
    pages.sort();
    pages
}

/// The name that a heading has in links, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    heading.chars().filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect()
}

#[test]
fn links_of_the_documentation_lead_somewhere() {
    let mut links = 0;
    let others = ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name));
    for path in pages().iter().chain(&others) {
        let text = std::fs::read_to_string(path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let to = if file.is_empty() { path.clone() } else { path.with_file_name(file) };
            assert!(to.exists(), "{}: {link}", path.display());
            if !heading.is_empty() {
                let text = std::fs::read_to_string(&to).unwrap();
                let mut headings = text.lines().filter(|line| line.starts_with('#')).map(anchor);
                assert!(headings.any(|known| known == heading), "{}: {link}", path.display());
            }
            links += 1;
        }
    }
    assert!(links > 50, "{links} links were followed");
}

/// Programs that the documentation calls. What starts with another word in a block of code is output, or text of a file.
const PROGRAMS: &[&str] = &[
    "biolatency-bpfcc",
    "biosnoop-bpfcc",
    "blktrace",
    "cargo",
    "cat",
    "cd",
    "cp",
    "curl",
    "duckdb",
    "echo",
    "fio",
    "for",
    "git",
    "latscope",
    "make",
    "mkdir",
    "openssl",
    "packaging/ci/gate.sh",
    "perf",
    "pip",
    "ssh",
    "strace",
    "sysdig",
    "trace-cmd",
];

/// The command in a line of a block of code.
fn command_in(line: &str) -> Option<&str> {
    let line = line.strip_prefix("    ")?.trim_start().trim_start_matches("$ ");
    let is_setting = |word: &&str| word.split_once('=').is_some_and(|(name, _)| name.starts_with("LATSCOPE"));
    let program = line.split(' ').find(|word| !is_setting(word))?;
    PROGRAMS.contains(&program).then_some(line)
}

#[test]
fn commands_of_the_documentation_work() {
    let folder = tempfile::tempdir().unwrap();
    furnish(folder.path());
    std::os::unix::fs::symlink(root().join("packaging"), folder.path().join("packaging")).unwrap();
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let paths = pages();
    let (mut run, mut left_out) = (0, 0);
    for path in paths.iter().filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(path).unwrap();
        for line in text.lines().filter_map(command_in) {
            // Builds take minutes; their names have to be right.
            let ran = match line.strip_prefix("make ") {
                Some(target) => {
                    let target = target.split(' ').next().unwrap();
                    assert!(makefile.contains(&format!("\n{target}:")), "{line}");
                    true
                }
                None => runs(line, folder.path()),
            };
            if ran { run += 1 } else { left_out += 1 }
        }
    }
    skipped!(
        "{left_out} of {} commands of the documentation, for reasons in LEFT_OUT of tests/examples.rs",
        run + left_out
    );
    assert!(run > 60, "{run} commands were run");
    assert!(!is_root() || left_out < 90, "{left_out} of {} commands were left out", run + left_out);
}

/// Commands within a text or a table stand for others and have no files here, so they need not succeed; but their words have to be right.
#[test]
fn commands_within_texts_are_understood() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("{}:{}", Path::new(LATSCOPE).parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut count = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let prose: String =
            text.lines().filter(|line| !line.starts_with("    ")).map(|line| format!("{line}\n")).collect();
        let code = prose.split('`').skip(1).step_by(2).map(str::to_string).collect::<Vec<_>>();
        for written in code.iter().filter(|code| code.starts_with("latscope ") && code.contains(" -")) {
            println!("{} {written}", page.display());
            // Without capabilities, what is live stops before it captures.
            let mut bash = command(if is_root() { "setpriv" } else { "bash" });
            if is_root() {
                bash.args(["--bounding-set=-all", "--inh-caps=-all", "bash"]);
            }
            let typed = written.replace("COMMAND", "heatmap").replace("'FILTER'", "'lat > 1ms'");
            let ended = end(bash.args(["-c", &typed]).current_dir(folder.path()).env("PATH", &path), b"");
            // The device is the reader's, and some are the beginning of a command.
            let lacks = ["No block device", "required arguments were not provided", "a value is required for"];
            let lacks = ended.status == Some(2) && lacks.iter().any(|words| ended.err.contains(words));
            assert!(matches!(ended.status, Some(0 | 3)) || lacks, "{written}\n{:?} {}", ended.status, ended.err);
            count += 1;
        }
    }
    assert!(count > 60, "{count} commands");
}
