//! Words about spots in a picture: `explain` and `report`.

use super::*;

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
    let nothing =
        || Explain { selection: None, against: None, columns: None, seed: 1, shape: Shape::Text, output: None };
    let slow = || Explain { selection: parsed("lat > 1ms"), ..nothing() };
    let columns = Some(FieldSet::EMPTY.with(&[Field::Device, Field::InFlight]));
    for (line, reading, expected) in [
        ("explain -r a.lat", file(), nothing()),
        ("explain -r a.lat lat > 1ms", file(), slow()),
        ("explain lat > 1ms a.lat", file(), slow()),
        (
            "explain -r a.lat --filter \"kind = read\" lat > 1ms",
            Reading { filter: parsed("kind = read"), ..file() },
            slow(),
        ),
        (
            "explain -r a.lat -s block --seed 5 --json",
            Reading { filter: parsed("disk.dev exists and not result exists"), ..file() },
            Explain { seed: 5, shape: Shape::Json, ..nothing() },
        ),
        (
            "explain -r a.lat --columns device,in_flight --against \"kind = read\" lat > 1ms",
            file(),
            Explain { against: parsed("kind = read"), columns, ..slow() },
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
