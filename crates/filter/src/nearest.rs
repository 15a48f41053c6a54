//! The known names nearest to one that is not known.

/// Up to three candidates that a slip of the keyboard turns into `name`, the nearest first.
pub(crate) fn nearest(name: &str, candidates: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    // Names longer than this are no slips, and the distance costs the product of the lengths.
    if name.len() > 64 {
        return Vec::new();
    }
    let name = name.to_ascii_lowercase();
    let limit = (name.len() / 3).max(1);
    let mut found: Vec<_> = candidates
        .filter_map(|candidate| {
            // A name cut short, or without its class, is as near as one slip.
            let part = name.len() >= 3
                && (candidate.starts_with(&name) || candidate.rsplit_once('.').is_some_and(|(_, last)| last == name));
            let distance = if part { 1 } else { strsim::osa_distance(&name, candidate) };
            (distance <= limit).then_some((distance, candidate))
        })
        .collect();
    found.sort_by_key(|&(distance, candidate)| (distance, candidate.len()));
    found.dedup();
    let best = found.first().map_or(0, |&(distance, _)| distance);
    found.retain(|&(distance, _)| distance <= best + 1);
    found.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        let known = ["lat", "latency", "size"];
        for (name, expected) in [
            ("lta", &["lat"][..]),
            ("latncy", &["latency"]),
            ("b", &[]),
            ("LAT", &["lat", "latency"]),
            ("sice", &["size"]),
        ] {
            assert_eq!(nearest(name, known.into_iter()), expected, "{name}");
        }
    }
}
