//! Whether what is selected recurs, and where in its period an event lies.

use super::table::{Side, Table};
use crate::period::recurrence_of;
use std::f64::consts::TAU;

/// A period is divided into so many parts.
pub(super) const PARTS: u64 = 50;
/// A trace is divided into so many intervals in which the selection is counted.
const INTERVALS: u64 = 500;
/// So many events of the selection decide about the exact length of the period.
const SAMPLE: usize = 1024;
/// How much of the selection lies on one side of the circle: the length of the mean of their directions.
const LEAST: f64 = 0.3;
/// A rounder period is as good, if it comes so near.
const AS_GOOD: f64 = 0.99;

/// The part of the period in which a moment lies.
pub(super) fn part_of(moment_ns: i64, period_ns: u64) -> u32 {
    let position = i128::from(moment_ns).rem_euclid(i128::from(period_ns)) as u128;
    (position * u128::from(PARTS) / u128::from(period_ns)) as u32
}

/// The first position in the period that lies in a part.
pub(super) fn start_of_part(part: u64, period_ns: u64) -> u64 {
    (u128::from(part) * u128::from(period_ns)).div_ceil(u128::from(PARTS)) as u64
}

impl Table {
    /// The period in which the selection recurs, nanoseconds; `None` if it does not.
    pub(super) fn period(&self, sides: &[Side]) -> Option<u64> {
        let (first, last) = (*self.end_ns.iter().min()?, *self.end_ns.iter().max()?);
        let span_ns = first.abs_diff(last);
        let width_ns = span_ns / INTERVALS;
        if width_ns == 0 {
            return None;
        }
        let mut counts = vec![0; (span_ns / width_ns + 1) as usize];
        let mut times = Vec::new();
        for (&end, _) in self.end_ns.iter().zip(sides).filter(|(_, side)| **side == Side::Selection) {
            let since_ns = first.abs_diff(end);
            counts[(since_ns / width_ns) as usize] += 1;
            times.push(since_ns);
        }
        let lag = recurrence_of(&[counts])?.0 as u64;
        let times: Vec<f64> = times.iter().step_by(times.len().div_ceil(SAMPLE)).map(|&ns| ns as f64).collect();
        exact_period(&times, (lag * width_ns, width_ns), span_ns)
    }
}

/// The period near this one, as far as it may be off, in which the moments lie together most; a round one where it is as good.
fn exact_period(times: &[f64], (about_ns, off_ns): (u64, u64), span_ns: u64) -> Option<u64> {
    let (about, off, span) = (about_ns as f64, off_ns as f64, span_ns as f64);
    // A step shifts the last moment by a twentieth of a period.
    let step = about * about / span / 20.0;
    let steps = (2.0 * off / step).ceil() as u32;
    let candidates = (0..=steps).map(|at| about - off + f64::from(at) * step).filter(|&period| period >= 1.0);
    let best = candidates.map(|period| (period, together(times, period))).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let rounded = (0..=best.0.log10() as i32).rev().map(|digits| {
        let unit = 10f64.powi(digits);
        (best.0 / unit).round() * unit
    });
    let is_near =
        |period: &f64| *period > 0.0 && (period - best.0).abs() <= off && together(times, *period) >= AS_GOOD * best.1;
    let period = rounded.into_iter().find(is_near).unwrap_or(best.0).round();
    (best.1 >= LEAST && period >= PARTS as f64).then_some(period as u64)
}

/// How far moments lie together on the circle of a period: 0 all over, 1 in one place.
fn together(times: &[f64], period: f64) -> f64 {
    let (sin, cos) = times.iter().fold((0.0, 0.0), |(sin, cos), time| {
        let angle = (time / period).fract() * TAU;
        (sin + angle.sin(), cos + angle.cos())
    });
    sin.hypot(cos) / times.len().max(1) as f64
}
