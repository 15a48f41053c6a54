//! What is exported, before it is encoded: metrics, series and their values.

/// What a metric is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It is what it is now.
    Gauge,
    /// Counts that only grow.
    Histogram,
    /// Counts of what is there now.
    GaugeHistogram,
}

/// A metric.
#[derive(PartialEq, Eq, Debug)]
pub struct Metric {
    /// As Prometheus has it.
    pub name: &'static str,
    /// As OpenTelemetry has it.
    pub dotted: &'static str,
    /// In words.
    pub help: &'static str,
    /// `seconds`, `bytes`, or empty.
    pub unit: &'static str,
    /// What it is.
    pub kind: Kind,
}

/// All metrics, in the order in which they are written.
pub static METRICS: [Metric; 23] = [
    Metric {
        name: "latscope_io_latency_seconds",
        dotted: "latscope.io.latency",
        help: "Latency of completed I/O.",
        unit: "seconds",
        kind: Kind::Histogram,
    },
    Metric {
        name: "latscope_io_waiting_seconds",
        dotted: "latscope.io.waiting",
        help: "Ages of requests that have not completed.",
        unit: "seconds",
        kind: Kind::GaugeHistogram,
    },
    Metric {
        name: "latscope_io_oldest_seconds",
        dotted: "latscope.io.oldest",
        help: "Age of the oldest request that has not completed.",
        unit: "seconds",
        kind: Kind::Gauge,
    },
    Metric {
        name: "latscope_io_in_flight",
        dotted: "latscope.io.in_flight",
        help: "Requests that have not completed.",
        unit: "",
        kind: Kind::Gauge,
    },
    Metric {
        name: "latscope_io_bytes_total",
        dotted: "latscope.io.bytes",
        help: "Bytes that completed I/O moved.",
        unit: "bytes",
        kind: Kind::Counter,
    },
    Metric {
        name: "latscope_lost_events_total",
        dotted: "latscope.lost_events",
        help: "Events that were not observed.",
        unit: "",
        kind: Kind::Counter,
    },
    Metric {
        name: "latscope_hub_hosts",
        dotted: "latscope.hub.hosts",
        help: "Hosts in the last closed interval.",
        unit: "",
        kind: Kind::Gauge,
    },
    Metric {
        name: "latscope_hub_hosts_missing",
        dotted: "latscope.hub.hosts_missing",
        help: "Hosts missing in the last closed interval.",
        unit: "",
        kind: Kind::Gauge,
    },
    Metric {
        name: "latscope_hub_interval_lag_seconds",
        dotted: "latscope.hub.interval_lag",
        help: "Time since the end of the last closed interval.",
        unit: "seconds",
        kind: Kind::Gauge,
    },
    Metric {
        name: "latscope_hub_late_intervals_total",
        dotted: "latscope.hub.late_intervals",
        help: "Intervals of hosts that came after the interval was closed.",
        unit: "",
        kind: Kind::Counter,
    },
    Metric {
        name: "latscope_hub_records_total",
        dotted: "latscope.hub.records",
        help: "Records of histograms that agents sent.",
        unit: "",
        kind: Kind::Counter,
    },
    Metric {
        name: "latscope_hub_duplicates_total",
        dotted: "latscope.hub.duplicates",
        help: "Records that came again and did not count.",
        unit: "",
        kind: Kind::Counter,
    },
    Metric {
        name: "latscope_hub_refused_total",
        dotted: "latscope.hub.refused",
        help: "Connections, agents and records that were refused.",
        unit: "",
        kind: Kind::Counter,
    },
    Metric {
        name: "latscope_hub_clock_offset_seconds",
        dotted: "latscope.hub.clock_offset",
        help: "The clock of the hub less that of a host.",
        unit: "seconds",
        kind: Kind::Gauge,
    },
    Metric {
        name: "latscope_hub_certificate_not_after_timestamp_seconds",
        dotted: "latscope.hub.certificate_not_after",
        help: "When the certificate of the hub or of a host expires.",
        unit: "seconds",
        kind: Kind::Gauge,
    },
    Metric {
        name: "latscope_hub_removed_tables_total",
        dotted: "latscope.hub.removed_tables",
        help: "Tables of the history that were removed before their time, as the disk was nearly full.",
        unit: "",
        kind: Kind::Counter,
    },
    Metric {
        name: "ALERTS",
        dotted: "latscope.alerts",
        help: "Alerts of the hub that are pending or firing.",
        unit: "",
        kind: Kind::Gauge,
    },
    Metric {
        name: "latscope_agent_connected",
        dotted: "latscope.agent.connected",
        help: "Whether the agent of a host is connected to the hub.",
        unit: "",
        kind: Kind::Gauge,
    },
    Metric {
        name: "latscope_agent_queue_bytes",
        dotted: "latscope.agent.queue",
        help: "Records that an agent keeps for its hubs.",
        unit: "bytes",
        kind: Kind::Gauge,
    },
    Metric {
        name: "latscope_agent_lag_seconds",
        dotted: "latscope.agent.lag",
        help: "How long after the end of its last interval its record came.",
        unit: "seconds",
        kind: Kind::Gauge,
    },
    Metric {
        name: "latscope_agent_cpu_seconds_total",
        dotted: "latscope.agent.cpu",
        help: "CPU time of an agent.",
        unit: "seconds",
        kind: Kind::Counter,
    },
    Metric {
        name: "latscope_agent_resident_bytes",
        dotted: "latscope.agent.resident",
        help: "Memory of an agent.",
        unit: "bytes",
        kind: Kind::Gauge,
    },
    Metric {
        name: "latscope_agent_lost_total",
        dotted: "latscope.agent.lost",
        help: "What was lost on a host: events, and intervals that its queue dropped.",
        unit: "",
        kind: Kind::Counter,
    },
];

/// Numbers of the metrics in [`METRICS`].
pub const LATENCY: usize = 0;
/// Ages of what waits.
pub const WAITING: usize = 1;
/// The largest age.
pub const OLDEST: usize = 2;
/// How many wait.
pub const IN_FLIGHT: usize = 3;
/// Bytes that were moved.
pub const BYTES: usize = 4;
/// What was lost, by kind.
pub const LOST: usize = 5;
/// Hosts that are there.
pub const HOSTS: usize = 6;
/// Hosts that are missing.
pub const MISSING: usize = 7;
/// How old the last interval is.
pub const LAG: usize = 8;
/// What came late.
pub const LATE: usize = 9;
/// Records that came.
pub const RECORDS: usize = 10;
/// Those that came again.
pub const DUPLICATES: usize = 11;
/// What was refused, by reason.
pub const REFUSED: usize = 12;
/// Clocks of hosts.
pub const OFFSET: usize = 13;
/// Ends of certificates.
pub const CERTIFICATE_END: usize = 14;
/// Tables that were removed before their time.
pub const REMOVED: usize = 15;
/// Alerts, as Prometheus has its own.
pub const ALERTS: usize = 16;
/// Whether an agent is connected.
pub const AGENT_CONNECTED: usize = 17;
/// Its queue.
pub const AGENT_QUEUE: usize = 18;
/// How late its last record came.
pub const AGENT_LAG: usize = 19;
/// Its CPU time.
pub const AGENT_CPU: usize = 20;
/// Its memory.
pub const AGENT_RESIDENT: usize = 21;
/// What was lost on its host, by kind.
pub const AGENT_LOST: usize = 22;

/// Names and values, ascending by name.
pub type Labels = Vec<(String, String)>;

/// Non-empty buckets, ascending by index.
pub type Buckets = Vec<(i32, u64)>;

/// Which buckets are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Layouts {
    /// Exponential ones.
    pub exponential: bool,
    /// Those below the edges of `split::Edges::le`.
    pub le: bool,
    /// Decimal ones.
    pub vmrange: bool,
}

/// A histogram, with the buckets that were asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Sum of the values, nanoseconds.
    pub sum_ns: u128,
    /// Schema of the exponential buckets.
    pub schema: i8,
    /// By the indices of Prometheus.
    pub exponential: Buckets,
    /// By the place of the edge.
    pub le: Buckets,
    /// By the number of the bucket.
    pub vmrange: Buckets,
}

impl Distribution {
    /// Sum of the values, seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }
}

/// The value of a series.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Of a counter or a gauge.
    Number(f64),
    /// Of a histogram.
    Distribution(Box<Distribution>),
    /// The series ends.
    Ended,
}

/// A series and its value.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// The number of its metric.
    pub metric: usize,
    /// Its labels, without the name.
    pub labels: Labels,
    /// Since when it counts, milliseconds since the epoch.
    pub created_ms: i64,
    /// Its value.
    pub value: Value,
}

impl Reading {
    /// Whether it is of what intervals have, so that its time is the end of one.
    pub fn is_of_intervals(&self) -> bool {
        self.metric < HOSTS
    }
}

/// A name that Prometheus takes as a label.
pub fn label_name(field: &str) -> String {
    let is_valid = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let name: String = field.chars().map(|letter| if is_valid(letter) { letter } else { '_' }).collect();
    match name.chars().next() {
        Some(first) if !first.is_ascii_digit() && !name.starts_with("__") => name,
        _ => format!("field_{name}"),
    }
}

/// Nanoseconds as decimal seconds, without zeros behind.
pub fn decimal_seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
