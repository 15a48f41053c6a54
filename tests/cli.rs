//! What the program says when something is wrong, and with which status it ends.

use crate::program::{LATSCOPE, command, end, latscope, latscope_with, testdata, unpacked};

const STORY: &str = "testdata/perf_script/story_2s.txt.gz";

#[track_caller]
fn fails(arguments: &[&str], status: i32, says: &[&str]) {
    let ended = latscope(arguments);
    assert!(ended.out.is_empty(), "a failure writes no data");
    let printed = ended.failure(status);
    for words in says {
        assert!(printed.contains(words), "{arguments:?} says: {printed}");
    }
    let sentence = printed.lines().next().unwrap_or_default();
    assert!(
        sentence.starts_with("latscope: ") && sentence.ends_with('.') || sentence.starts_with("error: "),
        "{printed}"
    );
}

#[test]
fn a_summary_of_histograms_without_devices_is_one_line() {
    let log = "testdata/fio_hist/A_clat_hist.1.log.zst";
    let json: serde_json::Value = serde_json::from_str(&latscope(&["summary", "-r", log, "--json"]).success()).unwrap();
    assert!(json["total"]["count"].as_u64() > Some(0), "{json}");
    fails(&["summary", "-r", log, "--by", "device"], 2, &["is not grouped by device"]);
}

#[test]
fn columns_have_all_the_names_that_filters_know() {
    let table = |by: &str| latscope(&["summary", "-r", STORY, "--by", by, "--csv"]).success();
    for (alias, column) in
        [("proc.name", "process"), ("rw", "kind"), ("direction,disk.dev", "kind,dev"), ("dir", "job")]
    {
        assert_eq!(table(alias), table(column), "--by {alias}");
    }
    let of_threads = table("comm");
    assert_eq!(table("process").lines().skip(1).collect::<Vec<_>>(), of_threads.lines().skip(1).collect::<Vec<_>>());
    let rows = |columns: &str| latscope(&["events", "-r", STORY, "--columns", columns, "--csv"]).success();
    assert_eq!(rows("time,lat,disk.dev,fd.name"), rows("time_ns,latency_ns,dev,path"));
    fails(&["summary", "-r", STORY, "--by", "evt.failed"], 2, &["evt.failed can only be used in filters"]);
}

/// The times that two columns of epoch seconds mean, in a zone that is not UTC's, as `date` knows them.
#[test]
fn the_completion_is_a_column_as_a_number_and_as_wall_clock_time() {
    let rows = b"1763800000.25 0.001\n1751364001.5 2.5\n";
    let shown = |arguments: &[&str], input: &[u8]| {
        end(command(LATSCOPE).env("TZ", "Asia/Kolkata").arg("events").args(arguments), input)
    };
    // The second column of time is the completion in such rows: 2025-11-22 08:26:40.25 UTC, 2025-07-01 10:00:01.5 UTC.
    let csv = shown(&["--columns", "latency_ns,end_ns,wall", "--csv"], rows).success();
    assert_eq!(
        csv,
        "latency_ns,end_ns,wall\n\
         1000000,1763800000250000000,2025-11-22T13:56:40.250000000+05:30\n\
         2500000000,1751364001500000000,2025-07-01T15:30:01.500000000+05:30\n"
    );
    let names = shown(&["--columns", "lat,evt.rawtime,evt.time", "--csv"], rows).success();
    assert_eq!(names, csv);
    let text = shown(&["--columns", "wall", "--top", "1"], rows).success();
    assert_eq!(text.lines().last().map(str::trim), Some("2025-07-01 15:30:01.500000"));
    // A clock without a zero: the number is there, the wall-clock time is not, and that is reported once.
    let unknown = latscope(&["events", "-r", STORY, "--columns", "time_ns,latency_ns,end_ns,wall", "--csv"]);
    let printed = unknown.err.clone();
    assert_eq!(printed.matches("wall is missing where the relation").count(), 1, "{printed}");
    let rows = unknown.success();
    for row in rows.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        let number = |at: usize| cells[at].parse::<i64>().unwrap();
        assert_eq!((number(0) + number(1), cells[3]), (number(2), ""), "{row}");
    }
}

/// A filter on a field that a trace does not hold finds nothing, and says why; on one that it holds, it finds what is there.
#[test]
fn a_field_that_no_event_has_is_named() {
    let printed = |filter: &str| latscope(&["summary", "-r", STORY, filter]).success();
    for field in ["fd", "fd_type", "path", "container", "stack", "job", "service_ns", "lag_ns", "cache"] {
        let text = printed(&format!("{field} exists"));
        assert!(text.contains(&format!("no event has {field}, a field of the filter")), "{text}");
    }
    for view in ["summary", "histogram"] {
        let of = |by: &str| latscope(&[view, "-r", STORY, "--by", by]).err;
        assert!(of("comm,container").contains("no event has container, a field of --by."), "{}", of("container"));
        assert!(!of("comm,kind").contains("no event has"));
    }
    for filter in ["kind = discard", "comm = nosuch", "fd exists or kind = read", "lat > 1h"] {
        assert!(!printed(filter).contains("no event has"), "{filter}");
    }
}

#[test]
fn a_live_capture_of_the_past_is_refused() {
    for filter in ["evt.time < 2020-01-01T00:00:00Z", "evt.around[2020-01-01T00:00:00Z] = 5 or evt.time in [5, 6]"] {
        fails(&["events", "--for", "1s", filter], 2, &["from the past", "-r"]);
    }
}

#[test]
fn an_exceeded_threshold_is_status_1_beside_the_table() {
    let percentiles = |condition| latscope(&["percentiles", "-r", STORY, "-i", "1s", "--fail-if", condition]);
    let exceeded = percentiles("p99 > 1ms for 2 intervals");
    assert!(exceeded.out.starts_with(b"time"));
    assert!(exceeded.failure(1).contains("p99 > 1ms for 2 intervals in a row, held in 2 of 2 intervals, "));
    percentiles("p99 > 10s").success();
}

/// An empty view is an answer, with the values that the filter could have matched; an empty comparison is a failure.
#[test]
fn a_filter_that_matches_nothing_names_the_values_that_there_are() {
    let hint = "No event matches the filter: device = sda (values in the input: device: 254:0, loop0, loop3)";
    for view in [&["summary"][..], &["histogram"], &["percentiles"], &["events"], &["heatmap", "-o", "/dev/null"]] {
        let ended = latscope(&[view, &["-r", STORY, "device = sda"]].concat());
        assert!(ended.err.contains(hint) && ended.status == Some(0), "{view:?}: {}", ended.err);
    }
    let none = latscope(&["summary", "-r", STORY, "lat > 1h"]);
    assert!(none.err.contains("No event matches the filter: latency_ns > 3600s\n"), "{}", none.err);
    let none =
        latscope(&["compare", STORY, "testdata/perf_script/all_events.txt.gz", "--filter", "device = sda"]).failure(3);
    assert!(none.contains(hint) && none.contains("story_2s.txt.gz has no events to compare."), "{none}");
}

#[test]
fn help_lists_each_option_once() {
    let help = latscope(&["ping", "--help"]).success();
    assert_eq!(help.matches(" --sync ").count() - help.matches("-W --sync ").count(), 1, "{help}");
    assert!(help.contains("  -Y   ") && help.contains("without HOW, the same as -Y"), "{help}");
    let help = latscope(&["record", "--help"]).success();
    assert!(help.contains("and the --sample (required) of the others") && help.contains("except those of --only-slow"));
}

#[test]
fn a_failure_is_a_sentence_and_a_status() {
    fails(&["heatmap", "-r", "missing", "-o", "never.svg"], 3, &["missing: No such file."]);
    fails(&["summary", "-r", "LICENSE-MIT"], 3, &["Unknown format", "latscope formats"]);
    fails(&["percentiles", "-r", STORY, "--fail-if", "p99 = 1ms"], 2, &["--fail-if: p99 needs a comparison"]);
    fails(&["summary", "--for", "5"], 2, &["--for 5 needs a unit: 5s or 5m."]);
    fails(&["summary", "--for", "0s"], 2, &["--for must be longer than zero"]);
    fails(&["summary", "-s", "block", "--calls", "read"], 2, &["--calls needs -s io"]);
    fails(&["summary", "--mode", "histogram", "--for", "1s", "comm = x"], 2, &["cannot be used", "comm"]);
    fails(&["record", "-w", "x.txt"], 2, &["must end in .lat", "latscope convert"]);
    fails(&["record", "-w", "x.lat", "--sample", "256"], 2, &["--sample 256", "1/256"]);
    fails(&["record", "-w", "x.lat", "lat >"], 2, &["^"]);
    fails(&["summary", "-r", STORY, "--format", "nosuch"], 2, &["Unknown format nosuch", "perf_script"]);
    fails(&["summary", "-r", STORY, "--by", "nosuch"], 2, &["unknown field nosuch", "latscope fields"]);
    fails(&["summary", "-r", STORY, "--sort", "nosuch"], 2, &["unknown column", "p99"]);
    fails(&["events", "-r", STORY, "--columns", "time,nosuch"], 2, &["unknown field nosuch"]);
    fails(&["heatmap", "-r", STORY, "-i", "100"], 2, &["-i 100 needs a unit: 100ms or 100s."]);
    fails(&["heatmap", "-r", STORY, "-i", "0s"], 2, &["longer than zero"]);
    fails(&["heatmap", "-r", STORY, "--min", "5ms", "--max", "1ms"], 2, &["--min must be smaller"]);
    fails(&["heatmap", "-r", STORY, "--by", "latency_ns"], 2, &["make every value a group"]);
    fails(&["heatmap", "-r", STORY, "-o", "no/such/folder/x.svg"], 3, &["no/such/folder/x.svg: Cannot be written"]);
    fails(&["convert", "-r", STORY, "-w", "x.nosuch"], 2, &[".parquet"]);
    fails(&["convert", "-r", STORY, "-w", "x.lat", "--series"], 2, &["Parquet"]);
    fails(&["histogram", "-r", STORY, "--per-octave", "3"], 2, &["--per-octave must be 1, 2, 4"]);
    fails(&["summary", "-r", STORY, "--over", "soon"], 2, &["\"soon\" is not a duration"]);
    fails(&["nosuch"], 2, &["nosuch"]);
}

#[test]
fn an_error_in_a_filter_is_pointed_at() {
    fails(&["summary", "-r", STORY, "lat > 1ms and"], 2, &["\nlat > 1ms and\n             ^"]);
    fails(&["summary", "-r", STORY, "latenci > 1ms"], 2, &["\nlatenci > 1ms\n^^^^^^^\ndid you mean latency?"]);
    // The words of -s stand before the user's, but the caret points into the user's.
    fails(&["summary", "-r", STORY, "-s", "block", "latenci > 1ms"], 2, &["\nlatenci > 1ms\n^^^^^^^\n"]);
    fails(&["summary", "-r", STORY, "kind > 5"], 2, &["\nkind > 5\n"]);
}

#[test]
fn a_filter_can_be_explained() {
    let explained = latscope(&["heatmap", "--explain-filter", "lat > 1ms or kind=read", "and size>=4k"]).success();
    assert_eq!(explained, "latency_ns > 1ms or (kind = read and size >= 4KiB)\n");
    assert_eq!(latscope(&["heatmap", "--explain-filter"]).success(), "(everything)\n");
}

#[test]
fn a_closed_pipe_is_success() {
    for verb in ["events", "events --csv", "events --json", "convert -w - --to csv"] {
        // Without the shell's own pipefail the status would be that of head.
        let script = format!("{{ \"$0\" {verb} -r {STORY}; echo $? >&2; }} | head -n 1");
        let ended = end(command("sh").args(["-c", &script, LATSCOPE]), b"");
        assert_eq!(ended.out.iter().filter(|&&byte| byte == b'\n').count(), 1, "{verb}");
        assert_eq!(ended.err, "0\n", "{verb}");
    }
}

#[test]
fn data_goes_to_standard_output_and_all_else_to_standard_error() {
    let ended = latscope(&["events", "-r", STORY, "--csv"]);
    assert!(ended.err.contains("missing: 6 unpaired completions"), "{}", ended.err);
    let csv = ended.success();
    assert!(csv.starts_with("time_ns,latency_ns,kind,"));
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == columns));
}

#[test]
fn the_tutorials_two_columns_are_read_with_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (columns, picture) = (path("out.lat_us"), path("out.svg"));
    std::fs::write(&columns, unpacked("two_columns/out.lat_us.gz")).unwrap();
    let units = ["--unitstime=us", "--unitslat=us"];
    let options = ["--grid", "--maxlat=15000us", "--title=Latency Heat Map: 15ms max"];
    let arguments = [&["heatmap", "-r", &columns, "-o", &picture][..], &units, &options].concat();
    latscope(&arguments).success();
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(svg.contains("Latency Heat Map: 15ms max"));
    // trace2heatmap calls the same option --unitslabel too.
    latscope(&["heatmap", "-r", &columns, "-o", &picture, "--unitstime=us", "--unitslabel=us"]).success();

    // The same numbers as from the trace that the columns were made of.
    let of_columns = latscope(&[&["summary", "-r", &columns, "--by", "none", "--json"][..], &units].concat()).success();
    let of_columns: serde_json::Value = serde_json::from_str(&of_columns).unwrap();
    let trace = latscope(&["events", "-r", STORY, "--csv", "--columns", "latency"]).success();
    let latencies: Vec<u64> = trace.lines().skip(1).take(4000).map(|line| line.parse().unwrap()).collect();
    let total = &of_columns["total"];
    assert_eq!(total["count"].as_u64(), Some(4000));
    assert_eq!(total["sum_ns"].as_u64(), Some(latencies.iter().sum()));
    assert_eq!(total["max_ns"].as_u64(), latencies.iter().max().copied());

    fails(&["heatmap", "-r", &columns, "--unitslat", "parsec"], 2, &["parsec is not a unit of time"]);
}

#[test]
fn several_files_are_one_trace_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.txt");
    std::fs::copy(crate::program::root().join(STORY), &other).unwrap();
    let once = latscope(&["summary", "-r", STORY, "--json"]).success();
    let twice = latscope(&["summary", "-r", STORY, "-r", other.to_str().unwrap(), "--json"]).success();
    let count = |text: &str| {
        let summary: serde_json::Value = serde_json::from_str(text).unwrap();
        summary["total"]["count"].as_u64().unwrap()
    };
    assert_eq!(2 * count(&once), count(&twice));
    // The same file is no second trace.
    let again = latscope(&["summary", "-r", STORY, "-r", STORY, "--json"]);
    assert!(again.err.contains("given more than once"), "{}", again.err);
    assert_eq!(again.success(), once);
}

#[test]
fn lists_of_fields_and_formats_are_tables_and_json() {
    let fields: serde_json::Value = serde_json::from_str(&latscope(&["fields", "--json"]).success()).unwrap();
    let words = |field: &serde_json::Value| {
        [&field["name"]]
            .into_iter()
            .chain(field["aliases"].as_array().unwrap())
            .map(|word| word.as_str().unwrap().to_string())
            .collect::<Vec<_>>()
    };
    let names: Vec<_> = fields.as_array().unwrap().iter().flat_map(words).collect();
    let formats: serde_json::Value = serde_json::from_str(&latscope(&["formats", "--json"]).success()).unwrap();
    let table = latscope(&["fields"]).success();
    for name in ["time_ns", "latency_ns", "device", "evt.latency", "proc.name"] {
        assert!(names.iter().any(|known| known == name) && table.contains(name), "{name}");
    }
    for format in formats.as_array().unwrap() {
        // Whatever is listed can be forced.
        let name = format["name"].as_str().unwrap();
        assert!(latscope(&["formats"]).success().contains(name));
        latscope_with(&["summary", "-r", "-", "--format", name], b"").failure(3);
    }
}

#[test]
fn sources_pick_block_requests_or_system_calls() {
    let both = testdata("perf_data/syscalls_and_block.txt.zst");
    let count = |source: &[&str]| {
        let arguments =
            [&["events", "-r", both.to_str().unwrap(), "--csv", "--columns", "dev,name"][..], source].concat();
        let csv = latscope(&arguments).success();
        let rows: Vec<String> = csv.lines().skip(1).map(str::to_string).collect();
        rows
    };
    let (block, io, all) = (count(&["-s", "block"]), count(&["-s", "io"]), count(&[]));
    assert!(!block.is_empty() && block.iter().all(|row| !row.starts_with(',')));
    assert!(!io.is_empty() && io.iter().all(|row| row.starts_with(',')));
    assert_eq!(block.len() + io.len(), all.len());
    let calls = "testdata/perf_script/raw_syscalls.txt.gz";
    let count = |source: &str| latscope(&["events", "-r", calls, "-s", source, "--csv"]).success().lines().count();
    assert!(count("syscall") > count("io") && count("io") > count("block") && count("block") == 1);
}

/// Of a recording of stacks beside requests and calls, by what the events are.
#[test]
fn sources_pick_stacks_by_the_state_of_the_thread() {
    let rows = [
        ("request", "8:0", "", ""),
        ("call", "", "4096", ""),
        ("of a disk", "8:0", "", "disk sleep"),
        ("queue", "", "", "runnable"),
        ("of the queue of a disk", "8:0", "", "runnable"),
        ("tick", "", "", "running"),
    ];
    let mut csv = "time_ns,latency_ns,comm,dev,result,state\n".to_string();
    for (number, (comm, dev, result, state)) in rows.into_iter().enumerate() {
        csv += &format!("{number},5,{comm},{dev},{result},{state}\n");
    }
    for (source, expected) in [
        ("block", &["request"][..]),
        ("io", &["call"]),
        ("syscall", &["call"]),
        ("stacks", &["of a disk", "queue", "of the queue of a disk", "tick"]),
        ("offcpu", &["of a disk", "queue", "of the queue of a disk"]),
        ("oncpu", &["tick"]),
        ("offcpu,oncpu", &["of a disk", "queue", "of the queue of a disk", "tick"]),
        ("block,oncpu", &["request", "tick"]),
        ("io,offcpu", &["call", "of a disk", "queue", "of the queue of a disk"]),
    ] {
        let words = ["events", "-r", "-", "-s", source, "--csv", "--columns", "comm"];
        let printed = latscope_with(&words, csv.as_bytes()).success();
        assert_eq!(printed.lines().skip(1).collect::<Vec<_>>(), expected, "{source}");
    }
}

#[test]
fn a_text_table_has_the_columns_of_the_events_that_it_shows() {
    // More good requests than a batch holds, then one that failed.
    let line = |at: u64, event: &str| {
        format!("fio 7 [000] {}.{:06}: block:block_rq_{event}\n", at / 1_000_000, at % 1_000_000)
    };
    let mut text = String::new();
    for number in 0..=40_000 {
        let error = if number == 40_000 { -5 } else { 0 };
        text += &line(10 * number, &format!("issue: 8,0 R 4096 () {} + 8 [fio]", 8 * number));
        text += &line(10 * number + 5, &format!("complete: 8,0 R () {} + 8 [{error}]", 8 * number));
    }
    let failed = latscope_with(&["events", "-r", "-", "error exists"], text.as_bytes()).success();
    let lines: Vec<_> = failed.lines().collect();
    assert_eq!(lines.len(), 2, "{failed}");
    assert!(lines[0].contains("  error") && lines[1].contains("  EIO"), "{failed}");
}

/// Libraries say what is wrong with a file; which option helps is what the program adds.
#[test]
fn an_error_of_a_file_ends_with_what_helps() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).to_str().unwrap().to_string()
    };
    let log = put("a_clat.1.log", "1, 5000, 0, 4096, 0\n2, x, 0, 4096, 0\n3, 5000, 0, 4096, 0\n");
    let hist = put("a_clat_hist.1.log", &format!("1000, 0, 4096{}\n", ", 1".repeat(20 * 64)));
    let text = put("t.txt", "300000000000 1\n300000000001 1\n");
    fails(&["summary", "-r", &log], 3, &[":2: The row has ", ". --lenient skips"]);
    fails(
        &["summary", "-r", &hist],
        3,
        &["nanoseconds or microseconds. Give --latency-unit (ns, us or ms; fio 3 has ns"],
    );
    fails(&["summary", "-r", &text], 3, &["in this unit. Give their units with --unitstime"]);
    fails(&["events", "-r", &hist], 3, &["not single events. Use percentiles"]);
}

#[test]
fn a_source_is_given_once() {
    for sources in ["offcpu=1ms,offcpu=500ms", "stacks,oncpu=999hz,oncpu=10hz", "stacks,stacks"] {
        let name = sources.rsplit(',').next().unwrap().split('=').next().unwrap();
        fails(&["record", "-s", sources, "-w", "t.lat"], 2, &[&format!("{name} is given twice")]);
    }
}
