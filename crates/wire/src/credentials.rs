//! By which files a side of a connection proves who it is, and checks the other: TLS 1.3 with certificates, and tokens.

use crate::certificate::end_ns;
use latscope_event::format_wall;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// What both sides name in the handshake.
const PROTOCOL: &[u8] = b"latscope/1";

/// The files; none where nothing but this machine is connected to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Credentials {
    /// Certificates of this side, PEM.
    pub certificate: Option<PathBuf>,
    /// The private key of the first of them, PEM.
    pub key: Option<PathBuf>,
    /// The authorities of the other side's certificate, PEM.
    pub authorities: Option<PathBuf>,
    /// Tokens: that of this side, or all that a hub accepts.
    pub tokens: Option<PathBuf>,
}

impl Credentials {
    /// Those of views, from `LATSCOPE_CA`, `LATSCOPE_CERT`, `LATSCOPE_KEY` and `LATSCOPE_TOKEN_FILE`.
    pub fn of_environment() -> Credentials {
        let path = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Credentials {
            certificate: path("LATSCOPE_CERT"),
            key: path("LATSCOPE_KEY"),
            authorities: path("LATSCOPE_CA"),
            tokens: path("LATSCOPE_TOKEN_FILE"),
        }
    }

    /// Whether connections to a hub are encrypted.
    ///
    /// # Errors
    /// A sentence, where something else is missing.
    pub fn encrypt_to_hub(&self) -> Result<bool, String> {
        self.check_pair()?;
        match (&self.authorities, self.certificate.is_some() || self.tokens.is_some()) {
            (None, true) => Err("a certificate or a token needs a CA to check the hub by".into()),
            (authorities, _) => Ok(authorities.is_some()),
        }
    }

    /// Whether connections to this hub are encrypted.
    ///
    /// # Errors
    /// A sentence, where something else is missing.
    pub fn encrypt_to_agents(&self) -> Result<bool, String> {
        self.check_pair()?;
        match (self.certificate.is_some(), self.authorities.is_some() || self.tokens.is_some()) {
            (true, false) => Err("a hub with a certificate needs --ca or --token-file to check who connects".into()),
            (false, true) => Err("--ca and --token-file need --cert and --key: tokens are only sent over TLS".into()),
            (is_encrypted, _) => Ok(is_encrypted),
        }
    }

    fn check_pair(&self) -> Result<(), String> {
        match self.certificate.is_some() == self.key.is_some() {
            true => Ok(()),
            false => Err("a certificate and its key must both be given".into()),
        }
    }

    /// What a connection to a hub needs, as the files are now; `None` where it is not encrypted.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn client(&self) -> Result<Option<Client>, String> {
        let (true, Some(authorities)) = (self.encrypt_to_hub()?, &self.authorities) else { return Ok(None) };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots(authorities)?);
        let mut config = match (&self.certificate, &self.key) {
            (Some(path), Some(key)) => builder
                .with_client_auth_cert(certificates(path)?, private_key(key)?)
                .map_err(|error| format!("{} and {}: {}", path.display(), key.display(), explain(&error)))?,
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        let token = self.tokens.as_deref().map(own_token).transpose()?;
        Ok(Some(Client { config: Arc::new(config), token }))
    }

    /// What connections to a hub need on its side, as the files are now; `None` where they are not encrypted.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub(crate) fn server(&self) -> Result<Option<Arc<ServerConfig>>, String> {
        let (true, Some(path), Some(key)) = (self.encrypt_to_agents()?, &self.certificate, &self.key) else {
            return Ok(None);
        };
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| error.to_string())?;
        let builder = match &self.authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(authorities)?), provider());
                // Who has no certificate may have a token.
                let verifier = if self.tokens.is_some() { verifier.allow_unauthenticated() } else { verifier };
                builder.with_client_cert_verifier(verifier.build().map_err(|error| error.to_string())?)
            }
        };
        let mut config = builder
            .with_single_cert(certificates(path)?, private_key(key)?)
            .map_err(|error| format!("{} and {}: {}", path.display(), key.display(), explain(&error)))?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.send_tls13_tickets = 0;
        Ok(Some(Arc::new(config)))
    }

    /// When the certificate ends, nanoseconds since the epoch; `None` without one, or where it cannot be read.
    pub(crate) fn certificate_end_ns(&self) -> Option<i64> {
        certificates(self.certificate.as_deref()?).ok()?.first().and_then(|certificate| end_ns(certificate))
    }

    /// When the files changed last.
    pub(crate) fn changed(&self) -> Vec<Option<SystemTime>> {
        let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
        self.paths().map(changed).collect()
    }

    /// The files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.certificate, &self.key, &self.authorities, &self.tokens].into_iter().flatten().map(PathBuf::as_path)
    }
}

/// What a connection to a hub needs.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) token: Option<String>,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = read.map_err(|error| format!("{}: no certificates in PEM: {error}", path.display()))?;
    if all.is_empty() { Err(format!("{}: no certificates in PEM", path.display())) } else { Ok(all) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| format!("{}: no private key in PEM: {error}", path.display()))
}

fn roots(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(roots)
}

/// The first token of a file; a name may stand before it.
fn own_token(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let token = lines.find_map(|line| line.split_whitespace().next_back());
    token.map(str::to_string).ok_or_else(|| format!("{}: no token", path.display()))
}

/// Why a connection failed, seen from this side: the other one's certificate, or what the other said of ours.
pub(crate) fn explain(error: &rustls::Error) -> String {
    let wall = |time: &UnixTime| {
        format_wall(i64::try_from(time.as_secs()).unwrap_or(0).saturating_mul(1_000_000_000), 0, true)
    };
    match error {
        rustls::Error::InvalidCertificate(problem) => match problem {
            CertificateError::ExpiredContext { time, not_after } => {
                format!("its certificate expired at {}; the clock of this host has {}", wall(not_after), wall(time))
            }
            CertificateError::NotValidYetContext { time, not_before } => format!(
                "its certificate is not valid before {}; the clock of this host has {}",
                wall(not_before),
                wall(time)
            ),
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is not signed by the authority of --ca (LATSCOPE_CA)".into()
            }
            CertificateError::Expired => "its certificate expired by the clock of this host".into(),
            CertificateError::NotValidYet => "its certificate is not valid yet by the clock of this host".into(),
            CertificateError::NotValidForNameContext { expected, presented } => {
                // Each is printed as its kind and, in quotes, the name.
                let names: Vec<&str> = presented.iter().map(|name| name.split('"').nth(1).unwrap_or(name)).collect();
                format!("its certificate is for {}, not for {}", names.join(", "), expected.to_str())
            }
            other => format!("its certificate is not valid: {other}"),
        },
        rustls::Error::InconsistentKeys(_) => "the key is not that of the certificate".into(),
        rustls::Error::NoCertificatesPresented => "it has no certificate".into(),
        rustls::Error::InvalidMessage(_) => "it does not use TLS".into(),
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateExpired => {
                "it refuses the certificate of this host, which expired or is not valid yet by its clock".into()
            }
            AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                "it refuses the certificate of this host, which another authority signed".into()
            }
            AlertDescription::CertificateRequired => "it wants a certificate: give --cert and --key".into(),
            AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
                "it refuses the certificate of this host".into()
            }
            other => format!("it ended the connection: {other:?}"),
        },
        other => other.to_string(),
    }
}
