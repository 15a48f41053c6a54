//! What users call queries and jobs, as far as views show it.

use std::borrow::Cow;

/// Texts of the user are cut here.
pub const LONGEST_TEXT: usize = 200;

/// The start of a text, as far as views show it.
pub fn shortened(text: &str) -> &str {
    let line = text.trim().lines().next().unwrap_or_default();
    line.char_indices().nth(LONGEST_TEXT).map_or(line, |(at, _)| &line[..at])
}

/// The name of a query or job: the first line of its description; of a batch of a streaming query, whose description has its name (if it
/// has one), identifiers and the number of the batch on lines of their own, the name and the batch.
pub fn described(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    let lines = || text.split(['\n', '\r']).flat_map(|line| line.split("<br/>")).map(str::trim);
    let value = |key: &str| lines().find_map(|line| line.strip_prefix(key));
    let (Some(id), Some(_), Some(batch)) = (value("id = "), value("runId = "), value("batch = ")) else {
        return Cow::Borrowed(shortened(text));
    };
    match lines().next().filter(|first| !first.starts_with("id = ")) {
        Some(name) => format!("{}, batch {}", shortened(name), shortened(batch)).into(),
        None => format!("streaming query {}, batch {}", id.split('-').next().unwrap_or(id), shortened(batch)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_streaming_queries_have_the_name_of_the_query() {
        let ids = "id = 5a4e57dd-0001\nrunId = 77aa-2\nbatch = 3";
        assert_eq!(described(&format!("orders\n{ids}")), "orders, batch 3");
        assert_eq!(described(&format!("\n{ids}")), "streaming query 5a4e57dd, batch 3");
        assert_eq!(described(&format!("orders\n{ids}").replace('\n', "<br/>")), "orders, batch 3", "Spark 2");
        assert_eq!(described("count at a.py:1\nmore"), "count at a.py:1");
        assert_eq!(described("id = 3"), "id = 3");
    }
}
