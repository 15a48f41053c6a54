/// Why a capture could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process may not load BPF programs.
    #[error(
        "Live capture needs root, or the capabilities CAP_BPF and CAP_PERFMON ({0}). Without them, use latscope \
         ping or read files (-r)."
    )]
    Rights(String),
    /// The kernel lacks something; the sentence says what, and what follows from it.
    #[error("{0}")]
    Unsupported(String),
    /// An option names what does not exist here.
    #[error("{0}")]
    Option(String),
    /// Something failed that should not.
    #[error("Live capture failed: {0}.")]
    Failed(String),
}

#[cfg(not(target_os = "linux"))]
impl Error {
    pub(crate) fn not_linux() -> Error {
        Error::Unsupported("Live capture needs Linux; on this system, read files (-r).".into())
    }
}
