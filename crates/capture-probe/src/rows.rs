//! Samples as events.

use crate::{Place, Probe, Sample};
use latscope_event::kernel::error_name;
use latscope_event::{
    Batch, Field, MISSING_CODE, MISSING_I64, MISSING_U64, Unfinished, Value, Wait, format_size_exact,
};

/// What the events of a target have in common beside its probe.
pub(crate) struct Call<'a> {
    /// The call that reads or writes.
    pub name: &'a str,
    pub host: Option<&'a str>,
    /// Unix time of the start, nanoseconds.
    pub epoch: i64,
}

/// The call that writes where this one reads.
fn write_name(read: &str) -> &str {
    match read {
        "pread" => "pwrite",
        "preadv2" => "pwritev2",
        // These do both.
        other => other,
    }
}

/// Appends samples of one target as events.
pub(crate) fn append(batch: &mut Batch, samples: &[Sample], probe: &Probe, place: &Place, call: &Call<'_>) {
    let [read, write] = [b"read", &b"write"[..]].map(|kind| batch.intern(Field::Kind, kind));
    let names = [call.name, write_name(call.name)].map(|name| batch.intern(Field::Name, name.as_bytes()));
    let path = batch.intern(Field::Path, probe.target.as_os_str().as_encoded_bytes());
    let device = place.device_name().map(|device| batch.intern(Field::Device, device.as_bytes()));
    let dev = place.dev.map(|(major, minor)| batch.intern(Field::Dev, format!("{major}:{minor}").as_bytes()));
    let mut label =
        |field: Field, text: Option<&str>| text.map_or(MISSING_CODE, |text| batch.intern(field, text.as_bytes()));
    let (job, host) = (label(Field::Job, probe.job.as_deref()), label(Field::Host, call.host));
    for sample in samples {
        // The lag of the machine lies before the start, so that start and latency give the completion.
        let latency_ns = sample.latency_ns();
        let start_ns = call.epoch + sample.completed_ns.saturating_sub(latency_ns) as i64;
        batch.push_i64(Field::Time, start_ns);
        batch.push_u64(Field::Latency, latency_ns);
        batch.push_code(Field::Kind, if sample.write { write } else { read });
        batch.push_code(Field::Name, names[usize::from(sample.write)]);
        batch.push_u64(Field::Size, probe.work.size);
        batch.push_u64(Field::Offset, sample.offset);
        batch.push_code(Field::Device, device.unwrap_or(MISSING_CODE));
        batch.push_code(Field::Dev, dev.unwrap_or(MISSING_CODE));
        batch.push_code(Field::Path, path);
        batch.push_code(Field::Job, job);
        batch.push_code(Field::Host, host);
        batch.push_text(Field::Error, error_name(i64::from(sample.result)).map(str::as_bytes));
        batch.push_i64(Field::Result, i64::from(sample.result));
        let open = probe.pace.open;
        let intended_ns = call.epoch + sample.intended_ns as i64;
        batch.push_i64(Field::Intended, if open { intended_ns } else { MISSING_I64 });
        batch.push_u64(Field::Service, sample.service_ns());
        batch.push_u64(Field::Lag, if open { sample.lag_ns() } else { MISSING_U64 });
        let waited = sample.cpu_wait_ns;
        batch.push_u64(Field::CpuWait, if waited == Sample::UNKNOWN { MISSING_U64 } else { u64::from(waited) });
        let place: Option<&[u8]> = sample.cached.map(|cached| if cached { &b"memory"[..] } else { b"device" });
        batch.push_text(Field::Cache, place);
        batch.end_row();
    }
}

/// A request that had not completed when the probe ended, started at this time (nanoseconds since 1970) and so old.
pub(crate) fn unfinished(probe: &Probe, place: &Place, (start_ns, at_least_ns): (i64, u64)) -> Unfinished {
    let what = format!("{} request to {}", format_size_exact(probe.work.size), probe.target.display());
    let texts = [
        (Field::Path, Some(probe.target.display().to_string())),
        (Field::Job, probe.job.clone()),
        (Field::Device, place.device_name()),
        (Field::Dev, place.dev.map(|(major, minor)| format!("{major}:{minor}"))),
    ];
    let texts = texts.into_iter().filter_map(|(field, text)| Some((field, Value::Text(text?))));
    let size = Value::Number(i64::try_from(probe.work.size).unwrap_or(i64::MAX));
    let values = texts.chain([(Field::Size, size)]).map(|(field, value)| (field.name().to_owned(), value)).collect();
    Unfinished { what, start_ns, at_least_ns, wait: Wait::Counts, values }
}
