//! What is merged, for systems that others run: Prometheus and what speaks as it does, OpenTelemetry, VictoriaMetrics.
//!
//! [`Totals`] adds up intervals, [`Exporter`] pushes them and answers who scrapes. Encodings are modules of their own.

mod api;
mod bulk;
mod delta;
mod different;
mod exporter;
mod http;
pub mod incoming;
mod live;
mod metrics;
mod otlp;
mod own;
mod passing;
mod prometheus;
mod protobuf;
mod push;
mod remote_write;
mod scrape;
mod split;
mod state;
mod totals;

pub use api::Api;
pub use exporter::{Exporter, PushChange, Settings};
pub use incoming::Receiver;
pub use own::{AgentState, HubState};
pub use passing::Passing;
pub use push::Target;
pub use scrape::Extras;
pub use split::classic_edges_s;
pub use totals::Totals;
