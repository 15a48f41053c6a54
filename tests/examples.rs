//! Every example that a help text shows is run as it stands.

use crate::program::{LATSCOPE, command, end, installed, latscope, testdata, unpacked};
use std::path::Path;

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
    write("out.lat_us", &unpacked("two_columns/out.lat_us.gz"));
    let (data, run) = (folder.join("perf.data"), folder.join("run.lat"));
    latscope(&["convert", "-r", data.to_str().expect("UTF-8"), "-w", run.to_str().expect("UTF-8")]).success();
}

#[test]
fn examples_of_every_help_work() {
    let folder = tempfile::tempdir().unwrap();
    furnish(folder.path());
    let mut texts = vec![latscope(&["--help"]).success()];
    texts.extend(verbs().iter().map(|verb| latscope(&[verb, "--help"]).success()));
    assert!(texts.len() >= 7, "no verb is without examples");
    let programs = Path::new(LATSCOPE).parent().unwrap().to_str().unwrap();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let mut run = 0;
    for example in texts.iter().flat_map(|text| examples(text)) {
        // Recording needs a machine that allows it; jq and perf are not ours.
        let needs = ["perf ", "jq "].into_iter().filter(|name| format!(" {example}").contains(&format!(" {name}")));
        if example.starts_with("perf record") || !needs.map(str::trim).all(installed) {
            eprintln!("left out: {example}");
            continue;
        }
        let mut shell = command("bash");
        // perf script reads a pipe before it looks for perf.data.
        shell
            .args(["-c", &format!("set -o pipefail; exec < /dev/null; {example}")])
            .current_dir(folder.path())
            .env("PATH", &path);
        let ended = end(&mut shell, b"");
        assert_eq!(ended.status, Some(0), "{example}\n{}", ended.err);
        run += 1;
    }
    assert!(run > 15, "{run} examples were run");
    for picture in ["latency.svg", "waiting.svg", "zoom.svg", "seeks.svg", "out.svg"] {
        let svg = std::fs::read_to_string(folder.path().join(picture)).expect(picture);
        assert!(svg.starts_with("<svg") || svg.starts_with("<?xml"), "{picture}");
    }
}
