//! `--precision`: how many buckets an octave has, from events to stored histograms.

use crate::program::{latscope, unpacked};

#[test]
fn precision_is_a_power_of_two() {
    for wrong in ["0", "3", "128", "x"] {
        let printed = latscope(&["histogram", "-r", "-", "--precision", wrong]).failure(2);
        assert!(printed.contains("--precision"), "{printed}");
    }
    let printed = latscope(&["percentiles", "-r", "t.lat", "--exact", "--precision", "8"]).failure(2);
    assert!(printed.contains("leave out --precision"), "{printed}");
    let printed = latscope(&["convert", "-r", "t.lat", "-w", "t.csv", "--precision", "8"]).failure(2);
    assert!(printed.contains("need histograms"), "{printed}");
}

/// Stored at one precision and read at another, numbers are those of the coarser of the two.
#[test]
fn stored_histograms_have_the_precision_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let trace = path("t.txt");
    std::fs::write(&trace, unpacked("perf_script/story_2s.txt.gz")).unwrap();
    let read = |file: &str, precision: &str| {
        let arguments = ["percentiles", "-r", file, "-i", "500ms", "--by", "kind", "--count-by", "completion", "--csv"];
        let arguments =
            [&arguments[..], &["--completed-only", "--p", "10,50,90,99", "--precision", precision]].concat();
        latscope(&arguments).success()
    };
    let stored = |precision: &str| {
        let file = path(&format!("{precision}.parquet"));
        let arguments = ["convert", "-r", &trace, "-w", &file, "--series", "-i", "500ms", "--by", "kind"];
        latscope(&[&arguments[..], &["--precision", precision]].concat()).success();
        file
    };
    let (fine, coarse) = (stored("64"), stored("2"));
    let size = |file: &str| std::fs::metadata(file).unwrap().len();
    assert!(size(&coarse) < size(&fine), "{} {}", size(&coarse), size(&fine));
    assert_eq!(read(&fine, "64"), read(&trace, "64"));
    assert_ne!(read(&trace, "64"), read(&trace, "2"));
    for precision in ["1", "2"] {
        assert_eq!(read(&fine, precision), read(&trace, precision));
        assert_eq!(read(&coarse, precision), read(&trace, precision));
    }
    assert_eq!(read(&coarse, "64"), read(&trace, "2"), "what is stored is as fine as it gets");
}

/// An HdrHistogram log has bins of its own, finer than ours: a count written from a coarse histogram is read into the same bucket.
#[test]
fn hlogs_have_the_precision_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let trace = path("t.txt");
    std::fs::write(&trace, unpacked("perf_script/story_2s.txt.gz")).unwrap();
    let buckets = |file: &str, precision: &str| {
        let arguments = ["histogram", "-r", file, "--completed-only", "--per-octave", "2", "--precision", precision];
        let text = latscope(&arguments).success();
        text.lines().filter(|line| line.contains(" -> ")).map(str::to_string).collect::<Vec<_>>()
    };
    for precision in ["2", "4", "64"] {
        let log = path(&format!("{precision}.hlog"));
        let convert = ["convert", "-r", &trace, "-w", &log, "-i", "500ms", "--precision", precision];
        latscope(&convert).success();
        for read in ["2", "4"] {
            // What is stored is as fine as it gets.
            let coarser = if precision == "2" { "2" } else { read };
            assert_eq!(buckets(&log, read), buckets(&trace, coarser), "written at {precision}, read at {read}");
        }
        assert!(buckets(&log, "2").len() > 10);
    }
}
