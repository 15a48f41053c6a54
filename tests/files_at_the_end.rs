//! Files at the end and standard input are read as those of `-r` are: options that are about files take them too.

use crate::program::{LATSCOPE, command, end, latscope, latscope_with, testdata};

#[test]
fn options_about_files_take_files_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let trace = file("trace.txt", b"0 1\n0.5 2\n1.5 3\n");
    let moved = file("offsets", b"somehost 5\n");
    for options in [
        &["percentiles", "--exact"][..],
        &["percentiles", "-i", "auto", "--accuracy", "10%"],
        &["percentiles", "--exact", "-i", "1s", "--fail-if", "p99 > 1h"],
        &["percentiles", "--offsets", &moved],
        &["summary", "--offsets", &moved],
        &["histogram", "--offsets", &moved],
    ] {
        let (view, options) = options.split_first().unwrap();
        let typed = [&[*view, "-r", &trace], options].concat();
        let expected = latscope(&typed).success();
        assert_eq!(latscope(&[&[*view], options, &[&trace]].concat()).success(), expected, "{options:?} at the end");
        if options[0] != "--exact" {
            let piped = latscope_with(&[&[*view], options].concat(), &std::fs::read(&trace).unwrap());
            assert_eq!(piped.status, Some(0), "{options:?} from a pipe: {}", piped.err);
        }
    }
}

#[test]
fn exact_percentiles_of_a_pipe_have_a_sentence_of_their_own() {
    for options in [&["-i", "1s"][..], &[]] {
        let printed = latscope_with(&[&["percentiles", "--exact"], options].concat(), b"0 1\n1 2\n").failure(2);
        assert!(printed.contains("twice") && printed.contains("pipe") && !printed.contains("--read"), "{printed}");
    }
}

#[test]
fn options_of_live_captures_take_no_files_at_the_end() {
    let trace = testdata("perf_script/option_variants.txt");
    for options in [&["--for", "1s"][..], &["--mode", "event"], &["--calls", "read", "-s", "io"]] {
        let printed = latscope(&[&["summary"], options, &[trace.to_str().unwrap()]].concat()).failure(2);
        assert!(printed.starts_with(&format!("latscope: {} is for live captures", options[0])), "{printed}");
    }
}

#[test]
fn a_length_of_time_that_is_too_long_names_the_longest() {
    for text in ["100000000h", "36500d", "1e30s"] {
        let printed = latscope_with(&["histogram", "-r", "-", "-i", text], b"0 1\n").failure(2);
        assert_eq!(printed, format!("latscope: -i {text} is too long; the longest is 26687d.\n"));
    }
    latscope_with(&["histogram", "-r", "-", "-i", "26687d"], b"0 1\n").success();
}

#[test]
fn widths_beyond_a_screen_are_refused() {
    for width in ["0", "1", "19", "10001"] {
        let printed = latscope_with(&["spectrogram", "-r", "-", "--width", width], b"0 1\n").failure(2);
        assert!(printed.contains("--width") && printed.contains("20 to 10000"), "{printed}");
    }
    latscope_with(&["spectrogram", "-r", "-", "--width", "20"], b"0 1\n").success();
}

#[test]
fn compare_says_where_a_filter_goes() {
    let trace = testdata("perf_script/option_variants.txt");
    let printed = latscope(&["compare", trace.to_str().unwrap(), trace.to_str().unwrap(), "kind = read"]).failure(2);
    assert!(printed.contains("--filter 'kind = read'"), "{printed}");
    let printed = latscope(&["compare", trace.to_str().unwrap(), "no_such.lat"]).failure(3);
    assert!(printed.contains("No such file") && !printed.contains("--filter"), "{printed}");
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for words in ["--help", "percentiles --help", "--version"] {
        let full = format!("exec \"$0\" {words} > /dev/full");
        let printed = end(command("sh").args(["-c", &full, LATSCOPE]), b"").failure(3);
        assert!(printed.contains("cannot be written"), "{printed}");
    }
}

#[test]
fn a_file_of_a_folder_that_cannot_be_read_is_skipped_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).into_os_string().into_string().unwrap();
    let text = b"0 1\n0.5 2\n1.5 3\n";
    assert_eq!(latscope_with(&["convert", "-r", "-", "-w", &path("good.lat")], text).status, Some(0));
    let alone = latscope(&["summary", "--csv", "-r", &path("good.lat")]).success();
    std::fs::write(path("foreign.lat"), b"\x7fELF\0\0\0\0 no trace of ours \0\0\0\0").unwrap();
    let all = latscope(&["summary", "--csv", "-r", folder.path().to_str().unwrap()]);
    assert!(all.err.contains("foreign.lat") && all.err.contains("skipped"), "{}", all.err);
    assert_eq!(all.success(), alone);
    // Named, it has to be readable; so has one file of a folder at least.
    assert!(latscope(&["summary", "-r", &path("good.lat"), &path("foreign.lat")]).failure(3).contains("foreign.lat"));
    std::fs::remove_file(path("good.lat")).unwrap();
    assert!(latscope(&["summary", "-r", folder.path().to_str().unwrap()]).failure(3).contains("foreign.lat"));
}

#[test]
fn a_filter_that_lets_nothing_through_has_a_sentence() {
    let sentence = "latscope: No event matches the filter";
    for view in [&["summary"][..], &["heatmap"], &["histogram"], &["percentiles"], &["spectrogram"], &["events"]] {
        let printed = |filter, text: &[u8]| {
            let ended = latscope_with(&[view, &["-r", "-", filter]].concat(), text);
            assert_eq!(ended.status, Some(0), "{view:?}: {}", ended.err);
            ended.err.matches(sentence).count()
        };
        assert_eq!(printed("lat > 1h", b"0 1\n0.5 2\n"), 1, "{view:?}");
        assert_eq!(printed("lat > 1us", b"0 1\n0.5 2\n"), 0, "{view:?}");
    }
}

/// What was read ends before the recording did: what waited at its end is not known.
#[test]
fn a_cut_recording_decides_no_limit_that_what_waits_may_exceed() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let path = trace.to_str().unwrap();
    let source = testdata("perf_script/story_2s.txt.gz");
    latscope(&["convert", "-r", source.to_str().unwrap(), "-w", path]).success();
    let whole = std::fs::read(&trace).unwrap();
    std::fs::write(&trace, &whole[..whole.len() - 64]).unwrap();
    for limit in ["max > 1h", "oldest > 1h", "p99 > 1h or count < 1"] {
        let printed = latscope(&["percentiles", "-r", path, "--fail-if", limit]).failure(3);
        assert!(printed.contains("cannot be decided: The recording is cut off"), "{limit}: {printed}");
    }
    // What is known is enough, and what waits does not matter.
    latscope(&["percentiles", "-r", path, "--fail-if", "max > 1us"]).failure(1);
    latscope(&["percentiles", "-r", path, "--fail-if", "count < 1"]).success();
    // Nor does a comparison: after the cut nothing may have completed any more.
    let base = folder.path().join("base.txt");
    let base = base.to_str().unwrap();
    std::fs::write(
        base,
        (0..5000).map(|at| format!("{} 0.0000{:03}\n", f64::from(at) / 1e3, 300 + at * 7919 % 100)).collect::<String>(),
    )
    .unwrap();
    for (limit, status) in [("p99 > 1h", 3), ("mean > 1h", 3), ("p50 > 1us", 1)] {
        let ended = latscope(&["compare", base, path, "--fail-if", limit]);
        assert_eq!(ended.status, Some(status), "{limit}: {}", ended.err);
        let says = "the recording is cut off, and what waited then may have hung); record this run again.";
        assert_eq!(ended.err.contains(says), status == 3, "{}", ended.err);
    }
}

/// A wait from before the capture is a lower bound, also in the file: it decides what it exceeds, and nothing else.
#[test]
fn a_wait_from_before_a_recording_decides_no_limit_that_it_may_exceed() {
    use latscope_capture_file::LatWriter;
    use latscope_event::{Batch, Clock, Context, FieldSet, Unfinished, Wait};
    const SECOND: i64 = 1_000_000_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.lat");
    let batch = |rows: &[(i64, u64)]| {
        let mut batch = Batch::new(FieldSet::ALWAYS);
        for &(start_ns, latency_ns) in rows {
            batch.push_i64(latscope_event::Field::Time, start_ns);
            batch.push_u64(latscope_event::Field::Latency, latency_ns);
            batch.end_row();
        }
        batch
    };
    let write = |start_ns: i64, first_ns: i64| {
        let hung = batch(&[(start_ns, (5 * SECOND - start_ns) as u64)]);
        let mut context = Context::new("made up", Clock::unanchored("none"));
        context.begun_before_ns = vec![0];
        context.unfinished = vec![Unfinished::from_row("a read".into(), Wait::Counts, &hung, 0)];
        context.knows_unfinished = true;
        let out = std::fs::File::create(&path).unwrap();
        let mut writer = LatWriter::create(out, FieldSet::ALWAYS, &context).unwrap();
        writer.write(&batch(&[(first_ns, 2_000_000), (SECOND, 2_000_000), (4 * SECOND, 2_000_000)]), None).unwrap();
        writer.finish(&context).unwrap();
    };
    let judged = |limit: &str| latscope(&["percentiles", "-r", path.to_str().unwrap(), "-i", "1s", "--fail-if", limit]);
    write(0, 0);
    for limit in ["max > 6s", "oldest > 6s", "p99 > 6s or rate > 1000"] {
        let printed = judged(limit).failure(3);
        let why = "cannot be decided: 1 wait had begun before the capture, so of the longest only a lower bound is known (5s)";
        assert!(printed.contains(why), "{limit}: {printed}");
    }
    let exceeded = judged("max > 3s").failure(1);
    assert!(exceeded.contains("max > 3s in "), "{exceeded}");
    judged("count < 1 and max > 6s or rate > 1000").failure(3);
    judged("rate > 1000").success();
    let ran = latscope(&["percentiles", "-r", path.to_str().unwrap(), "-i", "1s"]);
    let said = ran.err.clone();
    let shown = ran.success();
    assert!(shown.contains(">=4s") && shown.lines().any(|line| line.trim_end().ends_with(">=5s")), "{shown}");
    let note = "1 wait had begun before the capture and counts from its start: at least 2ms";
    assert!(said.contains(note), "{said}");
    let total = latscope(&["summary", "-r", path.to_str().unwrap()]).success();
    assert!(total.lines().any(|line| line.trim_end().ends_with(">=5s")), "{total}");
    let csv = latscope(&["summary", "--csv", "-r", path.to_str().unwrap()]).success();
    assert!(csv.lines().nth(1).unwrap().contains(" oldest,"), "{csv}");
    // This one began while the capture saw it, but the first that completed had begun before.
    write(SECOND / 2, 0);
    judged("oldest > 6s").success();
    judged("max > 6s").failure(3);
    write(SECOND / 2, 10_000_000);
    judged("max > 6s or oldest > 6s").success();
}
