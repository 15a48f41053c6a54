//! How much a mean of neighbours that resemble each other varies.
//!
//! The variance of a sum is that of its slowest waves: the squares of the first coefficients of a cosine transform average to it,
//! with as many degrees of freedom as there are coefficients (equal-weighted cosines: Müller 2004; Lazarus, Lewis, Stock and
//! Watson 2018), if the spectrum is flat as far as they go. How far that is follows from the correlation time (windowed as Sokal
//! does) and from tests of whether slower waves are stronger than faster ones.

/// Waves of so many correlation times at least are counted.
const TIMES: f64 = 4.0;
/// With fewer waves there is no way to know.
const FEWEST: usize = 10;
/// The correlation is summed until so many times as far as its sum.
const WINDOW: f64 = 6.0;
/// Slower waves are stronger than faster ones by chance once in fifty times so much (standard normal).
const STRONGER: f64 = 2.054;
/// The slowest waves of all, which are drift, once in a hundred times.
const DRIFT: usize = 3;
const DRIFTS: f64 = 2.326;

/// What the slowest waves of a series give.
pub(super) struct Waves {
    /// Coefficients of waves, the slowest first; a third as many as the series is long.
    pub coefficients: Vec<f64>,
    /// The variance of the sum.
    pub variance: f64,
    /// So many waves it was taken from; 0 when there is no way to know.
    pub freedom: usize,
}

/// How many neighbours a value resembles, together with itself: 1 of independent ones.
pub(super) fn correlation_time(series: &[f64]) -> f64 {
    let squares: f64 = series.iter().map(|value| value * value).sum();
    if squares <= 0.0 {
        return 1.0;
    }
    let (mut time, mut most) = (1.0f64, 1.0f64);
    for lag in 1..series.len() / 2 {
        time += 2.0 * series.iter().zip(&series[lag..]).map(|(a, b)| a * b).sum::<f64>() / squares;
        most = most.max(time);
        if lag as f64 >= WINDOW * time {
            return time.max(1.0);
        }
    }
    most.max(series.len() as f64 / 8.0)
}

impl Waves {
    /// Of deviations from a mean, in the order of time; the correlation lasts for `time` of them at least.
    pub fn new(series: &[f64], time: f64) -> Waves {
        let most = series.len() / 3;
        let coefficients = cosines(series, most);
        let squares: Vec<f64> = coefficients.iter().map(|value| value * value).collect();
        let farthest = (series.len() as f64 / (TIMES * time.max(correlation_time(series)))) as usize;
        let farthest = farthest.min(most);
        if squares.iter().all(|&square| square == 0.0) || farthest < FEWEST {
            // Equal values have no spectrum.
            let freedom = if series.iter().all(|&value| value == 0.0) && most >= FEWEST { most } else { 0 };
            return Waves { coefficients, variance: 0.0, freedom };
        }
        let freedom = flat(&squares, farthest);
        let drifts = stronger(&squares, DRIFT, freedom, DRIFTS);
        let variance = level(&squares, freedom) * series.len() as f64;
        Waves { coefficients, variance, freedom: if drifts { 0 } else { freedom } }
    }
}

/// So far the spectrum is flat: twice as far each time, while the slower waves are no stronger than the added ones.
fn flat(squares: &[f64], farthest: usize) -> usize {
    let mut freedom = FEWEST;
    while freedom < farthest {
        let next = (2 * freedom).min(farthest);
        if stronger(squares, freedom, next, STRONGER) || stronger(squares, FEWEST, next, STRONGER) {
            break;
        }
        freedom = next;
    }
    freedom
}

/// Whether the squares before `first` are larger than those from there to `last`, by more standard deviations than `limit`: the
/// ratio of their means is F-distributed, and its cube root nearly normal (Paulson 1942).
fn stronger(squares: &[f64], first: usize, last: usize, limit: f64) -> bool {
    if first >= last {
        return false;
    }
    let ratio = (mean(&squares[..first]) / mean(&squares[first..last])).cbrt();
    let part = |count: usize| 2.0 / (9.0 * count as f64);
    let (slow, fast) = (part(first), part(last - first));
    ((1.0 - fast) * ratio - (1.0 - slow)) > limit * (fast * ratio * ratio + slow).sqrt()
}

/// The level of the spectrum at its slow end. Where few waves give it, it is as much higher than their mean as the slower half of
/// them is stronger than the faster; it may rise further than the series is long to show.
fn level(squares: &[f64], freedom: usize) -> f64 {
    let rise = |first: usize| mean(&squares[..first]) / mean(&squares[first..freedom]).max(f64::MIN_POSITIVE);
    let mut rises = 1.0f64;
    if freedom <= 64 {
        rises = rises.max(rise(freedom / 2));
    }
    if freedom > 16 {
        rises = rises.max(rise(5) / 2.0);
    }
    mean(&squares[..freedom]) * rises
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Coefficients 1 to `most` of the orthonormal discrete cosine transform.
fn cosines(series: &[f64], most: usize) -> Vec<f64> {
    let count = series.len();
    let turn = std::f64::consts::PI / (2.0 * count as f64);
    let table: Vec<f64> = (0..4 * count).map(|at| (turn * at as f64).cos()).collect();
    let coefficient = |wave: usize| {
        // The angle grows by two steps of `wave` quarters; what is a whole turn away is the same.
        let mut at = wave;
        let mut sum = 0.0;
        for value in series {
            sum += value * table[at];
            at += 2 * wave;
            if at >= 4 * count {
                at -= 4 * count;
            }
        }
        sum * (2.0 / count as f64).sqrt()
    };
    (1..=most).map(coefficient).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_are_those_of_the_definition() {
        let series: Vec<f64> = (0..37).map(|at| f64::from((at * 7919) % 101) - 50.0).collect();
        for (at, found) in cosines(&series, 12).into_iter().enumerate() {
            let wave = (at + 1) as f64;
            // scipy.fft.dct(series, 2, norm="ortho")
            let term = |(at, value): (usize, &f64)| {
                value * (std::f64::consts::PI * wave * (2.0 * at as f64 + 1.0) / 74.0).cos()
            };
            let truth = series.iter().enumerate().map(term).sum::<f64>() * (2.0f64 / 37.0).sqrt();
            assert!((found - truth).abs() < 1e-9, "{wave}: {found} {truth}");
        }
    }

    #[test]
    fn what_goes_on_for_long_is_seen() {
        assert_eq!(correlation_time(&[0.0; 50]), 1.0);
        let alternating: Vec<f64> = (0..400).map(|at| if at % 2 == 0 { 1.0 } else { -1.0 }).collect();
        assert_eq!(correlation_time(&alternating), 1.0);
        // Pieces of ten equal values: ten of them are one.
        let mut random = crate::random::Random(1);
        let levels: Vec<f64> = (0..100).map(|_| random.normal()).collect();
        let pieces: Vec<f64> = (0..1000).map(|at| levels[at / 10]).collect();
        let time = correlation_time(&pieces);
        assert!((6.0..16.0).contains(&time), "{time}");
        // A slope over the whole of it leaves no wave to estimate it from.
        let slope: Vec<f64> = (0..1000).map(|at| f64::from(at) - 499.5).collect();
        assert_eq!(Waves::new(&slope, 1.0).freedom, 0);
    }
}
