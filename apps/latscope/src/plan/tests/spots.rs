//! Words about spots in a picture: `explain` and `report`.

use super::*;
use latscope_pipeline::Question;

#[test]
fn a_report_has_the_words_of_its_command() {
    let plan = planned("report -r a.lat -r it's.log -o x.html --budget 2MiB -i 10ms");
    let Plan::Report(reading, plan) = plan else { panic!("{plan:?}") };
    assert!(reading.over_time);
    assert_eq!((plan.budget, plan.interval_ns), (Some(2 << 20), Some(10_000_000)));
    assert_eq!(plan.source, r"-r a.lat -r 'it'\''s.log'");
    assert!(planned_in("report -r a.lat --follow", &world()).is_err());
    assert!(planned_in("report -r a.lat --budget much", &world()).is_err());
}

#[test]
fn what_is_explained() {
    let file = || Reading { files: vec!["a.lat".into()], ..Reading::default() };
    let unusual = || Question { seed: 1, ..Question::default() };
    let asked = |question| Explain { question, shape: Shape::Text, output: None };
    let nothing = || asked(unusual());
    let slow = || Question { selection: parsed("lat > 1ms"), ..unusual() };
    let columns = Some(FieldSet::EMPTY.with(&[Field::Device, Field::InFlight]));
    for (line, reading, expected) in [
        ("explain -r a.lat", file(), nothing()),
        ("explain -r a.lat lat > 1ms", file(), asked(slow())),
        ("explain lat > 1ms a.lat", file(), asked(slow())),
        (
            "explain -r a.lat --filter \"kind = read\" lat > 1ms",
            Reading { filter: parsed("kind = read"), ..file() },
            asked(slow()),
        ),
        (
            "explain -r a.lat -s block --seed 5 --json",
            Reading {
                filter: parsed("disk.dev exists and not result exists and not state exists"),
                typed_filter: Some(String::new()),
                ..file()
            },
            Explain { shape: Shape::Json, ..asked(Question { seed: 5, ..unusual() }) },
        ),
        (
            "explain -r a.lat --columns device,in_flight --against \"kind = read\" lat > 1ms",
            file(),
            asked(Question { against: parsed("kind = read"), columns, ..slow() }),
        ),
        (
            "explain -r a.lat b.lat -o e.json",
            Reading { files: vec!["a.lat".into(), "b.lat".into()], ..Reading::default() },
            Explain { shape: Shape::Json, output: Some("e.json".into()), ..nothing() },
        ),
    ] {
        let plan = planned(line);
        assert_eq!(*reading_of(&plan), reading, "{line}");
        let Plan::Explain(_, plan) = plan else { panic!("{line}: {plan:?}") };
        assert_eq!(plan, expected, "{line}");
    }
    for line in [
        "explain -r a.lat --against \"kind = read\"",
        "explain -r a.lat --follow lat > 1ms",
        "explain -r a.lat --columns nosuch lat > 1ms",
        "explain -r a.lat -o e.svg lat > 1ms",
    ] {
        assert!(matches!(planned_in(line, &world()), Err(Failure::Usage(_))), "{line}");
    }
}
