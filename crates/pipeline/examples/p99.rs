//! Percentiles of whatever is there: traces and folders that are named, then two seconds of this machine. A filter is the first
//! word: `p99 'kind = read' perf.data results/`.

use latscope_capture_bpf::Source;
use latscope_filter::Filter;
use latscope_histogram::Rule;
use latscope_pipeline::{Control, Error, Folding, Live, Pipeline, Reading};
use std::path::PathBuf;

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let filter = Some(Filter::parse(&words.next().unwrap_or_else(|| "lat >= 0".into()))?);
    let base = Reading { filter, over_time: true, ..Reading::default() };
    let files = words.map(|word| Reading { files: vec![PathBuf::from(word)], ..base.clone() });
    let two_seconds = Live { for_ns: Some(2_000_000_000), ..Live::new(Source::Block) };
    let live = Reading { live: Some(two_seconds), ..base.clone() };
    for reading in files.chain([live]) {
        let pipeline = Pipeline::open(reading, Control::default())?;
        let (series, contexts) = pipeline.series(&Folding::of_latencies(Some(1_000_000_000)), 0)?;
        println!("{}", contexts.first().map_or("nothing", |context| &context.source));
        for &interval in series.slices().keys() {
            let histogram = series.at(interval, None);
            let quantiles = histogram.quantiles(&[0.5, 0.99], Rule::Interpolated).unwrap_or_default();
            println!("{} {} {quantiles:?}", series.start_ns(interval), histogram.totals().count);
        }
    }
    Ok(())
}
