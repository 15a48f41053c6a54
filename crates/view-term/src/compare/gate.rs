//! A comparison for what stands between a change and its merge: Markdown for a comment, JUnit for the tests of a job.

use super::{CompareTable, texts};
use latscope_event::{format_count, format_duration, printable};
use latscope_series::compare::{Judgement, Limit, Pair, subjects};
use latscope_view::Escaped;

impl CompareTable<'_> {
    /// Whether a pair keeps the limit, and a sentence about that.
    pub fn judged(&self, limit: &Limit, pair: &Pair) -> (Judgement, String) {
        let (judgement, base, other) = (limit.judge(pair), self.name(0), self.name(pair.other));
        let (base, other) = subjects(self.quantity(), base, other);
        let (more, _) = self.quantity().comparatives();
        let bounds = limit.judged(pair, judgement).join(", ");
        let sentence = match judgement {
            Judgement::Kept => format!("{bounds}: within the limit, {other} is not {more} than {base} by more."),
            Judgement::Exceeded => match (limit.hanging(pair), limit.standstill(pair)) {
                (0, None) => format!("{bounds}: limit exceeded, {other} is {more} than {base}."),
                (0, Some(still)) => {
                    let (length, oldest) = (format_duration(still.for_ns), format_duration(still.oldest_ns));
                    let when = match still.only_at_end {
                        true => format!("in its last {length}"),
                        false => format!("for {length} of its {}", format_duration(still.run_ns)),
                    };
                    format!(
                        "{bounds}: limit exceeded, no request of {other} completed {when}, while one waited for {oldest}."
                    )
                }
                (hanging, _) => format!(
                    "{bounds}: limit exceeded, {} of {other} had not completed when it ended, and had waited longer than any of \
                     {base} took.",
                    if hanging == 1 {
                        "1 request".into()
                    } else {
                        format!("{} requests", format_count(hanging as u64))
                    }
                ),
            },
            Judgement::Unknown => {
                let known = match limit.is_likely_exceeded(pair) {
                    true => format!(
                        "{other} is probably {more} than {base} by more than the limit, but not with the confidence that a \
                         comparison of several measures needs"
                    ),
                    false => {
                        format!("the data do not show whether {other} is {more} than {base} by more than the limit")
                    }
                };
                let remedy = match self.comparison.has_turns() {
                    _ if pair.is_cut || pair.is_truncated || pair.lost > 0.0 => "record this run again",
                    true => "compare more runs per side",
                    false => "measure longer, or compare several runs per side (--group)",
                };
                format!("--fail-if cannot be decided: {known}: {}; {remedy}.", limit.undecided(pair).join(", "))
            }
        };
        (judgement, sentence)
    }

    /// GitHub's Markdown: what became of the limit, the verdicts, what is unlike, a table for each pair, the picture at this address, and
    /// the notes.
    pub fn markdown(&self, limit: Option<&Limit>, picture: Option<&str>) -> String {
        let mut text = String::new();
        for pair in &self.comparison.pairs {
            if let Some((judgement, sentence)) = limit.map(|limit| self.judged(limit, pair)) {
                text += &format!("**{}**: {}\n\n", word(judgement), plain(&sentence));
            }
            text += &format!("{}\n\n", plain(&self.comparison.verdict(pair, self.names)));
        }
        let list = |text: String| format!("* {}\n", plain(&text));
        let (unlike, notes) = self.reservations();
        text.extend(unlike.into_iter().map(list));
        text.extend((!self.unlike.is_empty()).then_some("\n"));
        for pair in &self.comparison.pairs {
            let confidence = (self.comparison.options.confidence * 1e4).round() / 100.0;
            let (base, other) = (plain(self.name(0)), plain(self.name(pair.other)));
            text += &format!("| | {base} | {other} | difference | | {confidence}% interval | |\n");
            text += "|---|--:|--:|--:|--:|--:|---|\n";
            for (title, [base, other]) in self.extremes(pair) {
                text += &format!("| {title} | {} | {} | | | | |\n", plain(&base), plain(&other));
            }
            for row in &pair.differences {
                text += &format!("| {} |\n", texts(self.quantity(), row).map(|cell| plain(&cell)).join(" | "));
            }
            text.push('\n');
        }
        if self.comparison.pairs.is_empty() {
            text += &format!("| | {} |\n|---|--:|\n", plain(self.name(0)));
            let numbers = self.numbers_of(0).into_iter();
            text.extend(numbers.map(|(title, value)| format!("| {title} | {} |\n", plain(&value))));
            text.push('\n');
        }
        if let Some(picture) = picture {
            text += &format!("![Comparison](<{}>)\n\n", picture.replace(['<', '>', '\\', '\n'], ""));
        }
        text.extend(notes.into_iter().map(list));
        text.trim_end().to_string() + "\n"
    }

    /// What a reader must know of the two sides before believing in a difference: how they are unlike; and what was lost, what waits.
    fn reservations(&self) -> (Vec<String>, Vec<String>) {
        let unlike = self.unlike.iter().map(|text| format!("unlike: {text}"));
        (unlike.collect(), self.unknown.map(str::to_string).into_iter().chain(self.all_notes()).collect())
    }

    /// JUnit's XML: a test for each pair. A limit that was exceeded is a failure, one that nobody can decide an error.
    pub fn junit(&self, limit: Option<&Limit>) -> String {
        let (mut failures, mut errors) = (0, 0);
        let mut tests = String::new();
        for pair in &self.comparison.pairs {
            let name = format!("{} against {}", self.name(pair.other), self.name(0));
            tests += &format!("  <testcase classname=\"latscope.compare\" name=\"{}\">\n", Escaped(&name));
            let judged = limit.map(|limit| self.judged(limit, pair));
            let element = match judged {
                Some((Judgement::Exceeded, _)) => {
                    failures += 1;
                    "failure"
                }
                Some((Judgement::Unknown, _)) => {
                    errors += 1;
                    "error"
                }
                _ => "",
            };
            if let Some((_, sentence)) = judged.filter(|_| !element.is_empty()) {
                let rows = pair
                    .differences
                    .iter()
                    .map(|row| texts(self.quantity(), row).join("  ").trim_end().to_string() + "\n");
                let (sentence, rows) = (Escaped(&sentence), &rows.collect::<String>());
                tests += &format!("    <{element} message=\"{sentence}\">{}</{element}>\n", Escaped(rows));
            }
            let verdict = self.comparison.verdict(pair, self.names);
            let (unlike, notes) = self.reservations();
            let verdict = [vec![verdict], unlike, notes].concat().join("\n");
            tests += &format!("    <system-out>{}</system-out>\n  </testcase>\n", Escaped(&verdict));
        }
        let count = self.comparison.pairs.len();
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"latscope compare\" tests=\"{count}\" \
             failures=\"{failures}\" errors=\"{errors}\">\n{tests}</testsuite>\n"
        )
    }

    /// JUnit's XML of a comparison that could not be made: a test with this error.
    pub fn junit_of_failure(sentence: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"latscope compare\" tests=\"1\" failures=\"0\" errors=\"1\">\n  \
         <testcase classname=\"latscope.compare\" name=\"comparison\">\n    <error message=\"{}\"/>\n  </testcase>\n</testsuite>\n",
            Escaped(sentence)
        )
    }

    /// Markdown of a comparison that could not be made.
    pub fn markdown_of_failure(sentence: &str) -> String {
        format!("**{}**: {}\n", word(Judgement::Unknown), plain(sentence))
    }
}

fn word(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Kept => "Passed",
        Judgement::Unknown => "Undecided",
        Judgement::Exceeded => "Failed",
    }
}

/// Text of which Markdown makes nothing else: names come from files.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len() + 8);
    for letter in printable(text).chars() {
        match letter {
            '\n' | '\r' => plain.push(' '),
            // A backslash does not keep GitHub from calling whom it names.
            '@' => plain.push_str("&#64;"),
            '&' => plain.push_str("&amp;"),
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => plain.extend(['\\', letter]),
            letter => plain.push(letter),
        }
    }
    plain
}
