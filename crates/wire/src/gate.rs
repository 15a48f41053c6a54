//! Who may send to a hub, and who may read from it: by certificate or by token.

use crate::Credentials;
use crate::certificate::Names;
use rustls::ServerConfig;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// What stands in a file of tokens before one of who may only read.
const READ: &str = "@read";
/// A shorter token could be guessed.
const SHORTEST: usize = 16;

/// Who may do what at a hub, by files that may change.
pub struct Gate {
    credentials: Credentials,
    keys: Mutex<Arc<Keys>>,
}

/// The files as they were read.
pub struct Keys {
    pub config: Arc<ServerConfig>,
    tokens: Vec<(Role, String)>,
    changed: Vec<Option<SystemTime>>,
    /// When the certificate of the hub ends, nanoseconds since the epoch.
    pub certificate_end_ns: Option<i64>,
}

/// The owner of a token.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Role {
    /// Agents of any name, and views.
    Any,
    /// Views.
    Read,
    /// The agent of this name.
    Host(String),
}

/// What a peer showed.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    /// The subject of its certificate, which the handshake verified.
    pub names: Option<Names>,
    /// Its token.
    pub token: Option<String>,
}

/// What a peer may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Permit {
    /// The names that it may send as; `None`: any.
    hosts: Option<Vec<String>>,
    reads: bool,
}

impl Gate {
    /// Of these files; `None` where connections are not encrypted.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn open(credentials: &Credentials) -> Result<Option<Gate>, String> {
        let keys = Keys::read(credentials)?;
        Ok(keys.map(|keys| Gate { credentials: credentials.clone(), keys: Mutex::new(Arc::new(keys)) }))
    }

    /// The files as they were read last. Another pointer is another reading.
    pub fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files again where they changed, or in any case; whether it did.
    ///
    /// # Errors
    /// A sentence that names the file. What was read before stays.
    pub fn reload(&self, is_forced: bool) -> Result<bool, String> {
        if !is_forced && self.credentials.changed() == self.keys().changed {
            return Ok(false);
        }
        let keys = Keys::read(&self.credentials)?;
        if let Some(keys) = keys {
            *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        }
        Ok(true)
    }
}

impl Keys {
    fn read(credentials: &Credentials) -> Result<Option<Keys>, String> {
        let changed = credentials.changed();
        let Some(config) = credentials.server()? else { return Ok(None) };
        let tokens = credentials.tokens.as_deref().map_or(Ok(Vec::new()), read_tokens)?;
        Ok(Some(Keys { config, tokens, changed, certificate_end_ns: credentials.certificate_end_ns() }))
    }

    /// What a peer may do.
    ///
    /// # Errors
    /// A sentence, where it may do nothing.
    pub fn permit(&self, proof: &Proof) -> Result<Permit, String> {
        match (&proof.token, &proof.names) {
            (Some(token), _) => match find(&self.tokens, token) {
                Some(Role::Any) => Ok(Permit::ANY),
                Some(Role::Read) => Ok(Permit { hosts: Some(Vec::new()), reads: true }),
                Some(Role::Host(host)) => Ok(Permit { hosts: Some(vec![host.clone()]), reads: false }),
                None => Err("the token is unknown or revoked".into()),
            },
            (None, Some(names)) => Ok(Permit { hosts: Some(names.hosts.clone()), reads: names.reads }),
            (None, None) => Err("a certificate or a token is needed".into()),
        }
    }
}

impl Permit {
    /// Of who needs no permit: a peer on the same machine.
    pub const ANY: Permit = Permit { hosts: None, reads: true };

    /// Whether it may send as this host.
    ///
    /// # Errors
    /// A sentence, where it may not.
    pub fn check_host(&self, host: &str) -> Result<(), String> {
        match &self.hosts {
            None => Ok(()),
            Some(hosts) if hosts.iter().any(|known| known == host) => Ok(()),
            Some(hosts) if hosts.is_empty() => Err("its certificate or token is of no agent".into()),
            Some(hosts) => {
                Err(format!("its certificate or token is for {}, not for {host}: use --name", hosts.join(", ")))
            }
        }
    }

    /// Whether it may read.
    ///
    /// # Errors
    /// A sentence, where it may not.
    pub fn check_read(&self) -> Result<(), String> {
        if self.reads { Ok(()) } else { Err("this certificate or token is of an agent and may not read".into()) }
    }
}

fn read_tokens(path: &Path) -> Result<Vec<(Role, String)>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse_tokens(&text).map_err(|why| format!("{}: {why}", path.display()))
}

/// Lines of `TOKEN`, `NAME TOKEN` or `@read TOKEN`.
fn parse_tokens(text: &str) -> Result<Vec<(Role, String)>, String> {
    let mut tokens = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (role, token) = match words[..] {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [token] => (Role::Any, token),
            [READ, token] => (Role::Read, token),
            [name, token] => (Role::Host(name.into()), token),
            _ => return Err(format!("line {number} is not TOKEN, NAME TOKEN or @read TOKEN")),
        };
        if token.len() < SHORTEST {
            return Err(format!("the token in line {number} has fewer than {SHORTEST} characters"));
        }
        tokens.push((role, token.to_string()));
    }
    Ok(tokens)
}

/// The role of a token. All are compared, and all bytes of each, so that the time does not depend on what they have in common.
fn find<'a>(tokens: &'a [(Role, String)], token: &str) -> Option<&'a Role> {
    let mut found = None;
    for (role, known) in tokens {
        let differs = known.bytes().zip(token.bytes()).fold(0, |differs, (one, other)| differs | (one ^ other));
        if std::hint::black_box(differs) == 0 && known.len() == token.len() {
            found = Some(role);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: &str = "# fleet\n0123456789abcdef\n\nn1 n1n1n1n1n1n1n1n1\n@read readreadreadread\n";

    #[test]
    fn tokens_have_roles() {
        let tokens = parse_tokens(TOKENS).unwrap();
        assert_eq!(find(&tokens, "0123456789abcdef"), Some(&Role::Any));
        assert_eq!(find(&tokens, "n1n1n1n1n1n1n1n1"), Some(&Role::Host("n1".into())));
        assert_eq!(find(&tokens, "readreadreadread"), Some(&Role::Read));
        for unknown in ["", "0123456789abcde", "0123456789abcdeg", "0123456789abcdef0", "n1"] {
            assert_eq!(find(&tokens, unknown), None, "{unknown}");
        }
        assert!(parse_tokens("short").unwrap_err().contains("line 1 has fewer than 16"));
        assert!(parse_tokens("\na b c").unwrap_err().contains("line 2"));
    }

    #[test]
    fn agents_send_as_themselves_and_readers_read() {
        let host = Permit { hosts: Some(vec!["n1".into()]), reads: false };
        assert!(host.check_host("n1").is_ok() && host.check_read().is_err());
        assert!(host.check_host("n2").unwrap_err().contains("is for n1, not for n2"));
        let reader = Permit { hosts: Some(Vec::new()), reads: true };
        assert!(reader.check_host("n1").is_err() && reader.check_read().is_ok());
        assert!(Permit::ANY.check_host("n1").is_ok() && Permit::ANY.check_read().is_ok());
    }
}
