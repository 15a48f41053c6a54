//! What is read and what is written: pipes by name, results that replace files, inputs that are never overwritten.

use crate::program::{Ended, LATSCOPE, command, end, latscope, root, unpacked};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const TRACE: &str = "perf_script/story_2s.txt.gz";

/// A shell that knows process substitution; `$0` is the program.
fn bash(folder: &Path, script: &str) -> Ended {
    end(Command::new("bash").args(["-c", script, LATSCOPE]).current_dir(folder), b"")
}

/// A folder with a trace in it.
fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.txt");
    fs::write(&trace, unpacked(TRACE)).unwrap();
    (folder, trace)
}

fn files_of(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A pipe by name, whatever the name, holds what the file holds.
#[test]
fn a_pipe_given_by_name_is_read_from_its_first_byte() {
    let (folder, _) = folder();
    let perf_data = root().join("testdata/perf_data/block_mixed.data.zst");
    fs::write(folder.path().join("p.data.zst"), fs::read(perf_data).unwrap()).unwrap();
    let rows: String = (0..93_075).map(|row| format!("{row}.5 0.001\n")).collect();
    fs::write(folder.path().join("rows"), rows).unwrap();
    fs::write(
        folder.path().join("run.hlog"),
        latscope(&["convert", "-r", &format!("testdata/{TRACE}"), "-w", "-", "--to", "hlog", "-i", "100ms"]).out,
    )
    .unwrap();
    for file in ["t.txt", "p.data.zst", "rows", "run.hlog"] {
        for view in ["histogram", "percentiles -i 100s --csv", "heatmap -i 100s --title t"] {
            let expected = bash(folder.path(), &format!("$0 {view} -r - < {file}")).success();
            for pipe in [
                format!("$0 {view} -r <(cat {file})"),
                format!("cat {file} | $0 {view} -r /dev/stdin"),
                format!("cat {file} | $0 {view} -r -"),
                format!("mkfifo f; (cat {file} > f &); $0 {view} -r f; rm f"),
            ] {
                let got = bash(folder.path(), &pipe).success();
                assert_eq!(numbers(&got), numbers(&expected), "{pipe}");
            }
        }
    }
}

/// The digits of a text without what differs by the name of a pipe.
fn numbers(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.').filter(|word| word.len() > 1);
    words.filter(|word| word.parse::<f64>().is_ok_and(|number| number > 99.0)).map(str::to_string).collect()
}

#[test]
fn a_pipe_is_read_once_and_says_so() {
    let (folder, _) = folder();
    let printed = bash(folder.path(), "mkfifo f; (cat t.txt > f &); $0 compare f f").failure(3);
    assert!(printed.contains("A pipe can be read only once"), "{printed}");
    let printed = bash(folder.path(), "$0 percentiles --exact -r <(cat t.txt)").failure(2);
    assert!(printed.contains("--exact reads its input twice"), "{printed}");
}

const VIEWS: &[&str] = &[
    "heatmap -r t.txt -o",
    "spectrogram -r t.txt -o",
    "histogram -r t.txt -o",
    "summary -r t.txt -o",
    "events -r t.txt -o",
    "percentiles -r t.txt -o",
    "compare t.txt u.txt -o",
    "compare u.txt t.txt -o",
    "convert -f -r t.txt --to csv -w",
    "convert -f -r t.txt --to hlog -w",
];

/// By its own name, another path, a link and a hard link.
#[test]
fn no_result_replaces_an_input() {
    let (folder, trace) = folder();
    let path = folder.path();
    fs::copy(&trace, path.join("u.txt")).unwrap();
    symlink("t.txt", path.join("soft")).unwrap();
    fs::hard_link(&trace, path.join("hard")).unwrap();
    let before = fs::read(&trace).unwrap();
    for view in VIEWS {
        for output in ["t.txt", "./t.txt", "soft", "hard", trace.to_str().unwrap()] {
            let printed = bash(path, &format!("$0 {view} {output}")).failure(2);
            assert!(
                printed.contains("is also the input") && printed.contains("write to another file"),
                "{view} {output}: {printed}"
            );
            assert!(fs::read(&trace).unwrap() == before, "{view} {output}");
        }
    }
    let printed = bash(path, "$0 events -r t.txt >> t.txt").failure(2);
    assert!(printed.contains("Standard output is also the input t.txt"), "{printed}");
    assert!(fs::read(&trace).unwrap() == before);
    assert_eq!(files_of(path), ["hard", "soft", "t.txt", "u.txt"]);
}

#[test]
fn a_reading_that_fails_leaves_an_older_result() {
    let (folder, _) = folder();
    let path = folder.path();
    fs::write(path.join("old"), "precious").unwrap();
    for name in ["garbage", "rubbish"] {
        fs::write(path.join(name), [0, 1, 2, 3].repeat(1000)).unwrap();
    }
    for (input, other) in [("/nonexistent", "/nowhere"), ("garbage", "rubbish")] {
        for view in VIEWS {
            let view = view.replace("t.txt", input).replace("u.txt", other);
            bash(path, &format!("$0 {view} old")).failure(3);
            assert_eq!(fs::read_to_string(path.join("old")).unwrap(), "precious", "{view}");
        }
    }
    assert_eq!(files_of(path), ["garbage", "old", "rubbish", "t.txt"]);
}

/// A limit on the size of files stands for a full disk, which takes a mount.
#[test]
fn a_full_disk_leaves_an_older_result_and_no_rest() {
    let (folder, _) = folder();
    let path = folder.path();
    for view in [
        "heatmap -r t.txt -o",
        "events -r t.txt --csv -o",
        "convert -f -r t.txt --to lat -w",
        "convert -f -r t.txt --to parquet -w",
    ] {
        fs::write(path.join("old"), "precious").unwrap();
        let printed = bash(path, &format!("trap '' XFSZ; ulimit -f 4; $0 {view} old")).failure(3);
        assert!(printed.contains("cannot be written"), "{view}: {printed}");
        assert_eq!(fs::read_to_string(path.join("old")).unwrap(), "precious", "{view}");
        assert_eq!(files_of(path), ["old", "t.txt"], "{view}");
        bash(path, &format!("trap '' XFSZ; ulimit -f 4; $0 {view} new")).failure(3);
        assert_eq!(files_of(path), ["old", "t.txt"], "{view}");
        bash(path, &format!("$0 {view} old")).success();
        assert!(fs::metadata(path.join("old")).unwrap().len() > 4096, "{view}");
    }
}

#[test]
fn a_replaced_file_keeps_its_mode_and_a_link_stays_one() {
    let (folder, _) = folder();
    let path = folder.path();
    fs::write(path.join("old"), "precious").unwrap();
    fs::set_permissions(path.join("old"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("old", path.join("link")).unwrap();
    bash(path, "$0 summary -r t.txt -o link").success();
    assert!(path.join("link").is_symlink());
    assert_eq!(fs::metadata(path.join("old")).unwrap().permissions().mode() & 0o7777, 0o640);
    let shown = bash(path, "$0 summary -r t.txt -o new; cat new").success();
    assert_eq!(fs::read_to_string(path.join("old")).unwrap(), shown);
    assert_eq!(fs::metadata(path.join("new")).unwrap().permissions().mode() & 0o111, 0);
}

/// Devices, FIFOs and descriptors are written to, not replaced.
#[test]
fn what_is_no_file_is_written_as_it_is() {
    let (folder, _) = folder();
    let path = folder.path();
    let expected = bash(path, "$0 events -r t.txt --csv").success();
    for script in [
        "$0 events -r t.txt --csv -o /dev/stdout",
        "$0 events -r t.txt --csv -o -",
        "$0 events -r t.txt --csv -o /dev/stdout > out; cat out; rm out",
        "$0 events -r t.txt --csv -o /dev/fd/5 5> out; cat out; rm out",
        "$0 events -r t.txt --csv -o >(cat > out); while [ ! -s out ]; do sleep 0.1; done; sleep 0.5; cat out; rm out",
        "mkfifo f; (cat f > out) & $0 events -r t.txt --csv -o f; wait; cat out; rm out f",
    ] {
        assert!(bash(path, script).success() == expected, "{script}");
    }
    let appended = bash(path, "echo before > out; $0 events -r t.txt --csv -o /dev/stdout >> out; cat out; rm out");
    assert!(appended.success() == format!("before\n{expected}"));
    bash(path, "$0 events -r t.txt -o /dev/null; [ -c /dev/null ]").success();
    assert_eq!(files_of(path), ["t.txt"]);
}

/// Who ends the program finds the old file and no rest of the new one.
#[test]
fn a_signal_leaves_no_temporary_file() {
    let (folder, _) = folder();
    let path = folder.path();
    fs::write(path.join("old"), "precious").unwrap();
    // The pipe stays open, so that the program waits for more while its output has been started.
    let script = "(for i in 1 2 3; do cat t.txt; done; sleep 60) | $0 events -r - -o old & \
        for i in $(seq 200); do ls .old.* > /dev/null 2>&1 && break; sleep 0.05; done; ls .old.* | wc -l; kill %%; wait";
    let ended = end(Command::new("bash").args(["-mc", script, LATSCOPE]).current_dir(path), b"");
    assert_eq!(String::from_utf8_lossy(&ended.out).trim(), "1");
    assert_eq!(files_of(path), ["old", "t.txt"]);
    assert_eq!(fs::read_to_string(path.join("old")).unwrap(), "precious");
}

/// Neither half a conversion nor half a comparison is left behind.
#[test]
fn ctrl_c_leaves_no_part_of_a_conversion() {
    let (folder, _) = folder();
    let path = folder.path();
    let until = "for i in $(seq 400); do ls .x.lat* > /dev/null 2>&1 && break; sleep 0.05; done";
    let script = format!(
        "for i in $(seq 100); do cat t.txt; done > big.txt; $0 convert -r big.txt -w x.lat & {until}; \
         kill -INT %%; wait %%; echo $?; rm big.txt"
    );
    let ended = end(Command::new("bash").args(["-mc", &script, LATSCOPE]).current_dir(path), b"");
    assert_eq!(String::from_utf8_lossy(&ended.out).trim(), "3", "{}", ended.err);
    assert!(ended.err.contains("latscope: Interrupted; no file was written."), "{}", ended.err);
    assert_eq!(files_of(path), ["t.txt"]);
    let script = "mkfifo pipe; $0 compare t.txt pipe -o x.svg & exec 3> pipe; cat t.txt >&3; sleep 0.5; kill -INT %%; \
                  wait %%; echo $?; rm pipe";
    let ended = end(Command::new("bash").args(["-mc", script, LATSCOPE]).current_dir(path), b"");
    assert_eq!(String::from_utf8_lossy(&ended.out).trim(), "3", "{}", ended.err);
    let nothing = "Interrupted while the traces were read; nothing was compared.";
    assert!(ended.err.contains(&format!("latscope: {nothing}")), "{}", ended.err);
    assert_eq!(files_of(path), ["t.txt"]);
    // What a job publishes says so.
    let script = script.replace("-o x.svg", "--junit x.xml -o x.md");
    let ended = end(Command::new("bash").args(["-mc", &script, LATSCOPE]).current_dir(path), b"");
    assert_eq!(String::from_utf8_lossy(&ended.out).trim(), "3", "{}", ended.err);
    let left = |name: &str| fs::read_to_string(path.join(name)).unwrap();
    assert!(left("x.xml").contains(&format!("<error message=\"{nothing}\"/>")), "{}", left("x.xml"));
    assert!(left("x.md").starts_with("**Undecided**: ") && left("x.md").contains(nothing), "{}", left("x.md"));
    ["x.xml", "x.md"].iter().for_each(|name| fs::remove_file(path.join(name)).unwrap());
    assert_eq!(files_of(path), ["t.txt"]);
    let script = format!(
        "mkfifo pipe; $0 convert -r pipe -w x.lat & exec 3> pipe; for i in 1 2 3; do cat t.txt >&3; done; {until}; \
         kill -INT %%; wait %%; echo $?; rm pipe"
    );
    let ended = end(Command::new("bash").args(["-mc", &script, LATSCOPE]).current_dir(path), b"");
    assert_eq!(String::from_utf8_lossy(&ended.out).trim(), "3", "{}", ended.err);
    assert!(ended.err.contains("latscope: Interrupted; no file was written."), "{}", ended.err);
    assert_eq!(files_of(path), ["t.txt"]);
}

/// The commands of requirement 001 as they stand there, with this program in the place of trace2heatmap.pl.
#[test]
fn two_columns_are_drawn_as_trace2heatmap_is_called() {
    let (folder, _) = folder();
    let path = folder.path();
    let awk = r#"{ gsub(/:/, "") } $5 ~ /issue/ { ts[$6, $10] = $4 } $5 ~ /complete/ { if (l = ts[$6, $9]) { printf "%.f %.f\n", $4 * 1000000, ($4 - l) * 1000000; ts[$6, $10] = 0 } }"#;
    bash(path, &format!("awk '{awk}' t.txt > out.lat_us")).success();
    let sizes = r#"{ gsub(/:/, "") } $5 ~ /complete/ { print $4 * 1000000, ($11 * 512) }"#;
    bash(path, &format!("awk '{sizes}' t.txt > out.sizes")).success();
    let offsets = r#"{ gsub(/:/, "") } $5 ~ /complete/ { print $4 * 1000000, ($9 * 512) / (1024 * 1024) }"#;
    bash(path, &format!("awk '{offsets}' t.txt > out.offset")).success();
    let rows = fs::read_to_string(path.join("out.lat_us")).unwrap().lines().count();
    assert!(rows > 1000);
    for (command, says) in [
        ("--unitstime=us --unitslat=us --grid out.lat_us", "latency"),
        (
            "--unitstime=us --unitslat=us --grid --maxlat=15000 --title=\"Latency Heat Map: 15ms max\" out.lat_us",
            "15ms max",
        ),
        ("--unitstime=us --unitslat=bytes out.sizes --title=\"Size Heat Map\"", "Size Heat Map"),
        ("--unitstime=us --unitslat=Mbytes out.offset --title=\"Offset Heat Map\"", "Offset Heat Map"),
        ("--unitstime=us --unitslat=us --title=\"Latency Heat Map: SSDs only\" out.lat_us", "SSDs only"),
        ("--unitstime=us --unitslat=us --stepsec=0.1 --steplat=100 --minlat=0 --maxlat=5000 out.lat_us", "100ms"),
        (
            "--unitstime=us --unitslat=us --boxsize=5 --accstats --fonttype=Arial --fontsize=9 --maxcol=9 out.lat_us",
            "svg",
        ),
    ] {
        let ended = bash(path, &format!("$0 heatmap {command} > out.svg && cat out.svg"));
        assert!(!ended.err.contains("live"), "{command}: {}", ended.err);
        let picture = ended.success();
        assert!(picture.contains(says) && picture.starts_with("<svg"), "{command}: {picture:.300}");
        let word = command.split_whitespace().find(|word| word.starts_with("out.")).unwrap();
        let piped = command.replace(word, "");
        let from_pipe = bash(path, &format!("cat {word} | $0 heatmap {piped}")).success();
        assert_eq!(numbers(&from_pipe).len(), numbers(&picture).len(), "{piped}");
        let from_file = bash(path, &format!("$0 heatmap {piped} < {word}")).success();
        assert_eq!(from_file, from_pipe, "{piped}");
    }
    let printed = bash(path, "$0 heatmap --stepsecs=1 -r out.lat_us -o x.svg").failure(2);
    assert!(printed.contains("unexpected argument '--stepsecs'") && !printed.contains("-- --stepsecs"), "{printed}");
    // A file behind a filter, and words of a filter that are called as files are.
    bash(path, "touch t; $0 summary 'lat > 1ms' t.txt").success();
    let of = |script: &str| bash(path, script).success().lines().next().unwrap().to_string();
    assert_eq!(of("cat t.txt | $0 summary"), of("$0 summary t.txt"));
    assert_eq!(of("cp t.txt fio; cat t.txt | $0 summary comm = fio"), of("$0 summary -r t.txt comm = fio"));
}

/// One bad row among the first does not make a file another one.
#[test]
fn a_bad_row_among_the_first_is_counted() {
    for bad in ["-1 5", "nan 3", "text", "12"] {
        for at in [0, 3, 30] {
            let mut rows: Vec<String> = (1..100).map(|row| format!("{row} 0.5")).collect();
            rows.insert(at, bad.into());
            let ended = crate::program::latscope_with(&["summary", "-r", "-"], (rows.join("\n") + "\n").as_bytes());
            assert!(ended.success().contains("99 events"), "{bad} at {at}");
        }
    }
}

/// Ctrl-C on a pipe that goes on shows what came until then, in every view; an independent count is that of the lines.
#[test]
fn an_interrupted_pipe_shows_what_came() {
    let lines: String = (0..500).map(|at| format!("{} {}\n", (at + 1) * 1_000, 100 + at)).collect();
    for (view, expected) in [
        (&["summary", "--by", "none"][..], "500"),
        (&["histogram"], "500 events"),
        (&["percentiles", "-i", "1s", "--csv"], ",500,"),
        // Rows come as they close, so no heading knows how many events there will be.
        (&["spectrogram", "--plain"], "500/s"),
        (&["heatmap"], "500 events"),
        (&["events", "--csv"], "599000"),
    ] {
        for signal in ["INT", "TERM"] {
            let folder = tempfile::tempdir().unwrap();
            let fifo = folder.path().join("fifo");
            assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
            let mut shown = command(LATSCOPE);
            shown.args(view).args(["--unitstime", "us", "--unitslat", "us", "-r"]).arg(&fifo);
            let shown = shown.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut pipe = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
            pipe.write_all(lines.as_bytes()).unwrap();
            let caught = format!("/proc/{}/status", shown.id());
            let handles = |status: String| {
                let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim().to_string();
                // SIGHUP, the last of them.
                u64::from_str_radix(&mask, 16).unwrap() & 1 != 0
            };
            while !fs::read_to_string(&caught).is_ok_and(handles) {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            while rustix::io::ioctl_fionread(&pipe).unwrap() > 0 {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            let pid = shown.id().to_string();
            assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
            let ended = shown.wait_with_output().unwrap();
            drop(pipe);
            let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
            assert!(ended.status.success() && out.contains(expected), "{view:?} {signal}: {out} {err}");
            assert!(
                format!("{out}{err}").contains("interrupted: the rest of the input was not read"),
                "{view:?}: {out} {err}"
            );
        }
    }
}
