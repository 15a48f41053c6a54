use clap::Args;
use std::path::PathBuf;

/// Where histograms are pushed to.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Exports")]
pub struct Push {
    /// Push to a Prometheus-compatible server (http://HOST:PORT/api/v1/write) or an OpenTelemetry one (.../v1/metrics);
    /// can be repeated. A format before the URL selects another: vmrange+http://... (also classic, otlp, otlp-delta, elasticsearch,
    /// opensearch, remote-write-1, remote-write-2)
    #[arg(long, value_name = "URL")]
    pub push: Vec<String>,
    /// How often to push
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub push_every: Option<String>,
    /// Certificates to trust for https URLs (PEM) [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub push_ca: Option<PathBuf>,
    /// Add a label to everything exported; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub export_label: Vec<String>,
}
