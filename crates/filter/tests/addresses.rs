//! Filters on the ends of sockets, compared with a table that says what each text means.

use latscope_event::{Batch, Field, Mask, TraceStart};
use latscope_filter::{Filter, Necessary};
use std::net::IpAddr;

type End = (&'static str, u16);
type Event = (Option<&'static str>, Option<&'static str>, Option<End>, Option<End>);

/// Type, text, client, server: written down, not parsed.
const EVENTS: &[Event] = &[
    (Some("ipv4"), Some("10.1.2.3:40000->10.9.9.9:80"), Some(("10.1.2.3", 40000)), Some(("10.9.9.9", 80))),
    (Some("ipv4"), Some("10.1.2.3:80->192.168.0.1:8080"), Some(("10.1.2.3", 80)), Some(("192.168.0.1", 8080))),
    (Some("ipv4"), Some("127.0.0.1:8080"), None, Some(("127.0.0.1", 8080))),
    (Some("ipv4"), Some("0.0.0.0:0"), None, Some(("0.0.0.0", 0))),
    (Some("ipv6"), Some("[fe80::1]:5000->[::1]:443"), Some(("fe80::1", 5000)), Some(("::1", 443))),
    (Some("ipv6"), Some("[::ffff:10.1.2.3]:80"), None, Some(("10.1.2.3", 80))),
    (Some("ipv6"), Some("[fe80::2%3]:80->[fe80::3%3]:81"), Some(("fe80::2", 80)), Some(("fe80::3", 81))),
    (Some("ipv4"), Some("no address"), None, None),
    (Some("ipv4"), None, None, None),
    (Some("file"), Some("10.1.2.3:80"), None, None),
    (Some("unix"), Some("/run/10.1.2.3:80"), None, None),
    (None, Some("10.1.2.3:80"), None, None),
];

fn batch() -> Batch {
    let mut batch = Batch::new([Field::FdType, Field::Path].into_iter().collect());
    for (at, (fd_type, path, ..)) in EVENTS.iter().enumerate() {
        batch.push_i64(Field::Time, at as i64);
        batch.push_u64(Field::Latency, 1);
        batch.push_text(Field::FdType, fd_type.map(str::as_bytes));
        batch.push_text(Field::Path, path.map(str::as_bytes));
        batch.end_row();
    }
    batch
}

fn passing(filter: &str) -> Vec<usize> {
    let filter = Filter::parse(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
    assert_eq!(Filter::parse(&filter.to_string()).as_ref(), Ok(&filter), "{filter}");
    let (batch, mut mask) = (batch(), Mask::default());
    filter.bind(TraceStart::default()).expect("it binds").eval(&batch, &mut mask);
    mask.ones().collect()
}

/// The ends that `fd.cip`, `fd.port` ... look at.
fn ends(name: &str, event: usize) -> Vec<End> {
    let (.., client, server) = EVENTS[event];
    match &name[3..4] {
        "c" => client.into_iter().collect(),
        "s" => server.into_iter().collect(),
        _ => client.into_iter().chain(server).collect(),
    }
}

/// The events that a definition lets through: `any` of the ends, or for `!=` an end and none of them.
fn defined(name: &str, negated: bool, holds: impl Fn(End) -> bool) -> Vec<usize> {
    let passes = |&event: &usize| {
        let ends = ends(name, event);
        !ends.is_empty() && ends.into_iter().any(&holds) != negated
    };
    (0..EVENTS.len()).filter(passes).collect()
}

#[test]
fn ports_are_numbers() {
    for name in ["fd.cport", "fd.sport", "fd.port"] {
        for port in [0u16, 80, 81, 443, 8080, 40000, 65535] {
            let is = |end: End| end.1 == port;
            assert_eq!(passing(&format!("{name} = {port}")), defined(name, false, is), "{name} = {port}");
            assert_eq!(passing(&format!("{name} != {port}")), defined(name, true, is), "{name} != {port}");
            assert_eq!(passing(&format!("{name} > {port}")), defined(name, false, |end| end.1 > port));
            assert_eq!(passing(&format!("{name} <= {port}")), defined(name, false, |end| end.1 <= port));
            let listed = defined(name, false, |end| end.1 == port || end.1 == 5000);
            assert_eq!(passing(&format!("{name} in (5000, {port})")), listed);
        }
        assert_eq!(passing(&format!("{name} in [79, 500]")), defined(name, false, |end| (79..=500).contains(&end.1)));
        assert_eq!(passing(&format!("{name} exists")), defined(name, false, |_| true));
    }
    assert_eq!(passing("fd.port = 80"), [0, 1, 5, 6], "8080 is another port");
}

#[test]
fn addresses_and_networks() {
    // By the bits of an address, one by one.
    let bits = |ip: &str| -> Vec<bool> {
        let bytes = match ip.parse::<IpAddr>().unwrap() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect()
    };
    for end in ["c", "s", ""] {
        for ip in ["10.1.2.3", "192.168.0.1", "::1", "fe80::1", "0.0.0.0", "10.1.2.4"] {
            let (name, is) = (format!("fd.{end}ip"), |found: End| found.0 == ip);
            assert_eq!(passing(&format!("{name} = {ip}")), defined(&name, false, is), "{name} = {ip}");
            assert_eq!(passing(&format!("{name} != '{ip}'")), defined(&name, true, is), "{name} != {ip}");
            let name = format!("fd.{end}net");
            for length in [0, 1, 7, 8, 9, 15, 16, 31, 32, 33, 64, 127, 128] {
                let wanted = bits(ip);
                if length > wanted.len() {
                    assert!(Filter::parse(&format!("{name} = {ip}/{length}")).is_err());
                    continue;
                }
                let within =
                    |found: End| bits(found.0).len() == wanted.len() && bits(found.0)[..length] == wanted[..length];
                assert_eq!(passing(&format!("{name} = {ip}/{length}")), defined(&name, false, within), "{ip}/{length}");
                assert_eq!(passing(&format!("{name} != {ip}/{length}")), defined(&name, true, within), "{ip}/{length}");
            }
        }
    }
    assert_eq!(passing("fd.ip = ::ffff:10.1.2.3"), passing("fd.ip = 10.1.2.3"));
    assert_eq!(passing("fd.net = ::ffff:10.1.0.0/112"), passing("fd.net in (10.1.0.0/16)"));
    assert_eq!(passing("not fd.ip exists"), [7, 8, 9, 10, 11]);
}

#[test]
fn what_is_no_address_is_refused() {
    for (filter, sentence) in [
        ("fd.ip = localhost", "\"localhost\" is not an IP address; fd.ip is an IP address."),
        ("fd.sip = 10.0.0.0/8", "\"10.0.0.0/8\" is not an IP address; fd.sip is an IP address."),
        ("fd.net = 10/8", "\"10/8\" is not a network such as 10.0.0.0/8; fd.net is a network of IP addresses."),
        ("fd.port = http", "\"http\" is not a whole number; fd.port is a number."),
        (
            "fd.ip > 10.0.0.1",
            "This operator does not apply to fd.ip, which is an IP address; use one of = != in exists.",
        ),
        (
            "fd.ip contains 10.",
            "This operator does not apply to fd.ip, which is an IP address; use one of = != in exists.",
        ),
        ("fd.cip = val(fd.sip)", "fd.cip cannot be compared with another field."),
        (
            "fd.ip in [10.0.0.1, 10.0.0.2]",
            "Expected a list in parentheses, as in (a, b); named lists are not supported.",
        ),
        ("fd.lip = localhost", "\"localhost\" is not an IP address; local_ip is an IP address."),
        ("fd.rnet = 10/8", "\"10/8\" is not a network such as 10.0.0.0/8; fd.rnet is a network of IP addresses."),
    ] {
        let error = Filter::parse(filter).expect_err(filter).to_string();
        assert!(error.starts_with(sentence), "{filter}: {error}");
    }
}

/// The own and the other end have columns of their own.
#[test]
fn local_and_remote_ends_are_columns() {
    let mut batch = Batch::new([Field::LocalIp, Field::RemotePort].into_iter().collect());
    for (ip, port) in [(Some("10.1.2.3"), 80), (Some("::1"), 443), (None, 80), (Some("10.1.9.9"), 8080)] {
        batch.push_i64(Field::Time, 0);
        batch.push_u64(Field::Latency, 1);
        batch.push_text(Field::LocalIp, ip.map(str::as_bytes));
        batch.push_i64(Field::RemotePort, port);
        batch.end_row();
    }
    for (filter, rows) in [
        ("fd.lip = 10.1.2.3", &[0][..]),
        ("fd.lip = ::ffff:10.1.2.3", &[0]),
        ("fd.lip != 10.1.2.3", &[1, 3]),
        ("fd.lip in (::1, 10.1.9.9)", &[1, 3]),
        ("fd.lnet = 10.1.0.0/16", &[0, 3]),
        ("fd.lnet != 10.1.0.0/16", &[1]),
        ("fd.lip exists and fd.rport = 80", &[0]),
        ("fd.rip exists", &[]),
    ] {
        let mut mask = Mask::default();
        Filter::parse(filter).unwrap().bind(TraceStart::default()).unwrap().eval(&batch, &mut mask);
        assert_eq!(mask.ones().collect::<Vec<_>>(), rows, "{filter}");
    }
    assert_eq!(latscope_filter::column("fd.lip"), Some(Field::LocalIp));
    assert_eq!(latscope_filter::column("disk.rotational"), Some(Field::Rotational));
}

/// A capture may test the type of the descriptor before it looks at addresses.
#[test]
fn sockets_are_all_that_a_capture_needs_to_see() {
    let necessary = Filter::parse("fd.port != 80 and lat > 1ms").unwrap().necessary();
    let types = ["ipv4", "ipv6"].map(String::from).into();
    let expected = Necessary { min_latency_ns: 1_000_001, any_of: [(Field::FdType, types)].into() };
    assert_eq!(necessary, expected);
}
