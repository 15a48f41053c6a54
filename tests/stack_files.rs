//! Files of stacks against counts of their text that share nothing with the readers.

use crate::program::{command, end, installed, latscope, unpacked};
use crate::stacks::assert_is_firefox_profile;
use latscope_capture_file::{Format, ReadOptions, read_bytes};
use latscope_event::{Context, Field, FieldSet};
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

/// How many events have these texts, each counted as often as it stands for.
fn counted(bytes: &[u8], fields: &[Field]) -> (BTreeMap<Vec<String>, u64>, Context) {
    counted_as(None, bytes, fields)
}

fn counted_as(format: Option<Format>, bytes: &[u8], fields: &[Field]) -> (BTreeMap<Vec<String>, u64>, Context) {
    let mut counts = BTreeMap::new();
    let options = ReadOptions { format, ..ReadOptions::new(FieldSet::EVERY) };
    let context = read_bytes("stacks", bytes, &options, &mut |_, batch| {
        for row in 0..batch.len() {
            let texts = fields.iter().map(|&field| batch.text(field, row).unwrap_or("").to_string()).collect();
            let weight = batch.i64s(Field::SampleWeight).map_or(1, |weights| weights[row].max(1));
            *counts.entry(texts).or_default() += weight as u64;
        }
        ControlFlow::Continue(())
    });
    (counts, context.expect("it can be read"))
}

#[track_caller]
fn same(found: &BTreeMap<Vec<String>, u64>, expected: &BTreeMap<Vec<String>, u64>) {
    let only_in = |one: &BTreeMap<Vec<String>, u64>, other: &BTreeMap<Vec<String>, u64>| {
        one.iter().filter(|(texts, count)| other.get(*texts) != Some(count)).map(|one| format!("{one:?}")).collect()
    };
    let differences: [Vec<String>; 2] = [only_in(found, expected), only_in(expected, found)];
    assert_eq!(differences, [Vec::<String>::new(), Vec::new()], "found and expected");
}

fn leaf(stack: &str) -> &str {
    stack.rsplit(';').next().unwrap_or(stack).trim_end_matches("_[k]")
}

#[test]
fn folded_counts_are_those_of_the_lines() {
    for name in ["folded/mix.folded", "folded/mix.ann.folded", "folded/wall.collapsed"] {
        let bytes = unpacked(name);
        let (counts, context) = counted(&bytes, &[Field::Stack]);
        let mut leaves: BTreeMap<&str, u64> = BTreeMap::new();
        for line in std::str::from_utf8(&bytes).unwrap().lines() {
            let (stack, count) = line.rsplit_once(' ').unwrap();
            *leaves.entry(leaf(stack)).or_default() += count.parse::<u64>().unwrap();
        }
        let mut found: BTreeMap<&str, u64> = BTreeMap::new();
        for (texts, count) in &counts {
            *found.entry(leaf(&texts[0])).or_default() += count;
        }
        assert_eq!(found, leaves, "{name}");
        assert_eq!(context.tally.iter().count(), 0, "{name}: {:?}", context.tally);
    }
    // The two counts of difffolded: sums by awk '{a += $(NF-1); b += $NF}'.
    let (counts, _) = counted_as(Some(Format::Difffolded), &unpacked("folded/diff.folded"), &[Field::Tags]);
    let sides: Vec<_> = counts.iter().map(|(texts, &count)| (texts[0].as_str(), count)).collect();
    assert_eq!(sides, [("side=first", 146), ("side=second", 146)]);
    let printed =
        latscope(&["summary", "-r", "testdata/folded/diff.folded", "--format", "difffolded", "--by", "tags"]).success();
    assert!(printed.contains("counted without times") && printed.contains("side=first"), "{printed}");
}

/// The stack of each completed request, by a dictionary of what `block_io_start` opened: names only, of the lines below.
fn stacks_of_requests(text: &str) -> BTreeMap<Vec<String>, u64> {
    let (mut open, mut counts) = (BTreeMap::new(), BTreeMap::new());
    for record in text.split("\n\n") {
        let mut lines = record.trim_start_matches('\n').lines();
        let Some(first) = lines.next() else { continue };
        let words: Vec<&str> = first.split_whitespace().collect();
        let Some(event) = words.iter().position(|word| word.starts_with("block:")) else { continue };
        // The sector stands before the plus sign.
        let plus = words.iter().rposition(|&word| word == "+").unwrap();
        let key = (words[event + 1], words[plus - 1]);
        if words[event] == "block:block_io_start:" {
            let name = |line: &str| {
                let (address, rest) = line.trim().split_once(' ').unwrap();
                let (name, module) = rest.rsplit_once(" (").unwrap();
                let name = name.rsplit_once("+0x").map_or(name, |(name, _)| name);
                let mark = match module {
                    _ if address.len() == 16 && address >= "8" => "_[k]",
                    "inlined)" => "_[i]",
                    _ => "",
                };
                let file = module.trim_end_matches(')').rsplit('/').next().unwrap();
                let is_unnamed = name == "[unknown]" && !file.starts_with('[');
                // What separates frames is replaced in names.
                let name = name.replace(';', ":");
                if is_unnamed { format!("[{file}]") } else { format!("{name}{mark}") }
            };
            let frames: Vec<String> = lines.rev().map(name).collect();
            open.insert(key, frames.join(";"));
        } else if let Some(stack) = open.remove(&key) {
            *counts.entry(vec![stack, "issue".to_string()]).or_default() += 1;
        }
    }
    counts
}

#[test]
fn requests_have_the_stacks_below_their_starts() {
    for name in ["perf_script/stacks_fp.txt.gz", "perf_script/stacks_dwarf.txt.gz"] {
        let bytes = unpacked(name);
        let expected = stacks_of_requests(std::str::from_utf8(&bytes).unwrap());
        assert!(expected.values().sum::<u64>() > 50, "{expected:?}");
        same(&counted(&bytes, &[Field::Stack, Field::StackSource]).0, &expected);
        // Behind so many lines that the chunks of the reader start anywhere.
        let text = std::str::from_utf8(&bytes).unwrap();
        let later = |copy: usize| {
            let moved = |line: &str| match line.find("] ").filter(|_| line.contains(" block:block_")) {
                Some(at) => {
                    let point = at + line[at..].find('.').unwrap();
                    let second: usize = line[at + 1..point].trim().parse().unwrap();
                    format!("{} {}{}\n", &line[..=at], second + 100 * copy, &line[point..])
                }
                None => format!("{line}\n"),
            };
            text.trim_end().lines().map(moved).collect::<String>() + "\n"
        };
        let many: String = (0..40).map(later).collect();
        let of_many = stacks_of_requests(&many);
        let found = counted(many.as_bytes(), &[Field::Stack, Field::StackSource]).0;
        same(&found, &of_many);
    }
}

#[test]
fn samples_of_a_clock_are_events() {
    let bytes = unpacked("perf_script/cpu_clock.txt.gz");
    let text = std::str::from_utf8(&bytes).unwrap();
    let (counts, context) = counted(&bytes, &[Field::Kind, Field::Name, Field::Stack]);
    let of_inner: u64 = counts.iter().filter(|(texts, _)| texts[2].ends_with("main;outer;inner")).map(|(_, n)| n).sum();
    let samples = text.matches(" cpu-clock: \n").count();
    let expected =
        text.split("\n\n").filter(|record| record.lines().nth(1).is_some_and(|line| line.contains(" inner+")));
    assert_eq!(counts.values().sum::<u64>(), samples as u64);
    assert_eq!(of_inner, expected.count() as u64);
    assert!(counts.keys().all(|texts| texts[..2] == ["sample", "cpu-clock"]), "{counts:?}");
    assert_eq!(context.tally.iter().count(), 0);
    // Each is as long as its period, whether the stack is asked for or not.
    let printed =
        latscope(&["summary", "-r", "testdata/perf_script/cpu_clock.txt.gz", "--by", "kind", "--json"]).success();
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed["groups"][0]["count"], samples, "{printed}");
}

#[test]
fn stacks_of_systemtap_count_as_their_text() {
    let bytes = unpacked("stap_stacks/made_up.txt");
    let (counts, context) = counted(&bytes, &[Field::State, Field::Tags, Field::Stack]);
    // Blocks end with the line of the count.
    let (mut expected, mut block): (BTreeMap<Vec<String>, u64>, Vec<&str>) = Default::default();
    for line in std::str::from_utf8(&bytes).unwrap().lines().filter(|line| !line.is_empty()) {
        let Ok(count) = line.parse::<u64>() else {
            block.push(line);
            continue;
        };
        let state = match block.iter().find_map(|line| line.strip_prefix("State:\t")).unwrap() {
            "S (sleeping)" => "sleep",
            "R (running)" => "running",
            _ => "disk sleep",
        };
        let event = block.iter().find_map(|line| line.strip_suffix(" (Oracle state)")).unwrap();
        let is_frame =
            |line: &&&str| !line.starts_with("State") && !line.ends_with("state)") && !line.starts_with("0xfff");
        let name = |line: &&str| line.split_once("+0x").map_or(line.to_string(), |(name, _)| format!("{name}_[k]"));
        let frames: Vec<String> = block.iter().rev().filter(is_frame).map(name).collect();
        let tag = format!("wait_event={}", event.trim_start_matches("event#="));
        *expected.entry(vec![state.into(), tag, frames.join(";")]).or_default() += count;
        block.clear();
    }
    assert!(expected.len() > 10);
    same(&counts, &expected);
    assert_eq!(context.tally.iter().count(), 0);
}

/// Stacks of perf.data against what perf prints of the same file: names of the kernel's functions, files of the others.
/// One name for each function of the kernel that has several, such as `memset` and `__pi_memset`: perf prints the last that the kernel lists.
fn kernel_aliases() -> HashMap<String, String> {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in symbols.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if matches!(words[1], "t" | "T" | "w" | "W") {
            names.entry(words[0]).or_default().push(words[2]);
        }
    }
    let several = names.values().filter(|names| names.len() > 1);
    several.flat_map(|names| names.iter().map(|name| (name.to_string(), names[0].to_string()))).collect()
}

#[test]
fn stacks_of_perf_data_are_those_of_perf_script() {
    if !installed("perf") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("perf.data");
    // Programs that come and go, calls of the kernel, and code of libraries.
    let load = "for i in 1 2 3; do head -c 20000000 /dev/zero | sha256sum; dd if=/dev/zero of=x bs=64k count=100 oflag=dsync; done";
    let mut record = command("perf");
    record.args(["record", "-q", "-F", "499", "-g", "-e", "cpu-clock", "-o"]).arg(&data).args(["--", "sh", "-c", load]);
    if end(record.current_dir(folder.path()), b"").status != Some(0) {
        skipped!("perf may not record here");
        return;
    }
    let mut script = command("perf");
    script.args(["script", "--no-inline", "-F", "tid,event,ip,sym,dso", "-i"]).arg(&data);
    let text = end(&mut script, b"").success();
    let aliases = kernel_aliases();
    let of_kernel = |name: &str| format!("{}_[k]", aliases.get(name).map_or(name, |name| name.as_str()));
    let mut expected: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for sample in text.split("\n\n") {
        let mut lines = sample.trim_start_matches('\n').lines();
        let Some(tid) = lines.next().and_then(|line| line.split_whitespace().next()) else { continue };
        // Frame pointers that are used for other things lead anywhere, also to where the kernel would be.
        let mut in_kernel = true;
        let name = |line: &str| {
            let (address, rest) = line.trim().split_once(' ').unwrap();
            let (symbol, file) = rest.rsplit_once(" (").unwrap();
            let is_high = address.len() == 16 && address.starts_with('f');
            in_kernel &= is_high;
            match file.trim_end_matches(')').rsplit('/').next().unwrap() {
                _ if in_kernel => of_kernel(symbol),
                _ if is_high => "[unknown]".to_string(),
                file => file.to_string(),
            }
        };
        let mut stack: Vec<String> = lines.map(name).collect();
        stack.reverse();
        *expected.entry(vec![tid.to_string(), stack.join(";")]).or_default() += 1;
    }
    let rows =
        latscope(&["events", "-r", data.to_str().unwrap(), "--json", "--columns", "tid,kind,name,stack"]).success();
    let mut found: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for row in rows.lines() {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        assert_eq!((&row["kind"], &row["name"]), (&"sample".into(), &"cpu-clock".into()), "{row}");
        let file = |frame: &str| match frame.strip_suffix("_[k]") {
            Some(name) => of_kernel(name),
            None => frame.split("+0x").next().unwrap().to_string(),
        };
        let stack: Vec<String> = row["stack"].as_str().unwrap_or_default().split(';').map(file).collect();
        *found.entry(vec![row["tid"].to_string(), stack.join(";")]).or_default() += 1;
    }
    assert!(expected.values().sum::<u64>() > 20 && text.contains("([kernel.kallsyms])"), "{text}");
    same(&found, &expected);
}

/// What is written as folded stacks reads back as the same stacks; weights are events, or their time.
#[test]
fn folded_stacks_survive_a_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let written = |source: &str, name: &str, options: &[&str]| {
        let path = folder.path().join(name).display().to_string();
        latscope(&[&["convert", "-r", source, "-f", "-w", &path], options].concat()).success();
        std::fs::read(path).unwrap()
    };
    // What waits at the end of a trace has no stack there.
    for (name, waiting) in
        [("folded/mix.folded", 0), ("stap_stacks/made_up.txt", 0), ("perf_script/stacks_dwarf.txt.gz", 17)]
    {
        let source = format!("testdata/{name}");
        let folded = written(&source, "out.folded", &[]);
        let (mut expected, _) = counted(&unpacked(name), &[Field::Stack]);
        if waiting > 0 {
            *expected.entry(vec![String::new()]).or_default() += waiting;
        }
        let (found, _) = counted(&folded, &[Field::Stack]);
        same(&found, &expected);
    }
    // Microseconds, against the rows of events.
    let source = "testdata/perf_script/stacks_fp.txt.gz";
    let folded = String::from_utf8(written(source, "time.folded", &["--weight", "time"])).unwrap();
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for row in latscope(&["events", "-r", source, "--json", "--columns", "latency_ns,stack"]).success().lines() {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        let stack = row["stack"].as_str().unwrap_or("[no stack]").to_string();
        *sums.entry(stack).or_default() += row["latency_ns"].as_u64().unwrap();
    }
    let sums: Vec<String> = sums.iter().map(|(stack, ns)| format!("{stack} {}", (ns + 500) / 1000)).collect();
    assert_eq!(folded.lines().collect::<Vec<_>>(), sums);
}

/// An event without a stack stays one without.
#[test]
fn missing_stacks_read_back_as_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let source = path("slow.csv");
    std::fs::write(&source, "time_ns,latency_ns,stack\n1,2000,main;read\n2,5000,\n3,1000,\n").unwrap();
    for name in ["out.folded", "out.pb.gz"] {
        latscope(&["convert", "-r", &source, "-w", &path(name)]).success();
        let rows = latscope(&["events", "-r", &path(name), "--json", "--columns", "stack,sample_weight"]).success();
        let rows: Vec<serde_json::Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
        let count = |stack: Option<&str>| {
            let alike = rows.iter().filter(|row| row["stack"].as_str() == stack);
            alike.map(|row| row["sample_weight"].as_u64().unwrap_or(1)).sum::<u64>()
        };
        assert_eq!((count(Some("main;read")), count(None), count(Some("[no stack]"))), (1, 2, 0), "{rows:?}");
    }
}

/// What another program may have written, and what it is as folded stacks.
#[test]
fn texts_of_other_programs_become_these_folded_stacks() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let deep: String = (0..600).map(|at| format!("frame{at};")).collect();
    let long = "x".repeat(70_000);
    let cut = |name: &str| {
        // FNV-1a, once more.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        format!("{}…#{hash:016x}", &name[..1004])
    };
    for (name, text, expected) in [
        ("numbers.folded", "main;worker 1 30\nmain;worker 2 10\n".to_string(), None),
        ("one.folded", "main 3\n".into(), None),
        ("deep.folded", format!("{deep}x 15\n{deep}y 10\n"), None),
        ("long.folded", format!("main;{long} 3\n"), Some(format!("main;{} 3\n", cut(&long)))),
        (
            "lines.jsonl",
            "{\"time_ns\":0,\"latency_ns\":1,\"kind\":\"read\",\"stack\":\"a\\nb;c\\u0085\"}\n".into(),
            Some("a b;c  1\n".into()),
        ),
        (
            "of_a_program.txt",
            " 0x400123 : f+0x23/0x120 [/usr/bin/prog]\n 0x400124 : main+0x23/0x120 [/usr/bin/prog]\n\t17\n".into(),
            Some("main;f 17\n".into()),
        ),
        (
            "srcline.txt",
            "python3 13421 26172.791071: cpu-clock: \n\t    7f88f0c7d1d4 inner+0x24 (/usr/lib/l.so)\n  l.so[7f88f0c7d1d4]\n\
             \t    55d499b3e460 [unknown] ([unknown])\n\t    7f88f0c7d1d5 outer+0x24 (/usr/lib/l.so)\n  main.c:35\n\n"
                .into(),
            Some("outer;[unknown];inner 1\n".into()),
        ),
    ] {
        std::fs::write(path(name), &text).unwrap();
        let to = path("out.folded");
        let ended = latscope(&["convert", "-r", &path(name), "-f", "-w", &to]);
        assert!(!ended.err.contains("malformed"), "{name}: {}", ended.err);
        ended.success();
        let found = std::fs::read_to_string(&to).unwrap();
        assert_eq!(found, expected.unwrap_or(text), "{name}");
        // What latscope writes is read as what it was, whatever the name of the file.
        if name != "one.folded" {
            let again = latscope(&["stacks", "-r", &to, "--json"]).success();
            let json: serde_json::Value = serde_json::from_str(&again).unwrap();
            assert_eq!(json["stacks"].as_array().unwrap().len(), found.lines().count(), "{name}");
        }
    }
    let said = latscope(&["stacks", "-r", &path("numbers.folded")]).success();
    assert!(said.contains("--format difffolded reads two counts"), "{said}");
}

#[test]
fn shares_of_nothing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("t.folded"), "main;a 3\nmain;b 1\n").unwrap();
    let rows = "time_ns,latency_ns,kind,stack\n1,5,read,main;a\n2,6,read,main;b\n";
    std::fs::write(path("s.csv"), rows).unwrap();
    for words in [&["stacks", "--width", "time"][..], &["flamegraph", "--width", "time"]] {
        let refused = latscope(&[words, &["-r", &path("t.folded")]].concat()).failure(3);
        assert!(refused.contains("Use --width events"), "{refused}");
    }
    let refused =
        latscope(&["convert", "-r", &path("t.folded"), "-w", &path("o.folded"), "--weight", "time"]).failure(3);
    assert!(refused.contains("use --weight events"), "{refused}");
    let refused = latscope(&["flamegraph", "-r", &path("s.csv"), "--against", "lat > 5s"]).failure(3);
    assert!(refused.contains("nothing to compare"), "{refused}");
    // Of a file of counts and one of times, counts are compared.
    for [one, other] in [["s.csv", "t.folded"], ["t.folded", "s.csv"]] {
        let svg = latscope(&["flamegraph", "-r", &path(one), "--against", &path(other)]).success();
        assert!(svg.contains("75.0 % (") && svg.contains("50.0 % ("), "{one}: {svg}");
    }
}

/// Go's own reader of profiles, where it is there.
#[test]
fn pprof_reads_what_is_written_for_it() {
    let go = if std::path::Path::new("/usr/local/go/bin/go").exists() { "/usr/local/go/bin/go" } else { "go" };
    if go == "go" && !installed(go) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pb.gz").display().to_string();
    latscope(&["convert", "-r", "testdata/stap_stacks/made_up.txt", "-w", &path]).success();
    let read = |options: &[&str]| {
        let mut command = command(go);
        command.args(["tool", "pprof"]).args(options).arg(&path).env("GOFLAGS", "").env("GOTOOLCHAIN", "local");
        end(&mut command, b"").success()
    };
    let (counts, _) = counted(&unpacked("stap_stacks/made_up.txt"), &[Field::State, Field::Tags, Field::Stack]);
    // A file of counts opens with them.
    assert!(read(&["-top"]).contains("Type: events"));
    let raw = read(&["-raw"]);
    assert!(raw.contains("events/count[dflt] time/nanoseconds"), "{raw}");
    // A line of values for each sample, of which the first is the number of events.
    let samples = raw.split("Samples:\n").nth(1).unwrap().split("Locations\n").next().unwrap();
    let values =
        samples.lines().skip(1).filter_map(|line| line.split_once(':')?.0.split_whitespace().next()?.parse().ok());
    let values: Vec<u64> = values.collect();
    assert_eq!((values.len(), values.iter().sum::<u64>()), (counts.len(), counts.values().sum()), "{raw}");
    let tags = read(&["-tags", "-sample_index=events"]);
    let of_tag = |tag: &str| counts.iter().filter(|(texts, _)| texts[1] == tag).map(|(_, count)| count).sum::<u64>();
    for tag in ["158", "153", "On CPU"] {
        let line = tags
            .lines()
            .find(|line| line.trim_end().ends_with(&format!(": {tag}")))
            .unwrap_or_else(|| panic!("{tags}"));
        let count = line.split_whitespace().next().unwrap();
        assert_eq!(count.parse::<f64>().unwrap() as u64, of_tag(&format!("wait_event={tag}")), "{tags}");
    }
}

/// Entries of bpftrace against the numbers behind their keys, by the name of the thread, which starts each key.
#[test]
fn maps_of_bpftrace_count_as_their_text() {
    let bytes = unpacked("bpftrace_stacks/slow_io.txt");
    let (counts, context) = counted(&bytes, &[Field::Comm, Field::Stack]);
    let (mut expected, mut key): (BTreeMap<Vec<String>, u64>, Vec<&str>) = Default::default();
    for line in std::str::from_utf8(&bytes).unwrap().lines() {
        if line.starts_with("@slow_us[") {
            key.clear();
        }
        key.push(line);
        let Some(count) = line.strip_prefix("]: ") else { continue };
        let comm = key[0].trim_start_matches("@slow_us[").split(',').next().unwrap();
        // The kernel's is the last stack, behind the one of the program.
        let program = key.iter().skip(1).take_while(|line| !line.starts_with(',')).count();
        let program = if key[0].ends_with(", , ") { 0 } else { program };
        let name = |(at, line): (usize, &&str)| {
            let name = line.trim().split('+').next().unwrap();
            if at < program { name.to_string() } else { format!("{name}_[k]") }
        };
        let frames = key[1..key.len() - 1].iter().enumerate().filter(|(_, line)| line.starts_with("    ")).map(name);
        let (user, kernel): (Vec<String>, Vec<String>) = frames.partition(|name| !name.ends_with("_[k]"));
        let stack: Vec<String> = user.into_iter().rev().chain(kernel.into_iter().rev()).collect();
        *expected.entry(vec![comm.to_string(), stack.join(";")]).or_default() += count.parse::<u64>().unwrap();
    }
    assert!(expected.len() >= 5, "{expected:?}");
    same(&counts, &expected);
    assert_eq!(context.tally.iter().count(), 0, "{:?}", context.tally);
    // As times: each entry is as long as its number says.
    let printed =
        latscope(&["stacks", "-r", "testdata/bpftrace_stacks/slow_io.txt", "--unitslat", "us", "--json"]).success();
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let sum: u64 = printed["stacks"].as_array().unwrap().iter().map(|row| row["time_ns"].as_u64().unwrap()).sum();
    assert_eq!(sum, 1000 * expected.values().sum::<u64>());
}

/// A flame graph is SVG; names of other formats are refused with the command that writes them.
#[test]
fn a_flame_graph_is_not_named_like_a_profile() {
    for name in ["a.pb.gz", "a.folded", "a.speedscope.json", "a.profile.json", "a.profile.json.gz"] {
        let refused = latscope(&["flamegraph", "-r", "testdata/pprof/slow_io.pb.gz", "-o", name]).failure(2);
        assert!(refused.contains(&format!("use latscope convert -w {name}")), "{refused}");
        assert!(!crate::program::root().join(name).exists());
    }
}

/// A profile that another program made, against what Go's pprof prints of it; and what latscope writes reads back.
#[test]
fn profiles_of_pprof_are_read_as_go_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let back = folder.path().join("back.pb.gz").display().to_string();
    for source in
        ["testdata/stap_stacks/made_up.txt", "testdata/pprof/slow_io.pb.gz", "testdata/flamegraph/slow_io.csv.gz"]
    {
        latscope(&["convert", "-f", "-r", source, "-w", &back]).success();
        // Events and their time by stack and labels.
        let rows = |path: &str| {
            let (mut sums, fields): (BTreeMap<Vec<String>, (u64, u64)>, _) =
                (BTreeMap::new(), [Field::Stack, Field::Comm, Field::State, Field::Tags, Field::Kind]);
            let path = crate::program::root().join(path);
            let options = ReadOptions::new(FieldSet::EVERY);
            let read = latscope_capture_file::read(&path, &options, &mut |_, batch| {
                for row in 0..batch.len() {
                    let texts = fields.iter().map(|&field| batch.text(field, row).unwrap_or("").to_string()).collect();
                    let weight = batch.i64s(Field::SampleWeight).map_or(1, |weights| weights[row].max(1)) as u64;
                    let sum = sums.entry(texts).or_default();
                    *sum = (sum.0 + weight, sum.1 + weight * batch.latency()[row]);
                }
                ControlFlow::Continue(())
            });
            read.expect("it can be read");
            sums
        };
        assert!(rows(source).len() > 5);
        assert_eq!(rows(&back), rows(source), "{source}");
    }
    let go = if std::path::Path::new("/usr/local/go/bin/go").exists() { "/usr/local/go/bin/go" } else { "go" };
    if go == "go" && !installed(go) {
        return;
    }
    let mut command = command(go);
    command.args(["tool", "pprof", "-raw", "testdata/pprof/slow_io.pb.gz"]).env("GOTOOLCHAIN", "local");
    let raw = end(&mut command, b"").success();
    let samples = raw.split("Samples:\n").nth(1).unwrap().split("Locations\n").next().unwrap();
    // A line of values and locations for each sample, and lines of its labels.
    let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut values = (0, 0);
    for line in samples.lines().skip(1) {
        match line.split_once(": ") {
            Some((numbers, _))
                if numbers.split_whitespace().all(|word| word.bytes().all(|byte| byte.is_ascii_digit())) =>
            {
                let mut numbers = numbers.split_whitespace().map(|number| number.parse::<u64>().unwrap());
                values = (numbers.next().unwrap(), numbers.next().unwrap());
            }
            _ => {
                let Some(comm) = line.split("comm:[").nth(1).and_then(|rest| rest.split(']').next()) else { continue };
                let sum = expected.entry(comm.to_string()).or_default();
                *sum = (sum.0 + values.0, sum.1 + values.1);
            }
        }
    }
    let (mut found, bytes): (BTreeMap<String, (u64, u64)>, _) = (BTreeMap::new(), unpacked("pprof/slow_io.pb.gz"));
    let read = read_bytes("profile", &bytes, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
        for row in 0..batch.len() {
            let weight = batch.i64s(Field::SampleWeight).unwrap()[row].max(1) as u64;
            let sum = found.entry(batch.text(Field::Comm, row).unwrap().to_string()).or_default();
            *sum = (sum.0 + weight, sum.1 + weight * batch.latency()[row]);
        }
        ControlFlow::Continue(())
    });
    read.unwrap();
    assert!(expected.len() > 3);
    assert_eq!(found, expected);
}

#[test]
fn hostile_names_stay_one_frame_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(64 * 1024);
    let text = format!("a\"</text><script>;b\\\u{1}\u{202e};{long};c' 3\nmain;a b 2\n");
    let source = folder.path().join("hostile.folded");
    std::fs::write(&source, text).unwrap();
    let write = |name: &str| {
        let path = folder.path().join(name);
        // The first line is longer than what a format is known by.
        let arguments = ["-r", source.to_str().unwrap(), "-w", path.to_str().unwrap(), "--format", "folded"];
        latscope(&[&["convert"][..], &arguments].concat()).success();
        std::fs::read(path).unwrap()
    };
    let json: serde_json::Value = serde_json::from_slice(&write("out.speedscope.json")).unwrap();
    let names: Vec<&str> =
        json["shared"]["frames"].as_array().unwrap().iter().map(|frame| frame["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    assert!(names.contains(&"a\"</text><script>") && names.iter().all(|name| name.len() < 1100));
    for profile in json["profiles"].as_array().unwrap() {
        let weights = profile["weights"].as_array().unwrap();
        assert_eq!(profile["samples"].as_array().unwrap().len(), weights.len());
        let sum: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
        assert_eq!(profile["endValue"], sum);
    }
    assert_eq!(json["profiles"][0]["endValue"], 5);
    let folded = String::from_utf8(write("out.folded")).unwrap();
    assert_eq!(folded.lines().map(|line| line.split(';').count()).collect::<Vec<_>>(), [4, 2], "{folded}");
    assert!(write("out.pb.gz").starts_with(&[0x1f, 0x8b]));
    let packed = write("out.profile.json.gz");
    let profile = serde_json::from_reader(flate2::read::GzDecoder::new(&packed[..])).unwrap();
    assert_is_firefox_profile(&profile);
    let names = &profile["threads"][0]["stringArray"];
    assert!(names.as_array().unwrap().iter().any(|name| name == "a\"</text><script>"), "{names}");
}

#[test]
fn a_malformed_line_in_a_short_file_is_noted_with_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("short.txt");
    std::fs::write(&path, "main;read 3\nmalformed\nmain;write 1\n").unwrap();
    let printed = latscope(&["stacks", "-r", path.to_str().unwrap()]).success();
    assert!(printed.contains("shares of 4 events") && printed.contains("malformed"), "{printed}");
    assert!(printed.contains("line 2"), "{printed}");
}
