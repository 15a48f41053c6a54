//! What the views print of one trace, word by word. `LATSCOPE_BLESS=1` writes the present output as the expected one;
//! look at the difference before you commit it.

use crate::program::{latscope, testdata};
use std::collections::BTreeMap;
use std::sync::Mutex;

const STORY: &str = "testdata/perf_script/story_2s.txt.gz";

#[track_caller]
fn holds(name: &str, arguments: &[&str]) {
    same(name, latscope(arguments).success());
}

/// What is printed of everything: behind a line `==> name` each.
const FILE: &str = "cli.txt";
const NAME: &str = "==> ";

#[track_caller]
fn same(name: &str, printed: String) {
    if std::env::var_os("LATSCOPE_BLESS").is_some() {
        bless(name, &printed);
    }
    let expected = sections().remove(name).unwrap_or_default();
    let difference = printed.lines().zip(expected.lines()).find(|(printed, expected)| printed != expected);
    assert_eq!(difference, None, "{name}: printed and expected");
    assert!(printed == expected, "{name}: one is longer than the other");
}

fn sections() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(testdata(FILE)).unwrap_or_default();
    let mut sections: BTreeMap<String, String> = BTreeMap::new();
    let mut section = None;
    for line in text.split_inclusive('\n') {
        match line.strip_prefix(NAME) {
            Some(name) => section = Some(sections.entry(name.trim_end().into()).or_default()),
            None => section.as_mut().expect("the first line is a name").push_str(line),
        }
    }
    sections
}

fn bless(name: &str, printed: &str) {
    static WRITING: Mutex<()> = Mutex::new(());
    let _alone = WRITING.lock();
    assert!(printed.ends_with('\n') && !printed.lines().any(|line| line.starts_with(NAME)), "{name}");
    let mut sections = sections();
    sections.insert(name.into(), printed.into());
    let text: String = sections.into_iter().map(|(name, text)| format!("{NAME}{name}\n{text}")).collect();
    std::fs::write(testdata(FILE), text).expect("testdata can be written");
}

#[test]
fn summary() {
    holds("summary.txt", &["summary", "-r", STORY]);
    holds("summary_by.txt", &["summary", "-r", STORY, "--by", "device,kind", "--sort", "p99", "size = 4k"]);
    holds("summary_over.txt", &["summary", "-r", STORY, "--over", "102ms"]);
    holds("summary.json", &["summary", "-r", STORY, "--json"]);
    holds("summary.csv", &["summary", "-r", STORY, "--csv"]);
}

#[test]
fn histogram() {
    holds("histogram.txt", &["histogram", "-r", STORY]);
    holds("histogram_by.txt", &["histogram", "-r", STORY, "--by", "device", "--per-octave", "2", "dev = 7:0"]);
    holds("histogram_size.txt", &["histogram", "-r", STORY, "-y", "size"]);
}

#[test]
fn spectrogram() {
    holds("spectrogram.txt", &["spectrogram", "-r", STORY, "--color", "never"]);
    holds(
        "spectrogram_across.txt",
        &["spectrogram", "-r", STORY, "--color", "256", "--orient", "across", "--width", "80"],
    );
    holds("spectrogram_sysdig.txt", &["spectrogram", "-r", STORY, "--color", "256", "--palette", "sysdig"]);
    holds("latency_maps.txt", &["spectrogram", "-r", STORY, "--palette", "pylatencymap", "-i", "100ms"]);
}

#[test]
fn events() {
    holds("events_top.txt", &["events", "-r", STORY, "--top", "5"]);
    holds("events.txt", &["events", "-r", STORY, "dev = 7:0 and lat > 103ms"]);
    let columns = "time,latency,device,kind,size,offset,comm";
    holds("events.csv", &["events", "-r", STORY, "--csv", "--columns", columns, "--sort", "latency", "lat > 103ms"]);
}

/// What is written on a picture, a line for each text, without tooltips: those are one for each cell.
fn texts(svg: &str) -> String {
    let mut texts = String::new();
    for part in svg.split("<text").skip(1) {
        let (text, _) = part.split_once("</text>").expect("a text has an end");
        let (_, mut rest) = text.split_once('>').expect("a tag has an end");
        while let Some((before, tag)) = rest.split_once('<') {
            texts.push_str(before);
            rest = tag.split_once('>').map_or("", |(_, after)| after);
        }
        texts.push_str(rest);
        texts.push('\n');
    }
    texts
}

#[test]
fn heatmap() {
    same("heatmap.txt", texts(&latscope(&["heatmap", "-r", STORY]).success()));
    let waiting = ["heatmap", "-r", STORY, "--weight", "time", "--by", "device", "--max", "50ms"];
    same("heatmap_waiting.txt", texts(&latscope(&waiting).success()));
}
