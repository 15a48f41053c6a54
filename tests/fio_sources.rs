//! Logs of fio as a user reads them: many files, in any order, on any number of processors, whole or damaged.

use crate::program::{LATSCOPE, command, end, installed, latscope, testdata, unpacked};
use std::path::PathBuf;

/// The four jobs of one run, unpacked into a folder.
fn jobs(folder: &std::path::Path) -> Vec<PathBuf> {
    let one = |number: u32| {
        let path = folder.join(format!("A_clat.{number}.log"));
        std::fs::write(&path, unpacked(&format!("fio_log/A_clat.{number}.log.zst"))).unwrap();
        path
    };
    (1..=4).map(one).collect()
}

fn reading<'a>(verb: &[&'a str], files: impl IntoIterator<Item = &'a PathBuf>) -> Vec<&'a str> {
    let files = files.into_iter().flat_map(|file| ["-r", file.to_str().unwrap()]);
    verb.iter().copied().chain(files).collect()
}

#[test]
fn the_order_of_files_and_the_number_of_processors_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = jobs(folder.path());
    let concatenated = folder.path().join("all_clat.log");
    std::fs::write(&concatenated, jobs.iter().flat_map(|job| std::fs::read(job).unwrap()).collect::<Vec<u8>>())
        .unwrap();
    let gzipped: Vec<PathBuf> = jobs.iter().map(|job| job.with_extension("log.gz")).collect();
    for (job, gzipped) in jobs.iter().zip(&gzipped) {
        let mut encoder = flate2::write::GzEncoder::new(std::fs::File::create(gzipped).unwrap(), Default::default());
        std::io::copy(&mut std::fs::File::open(job).unwrap(), &mut encoder).unwrap();
        encoder.finish().unwrap();
    }
    for verb in [
        &["percentiles", "--csv", "-i", "500ms"][..],
        &["percentiles", "--json"],
        &["percentiles", "--csv", "-i", "1s", "--no-weight", "kind = write"],
        &["percentiles", "--csv", "-i", "1s", "--by", "kind"],
    ] {
        let expected = latscope(&reading(verb, &jobs)).success();
        assert!(expected.lines().count() > 3, "{verb:?}");
        assert_eq!(
            latscope(&reading(verb, jobs.iter().rev())).success(),
            expected,
            "{verb:?}, from the last to the first"
        );
        assert_eq!(latscope(&reading(verb, &gzipped)).success(), expected, "{verb:?}, compressed");
        assert_eq!(latscope(&reading(verb, [&concatenated])).success(), expected, "{verb:?}, in one file");
        if installed("taskset") {
            let alone = end(command("taskset").args(["-c", "0", LATSCOPE]).args(reading(verb, &jobs)), b"");
            assert_eq!(alone.success(), expected, "{verb:?}, on one processor");
        }
    }
    // Groups stand in the order in which they appear in the files.
    let by_job = latscope(&reading(&["percentiles", "--csv", "-i", "1h", "--by", "job"], &jobs)).success();
    let places: Vec<_> = (1..=4).map(|number| by_job.find(&format!("A.{number}"))).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{by_job}");
}

/// As a shell expands `-r run/*.log`.
#[test]
fn files_behind_the_first_one_are_read_too() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = jobs(folder.path());
    let names: Vec<&str> = jobs.iter().map(|job| job.to_str().unwrap()).collect();
    for filter in [&[][..], &["kind = write"], &["kind", "=", "write"]] {
        let each = [&reading(&["summary", "--json"], &jobs)[..], filter].concat();
        let glob = [&["summary", "--json", "-r"], &names[..], filter].concat();
        let expected = latscope(&each).success();
        assert_eq!(latscope(&glob).success(), expected);
    }
    let said = latscope(&["summary", "-r", names[0], "no-such-file.log"]).failure(2);
    assert!(said.contains("no-such-file.log"), "{said}");
}

#[test]
fn the_first_file_that_fails_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = jobs(folder.path());
    for number in 5..20 {
        let path = folder.path().join(format!("A_clat.{number}.log"));
        std::fs::write(&path, "1, 5, 0, 4096, 0\n2, 18446744073709551615, 0, 4096, 0\n3, 5, 0, 4096, 0\n").unwrap();
        files.push(path);
    }
    let said = latscope(&reading(&["percentiles"], &files)).failure(3);
    assert!(said.contains("A_clat.5.log:2: The row has a latency of more than 292 years"), "{said}");
    let lenient = latscope(&reading(&["percentiles", "--lenient", "--no-weight", "-i", "1h", "--json"], &files));
    assert!(lenient.err.contains("lines not understood"), "{}", lenient.err);
    let rows: usize = (1..=4).map(|number| unpacked(&format!("fio_log/A_clat.{number}.log.zst"))).map(lines).sum();
    let expected = format!("\"count\":{}", rows + 15 * 2);
    assert!(lenient.success().contains(&expected), "{expected}");
}

fn lines(text: Vec<u8>) -> usize {
    text.iter().filter(|&&byte| byte == b'\n').count()
}

#[test]
fn columns_may_be_said() {
    let log = testdata("fio_log/u_clat.1.log");
    let log = log.to_str().unwrap();
    let events =
        |columns| latscope(&["events", "--csv", "--columns", "size,offset", "-r", log, "--log-columns", columns]);
    let inferred = latscope(&["events", "--csv", "--columns", "size,offset", "-r", log]).success();
    assert_eq!(events("time,value,direction,size,priority").success(), inferred);
    assert_ne!(events("time,value,direction,size,offset").success(), inferred);
    assert!(events("time,direction,value,size").failure(2).contains("the order is this one"));
    assert!(events("time,value,direction,size").failure(3).contains("no row of fio's latency logs"));
}

#[test]
fn averages_over_windows_are_drawn_but_make_no_percentiles() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("a_clat.1.log");
    let rows: String = (1..=20).map(|at| format!("{}, {}, 0, 0, 0\n", at * 500, 900_000 + at)).collect();
    std::fs::write(&log, rows).unwrap();
    let log = log.to_str().unwrap();
    for verb in ["percentiles", "histogram", "summary"] {
        let said = latscope(&[verb, "-r", log]).failure(3);
        assert!(said.contains("averages over a window") && said.contains("latscope heatmap"), "{verb}: {said}");
    }
    let picture = latscope(&["heatmap", "-r", log, "-o", "-"]);
    let picture = picture.success();
    assert!(picture.contains("20 rows that are averages over a window"), "the picture says what it shows");
    assert_eq!(latscope(&["events", "--csv", "-r", log]).success().lines().count(), 21);
}

#[test]
fn histograms_go_to_hdrhistogram_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let hist = testdata("fio_hist/A_clat_hist.1.log.zst");
    let hist = hist.to_str().unwrap();
    // Each row counts where it is written, since a row that is spread has no whole counts.
    for (source, by) in [(hist, "kind"), ("testdata/fio_log/A_clat.1.log.zst", "kind")] {
        let (hlog, again) = (path("run.hlog"), path("again.hlog"));
        latscope(&["convert", "-r", source, "-w", &hlog, "-i", "1s", "--by", by]).success();
        latscope(&["convert", "-r", &hlog, "-w", &again, "-i", "1s", "--by", "job"]).success();
        let percentiles = |file: &str, by: &str| {
            let csv = latscope(&["percentiles", "-r", file, "-i", "1s", "--by", by, "--csv", "--no-weight"]).success();
            let mut rows: Vec<String> = csv.lines().skip(1).map(str::to_string).collect();
            rows.sort();
            rows
        };
        let (hlog, again) = (percentiles(&hlog, "job"), percentiles(&again, "job"));
        assert!(hlog.len() >= 4 && hlog.iter().any(|row| row.contains("read")), "{hlog:?}");
        assert_eq!(hlog, again, "{source}");
    }
    assert!(latscope(&["convert", "-r", hist, "-w", &path("x.csv"), "-i", "1s"]).failure(2).contains("--series"));
}
