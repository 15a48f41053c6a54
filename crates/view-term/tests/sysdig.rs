//! Against recordings of sysdig 0.29.3 drawing the same events.
#![allow(clippy::unwrap_used)]

use flate2::read::GzDecoder;
use latscope_event::{Clock, Context};
use latscope_view_term::{
    Cell, Color, SpectrogramOptions, SysdigSpectrogram, TimeLabels, sysdig_column, sysdig_spectrogram, sysdig_width,
};
use std::io::Read;

fn read(name: &str) -> String {
    let path = format!("{}/../../testdata/spectrogram/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Cells of each row that is not empty. The chisel writes every cell as two colour codes and a character.
fn recorded(name: &str) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for line in read(name).split('\n').filter(|line| line.contains("\x1b[38;5;")) {
        let cells = line.split("\x1b[38;5;").skip(1).map(|part| {
            let (foreground, rest) = part.split_once("m\x1b[48;5;").unwrap();
            let (background, rest) = rest.split_once('m').unwrap();
            let symbol = rest.chars().next().unwrap();
            match (foreground.parse().unwrap(), background.parse().unwrap()) {
                // What the chisel draws as black on black is the terminal's own background here.
                (0, 0) => Cell::plain(symbol),
                (foreground, background) => {
                    Cell { symbol, foreground: Color::Indexed(foreground), background: Color::Indexed(background) }
                }
            }
        });
        let cells: Vec<_> = cells.collect();
        if cells.iter().any(|cell| *cell != Cell::BLANK) {
            rows.push(cells);
        }
    }
    rows
}

fn counted(name: &str, width: usize, interval_ms: u64) -> SysdigSpectrogram {
    let mut spectrogram = SysdigSpectrogram::new(width, interval_ms * 1_000_000);
    for line in read(name).lines() {
        let (end, latency) = line.split_once('\t').unwrap();
        spectrogram.add(end.parse().unwrap(), latency.parse().unwrap());
    }
    spectrogram
}

fn compare(events: &str, recording: &str, width: usize, interval_ms: u64) -> usize {
    let theirs = recorded(recording);
    let ours = counted(events, width, interval_ms);
    let intervals: Vec<i64> = ours.rows().map(|(interval, _)| interval).collect();
    assert_eq!(theirs.len(), intervals.len(), "rows with events");
    for (row, interval) in theirs.iter().zip(intervals) {
        assert_eq!(&ours.cells(interval)[..width], &row[..], "interval {interval}");
    }
    theirs.len() * width
}

#[test]
fn cells_are_those_of_the_chisel() {
    assert_eq!(compare("seed1-moderate.events.tsv.gz", "seed1-moderate.spectrogram.100.ansi.gz", 100, 500), 1200);
    assert_eq!(compare("objectstore.events.tsv.gz", "objectstore.spectrogram.80.ansi.gz", 80, 500), 240);
    assert_eq!(compare("objectstore.events.tsv.gz", "objectstore.spectrogram.120.ansi.gz", 120, 500), 360);
    assert_eq!(compare("worker-fileio.events.tsv.gz", "worker-fileio.spectrogram.80.ansi.gz", 80, 100), 400);
}

#[test]
fn what_the_chisel_hides_is_shown() {
    assert_eq!(
        (sysdig_column(0, 80), sysdig_column(1, 80), sysdig_column(99_999_999_999, 80)),
        (None, Some(0), Some(79))
    );
    assert_eq!((sysdig_column(100_000_000_000, 80), sysdig_column(u64::MAX, 80)), (Some(80), Some(80)));
    let options = SpectrogramOptions { columns: 100, ..Default::default() };
    let mut spectrogram = SysdigSpectrogram::new(sysdig_width(&options), 500_000_000);
    spectrogram.add(1_000_000_000, 200_000_000_000);
    spectrogram.add(1_000_000_000, 0);
    spectrogram.add(3_000_000_000, 1_000);
    let context = Context::new("test", Clock::unanchored("boot"));
    let lines: Vec<_> = sysdig_spectrogram(&spectrogram, &context, "", &options).collect();
    let text: Vec<_> = lines.iter().map(|line| line.text()).collect();
    assert!(lines.iter().all(|line| line.width() <= 100));
    assert!(text.iter().any(|line| line.contains("> 100s: 1 event")), "{text:#?}");
    assert!(text.iter().any(|line| line.contains("1 event of 0 ns")), "{text:#?}");
}

#[test]
fn without_labels_the_map_is_as_wide_as_the_terminal() {
    let options = SpectrogramOptions { columns: 80, time: TimeLabels::None, ..Default::default() };
    assert_eq!(sysdig_width(&options), 80);
}
