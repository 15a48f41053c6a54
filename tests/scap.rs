//! Captures of sysdig, against what sysdig 0.29.3 shows of the same files: stored, and where it is installed, asked again.

use crate::program::{Ended, command, end, installed, latscope, testdata, unpacked};
use flate2::read::{GzDecoder, MultiGzDecoder};
use latscope_capture_file::{Error, ReadOptions, read_bytes};
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet, Mask};
use latscope_filter::Filter;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::ops::ControlFlow;

/// Captures by name, packed with gzip, out of the one archive that holds them.
pub fn captures() -> BTreeMap<String, Vec<u8>> {
    let archive = std::fs::read(testdata("scap/captures.tar")).expect("the archive is there");
    let (mut rest, mut found) = (&archive[..], BTreeMap::new());
    while rest.len() > 512 && rest[0] != 0 {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string();
        let size = usize::from_str_radix(text(&rest[124..135]).trim(), 8).expect("an octal number");
        let name = text(&rest[..100]).trim_end_matches(".scap.gz").to_string();
        found.insert(name, rest[512..512 + size].to_vec());
        rest = &rest[512 + size.div_ceil(512) * 512..];
    }
    found
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut unpacked).expect("captures are packed with gzip");
    unpacked
}

/// What is compared of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Call {
    name: String,
    latency_ns: u64,
    comm: String,
    fd_type: String,
}

/// Calls by the time of their return and their thread.
type Calls = HashMap<(i64, i64), Call>;

fn calls(bytes: &[u8], fields: FieldSet) -> Result<(Calls, Context), Error> {
    let mut calls = Calls::new();
    let context = read_bytes("capture", bytes, &ReadOptions::new(fields), &mut |_, batch| {
        for row in 0..batch.len() {
            let text = |field| batch.text(field, row).unwrap_or("<NA>").to_string();
            let latency_ns = batch.latency()[row];
            let end_ns = batch.time()[row] + latency_ns as i64;
            let tid = batch.i64s(Field::Tid).map_or(0, |tids| tids[row]);
            let (name, comm, fd_type) = (text(Field::Name), text(Field::Comm), text(Field::FdType));
            calls.insert((end_ns, tid), Call { name, latency_ns, comm, fd_type });
        }
        ControlFlow::Continue(())
    })?;
    Ok((calls, context))
}

/// Whether latscope means to differ from sysdig 0.29.3 in the type of descriptor of a call: sysdig takes the address of `mmap` for
/// one, does not look at what `setsockopt` returns in newer captures, and has none for syncs.
fn has_own_fd_type(name: &str) -> bool {
    matches!(name, "mmap" | "setsockopt" | "fsync" | "fdatasync" | "sync_file_range")
}

/// Compares the rows that sysdig prints (`evt.rawtime thread.tid evt.type evt.latency proc.name fd.type`) of returns.
fn compare(capture: &str, ours: &Calls, rows: &[Vec<&str>]) -> usize {
    let mut compared = 0;
    for row in rows {
        let [time, tid, name, latency, comm, fd_type] = row[..] else { panic!("{capture}: {row:?}") };
        let (time, tid): (i64, i64) = (time.parse().unwrap(), tid.parse().unwrap());
        let Some(call) = ours.get(&(time, tid)) else {
            // Without a start there is no latency.
            assert_eq!(latency, "0", "{capture}: {row:?} is missing");
            continue;
        };
        assert_eq!(call.latency_ns.to_string(), latency, "{capture}: {row:?}");
        assert_eq!(call.comm, comm, "{capture}: {row:?}");
        // sysdig does not know the number 0 of calls that its driver did not know.
        assert!(call.name == name || call.name == "unknown", "{capture}: {row:?}, {}", call.name);
        assert!(call.fd_type == fd_type || has_own_fd_type(name), "{capture}: {row:?}, {}", call.fd_type);
        compared += 1;
    }
    compared
}

const COMPARED: FieldSet = FieldSet::ALWAYS.with(&[Field::Tid, Field::Name, Field::Comm, Field::FdType]);

#[test]
fn scap_events_are_those_of_sysdig() {
    let expected = String::from_utf8(unpacked("scap/expected.tsv.zst")).expect("UTF-8");
    let mut rows: BTreeMap<&str, Vec<Vec<&str>>> = BTreeMap::new();
    for line in expected.lines() {
        let (capture, row) = line.split_once('\t').expect("a column");
        rows.entry(capture).or_default().push(row.split('\t').collect());
    }
    let (captures, mut compared) = (captures(), 0);
    assert_eq!((captures.len(), rows.len()), (31, 27));
    for (capture, rows) in rows {
        let ours = calls(&captures[capture], COMPARED).unwrap_or_else(|error| panic!("{capture}: {error}")).0;
        compared += compare(capture, &ours, &rows);
    }
    assert!(compared > 57_000, "{compared}");
}

fn sysdig(file: &std::path::Path, arguments: &[&str]) -> Ended {
    end(command("sysdig").arg("-r").arg(file).args(arguments), b"")
}

/// The captures as files.
fn unpack_all(folder: &std::path::Path) -> Vec<(String, std::path::PathBuf, Vec<u8>)> {
    let unpack = |(name, packed): (String, Vec<u8>)| {
        let (path, bytes) = (folder.join(format!("{name}.scap")), gunzip(&packed));
        std::fs::write(&path, &bytes).expect("it can be written");
        (name, path, bytes)
    };
    captures().into_iter().map(unpack).collect()
}

#[test]
fn scap_events_are_those_that_sysdig_shows_here() {
    if !installed("sysdig") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut compared = 0;
    for (name, path, bytes) in unpack_all(folder.path()) {
        // It shows a wrong file for these, and cannot read the comments.
        if matches!(name.as_str(), "derived-exit-only" | "libs-curl_google_comments-v10") {
            continue;
        }
        let columns = "*%evt.rawtime\t%thread.tid\t%evt.type\t%evt.latency\t%proc.name\t%fd.type";
        let shown = sysdig(&path, &["-p", columns, "evt.dir=<"]).success();
        let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split('\t').collect()).collect();
        compared += compare(&name, &calls(&bytes, COMPARED).unwrap().0, &rows);
    }
    assert!(compared > 57_000, "{compared}");
}

/// The captures whose filters are counted.
const FILTERED: [&str; 4] =
    ["libs-curl_google-v10", "sysflow-mpm-worker_full_capture", "sysflow-nginx_nginx", "sysflow-objectstore_download"];

/// Counts that differ on purpose: what sysdig 0.29.3 takes a failed open for (descriptor -1), the categories of calls that it had
/// not classified, the size of calls that failed, and names of descriptors that have none.
const OWN_COUNT: [&str; 5] =
    ["fd.num<3", "evt.category=file", "evt.category=net", "evt.buflen>=1000", "fd.name exists"];

/// Counts of which sysdig shows another one itself, where it selects from all that it prints without a filter: with some filters,
/// descriptors of a program outlive it.
const OTHER_WITHOUT_FILTER: [(&str, &str); 3] = [
    (FILTERED[1], "evt.dir=< and fd.type=file and evt.latency>1000"),
    (FILTERED[3], "fd.type=file and evt.is_io=true"),
    (FILTERED[3], "(evt.type=read or evt.type=write) and fd.type=file"),
];

/// Both count returns with a latency, without the calls whose descriptor sysdig has wrong: the address of an mmap, none of
/// setsockopt in newer captures, that of an earlier call for an accept that failed.
fn comparable(filter: &str) -> String {
    format!(
        "evt.dir=< and evt.latency>0 and evt.type!=mmap and evt.type!=setsockopt and evt.type!=accept and ({filter})"
    )
}

#[test]
fn scap_filters_select_what_they_select_in_sysdig() {
    let stored = String::from_utf8(unpacked("scap/filter_counts.tsv")).expect("UTF-8");
    let captures = captures();
    let has_sysdig = installed("sysdig");
    let folder = tempfile::tempdir().unwrap();
    let mut other = Vec::new();
    for capture in FILTERED {
        let path = folder.path().join("capture.scap");
        std::fs::write(&path, gunzip(&captures[capture])).unwrap();
        let mut batches: Vec<Batch> = Vec::new();
        let options = ReadOptions::new(FieldSet::EVERY);
        let context = read_bytes(capture, &captures[capture], &options, &mut |_, batch| {
            batches.push(batch.clone());
            ControlFlow::Continue(())
        });
        let start = context.unwrap().trace_start();
        let mut counted = 0;
        for line in stored.lines().filter(|line| line.starts_with(&format!("{capture}\t"))) {
            let [_, count, filter] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let mut bound = Filter::parse(&comparable(filter)).expect(filter).bind(start).expect(filter);
            let mut mask = Mask::default();
            let mut ours = 0;
            for batch in &batches {
                bound.eval(batch, &mut mask);
                ours += mask.count();
            }
            let is_own = OWN_COUNT.contains(&filter) || OTHER_WITHOUT_FILTER.contains(&(capture, filter));
            if ours.to_string() != count && !is_own {
                other.push(format!("{capture}, {filter}: {ours}, sysdig {count}"));
            }
            // One that runs for a moment each.
            if has_sysdig && capture == FILTERED[0] {
                let theirs = sysdig(&path, &["-p", "x", &comparable(filter)]).success();
                assert_eq!(theirs.lines().count().to_string(), count, "{filter}");
            }
            counted += 1;
        }
        assert_eq!(counted, 55, "{capture}");
    }
    assert!(other.is_empty(), "{other:#?}");
}

/// A small generator, so that the same places are cut each time.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

#[test]
fn scap_files_are_read_up_to_where_they_are_cut() {
    let mut seed = 11;
    for (name, packed) in captures() {
        let bytes = gunzip(&packed);
        // The long ones only for what every event has.
        let fields = if bytes.len() < 300_000 { FieldSet::EVERY } else { FieldSet::ALWAYS };
        let events = |bytes: &[u8]| {
            let mut events = Vec::new();
            let read = read_bytes("cut", bytes, &ReadOptions::new(fields), &mut |_, batch: &Batch| {
                events.extend(batch.time().iter().copied().zip(batch.latency().iter().copied()));
                ControlFlow::Continue(())
            });
            (events, read)
        };
        let (all, _) = events(&bytes);
        for _ in 0..100 {
            let at = next(&mut seed) as usize % bytes.len();
            let (some, read) = events(&bytes[..at]);
            assert!(all.starts_with(&some), "{name} at {at}");
            match read {
                Ok(context) if at > 28 => {
                    let is_whole = context.tally.get(Anomaly::Truncated) == 0;
                    assert!(!is_whole || at.is_multiple_of(4), "{name} at {at}");
                }
                // Before the first header, or before the first start of a call.
                Ok(_) | Err(_) => assert!(some.is_empty() || at > 28, "{name} at {at}"),
            }
        }
    }
}

#[test]
fn scap_in_several_members_of_gzip_is_one_file() {
    let packed = captures().remove("falco-cat_write-c4cf").unwrap();
    let bytes = gunzip(&packed);
    let member = |bytes: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, bytes).unwrap();
        gzip.finish().unwrap()
    };
    let members = [member(&bytes[..50_001]), member(&bytes[50_001..])].concat();
    let mut check = Vec::new();
    MultiGzDecoder::new(&members[..]).read_to_end(&mut check).unwrap();
    assert_eq!(check, bytes);
    assert_eq!(calls(&members, COMPARED).unwrap(), calls(&bytes, COMPARED).unwrap());
}

#[test]
fn scap_without_starts_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exits.scap.gz");
    std::fs::write(&path, &captures()["derived-exit-only"]).unwrap();
    let failed = latscope(&["summary", "-r", path.to_str().unwrap()]).failure(3);
    assert!(failed.contains("only the returns of system calls and therefore no latency"), "{failed}");
}

#[test]
fn scap_syncs_are_of_the_file_written_last() {
    let (calls, context) = calls(&captures()["seed1-moderate"], COMPARED).unwrap();
    assert_eq!(context.tally.get(Anomaly::InferredFile), 0, "it has no syncs");
    assert!(calls.values().any(|call| call.name == "write" && call.fd_type == "file"));
    // A capture with a process of which the list of descriptors was scrubbed knows no file to attribute them to.
    let (calls, context) = self::calls(&captures()["fsync-4k"], COMPARED).unwrap();
    let synced = calls.values().filter(|call| call.name == "fsync");
    let known = synced.clone().filter(|call| call.fd_type == "file").count() as u64;
    assert!(synced.count() > 900);
    assert_eq!(known, context.tally.get(Anomaly::InferredFile));
}

/// A cell of a map: what it shows, in which of the 256 colours.
type Cell = (char, Option<u8>, Option<u8>);

/// Cells of a line, which changes colours by escape sequences.
fn cells(line: &str) -> Vec<Cell> {
    let (mut cells, mut colors) = (Vec::new(), (None, None));
    let mut parts = line.split('\x1b');
    let mut push = |text: &str, (foreground, background)| {
        // The colour of nothing does not show, and black on black is nothing.
        let cell = |letter: char| match (letter, foreground, background) {
            (' ', _, Some(0) | None) => (' ', None, None),
            (' ', _, background) => (' ', None, background),
            (letter, foreground, background) => (letter, foreground, background),
        };
        cells.extend(text.chars().map(cell));
    };
    push(parts.next().unwrap_or_default(), colors);
    for part in parts {
        let Some((codes, text)) = part.strip_prefix('[').and_then(|part| part.split_once('m')) else { continue };
        let mut codes = codes.split(';').map(|code| code.parse::<u8>().unwrap_or(0));
        while let Some(code) = codes.next() {
            match code {
                0 => colors = (None, None),
                30..=37 => colors.0 = Some(code - 30),
                40..=47 => colors.1 = Some(code - 40),
                90..=97 => colors.0 = Some(code - 82),
                100..=107 => colors.1 = Some(code - 92),
                38 => colors.0 = codes.nth(1),
                48 => colors.1 = codes.nth(1),
                39 => colors.0 = None,
                49 => colors.1 = None,
                _ => {}
            }
        }
        push(text, colors);
    }
    cells
}

/// The rows of the chisel that are not empty; it draws none for an interval without events, and an empty one at either end.
fn drawn_by_chisel(recording: &str) -> Vec<Vec<Cell>> {
    let recording = String::from_utf8(unpacked(&format!("spectrogram/{recording}"))).expect("UTF-8");
    let rows = recording.split('\n').filter(|line| line.contains("\x1b[38;5;")).map(|line| {
        // Axes are drawn over by the next row.
        cells(&line[line.find("\x1b[38;5;").unwrap_or(0)..])
    });
    rows.filter(|row| row.iter().any(|cell| cell.2.is_some())).collect()
}

#[test]
fn scap_spectrogram_has_the_cells_of_the_chisel() {
    let folder = tempfile::tempdir().unwrap();
    let captures = captures();
    for (capture, recording, width, arguments) in [
        ("sysflow-objectstore_download", "objectstore.spectrogram.80.ansi.gz", 80, &[][..]),
        ("sysflow-objectstore_download", "objectstore.spectrogram.120.ansi.gz", 120, &[]),
        (
            "sysflow-mpm-worker_full_capture",
            "worker-fileio.spectrogram.80.ansi.gz",
            80,
            &["-i", "100ms", "evt.is_io=true and fd.type=file"],
        ),
        (
            "seed1-moderate",
            "seed1-moderate.spectrogram.100.ansi.gz",
            100,
            &["evt.is_io=true and fd.name contains test.dat"],
        ),
    ] {
        let path = folder.path().join(format!("{capture}.scap.gz"));
        std::fs::write(&path, &captures[capture]).unwrap();
        let draw = |columns: usize| {
            let columns = columns.to_string();
            let plain =
                ["spectrogram", "-r", path.to_str().unwrap(), "--palette", "sysdig", "--color", "256", "--plain"];
            latscope(&[&plain[..], &["--width", &columns], arguments].concat()).success()
        };
        // How much of the width is labels.
        let text = draw(200);
        let axis = text.lines().find(|line| line.contains("|1ns")).expect("an axis");
        let (start, end) = (axis.find('|').unwrap(), axis.find('>').unwrap());
        let text = draw(200 - (end - start) + width);
        let rows =
            text.lines().skip_while(|line| !line.contains("|1ns")).skip(1).take_while(|line| !line.contains("|1ns"));
        let rows = rows.map(|line| {
            let mut row = cells(line);
            row.resize(start + width, (' ', None, None));
            row.split_off(start)
        });
        // An interval without events is a row here.
        let ours: Vec<Vec<Cell>> = rows.filter(|row| row.iter().any(|cell| cell.2.is_some())).collect();
        let theirs = drawn_by_chisel(recording);
        assert_eq!(ours.len(), theirs.len(), "{recording}");
        for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(ours[..], theirs[..width], "{recording}, row {at}");
        }
    }
}

/// What is compared of a call that was written and read again.
fn calls_and_paths(bytes: &[u8]) -> Vec<(i64, u64, i64, String)> {
    let mut rows = Vec::new();
    let read = read_bytes("capture", bytes, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
        for row in 0..batch.len() {
            let texts = [Field::Name, Field::Comm, Field::FdType, Field::Path];
            let texts = texts.map(|field| batch.text(field, row).unwrap_or("<NA>"));
            let (time, latency) = (batch.time()[row], batch.latency()[row]);
            rows.push((time, latency, batch.i64s(Field::Tid).unwrap()[row], texts.join("|")));
        }
        ControlFlow::Continue(())
    });
    read.unwrap();
    rows.sort();
    rows
}

/// Captures that are written again.
const WRITTEN: [&str; 5] = [
    "falco-psp_run_as_user_0_container-641c",
    "libs-curl_google-v10",
    "seed1-moderate",
    "sysflow-mpm-worker_full_capture",
    "sysflow-objectstore_download",
];

/// Calls that are written without their descriptor, or with another name.
fn is_written_whole(row: &str) -> bool {
    let called = [
        "read", "write", "pread", "pwrite", "readv", "writev", "open", "openat", "close", "fstat", "lseek", "recvfrom",
    ];
    let others = ["sendto", "sendmsg", "recvmsg", "ioctl", "getdents64", "futex", "nanosleep", "epoll_wait"];
    let name = row.split('|').next().unwrap_or_default();
    called.contains(&name) || others.contains(&name)
}

#[test]
fn scap_that_is_written_says_the_same_to_sysdig() {
    let folder = tempfile::tempdir().unwrap();
    let has_sysdig = installed("sysdig");
    let mut compared = 0;
    for (name, packed) in captures() {
        if !WRITTEN.contains(&&*name) {
            continue;
        }
        let (from, to) =
            (folder.path().join(format!("{name}.scap.gz")), folder.path().join(format!("{name}.out.scap")));
        std::fs::write(&from, &packed).unwrap();
        latscope(&["convert", "-r", from.to_str().unwrap(), "-w", to.to_str().unwrap()]).success();
        let written = std::fs::read(&to).unwrap();
        let (ours, again) = (calls_and_paths(&packed), calls_and_paths(&written));
        assert_eq!(ours.len(), again.len(), "{name}");
        for (one, other) in ours.iter().zip(&again) {
            assert_eq!((one.0, one.1, one.2), (other.0, other.1, other.2), "{name}");
            // A named pipe loses its name.
            let is_same = one.3 == other.3 || one.3.contains("|pipe|") && other.3.contains("|pipe|");
            assert!(is_same || !is_written_whole(&one.3), "{name}: {one:?} {other:?}");
        }
        // What the capture has of other processes, arguments and environments stays behind.
        let original = gunzip(&packed);
        let has = |bytes: &[u8], word: &[u8]| memchr::memmem::find(bytes, word).is_some();
        assert!(name == "seed1-moderate" || has(&original, b"PATH=") && has(&original, b"rsyslogd"), "{name}");
        assert!(!has(&written, b"PATH=") && !has(&written, b"rsyslogd"), "{name}");
        if has_sysdig {
            let columns = "*%evt.rawtime\t%evt.latency\t%thread.tid\t%evt.type|%proc.name|%fd.type|%fd.name";
            let shown = sysdig(&to, &["-p", columns, "evt.dir=<"]).success();
            let mut theirs: Vec<(i64, u64, i64, String)> = Vec::new();
            for line in shown.lines() {
                let [time, latency, tid, texts] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
                let (time, latency): (i64, u64) = (time.parse().unwrap(), latency.parse().unwrap());
                theirs.push((time - latency as i64, latency, tid.parse().unwrap(), texts.into()));
            }
            theirs.sort();
            assert_eq!(theirs.len(), ours.len(), "{name}");
            for (one, other) in ours.iter().zip(&theirs) {
                assert_eq!((one.0, one.1, one.2), (other.0, other.1, other.2), "{name}");
                // sysdig writes addresses of version 6 and local sockets in its own way.
                let is_same = one.3 == other.3
                    || one.3.replace("|<NA>", "|") == other.3.replace("|<NA>", "|")
                    || one.3.contains("|ipv6|")
                    || one.3.contains("|unix|")
                    || one.3.contains("|pipe|") && other.3.contains("|pipe|");
                assert!(is_same || !is_written_whole(&one.3), "{name}: {one:?}, sysdig {other:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 20_000 || !has_sysdig, "{compared}");
}

/// What the calls of a capture are for sysdig: name, result and descriptor, by the time of the return and the thread.
fn results(path: &std::path::Path) -> BTreeMap<(i64, i64), (String, String, String)> {
    let columns = "*%evt.rawtime\t%thread.tid\t%evt.type\t%evt.rawres\t%fd.num|%fd.type";
    let shown = sysdig(path, &["-p", columns, "evt.dir=<"]).success();
    let row = |line: &str| {
        let [time, tid, name, result, fd] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        ((time.parse().unwrap(), tid.parse().unwrap()), (name.into(), result.into(), fd.into()))
    };
    shown.lines().map(row).collect()
}

#[test]
fn scap_that_is_written_keeps_results_and_hangs() {
    if !installed("sysdig") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut compared, mut named) = (0, std::collections::BTreeSet::new());
    for (name, packed) in captures().into_iter().filter(|(name, _)| WRITTEN.contains(&&**name)) {
        let (from, to) = (folder.path().join(format!("{name}.scap.gz")), folder.path().join(format!("{name}.w.scap")));
        std::fs::write(&from, &packed).unwrap();
        latscope(&["convert", "-r", from.to_str().unwrap(), "-w", to.to_str().unwrap()]).success();
        let (before, after) = (results(&from), results(&to));
        for (key, (name, result, fd)) in &after {
            // It does not know all calls of later versions.
            let Some((own_name, own_result, own_fd)) = before.get(key) else { continue };
            assert_eq!(name, own_name, "{key:?}");
            assert_eq!(result, own_result, "{name} {key:?}");
            // The same where sysdig is right: it takes the address of mmap for a descriptor, and has -1 for one that failed.
            assert!(
                fd == own_fd || name == "mmap" || own_fd.starts_with("-1|") || fd.starts_with("-1|"),
                "{name}: {fd} {own_fd}"
            );
            named.insert(name.clone());
            compared += 1;
        }
        let (_, context) = calls(&packed, COMPARED).unwrap();
        let starts = sysdig(&to, &["-p", "x", "evt.dir=>"]).success().lines().count();
        assert_eq!(starts - after.len(), context.unfinished.len(), "{name}: calls that did not return");
        let (_, again) = calls(&std::fs::read(&to).unwrap(), COMPARED).unwrap();
        let what = |context: &Context| {
            context.unfinished.iter().map(|one| (one.start_ns, one.what.clone())).collect::<Vec<_>>()
        };
        assert_eq!(what(&again), what(&context), "{name}");
    }
    assert!(compared > 15_000, "{compared}");
    for name in ["clone", "execve", "connect", "socket", "bind", "accept", "fcntl", "stat", "poll"] {
        assert!(named.contains(name), "{name} is not among {named:?}");
    }
}

#[test]
fn scap_keeps_the_protocol_of_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("udp.csv"), folder.path().join("udp.scap"));
    let text = "time_ns,latency_ns,kind,name,pid,tid,comm,fd,fd_type,path,result,l4proto\n\
                0,10,read,recvfrom,7,7,dig,3,ipv4,127.0.0.1:53,5,udp\n\
                1000,10,read,read,7,7,dig,3,ipv4,127.0.0.1:40000->127.0.0.1:53,5,udp\n";
    std::fs::write(&from, text).unwrap();
    latscope(&["convert", "-r", from.to_str().unwrap(), "-w", to.to_str().unwrap()]).success();
    let columns = ["events", "-r", to.to_str().unwrap(), "--csv", "--columns", "latency_ns,l4proto,path"];
    let csv = latscope(&columns).success();
    assert_eq!(csv, "latency_ns,l4proto,path\n10,udp,127.0.0.1:53\n10,udp,127.0.0.1:40000->127.0.0.1:53\n");
    if installed("sysdig") {
        let shown = sysdig(&to, &["-p", "%evt.latency %fd.l4proto %fd.name", "evt.dir=<"]).success();
        assert_eq!(shown, "10 udp 127.0.0.1:53\n10 udp 127.0.0.1:40000->127.0.0.1:53\n");
    }
}

#[test]
fn scap_with_a_damaged_block_is_read_as_far_as_it_can_be() {
    let packed = &captures()["falco-cat_write-c4cf"];
    let bytes = gunzip(packed);
    // The start of a block in the middle.
    let (mut at, mut starts) = (0, Vec::new());
    while at + 8 <= bytes.len() {
        starts.push(at);
        at += u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
    }
    let middle = starts[starts.len() / 2];
    let (whole, _) = calls(&bytes, COMPARED).unwrap();
    let mut end = bytes.clone();
    end[middle - 4] ^= 1;
    let (read, context) = calls(&end, COMPARED).unwrap();
    assert_eq!((read, context.is_plain()), (whole.clone(), calls(&bytes, COMPARED).unwrap().1.is_plain()));
    let mut start = bytes.clone();
    start[middle + 7] = 0xff;
    let (read, context) = calls(&start, COMPARED).unwrap();
    let counts = [Anomaly::DamagedRecords, Anomaly::Truncated].map(|anomaly| context.tally.get(anomaly));
    assert!(read.len() < whole.len() && counts == [1, 0]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.scap");
    std::fs::write(&path, &start).unwrap();
    let text = latscope(&["summary", "-r", path.to_str().unwrap()]).success();
    assert!(
        text.contains("the input is damaged at byte ") && text.contains("a block of an impossible length"),
        "{text}"
    );
}

#[test]
fn scap_threads_share_their_directory_and_programs_have_a_path() {
    let packed = &captures()["sysflow-mpm-worker_full_capture"];
    let mut counts: BTreeMap<(Field, String), u64> = BTreeMap::new();
    let options = ReadOptions::new(FieldSet::EVERY);
    read_bytes("capture", packed, &options, &mut |_, batch| {
        for row in 0..batch.len() {
            for field in [Field::ExePath, Field::Cwd, Field::L4Proto] {
                *counts.entry((field, batch.text(field, row).unwrap_or("-").into())).or_default() += 1;
            }
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let count = |field, text: &str| counts.get(&(field, text.to_string())).copied().unwrap_or(0);
    // sysdig has 84 returns of clones in children more.
    assert_eq!(count(Field::ExePath, "/usr/local/apache2/bin/httpd"), 15_349 - 84);
    // fchdir, and a thread that has none of its own.
    assert_eq!((count(Field::Cwd, "-"), count(Field::Cwd, "/")), (795, 500));
}

#[test]
fn scap_of_block_requests_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("block.scap");
    let from = testdata("perf_data/block_mixed.txt.zst");
    let failed = latscope(&["convert", "-r", from.to_str().unwrap(), "-w", to.to_str().unwrap()]).failure(3);
    assert!(failed.contains("a .scap holds system calls, but these events are not system calls"), "{failed}");
    for other in ["snoop/bcc.txt.zst", "oracle_10046/waits.trc.zst"] {
        let failed = latscope(&["convert", "-f", "-r", testdata(other).to_str().unwrap(), "-w", to.to_str().unwrap()])
            .failure(3);
        assert!(failed.contains("these events are not system calls"), "{other}: {failed}");
    }
    let failed = latscope(&["record", "-s", "block", "-w", to.to_str().unwrap()]).failure(2);
    assert!(failed.contains("use -s io or -s syscall"), "{failed}");
}

#[test]
fn scap_is_recorded_live_for_sysdig() {
    let Some(_alone) = crate::live::alone() else { return };
    if !installed("sysdig") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (to, file) = (folder.path().join("live.scap"), folder.path().join("written.dat"));
    let output = format!("of={}", file.to_str().unwrap());
    let dd = ["dd", "if=/dev/zero", &output, "bs=4096", "count=200", "conv=fsync"];
    let record = ["record", "-s", "syscall", "-w", to.to_str().unwrap(), "proc.name = dd", "--"];
    latscope(&[&record[..], &dd].concat()).success();
    let columns = "%evt.latency %proc.name %fd.type %fd.name %evt.rawres";
    let shown = sysdig(&to, &["-p", columns, "evt.dir=< and evt.type=write and evt.rawres=4096"]).success();
    let row = format!(" dd file {} 4096", file.to_str().unwrap());
    let written = shown.lines().filter(|line| line.ends_with(&row));
    assert_eq!(written.count(), 200, "{shown}");
    let latencies: Vec<u64> = shown.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
    let (ours, _) = calls(&std::fs::read(&to).unwrap(), COMPARED).unwrap();
    let own: Vec<u64> = ours.values().filter(|call| call.name == "write").map(|call| call.latency_ns).collect();
    assert!(latencies.iter().all(|latency| own.contains(latency)));
    assert!(ours.values().any(|call| call.name == "fsync"));
}
