//! Which of many peers is different, as text.

use latscope_event::{Field, format_count, format_duration};
use latscope_series::{Different, Peers};

/// One table: the peers that share their labels of all fields but the first.
pub fn different_table(peers: &Peers, by: &[Field]) -> String {
    let fields: Vec<&str> = by.iter().map(|field| field.name()).collect();
    let Some((first, others)) = fields.split_first() else { return String::new() };
    let head = [*first, "count", "share", "slow", "p50", "p99", "score", "area"].map(str::to_string);
    let percent = |share: f64| format!("{:.1}%", share * 100.0);
    let time = |ns: Option<u64>| ns.map_or("-".into(), format_duration);
    let row = |peer: &Different| {
        let score =
            peer.score.map_or("-".into(), |score| format!("{score:.1}{}", if peer.is_marked { "!" } else { "" }));
        [
            peer.group[0].clone(),
            format_count(peer.count),
            percent(peer.share),
            percent(peer.slow_share),
            time(peer.p50_ns),
            time(peer.p99_ns),
            score,
            format!("{:.2}", peer.area),
        ]
    };
    let rows: Vec<[String; 8]> = std::iter::once(head).chain(peers.peers.iter().map(row)).collect();
    let widths: Vec<usize> =
        (0..8).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    let shared = others.iter().zip(&peers.group).map(|(field, label)| format!("{field} = {label}, "));
    let shared: String = shared.collect();
    text += &format!("{shared}slow: from {} on", format_duration(peers.threshold_ns));
    if let Some((p50, p99)) = peers.spread {
        text += &format!("; spread of p50 {p50:.1}x, of p99 {p99:.1}x");
    }
    text.push('\n');
    for row in rows {
        let first = format!("{:<width$}", row[0], width = widths[0]);
        let others = (1..8).map(|column| format!("  {:>width$}", row[column], width = widths[column]));
        text += format!("{first}{}", others.collect::<String>()).trim_end();
        text.push('\n');
    }
    text
}
