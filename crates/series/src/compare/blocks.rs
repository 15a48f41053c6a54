//! How many neighbours resemble each other: the length of blocks to draw.

/// The length of blocks for the mean of this series by Politis and White (2004), "Automatic block-length selection for the
/// dependent bootstrap", for circular blocks, as corrected by Patton, Politis and White (2009). 1 for independent values.
pub(super) fn length(series: &[f64]) -> usize {
    let count = series.len();
    if count < 20 {
        return 1;
    }
    let n = count as f64;
    let mean = series.iter().sum::<f64>() / n;
    let centred: Vec<f64> = series.iter().map(|value| value - mean).collect();
    let covariance = |lag: usize| centred.iter().zip(&centred[lag..]).map(|(a, b)| a * b).sum::<f64>() / n;
    let variance = covariance(0);
    if variance <= 0.0 {
        return 1;
    }
    // The first lag after which a run of correlations is no larger than chance makes them.
    let run = (n.log10().sqrt().ceil() as usize).max(5);
    let farthest = ((n.sqrt().ceil() as usize) + run).min(count / 2);
    let chance = 2.0 * (n.log10() / n).sqrt();
    let mut covariances = vec![variance];
    let (mut quiet, mut last) = (0, None);
    for lag in 1..=farthest {
        covariances.push(covariance(lag));
        quiet = if (covariances[lag] / variance).abs() < chance { quiet + 1 } else { 0 };
        if quiet == run {
            last = Some(lag - run);
            break;
        }
    }
    let last = last.unwrap_or(farthest / 2);
    if last == 0 {
        return 1;
    }
    let band = (2 * last).min(count / 2);
    // A window that is flat to its half and falls to zero from there.
    let window = |lag: usize| (2.0 * (1.0 - lag as f64 / band as f64)).clamp(0.0, 1.0);
    let (mut spectrum, mut slope) = (variance, 0.0);
    for lag in 1..=band {
        let known = covariances.get(lag).copied().unwrap_or_else(|| covariance(lag));
        spectrum += 2.0 * window(lag) * known;
        slope += 2.0 * window(lag) * lag as f64 * known;
    }
    if spectrum <= 0.0 {
        return 1;
    }
    let length = (2.0 * slope * slope / (4.0 / 3.0 * spectrum * spectrum)).cbrt() * n.cbrt();
    // Fewer than ten blocks tell nothing about how much blocks vary.
    (length.round() as usize).clamp(1, count / 10)
}
