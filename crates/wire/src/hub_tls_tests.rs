//! Who is let in, by certificates that the openssl program makes.

use super::*;
use crate::Progress;
use std::path::PathBuf;
use std::process::Command;

/// A folder with an authority and what it signed.
struct Authority(tempfile::TempDir);

impl Authority {
    /// `None`, and the reason printed, where there is no openssl.
    fn new() -> Option<Authority> {
        if Command::new("openssl").arg("version").output().is_err() {
            eprintln!("skipped: no openssl");
            return None;
        }
        let authority = Authority(tempfile::tempdir().unwrap());
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 9 -subj /CN=ca";
        authority.openssl(words);
        Some(authority)
    }

    fn openssl(&self, words: &str) {
        let done = Command::new("openssl").args(words.split(' ')).current_dir(self.0.path()).output().unwrap();
        assert!(done.status.success(), "{words}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A certificate for these names that is valid between two years, and its key.
    fn sign(&self, name: &str, alternative_names: &str, from: u32, to: u32) -> Credentials {
        let settings = format!(
            "[ca]\ndefault_ca=d\n[d]\ndatabase=index\nnew_certs_dir=.\nrand_serial=yes\ndefault_md=sha256\npolicy=p\n\
             unique_subject=no\nx509_extensions=e\n[p]\ncommonName=supplied\n[e]\nsubjectAltName={alternative_names}\n"
        );
        std::fs::write(self.path("settings"), settings).unwrap();
        std::fs::write(self.path("index"), "").unwrap();
        self.openssl(&format!(
            "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out request -subj /CN={name}"
        ));
        self.openssl(&format!(
            "ca -batch -notext -config settings -cert ca.pem -keyfile ca.key -in request -out {name}.pem \
             -startdate {from}0101000000Z -enddate {to}0101000000Z"
        ));
        Credentials {
            certificate: Some(self.path(&format!("{name}.pem"))),
            key: Some(self.path(&format!("{name}.key"))),
            authorities: Some(self.path("ca.pem")),
            tokens: None,
        }
    }

    fn tokens(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }
}

fn port() -> Address {
    Address::parse("127.0.0.1:0").unwrap()
}

/// Sends one interval as this host; why it cannot.
fn outcome(hub: &Running, credentials: &Credentials, host: &str) -> Result<(), String> {
    let hello = hello(host);
    let (queue, _) = Queue::open(None, KEPT, 1, &hello).unwrap();
    let mut reducer = Reducer::new(hello.run, WIDTH_NS, 200);
    queue.push(interval(&mut reducer, recent(), &values(1), &mut Counts::new()));
    let sender = Sender {
        queue: &queue,
        hub: 0,
        address: &hub.address,
        credentials,
        hello: &hello,
        is_synchronised: &|| Some(true),
        clock_moved_ns: &|| 0,
    };
    let failure = Mutex::new(None);
    scope(|scope| {
        scope.spawn(|| {
            sender.run(&|progress| {
                if let Progress::Lost(why) = progress {
                    failure.lock().unwrap().get_or_insert(why);
                }
            });
        });
        let until = Instant::now() + Duration::from_secs(30);
        while queue.backlog(0) > 0 && failure.lock().unwrap().is_none() && Instant::now() < until {
            sleep(Duration::from_millis(10));
        }
        queue.end(Instant::now());
    });
    let left = queue.backlog(0);
    match failure.into_inner().unwrap() {
        None if left == 0 => Ok(()),
        None => Err("nothing happened".into()),
        Some(why) => Err(why),
    }
}

#[test]
fn certificates_are_for_names_and_roles() {
    let Some(authority) = Authority::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let hub = Running::secured(folder.path(), port(), &authority.sign("hub", "IP:127.0.0.1", 2020, 2090));
    let n1 = authority.sign("n1", "DNS:n1", 2020, 2090);
    outcome(&hub, &n1, "n1").unwrap();
    outcome(&hub, &authority.sign("n2", "DNS:n2.example,URI:latscope://host/n2", 2020, 2090), "n2").unwrap();
    let reader = authority.sign("reader", "URI:latscope://read", 2020, 2090);
    let (_, hosts, _) = hub.read_as(&reader).unwrap();
    let names: Vec<&str> = hosts.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["n1", "n2"]);
    // Nobody sends for another, readers do not send, and agents do not read.
    assert!(outcome(&hub, &n1, "n3").unwrap_err().contains("is for n1, not for n3"));
    assert!(outcome(&hub, &reader, "n3").unwrap_err().contains("is of no agent"));
    assert!(hub.read_as(&n1).unwrap_err().contains("may not read"));
    assert_eq!(hub.read_as(&reader).unwrap().1.hosts.len(), 2);
}

#[test]
fn what_is_wrong_with_a_certificate_is_a_sentence() {
    let (Some(authority), Some(other)) = (Authority::new(), Authority::new()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let hub = Running::secured(folder.path(), port(), &authority.sign("hub", "IP:127.0.0.1", 2020, 2090));
    let by_clock = "expired or is not valid yet by its clock";
    let (expired, early) = (authority.sign("n1", "DNS:n1", 2020, 2021), authority.sign("n2", "DNS:n2", 2088, 2090));
    assert!(outcome(&hub, &expired, "n1").unwrap_err().contains(by_clock));
    assert!(outcome(&hub, &early, "n2").unwrap_err().contains(by_clock));
    let foreign = Credentials { authorities: Some(authority.path("ca.pem")), ..other.sign("n3", "DNS:n3", 2020, 2090) };
    assert!(outcome(&hub, &foreign, "n3").unwrap_err().contains("another authority signed"));
    let none = Credentials { authorities: Some(authority.path("ca.pem")), ..Credentials::default() };
    assert!(outcome(&hub, &none, "n4").unwrap_err().contains("it wants a certificate: give --cert and --key"));
    // What the hub reports names both times.
    let changes = hub.changes.lock().unwrap().clone();
    let refused: Vec<&String> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Refused(_, why) => Some(why),
            _ => None,
        })
        .collect();
    assert!(
        refused[0].contains("expired at 2021-01-01") && refused[0].contains("; the clock of this host has 20"),
        "{refused:?}"
    );
    // The certificate of the hub, seen by agents.
    let n1 = authority.sign("n1", "DNS:n1", 2020, 2090);
    for (names, from, to, expected) in [
        ("DNS:elsewhere", 2020, 2090, "is for"),
        ("IP:127.0.0.1", 2020, 2021, "expired at 2021-01-01"),
        ("IP:127.0.0.1", 2088, 2090, "is not valid before 2088-01-01"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let hub = Running::secured(folder.path(), port(), &authority.sign("bad", names, from, to));
        let refused = outcome(&hub, &n1, "n1").unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
    let unknown = Credentials { authorities: Some(other.path("ca.pem")), ..n1.clone() };
    assert!(outcome(&hub, &unknown, "n1").unwrap_err().contains("is not signed by the authority of --ca"));
    // Who does not encrypt gets nothing, and nothing came in at all.
    assert!(outcome(&hub, &Credentials::default(), "n5").is_err());
    let (_, hosts, _) = hub.read_as(&authority.sign("reader", "URI:latscope://read", 2020, 2090)).unwrap();
    assert_eq!(hosts.hosts.len(), 0);
}

#[test]
fn tokens_are_let_in_until_they_are_revoked() {
    let Some(authority) = Authority::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let fleet = "fleetfleetfleetfleet";
    let all = authority.tokens("tokens", &format!("{fleet}\nn1 tokenofn1tokenofn1\n@read tokenofreader1234\n"));
    let signed = authority.sign("hub", "IP:127.0.0.1", 2020, 2090);
    let hub = Running::secured(folder.path(), port(), &Credentials { authorities: None, tokens: Some(all), ..signed });
    let with = |name: &str, token: &str| Credentials {
        authorities: Some(authority.path("ca.pem")),
        tokens: Some(authority.tokens(name, token)),
        ..Credentials::default()
    };
    outcome(&hub, &with("fleet", fleet), "n7").unwrap();
    outcome(&hub, &with("own", "tokenofn1tokenofn1"), "n1").unwrap();
    assert!(outcome(&hub, &with("own", "tokenofn1tokenofn1"), "n2").unwrap_err().contains("is for n1, not for n2"));
    assert!(outcome(&hub, &with("wrong", "tokenofn1tokenofn2"), "n1").unwrap_err().contains("unknown or revoked"));
    let none = Credentials { authorities: Some(authority.path("ca.pem")), ..Credentials::default() };
    assert!(outcome(&hub, &none, "n1").unwrap_err().contains("a certificate or a token is needed"));
    assert_eq!(hub.read_as(&with("read", "tokenofreader1234")).unwrap().1.hosts.len(), 2);
    assert!(hub.read_as(&with("own", "tokenofn1tokenofn1")).unwrap_err().contains("may not read"));
    // An agent that is connected is sent away when its token goes.
    let hello = hello("n8");
    let (queue, _) = Queue::open(None, KEPT, 1, &hello).unwrap();
    let (lost, credentials) = (Mutex::new(Vec::new()), with("fleet", fleet));
    let sender = Sender {
        queue: &queue,
        hub: 0,
        address: &hub.address,
        credentials: &credentials,
        hello: &hello,
        is_synchronised: &|| None,
        clock_moved_ns: &|| 0,
    };
    scope(|scope| {
        scope.spawn(|| sender.run(&|progress| lost.lock().unwrap().push(progress)));
        let until = Instant::now() + Duration::from_secs(30);
        let wait = |what: &dyn Fn(&[Progress]) -> bool| {
            while !what(&lost.lock().unwrap()) {
                assert!(Instant::now() < until, "{:?}", lost.lock().unwrap());
                sleep(Duration::from_millis(20));
            }
        };
        wait(&|lost| lost.contains(&Progress::Connected));
        authority.tokens("tokens", "@read tokenofreader1234\n");
        hub.hub.reload();
        wait(&|lost| lost.iter().any(|lost| matches!(lost, Progress::Lost(why) if why.contains("unknown or revoked"))));
        queue.end(Instant::now());
    });
    // A file that cannot be read leaves what was there.
    authority.tokens("tokens", "short\n");
    hub.hub.reload();
    let until = Instant::now() + Duration::from_secs(30);
    let has_failed = || hub.changes.lock().unwrap().iter().any(|change| matches!(change, Change::Unloaded(_)));
    while !has_failed() {
        assert!(Instant::now() < until);
        sleep(Duration::from_millis(20));
    }
    assert!(hub.read_as(&with("read", "tokenofreader1234")).is_ok());
}
