use super::*;
use latscope_event::{Batch, Clock, Field, FieldSet};
use latscope_series::{CubeBuilder, CubeKey, CubeLimits};

const HOSTILE: &str = "</script><img src=x onerror=alert(1)>";

fn cube(events: i64) -> Cube {
    let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::Device, Field::Cpu, Field::Size]));
    for at in 0..events {
        batch.push_i64(Field::Time, at * 700_000);
        batch.push_u64(Field::Latency, 90_000 + (at * at * 977 % 1_000_003) as u64);
        batch.push_text(Field::Device, Some(if at % 3 == 0 { HOSTILE.as_bytes() } else { b"sda" }));
        batch.push_i64(Field::Cpu, at * at % 17);
        batch.push_u64(Field::Size, 4096);
        batch.end_row();
    }
    let keys = [Field::Device, Field::Size, Field::Cpu].map(CubeKey::Field);
    let mut builder = CubeBuilder::new(&keys, CubeLimits::default());
    builder.start_trace(0);
    builder.add(&Context::new("test", Clock::wall()), &batch, None);
    builder.finish()
}

#[test]
fn nothing_of_a_trace_is_markup() {
    let options = ReportOptions { title: format!("{HOSTILE}{{{{data}}}}\u{202e}\u{1b}"), ..ReportOptions::default() };
    let page = report(&cube(50), &[Context::new(HOSTILE, Clock::wall())], &options);
    assert!(!page.contains("<img") && page.contains("&lt;/script&gt;&lt;img"));
    assert!(!page.contains('\u{202e}') && !page.contains('\u{1b}'));
    assert_eq!(page.matches("<script").count(), REPORT_TEMPLATE.matches("<script").count());
}

#[test]
fn the_template_has_a_place_for_all() {
    for place in [TITLE, DATA] {
        assert_eq!(REPORT_TEMPLATE.matches(place).count(), 1, "{place}");
    }
    assert!(REPORT_TEMPLATE.contains("default-src 'none'"));
    assert!(*REPORT_TEMPLATE == include_str!("template.html"), "what is inflated differs from the file");
    // The name of a namespace is not fetched.
    let template = REPORT_TEMPLATE.replace("http://www.w3.org/2000/svg", "");
    assert!(!template.contains("http://") && !template.contains("https://"));
}

#[test]
fn the_head_says_how_long_the_streams_are() {
    let packed = encode::packed(&cube(2000), &[Context::new("test", Clock::wall())], &ReportOptions::default());
    let mut bytes = Vec::new();
    DeflateDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let head: serde_json::Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
    let streams = head["streams"].as_object().unwrap();
    let all: u64 = streams.values().map(|length| length.as_u64().unwrap()).sum();
    assert_eq!(4 + length + all as usize, bytes.len());
    assert_eq!(head["attributes"][0]["values"], serde_json::json!([HOSTILE, "sda"]));
    assert_eq!(head["attributes"][1]["values"], serde_json::json!([[4096.0, 8191.0]]));
}

#[test]
fn a_budget_takes_columns_then_attributes() {
    let (cube, options) = (cube(6000), ReportOptions::default());
    let size = |cube: &Cube| encode::packed(cube, &[], &options).len() as u64 * 4 / 3;
    let all = size(&cube);
    assert_eq!(fit_report(cube.clone(), &[], &options, all + 4), cube);
    for part in [2, 3, 5] {
        let fitted = fit_report(cube.clone(), &[], &options, all / part);
        assert!(size(&fitted) <= all / part + 4 || fitted.attributes.is_empty(), "{} of {all}", size(&fitted));
        assert_eq!(fitted.events(), 6000);
        assert!(fitted.columns.len() < cube.columns.len());
    }
    let tiny = fit_report(cube.clone(), &[], &options, 0);
    assert_eq!((tiny.attributes.len(), tiny.events()), (0, 6000));
}
