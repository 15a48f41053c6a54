//! Values and sums with their units.

use latscope_event::{Field, format_count, format_duration, format_rate, format_size};
use latscope_series::{Quantity, Weight};

/// A quantity as a title starts.
#[must_use]
pub fn quantity_title(quantity: Quantity) -> String {
    let title = match quantity {
        Quantity::Latency => "Latency",
        Quantity::Size => "Size",
        Quantity::Offset => "Offset",
        Quantity::Queue => "Queue time",
        Quantity::Service => "Service time",
        Quantity::Lag => "Lag",
        Quantity::Field(Field::RunTime) => "Run time",
        Quantity::Field(Field::CpuTime) => "CPU time",
        Quantity::Field(Field::GcTime) => "GC time",
        Quantity::Field(_) => {
            let word = quantity.word().replace('_', " ");
            return word[..1].to_uppercase() + &word[1..];
        }
    };
    title.into()
}

/// A value of this quantity (nanoseconds or bytes) with its unit.
#[must_use]
pub fn value_label(quantity: Quantity, value: u64) -> String {
    if quantity.is_bytes() { format_size(value) } else { format_duration(value) }
}

/// A sum of weights (events, nanoseconds or bytes) with its unit.
#[must_use]
pub fn weight_label(weight: Weight, sum: u64) -> String {
    match weight {
        Weight::Count => format_count(sum),
        Weight::Time => format_duration(sum),
        Weight::Bytes => format_size(sum),
    }
}

/// A weight per second with its unit.
#[must_use]
pub fn rate_label(weight: Weight, per_second: f64) -> String {
    match weight {
        Weight::Count => format_rate(per_second),
        // A second of waiting in each second is one event in flight.
        Weight::Time => format_duration(per_second.round() as u64) + "/s",
        Weight::Bytes => format_size(per_second.round() as u64) + "/s",
    }
}
