use super::*;

fn parse(text: &str) -> Result<Ping, String> {
    let words: Vec<String> = text.split_whitespace().map(String::from).collect();
    Ping::parse(&words, true)
}

#[test]
fn every_way_to_write_an_option() {
    let wanted = Ping { count: Some(3), targets: vec!["dir".into()], ..Ping::default() };
    for text in ["-c 3 dir", "-c3 dir", "dir -count 3", "--count=3 dir", "-count=3 dir", "--cou 3 -- dir"] {
        assert_eq!(parse(text), Ok(wanted.clone()), "{text}");
    }
    let wanted = Ping { rapid: true, linear: true, batch: true, work_time_ns: Some(1_000_000_000), ..Ping::default() };
    assert_eq!(parse("-RLB -w 1"), Ok(wanted));
    assert_eq!(parse("-WWW").map(|ping| ping.write), Ok(3));
    assert_eq!(parse("-print-count 1 -quiet").map(|ping| (ping.print_count, ping.quiet)), Ok((Some(1), true)));
    assert_eq!(parse("-I%s").map(|ping| ping.time_format), Ok(Some("%s".into())));
    assert_eq!(parse("-time x").map(|ping| ping.targets), Ok(vec!["x".into()]), "a format is in the same word");
}

#[test]
fn mistakes_are_reported() {
    assert_eq!(parse("-i 10furlongs"), Err("invalid suffix: \"furlongs\"".into()));
    assert_eq!(parse("-c -3"), Err("integer overflow at parsing argument: -3".into()));
    assert!(parse("-Z").is_err() && parse("--rate 5").is_ok_and(|ping| ping.rate_limit == Some(5)));
    assert!(parse("-c").unwrap_err().contains("requires an argument"));
    assert!(parse("--work 1").unwrap_err().contains("ambiguous"));
    assert!(parse("--depth 5").is_err(), "ioping has no such option");
}

#[test]
fn natively_there_is_more() {
    let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
    let ping = Ping::parse(&words("--rate 1k -w t.lat -w 5 --sync dsync -Y a b"), false).unwrap();
    assert_eq!(ping.native.rate, Some(1000));
    assert_eq!(ping.native.write_trace, Some("t.lat".into()));
    assert_eq!((ping.work_time_ns, ping.open_sync), (Some(5_000_000_000), true));
    assert_eq!((ping.native.sync.as_deref(), ping.targets.len()), (Some("dsync"), 2));
    assert!(KNOWN.iter().all(|known| Ping::help(false).contains(known.name)));
}
