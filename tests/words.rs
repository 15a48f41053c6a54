//! What a user typed or reads: endings of files, names of fields, rates and times of every size.

use crate::program::{latscope, latscope_with, testdata};

/// A file that is called like a picture is one, or is refused.
#[test]
fn the_ending_of_the_output_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let trace = testdata("perf_script/story_2s.txt.gz");
    let trace = trace.to_str().unwrap();
    for (verb, name, why) in [
        ("heatmap", "x.png", "pictures are SVG"),
        ("percentiles", "x.PDF", "pictures are SVG"),
        ("summary", "x.png", "this view is text"),
        ("histogram", "x.svg", "this view is text"),
        ("events", "x.jpg", "this view is text"),
        ("spectrogram", "x.svg", "this view is text"),
    ] {
        let printed = latscope(&[verb, "-r", trace, "-o", &path(name)]).failure(2);
        assert!(printed.contains(why), "{verb} {name}: {printed}");
        assert!(!std::path::Path::new(&path(name)).exists());
    }
    for verb in ["summary", "percentiles", "events"] {
        let printed = |option| latscope(&[verb, "-r", trace, option]).success();
        for (name, option) in [("x.csv", "--csv"), ("x.json", "--json")] {
            latscope(&[verb, "-r", trace, "-o", &path(name)]).success();
            assert!(std::fs::read_to_string(path(name)).unwrap() == printed(option), "{verb} {name}");
        }
    }
}

#[test]
fn fields_that_other_programs_call_otherwise_are_suggested() {
    let trace = testdata("fio_log/u_clat.1.log");
    let by = |name| latscope(&["percentiles", "--csv", "-r", trace.to_str().unwrap(), "--by", name]).success();
    assert!(by("direction") == by("kind") && by("rw") == by("kind") && by("client") == by("host"));
    for (name, meant) in [("jobname", "job"), ("disk", "device"), ("filename", "path"), ("operation", "kind")] {
        let printed = latscope(&["percentiles", "-r", trace.to_str().unwrap(), "--by", name]).failure(2);
        assert!(printed.contains(&format!("unknown field {name}; did you mean {meant}?")), "{printed}");
    }
}

/// A year of weekly events, and what moved no bytes.
#[test]
fn rare_events_have_a_rate_and_long_axes_are_in_days() {
    let year: String = (0..52).map(|week| format!("{} 0.001\n", week * 7 * 86_400)).collect();
    let summary = latscope_with(&["summary", "-r", "-"], year.as_bytes()).success();
    assert!(summary.contains("0.15/d"), "52 events in 357 days: {summary}");
    assert!(!summary.contains("0/s") && !summary.contains("0B"), "{summary}");
    let picture = latscope_with(&["heatmap", "-r", "-", "-o", "-"], year.as_bytes()).success();
    assert!(picture.contains(">50d<") || picture.contains(">100d<"), "{}", &picture[..3000]);
    assert!(!picture.contains("00:00<") && !picture.contains(" 0/s"), "an axis in days");
    let small = testdata("smallfile");
    let small = small.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let small = small.into_iter().find(|path| path.to_string_lossy().contains("rsptimes_")).unwrap();
    let summary = latscope(&["summary", "-r", small.to_str().unwrap()]).success();
    assert!(!summary.contains("0B"), "{summary}");
}
