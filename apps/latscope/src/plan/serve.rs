//! What the words of `serve` mean.

use super::Reading;
use super::folding::duration;
use super::spectrogram::quoted;
use crate::{Failure, args};
use std::net::SocketAddr;

/// Plan of `serve`.
#[derive(Debug, PartialEq)]
pub struct Serve {
    pub listen: SocketAddr,
    /// Other names of this server.
    pub hosts: Vec<String>,
    pub needs_token: bool,
    pub interval_ns: u64,
    pub history_ns: u64,
    /// The words of a command that reads the same.
    pub source: String,
}

/// Plans `serve`.
pub fn plan(typed: args::Serve, reading: &Reading) -> Result<Serve, Failure> {
    let usage = |message: String| Err(Failure::Usage(message));
    let Ok(listen) = typed.listen.parse::<SocketAddr>() else {
        return usage(format!(
            "--listen {} is not an address with a port, such as 127.0.0.1:7470 or [::1]:7470.",
            typed.listen
        ));
    };
    let is_local = listen.ip().is_loopback();
    if !is_local && typed.no_token {
        return usage("--no-token is for addresses of this machine only: everybody on the network could look.".into());
    }
    if !is_local && !typed.insecure {
        return usage(format!(
            "--listen {listen}: other machines reach this address, and the connection is not encrypted. Forward the port with \
             ssh -L, or add --insecure."
        ));
    }
    if let Some(host) = typed.allow_host.iter().find(|host| host.is_empty() || host.contains(['/', '*', ' '])) {
        return usage(format!("--allow-host {host} is not a name such as db1.example.com or db1:8080."));
    }
    let files = reading.files.iter().map(|file| format!("-r {}", quoted(&file.to_string_lossy())));
    let live = reading.live.as_ref().map(|live| format!("-s {}", live.source.words()));
    Ok(Serve {
        source: files.chain(live).collect::<Vec<_>>().join(" "),
        listen,
        hosts: typed.allow_host,
        needs_token: !typed.no_token,
        interval_ns: duration("-i", &typed.interval)?.unwrap_or(1_000_000_000),
        history_ns: duration("--history", &typed.history)?.unwrap_or(3_600_000_000_000),
    })
}
