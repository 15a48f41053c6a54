use clap::Args;
use latscope_wire::Credentials as Files;
use std::path::PathBuf;

/// By what the two sides of a connection trust each other.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "TLS")]
pub struct Credentials {
    /// Certificate of this side, PEM
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// CA that signed the certificate of the other side, PEM
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Tokens: an agent sends the first one, a hub accepts them all
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl Credentials {
    /// The files.
    pub fn files(&self) -> Files {
        Files {
            certificate: self.cert.clone(),
            key: self.key.clone(),
            authorities: self.ca.clone(),
            tokens: self.token_file.clone(),
        }
    }
}
