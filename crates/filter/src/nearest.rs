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
            let distance = if part { 1 } else { distance(&name, candidate) };
            (distance <= limit).then_some((distance, candidate))
        })
        .collect();
    found.sort_by_key(|&(distance, candidate)| (distance, candidate.len()));
    found.dedup();
    let best = found.first().map_or(0, |&(distance, _)| distance);
    found.retain(|&(distance, _)| distance <= best + 1);
    found.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// Letters to insert, delete, replace or swap with their neighbour (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<_>>(), vec![0; b.len() + 1]];
    for i in 1..=a.len() {
        rows[2][0] = i;
        for j in 1..=b.len() {
            let replaced = rows[1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[1][j] + 1).min(rows[2][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[0][j - 2] + 1);
            }
            rows[2][j] = least;
        }
        rows.rotate_left(1);
    }
    rows[1][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        for (a, b, slips) in
            [("", "abc", 3), ("lat", "lat", 0), ("lta", "lat", 1), ("latncy", "latency", 1), ("a", "b", 1)]
        {
            assert_eq!(distance(a, b), slips, "{a} {b}");
        }
    }
}
