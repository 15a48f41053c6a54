//! Which of many peers is different: a host of a cluster against all the others, exactly, because histograms add up.

use crate::HistogramSeries;
use latscope_histogram::{Rule, Sparse};
use std::collections::BTreeMap;

/// Fewer peers have no usual spread.
const LEAST_PEERS: usize = 5;
/// A percentile needs so many events beyond it.
const LEAST_BEYOND: f64 = 10.0;
/// Into so many windows the time is divided, and in so many of them a peer must stand out.
const WINDOWS: i64 = 5;
const MARKED_WINDOWS: usize = 3;
/// A score from here on stands out.
const SCORE: f64 = 3.5;
/// The least spread that counts, in octaves.
const LEAST_SPREAD: f64 = 1.0 / 32.0;

/// A peer, compared with all others that share its other labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Different {
    /// The labels of its group.
    pub group: Vec<String>,
    /// Its events.
    pub count: u64,
    /// Its median, nanoseconds; `None` without events.
    pub p50_ns: Option<u64>,
    /// Its 99th percentile, nanoseconds; `None` without events.
    pub p99_ns: Option<u64>,
    /// How far the 99th percentile is from the median of the peers, in robust standard deviations of its logarithm; `None` with
    /// fewer than five peers, or with too few events.
    pub score: Option<f64>,
    /// Whether it stands out in three of five windows.
    pub is_marked: bool,
    /// Its share of all events.
    pub share: f64,
    /// Its share of those above the threshold.
    pub slow_share: f64,
    /// The area between its cumulative curve and that of the others, in octaves of latency.
    pub area: f64,
}

/// Peers that share their other labels.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Peers {
    /// The labels that they share.
    pub group: Vec<String>,
    /// What is slow: from this value on, nanoseconds.
    pub threshold_ns: u64,
    /// The peers, those with the largest share of what is slow first.
    pub peers: Vec<Different>,
    /// By which factor the 50th and the 99th percentiles differ between peers.
    pub spread: Option<(f64, f64)>,
}

/// Compares the groups that differ in the label at this position. What is slow is at or above the threshold; by default, above the
/// 99th percentile of all.
pub fn different(series: &HistogramSeries, position: usize, threshold_ns: Option<u64>) -> Vec<Peers> {
    let mut families = BTreeMap::<Vec<String>, Vec<u32>>::new();
    for (group, labels) in (0..).zip(series.groups()) {
        let mut others = labels.clone();
        if position < others.len() {
            others.remove(position);
        }
        families.entry(others).or_default().push(group);
    }
    let sums = sums(series, i64::MIN, i64::MAX);
    let (start, end) = series.range().map_or((0, 0), |(first, last)| (first, last.saturating_add(1)));
    let windows: Vec<Sums> = (0..WINDOWS).map(|window| sums_between(series, start, end, window)).collect();
    let compare = |(labels, members): (Vec<String>, Vec<u32>)| {
        let all = merged(members.iter().filter_map(|member| sums.get(member)))?;
        let threshold_ns = threshold_ns.or_else(|| quantile(&all, 0.99)).unwrap_or(0);
        let marks = marks(&windows, &members);
        let scores = scores(&sums, &members);
        let mut peers: Vec<Different> = members
            .iter()
            .filter_map(|member| {
                let own = sums.get(member)?;
                let part = |one: u64, all: u64| if all == 0 { 0.0 } else { one as f64 / all as f64 };
                Some(Different {
                    group: series.groups()[*member as usize].clone(),
                    count: own.totals().count,
                    p50_ns: quantile(own, 0.5),
                    p99_ns: quantile(own, 0.99),
                    score: scores.get(member).copied(),
                    is_marked: marks.get(member).is_some_and(|&marked| marked >= MARKED_WINDOWS),
                    share: part(own.totals().count, all.totals().count),
                    slow_share: part(above(own, threshold_ns), above(&all, threshold_ns)),
                    area: area(own, &all),
                })
            })
            .collect();
        peers.sort_by(|one, other| {
            other
                .slow_share
                .total_cmp(&one.slow_share)
                .then(other.area.total_cmp(&one.area))
                .then(one.group.cmp(&other.group))
        });
        let factor = |value: fn(&Different) -> Option<u64>| {
            let values = || peers.iter().filter_map(value).filter(|&value| value > 0);
            Some(values().max()? as f64 / values().min()? as f64)
        };
        let spread = factor(|peer| peer.p50_ns).zip(factor(|peer| peer.p99_ns));
        Some(Peers { group: labels, threshold_ns, peers, spread })
    };
    families.into_iter().filter_map(compare).collect()
}

type Sums = BTreeMap<u32, Sparse>;

/// What completed in these intervals, by group; groups without events are left out.
fn sums(series: &HistogramSeries, start: i64, end: i64) -> Sums {
    let mut sums = Sums::new();
    for (_, slice) in series.slices().range(start..end) {
        for (group, histogram) in slice.groups.iter().filter(|(_, histogram)| histogram.totals().count > 0) {
            match sums.get_mut(group) {
                Some(sum) => sum.merge(histogram),
                None => drop(sums.insert(*group, histogram.clone())),
            }
        }
    }
    sums
}

fn sums_between(series: &HistogramSeries, start: i64, end: i64, window: i64) -> Sums {
    let edge = |number: i64| start + (end - start) * number / WINDOWS;
    sums(series, edge(window), edge(window + 1))
}

fn merged<'a>(mut parts: impl Iterator<Item = &'a Sparse>) -> Option<Sparse> {
    let mut all = parts.next()?.clone();
    parts.for_each(|part| all.merge(part));
    Some(all)
}

fn quantile(histogram: &Sparse, quantile: f64) -> Option<u64> {
    histogram.quantiles(&[quantile], Rule::Interpolated)?.first().copied()
}

/// Events in buckets from that of this value on.
fn above(histogram: &Sparse, threshold_ns: u64) -> u64 {
    let first = histogram.grid().index(threshold_ns);
    histogram.buckets().filter(|&(index, ..)| index >= first).map(|(_, count, _)| count).sum()
}

/// The area between the cumulative curves of a part and of the rest, over the logarithm of the value.
fn area(part: &Sparse, all: &Sparse) -> f64 {
    let grid = all.grid();
    let own: BTreeMap<usize, u64> = part.folded(grid).buckets().map(|(index, count, _)| (index, count)).collect();
    let (own_count, all_count) = (part.totals().count, all.totals().count);
    let rest_count = all_count.saturating_sub(own_count);
    if own_count == 0 || rest_count == 0 {
        return 0.0;
    }
    let octaves = |index: usize| (grid.lower(index).max(1) as f64).log2();
    let (mut own_sum, mut all_sum, mut area, mut last) = (0, 0, 0.0, None);
    for (index, count, _) in all.buckets() {
        let difference = own_sum as f64 / own_count as f64 - (all_sum - own_sum) as f64 / rest_count as f64;
        area += difference.abs() * last.map_or(0.0, |last| octaves(index) - octaves(last));
        own_sum += own.get(&index).copied().unwrap_or(0);
        all_sum += count;
        last = Some(index);
    }
    area
}

/// How far each peer is from the median of all; those with too few events are left out.
fn scores(sums: &Sums, members: &[u32]) -> BTreeMap<u32, f64> {
    let enough = |own: &Sparse| own.totals().count as f64 * 0.01 >= LEAST_BEYOND;
    let value = |own: &Sparse| quantile(own, 0.99).map(|value| (value.max(1) as f64).log2());
    let values: Vec<(u32, f64)> = members
        .iter()
        .filter_map(|member| Some((*member, value(sums.get(member).filter(|own| enough(own))?)?)))
        .collect();
    if values.len() < LEAST_PEERS {
        return BTreeMap::new();
    }
    let middle = median(values.iter().map(|&(_, value)| value));
    let spread = median(values.iter().map(|&(_, value)| (value - middle).abs())).max(LEAST_SPREAD);
    values.into_iter().map(|(member, value)| (member, 0.6745 * (value - middle) / spread)).collect()
}

/// In how many windows each peer stands out.
fn marks(windows: &[Sums], members: &[u32]) -> BTreeMap<u32, usize> {
    let mut marks = BTreeMap::new();
    for (member, score) in windows.iter().flat_map(|sums| scores(sums, members)) {
        *marks.entry(member).or_insert(0) += usize::from(score >= SCORE);
    }
    marks
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Quantity, Weight};
    use latscope_event::Field;
    use latscope_histogram::{Grid, Histogram};

    /// Hosts with 1,000 events in each of 10 intervals; the third has every tenth 30 ms later.
    fn series(hosts: u64) -> HistogramSeries {
        let fields = vec![Field::Host, Field::Device];
        let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, fields, 1_000_000_000);
        for (interval, host) in (0..10).flat_map(|interval| (0..hosts).map(move |host| (interval, host))) {
            let mut histogram = Histogram::new(Grid::FINE, false);
            for at in 0..1000u64 {
                let usual = 1_000_000 + (at * 7919 + host * 131) % 997 * 1000;
                histogram.record(usual + if host == 2 && at % 10 == 0 { 30_000_000 } else { 0 }, 0);
            }
            let labels = vec![format!("n{host}"), "sda".to_string()];
            series.insert(interval, labels, &histogram.to_sparse()).unwrap();
        }
        series.pass(0..10);
        series
    }

    #[test]
    fn the_slow_host_is_first_with_its_share() {
        for hosts in [3, 20] {
            let peers = different(&series(hosts), 0, Some(20_000_000));
            let [peers] = &peers[..] else { panic!("{peers:?}") };
            assert_eq!(peers.group, ["sda"]);
            let first = &peers.peers[0];
            assert_eq!((first.group[0].as_str(), first.slow_share), ("n2", 1.0));
            assert!((first.share - 1.0 / hosts as f64).abs() < 1e-9);
            // One event in ten is about four octaves later.
            assert!(first.area > 0.3 && peers.peers[1..].iter().all(|peer| peer.area < first.area), "{peers:?}");
            assert_eq!(first.is_marked, hosts >= 5);
            assert_eq!(peers.peers.iter().filter(|peer| peer.is_marked).count(), usize::from(hosts >= 5));
            assert!(peers.spread.unwrap().1 > 10.0);
        }
    }

    #[test]
    fn equal_hosts_are_not_marked() {
        let peers = different(&series(2), 0, None);
        assert!(peers[0].peers.iter().all(|peer| !peer.is_marked && peer.score.is_none()));
        assert!(peers[0].peers.iter().all(|peer| peer.area < 0.05), "{peers:?}");
    }
}
