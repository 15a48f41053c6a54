//! `summary --different`: which of many hosts, or devices, is not like the others.

use crate::Failure;
use crate::output;
use crate::plan::{Folding, Shape, Summary as Plan};
use crate::run::reports;
use latscope_pipeline::Pipeline;
use latscope_series::{Different, Peers, Weight, different};
use latscope_view_term::different_table;
use serde_json::json;

/// In so many intervals the time is cut, of which windows are made.
const INTERVALS: u32 = 60;

pub fn run(pipeline: &Pipeline, plan: &Plan) -> Result<(), Failure> {
    let folding = Folding { weight: Weight::Count, interval: None, ..plan.folding.clone() };
    let (series, contexts) = pipeline.series(&folding, INTERVALS)?;
    let families = different(&series, 0, plan.over_ns);
    let text = match plan.shape {
        Shape::Text => {
            families.iter().map(|peers| different_table(peers, &plan.folding.by)).collect::<Vec<_>>().join("\n")
        }
        Shape::Csv => csv(&families, plan),
        Shape::Json => json(&families, plan) + "\n",
    };
    output::text(plan.output.as_deref(), &text)?;
    reports::say_notes(&contexts);
    Ok(())
}

fn csv(families: &[Peers], plan: &Plan) -> String {
    let fields: Vec<&str> = plan.folding.by.iter().map(|field| field.name()).collect();
    let mut text =
        format!("{},count,share,slow_share,p50_ns,p99_ns,score,is_marked,area,threshold_ns\n", fields.join(","));
    let quoted = |label: &String| match label.contains([',', '"', '\n']) {
        true => format!("\"{}\"", label.replace('"', "\"\"")),
        false => label.clone(),
    };
    let number = |ns: Option<u64>| ns.map_or(String::new(), |ns| ns.to_string());
    for (peers, peer) in families.iter().flat_map(|peers| peers.peers.iter().map(move |peer| (peers, peer))) {
        let labels = peer.group.iter().map(quoted).collect::<Vec<_>>().join(",");
        let score = peer.score.map_or(String::new(), |score| format!("{score:.3}"));
        text += &format!(
            "{labels},{},{:.6},{:.6},{},{},{score},{},{:.4},{}\n",
            peer.count,
            peer.share,
            peer.slow_share,
            number(peer.p50_ns),
            number(peer.p99_ns),
            peer.is_marked,
            peer.area,
            peers.threshold_ns
        );
    }
    text
}

fn json(families: &[Peers], plan: &Plan) -> String {
    let group = |labels: &[String]| {
        let fields = plan.folding.by.iter().map(|field| field.name().to_string());
        fields.zip(labels.iter().map(|label| json!(label))).collect::<serde_json::Map<_, _>>()
    };
    let peer = |peer: &Different| {
        json!({
            "group": group(&peer.group), "count": peer.count, "share": peer.share, "slow_share": peer.slow_share,
            "p50_ns": peer.p50_ns, "p99_ns": peer.p99_ns, "score": peer.score, "is_marked": peer.is_marked, "area": peer.area,
        })
    };
    let family = |peers: &Peers| {
        json!({
            "threshold_ns": peers.threshold_ns,
            "spread": peers.spread.map(|(p50, p99)| json!({"p50": p50, "p99": p99})),
            "peers": peers.peers.iter().map(peer).collect::<Vec<_>>(),
        })
    };
    json!(families.iter().map(family).collect::<Vec<_>>()).to_string()
}
