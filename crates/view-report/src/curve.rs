//! How latency grows with load: the percentiles of a volume over what was offered to it, a plot for each volume, all on one
//! axis of latency.

use crate::page::{Page, quantile_name};
use crate::palette::Theme;
use crate::plot::{Axis, Plot};
use crate::svg::{Area, Num, Svg, shortened, text_width};
use latscope_event::{Context, Wording, format_duration, format_rate};

/// How the picture shall look.
#[derive(Clone, PartialEq, Debug)]
pub struct CurvePicture {
    /// Heading.
    pub title: String,
    /// Width of the plots, pixels.
    pub width: u32,
    /// Background.
    pub theme: Theme,
    /// How notes are worded.
    pub wording: Wording,
    /// The percentiles that [`CurvePoint::latencies_ns`] are, as shares: 0.5 is the median.
    pub quantiles: Vec<f64>,
}

/// One volume.
#[derive(Clone, PartialEq, Debug)]
pub struct CurveSide {
    /// What it is called.
    pub name: String,
    /// The most that it answered, requests per second.
    pub largest_per_s: f64,
    /// By ascending load.
    pub points: Vec<CurvePoint>,
}

/// One load.
#[derive(Clone, PartialEq, Debug)]
pub struct CurvePoint {
    /// Requests per second that were due.
    pub offered_per_s: f64,
    /// Requests per second that were made.
    pub made_per_s: f64,
    /// A latency for each percentile, nanoseconds; `None` where there were too few requests for it.
    pub latencies_ns: Vec<Option<u64>>,
}

const LEFT_PX: f64 = 84.0;
const RIGHT_PX: f64 = 26.0;
const PLOT_PX: f64 = 230.0;
/// A volume that made less than this part of what was due is marked.
const BEHIND: f64 = 0.98;

/// Draws the curves as one self-contained SVG.
pub fn curve(sides: &[CurveSide], contexts: &[Context], options: &CurvePicture) -> String {
    let width_px = LEFT_PX + f64::from(options.width) + RIGHT_PX;
    let page = Page {
        width_px,
        inks: options.theme.inks(),
        title: options.title.clone(),
        contexts,
        wording: options.wording,
        filter: None,
    };
    let mut svg = Svg::new();
    let mut y = page.head(&mut svg, &[page.origin()]);
    y = legend(&page, options, &mut svg, y + 6.0);
    let latencies = || sides.iter().flat_map(|side| &side.points).flat_map(|point| &point.latencies_ns).flatten();
    let (low, high) = (latencies().min().copied().unwrap_or(1_000), latencies().max().copied().unwrap_or(1_000_000));
    let low = low.max(1) as f64;
    let axis = Axis::log(low * 0.8, (high as f64).max(low * 1.5) * 1.25);
    for side in sides {
        y = volume(&page, options, &mut svg, y, side, axis);
    }
    let mut description = vec![page.origin()];
    description.extend(sides.iter().map(|side| described(side, &options.quantiles)));
    description.extend(page.note_texts());
    let height = page.notes(&mut svg, y) + 12.0;
    page.document(svg, height, &description)
}

fn legend(page: &Page<'_>, options: &CurvePicture, svg: &mut Svg, y: f64) -> f64 {
    let mut x = LEFT_PX;
    for (at, &quantile) in options.quantiles.iter().enumerate() {
        let name = quantile_name(quantile);
        let ink = page.inks.lines[at % page.inks.lines.len()];
        svg.put(format_args!("<path stroke=\"{ink}\" stroke-width=\"2\" d=\"M{} {}h22\"/>\n", Num(x), Num(y + 4.0)));
        svg.text(x + 28.0, y + 8.0, "", &name);
        x += 28.0 + text_width(&name, 11.0) + 22.0;
    }
    let style = format!(" fill=\"{}\"", page.inks.muted);
    svg.text(
        x,
        y + 8.0,
        &style,
        "latency from when a request was due; dashed: the largest rate, as many as possible at once",
    );
    y + 18.0
}

/// One plot; returns where it ends.
fn volume(page: &Page<'_>, options: &CurvePicture, svg: &mut Svg, y: f64, side: &CurveSide, axis: Axis) -> f64 {
    let heading = format!("{}: {} at most", shortened(&side.name, 80), format_rate(side.largest_per_s));
    svg.text(LEFT_PX, y + 14.0, " font-size=\"12\" font-weight=\"bold\"", &heading);
    let area = Area { x: LEFT_PX, y: y + 22.0, width: f64::from(options.width), height: PLOT_PX };
    let most = side.points.iter().map(|point| point.offered_per_s).fold(side.largest_per_s, f64::max);
    let plot = Plot { area, x: Axis::linear(0.0, most.max(1.0) * 1.03), y: axis, inks: &page.inks };
    plot.ground(svg, &|rate| if rate == 0.0 { "0".into() } else { format_rate(rate) }, &|ns| {
        format_duration(ns.round() as u64)
    });
    svg.put(format_args!(
        "<path stroke=\"{}\" stroke-dasharray=\"4 3\" d=\"M{} {}v{}\"/>\n",
        page.inks.muted,
        Num(plot.x_at(side.largest_per_s)),
        Num(area.y),
        Num(area.height)
    ));
    for point in side.points.iter().filter(|point| point.made_per_s < BEHIND * point.offered_per_s) {
        let text = format!("only {} made", format_rate(point.made_per_s));
        let style = format!(" text-anchor=\"end\" fill=\"{}\"", page.inks.alarm);
        svg.text(plot.x_at(point.offered_per_s) - 2.0, area.y + 12.0, &style, &text);
    }
    for (at, &quantile) in options.quantiles.iter().enumerate() {
        let name = quantile_name(quantile);
        let point = |point: &CurvePoint| {
            let ns = (*point.latencies_ns.get(at)?)?;
            let text = format!("{name} {} at {}", format_duration(ns), format_rate(point.offered_per_s));
            Some((point.offered_per_s, ns.max(1) as f64, text))
        };
        let points: Vec<_> = side.points.iter().filter_map(point).collect();
        plot.points(svg, &points, page.inks.lines[at % page.inks.lines.len()]);
    }
    area.bottom() + 32.0
}

/// A volume in words.
fn described(side: &CurveSide, quantiles: &[f64]) -> String {
    let point = |point: &CurvePoint| {
        let latencies = quantiles
            .iter()
            .zip(&point.latencies_ns)
            .filter_map(|(&quantile, ns)| ns.map(|ns| format!("{} {}", quantile_name(quantile), format_duration(ns))));
        format!("at {} {}", format_rate(point.offered_per_s), latencies.collect::<Vec<_>>().join(", "))
    };
    let points: Vec<String> = side.points.iter().map(point).collect();
    format!("{}, {} at most: {}", side.name, format_rate(side.largest_per_s), points.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_has_its_place() {
        let point = |offered_per_s: f64, made_per_s, p50, p99| CurvePoint {
            offered_per_s,
            made_per_s,
            latencies_ns: vec![p50, p99],
        };
        let points =
            vec![point(1000.0, 1000.0, Some(100_000), Some(1_000_000)), point(5000.0, 4000.0, Some(200_000), None)];
        let sides = [CurveSide { name: "<a>".into(), largest_per_s: 10_000.0, points }];
        let options = CurvePicture {
            title: "x".into(),
            width: 1000,
            theme: Theme::Light,
            wording: Wording::default(),
            quantiles: vec![0.5, 0.99],
        };
        let svg = curve(&sides, &[], &options);
        assert_eq!(svg.matches("<circle").count(), 3, "a percentile of too few requests has no point");
        assert!(svg.contains("&lt;a&gt;: 10k/s at most") && svg.contains("only 4k/s made"), "{svg}");
        // A tenth of the largest rate is at a tenth of the axis, which goes 3 percent beyond it.
        let x = |text: &str| -> f64 {
            let circle = svg.split("<circle ").skip(1).find(|part| part.contains(text)).unwrap();
            circle.split('"').nth(1).unwrap().parse().unwrap()
        };
        assert!((x("p50 100us") - (LEFT_PX + 1000.0 * 0.1 / 1.03)).abs() < 0.1, "{svg}");
        // A decade of latency, and two thirds of the way between minimum and maximum by their logarithms.
        let y = |text: &str| -> f64 {
            let circle = svg.split("<circle ").skip(1).find(|part| part.contains(text)).unwrap();
            circle.split('"').nth(3).unwrap().parse().unwrap()
        };
        let decade = y("p50 100us") - y("p99 1ms");
        let double = y("p50 100us") - y("p50 200us");
        assert!((double / decade - 2.0f64.log10()).abs() < 0.01, "{decade} {double}");
        assert!(svg.contains("at 1k/s p50 100us, p99 1ms; at 5k/s p50 200us"), "the picture in words");
        assert!(curve(&[], &[], &options).contains("</svg>"));
    }
}
