//! What the backends of a PostgreSQL server do and wait for, by process: `pg_stat_activity`, asked over a Unix socket or the loopback
//! interface by the simple query protocol (version 3, <https://www.postgresql.org/docs/current/protocol.html>).

use std::fmt;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A server that does not answer within this is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest message that is taken, bytes, and most rows of an answer.
const MESSAGE_BYTES: usize = 1 << 20;
const ROWS: usize = 100_000;
const VERSION: i32 = 3 << 16;

/// The time is that of the server's clock, which is that of this machine. The text of a query may hold data, so only its number and its
/// first word are asked for.
const QUERY: &str = "\
SELECT pid, coalesce(backend_type, ''), coalesce(state, ''), coalesce(wait_event_type, ''), coalesce(wait_event, ''), \
coalesce(%ID%, left(md5(query), 8)), upper(substring(query from '^\\s*(\\w+)')), coalesce(usename, ''), coalesce(datname, '') \
FROM pg_stat_activity WHERE pid <> pg_backend_pid()";

/// The address of a server, and the user that asks it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    host: String,
    port: u16,
    user: String,
    database: String,
    password: Option<String>,
}

/// Why a server does not say what it does.
#[derive(Debug)]
pub enum Refusal {
    /// The words after `--tag-postgres` make no sense.
    Words(String),
    /// It cannot be reached, or broke off.
    Connection(io::Error),
    /// It said why.
    Server(String),
    /// What it said is not the protocol.
    Protocol,
}

/// What a backend does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Activity {
    /// Its process.
    pub pid: u32,
    /// Tags by their keys, those without a value left out: `wait_event` (`IO:WALSync`; `running` of an active backend that waits for nothing),
    /// `state`, `backend`, `query` (its number, or 8 digits of a hash), `command` (the first word of the query), `user`, `database`.
    pub tags: Vec<(&'static str, String)>,
}

/// A connection.
pub struct Postgres {
    stream: BufReader<Connection>,
    query: String,
}

enum Connection {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Words(why) | Refusal::Server(why) => f.write_str(why),
            Refusal::Connection(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                write!(f, "the server did not answer within {} s", PATIENCE.as_secs())
            }
            Refusal::Connection(error) => error.fmt(f),
            Refusal::Protocol => f.write_str("what answers is no PostgreSQL server"),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::Connection(error)
    }
}

impl Server {
    /// Reads `host=DIR|ADDRESS port=N user=NAME dbname=NAME password=WORD`, as libpq writes it; each may be left out.
    ///
    /// # Errors
    /// When a word is unknown, or the host is not on this machine: what is asked and answered is not encrypted.
    pub fn parse(words: &str) -> Result<Server, Refusal> {
        let mut server = Server {
            host: "/var/run/postgresql".into(),
            port: 5432,
            user: std::env::var("PGUSER").unwrap_or_else(|_| "postgres".into()),
            database: "postgres".into(),
            password: std::env::var("PGPASSWORD").ok(),
        };
        for word in words.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or(("host", word));
            let value = value.trim_matches('\'').to_string();
            match key {
                "host" => server.host = value,
                "port" => {
                    server.port = value.parse().map_err(|_| Refusal::Words(format!("{value} is not a port")))?;
                }
                "user" => server.user = value,
                "dbname" => server.database = value,
                "password" => server.password = Some(value),
                _ => {
                    let known = "host, port, user, dbname or password";
                    return Err(Refusal::Words(format!("{key} is none of {known}")));
                }
            }
        }
        let is_local = server.host.starts_with('/')
            || server.host == "localhost"
            || server.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if !is_local {
            let host = &server.host;
            return Err(Refusal::Words(format!(
                "{host} is not on this machine; give the folder of its Unix socket, or an address of the loopback interface"
            )));
        }
        Ok(server)
    }
}

impl Postgres {
    /// Connects.
    ///
    /// # Errors
    /// When it cannot be reached, or lets nobody in with what is known.
    pub fn connect(server: &Server) -> Result<Postgres, Refusal> {
        let stream = if server.host.starts_with('/') {
            let stream = UnixStream::connect(format!("{}/.s.PGSQL.{}", server.host, server.port))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Connection::Unix(stream)
        } else {
            let stream = TcpStream::connect((&*server.host, server.port))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Connection::Tcp(stream)
        };
        let mut postgres = Postgres { stream: BufReader::new(stream), query: QUERY.replace("%ID%", "query_id::text") };
        postgres.log_in(server)?;
        Ok(postgres)
    }

    fn log_in(&mut self, server: &Server) -> Result<(), Refusal> {
        let mut words = VERSION.to_be_bytes().to_vec();
        for word in ["user", &server.user, "database", &server.database, "application_name", "latscope"] {
            words.extend(word.bytes().filter(|&byte| byte != 0));
            words.push(0);
        }
        words.push(0);
        let length = (words.len() + 4) as i32;
        self.stream.get_mut().write_all(&[&length.to_be_bytes()[..], &words].concat())?;
        loop {
            let (kind, body) = self.message()?;
            match kind {
                b'R' => match body.get(..4).map(|code| i32::from_be_bytes([code[0], code[1], code[2], code[3]])) {
                    Some(0) => {}
                    Some(3) => {
                        let password = server.password.clone().ok_or_else(|| {
                            Refusal::Server(format!("it wants a password of {}; give password=WORD", server.user))
                        })?;
                        self.send(b'p', &[password.as_bytes(), b"\0"].concat())?;
                    }
                    Some(_) => {
                        return Err(Refusal::Server(format!(
                            "it wants a proof of {} that latscope cannot give; let the user in with `trust`, `peer` or `password` in pg_hba.conf",
                            server.user
                        )));
                    }
                    None => return Err(Refusal::Protocol),
                },
                b'E' => return Err(Refusal::Server(error(&body))),
                b'Z' => return Ok(()),
                b'S' | b'K' | b'N' => {}
                _ => return Err(Refusal::Protocol),
            }
        }
    }

    /// What its backends do now, this connection left out.
    ///
    /// # Errors
    /// When the connection ended, or the server says why not.
    pub fn activity(&mut self) -> Result<Vec<Activity>, Refusal> {
        match self.rows() {
            // Before PostgreSQL 14, queries had no number.
            Err(Refusal::Server(why)) if why.contains("query_id") => {
                self.query = QUERY.replace("%ID%", "NULL");
                self.rows()
            }
            rows => rows,
        }
    }

    fn rows(&mut self) -> Result<Vec<Activity>, Refusal> {
        self.send(b'Q', &[self.query.as_bytes(), b"\0"].concat())?;
        let (mut found, mut refused) = (Vec::new(), None);
        loop {
            let (kind, body) = self.message()?;
            match kind {
                b'D' if found.len() < ROWS => found.push(row(&body).ok_or(Refusal::Protocol)?),
                b'E' => refused = Some(Refusal::Server(error(&body))),
                b'Z' => return refused.map_or(Ok(found), Err),
                b'T' | b'D' | b'C' | b'N' | b'S' | b'I' => {}
                _ => return Err(Refusal::Protocol),
            }
        }
    }

    fn send(&mut self, kind: u8, body: &[u8]) -> Result<(), Refusal> {
        let length = (body.len() + 4) as i32;
        Ok(self.stream.get_mut().write_all(&[&[kind][..], &length.to_be_bytes(), body].concat())?)
    }

    fn message(&mut self) -> Result<(u8, Vec<u8>), Refusal> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let length = usize::try_from(length).ok().and_then(|length| length.checked_sub(4));
        let length = length.filter(|&length| length <= MESSAGE_BYTES).ok_or(Refusal::Protocol)?;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok((head[0], body))
    }
}

impl Read for Connection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Unix(stream) => stream.read(into),
            Connection::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Connection::Unix(stream) => stream.write(bytes),
            Connection::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The sentence of an error: its field `M`.
fn error(body: &[u8]) -> String {
    let mut fields = body.split(|&byte| byte == 0).filter(|field| !field.is_empty());
    let sentence = fields.find_map(|field| field.strip_prefix(b"M"));
    String::from_utf8_lossy(sentence.unwrap_or(b"it refuses without a reason")).into_owned()
}

/// The values of a row; `None` where it is cut.
fn values(body: &[u8]) -> Option<Vec<String>> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut values = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<4>()?;
        // A missing value has the length -1.
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        let (value, after) = after.split_at_checked(length)?;
        values.push(String::from_utf8_lossy(value).into_owned());
        rest = after;
    }
    Some(values)
}

fn row(body: &[u8]) -> Option<Activity> {
    let [pid, backend, state, kind, event, query, command, user, database] = values(body)?.try_into().ok()?;
    let wait_event = match (&*kind, &*state) {
        ("", "active") => "running".into(),
        ("", _) => String::new(),
        _ => format!("{kind}:{event}"),
    };
    let has_query = backend == "client backend";
    let tags = [
        ("wait_event", wait_event),
        ("state", state),
        ("backend", backend),
        ("query", if has_query { query } else { String::new() }),
        ("command", if has_query { command } else { String::new() }),
        ("user", user),
        ("database", database),
    ];
    let tags = tags.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    Some(Activity { pid: pid.parse().ok()?, tags })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_those_of_libpq() {
        let server = Server::parse("host=/tmp/x port=5433 user=me dbname='a' password=p").unwrap();
        let expected = ("/tmp/x", 5433, "me", "a", Some("p"));
        let found = (&*server.host, server.port, &*server.user, &*server.database, server.password.as_deref());
        assert_eq!(found, expected);
        assert_eq!(Server::parse("/run/pg").unwrap().host, "/run/pg");
        for (words, why) in
            [("host=db.example", "not on this machine"), ("port=x", "not a port"), ("x=1", "none of host")]
        {
            let refused = Server::parse(words).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_row_or_none(body: Vec<u8>) {
            let _ = (row(&body), error(&body));
        }
    }
}

#[cfg(test)]
#[path = "postgres_tests.rs"]
mod server;
