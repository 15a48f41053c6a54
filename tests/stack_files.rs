//! Files of stacks against counts of their text that share nothing with the readers.

use crate::program::{latscope, unpacked};
use latscope_capture_file::{ReadOptions, read_bytes};
use latscope_event::{Context, Field, FieldSet};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// How many events have these texts, each counted as often as it stands for.
fn counted(bytes: &[u8], fields: &[Field]) -> (BTreeMap<Vec<String>, u64>, Context) {
    let mut counts = BTreeMap::new();
    let context = read_bytes("stacks", bytes, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
        for row in 0..batch.len() {
            let texts = fields.iter().map(|&field| batch.text(field, row).unwrap_or("").to_string()).collect();
            let weight = batch.i64s(Field::SampleWeight).map_or(1, |weights| weights[row].max(1));
            *counts.entry(texts).or_default() += weight as u64;
        }
        ControlFlow::Continue(())
    });
    (counts, context.expect("it can be read"))
}

#[track_caller]
fn same(found: &BTreeMap<Vec<String>, u64>, expected: &BTreeMap<Vec<String>, u64>) {
    let only_in = |one: &BTreeMap<Vec<String>, u64>, other: &BTreeMap<Vec<String>, u64>| {
        one.iter().filter(|(texts, count)| other.get(*texts) != Some(count)).map(|one| format!("{one:?}")).collect()
    };
    let differences: [Vec<String>; 2] = [only_in(found, expected), only_in(expected, found)];
    assert_eq!(differences, [Vec::<String>::new(), Vec::new()], "found and expected");
}

fn leaf(stack: &str) -> &str {
    stack.rsplit(';').next().unwrap_or(stack).trim_end_matches("_[k]")
}

#[test]
fn folded_counts_are_those_of_the_lines() {
    for name in ["folded/mix.folded", "folded/mix.ann.folded", "folded/wall.collapsed"] {
        let bytes = unpacked(name);
        let (counts, context) = counted(&bytes, &[Field::Stack]);
        let mut leaves: BTreeMap<&str, u64> = BTreeMap::new();
        for line in std::str::from_utf8(&bytes).unwrap().lines() {
            let (stack, count) = line.rsplit_once(' ').unwrap();
            *leaves.entry(leaf(stack)).or_default() += count.parse::<u64>().unwrap();
        }
        let mut found: BTreeMap<&str, u64> = BTreeMap::new();
        for (texts, count) in &counts {
            *found.entry(leaf(&texts[0])).or_default() += count;
        }
        assert_eq!(found, leaves, "{name}");
        assert_eq!(context.tally.iter().count(), 0, "{name}: {:?}", context.tally);
    }
    // The two counts of difffolded: sums by awk '{a += $(NF-1); b += $NF}'.
    let (counts, _) = counted(&unpacked("folded/diff.folded"), &[Field::Tags]);
    let sides: Vec<_> = counts.iter().map(|(texts, &count)| (texts[0].as_str(), count)).collect();
    assert_eq!(sides, [("side=first", 146), ("side=second", 146)]);
    let printed = latscope(&["summary", "-r", "testdata/folded/diff.folded", "--by", "tags"]).success();
    assert!(printed.contains("counted without times") && printed.contains("side=first"), "{printed}");
}

/// The stack of each completed request, by a dictionary of what `block_io_start` opened: names only, of the lines below.
fn stacks_of_requests(text: &str) -> BTreeMap<Vec<String>, u64> {
    let (mut open, mut counts) = (BTreeMap::new(), BTreeMap::new());
    for record in text.split("\n\n") {
        let mut lines = record.trim_start_matches('\n').lines();
        let Some(first) = lines.next() else { continue };
        let words: Vec<&str> = first.split_whitespace().collect();
        let Some(event) = words.iter().position(|word| word.starts_with("block:")) else { continue };
        // The sector stands before the plus sign.
        let plus = words.iter().rposition(|&word| word == "+").unwrap();
        let key = (words[event + 1], words[plus - 1]);
        if words[event] == "block:block_io_start:" {
            let name = |line: &str| {
                let (address, rest) = line.trim().split_once(' ').unwrap();
                let (name, module) = rest.rsplit_once(" (").unwrap();
                let name = name.rsplit_once("+0x").map_or(name, |(name, _)| name);
                let mark = match module {
                    _ if address.len() == 16 && address >= "8" => "_[k]",
                    "inlined)" => "_[i]",
                    _ => "",
                };
                let file = module.trim_end_matches(')').rsplit('/').next().unwrap();
                let is_unnamed = name == "[unknown]" && !file.starts_with('[');
                // What separates frames is replaced in names.
                let name = name.replace(';', ":");
                if is_unnamed { format!("[{file}]") } else { format!("{name}{mark}") }
            };
            let frames: Vec<String> = lines.rev().map(name).collect();
            open.insert(key, frames.join(";"));
        } else if let Some(stack) = open.remove(&key) {
            *counts.entry(vec![stack, "issue".to_string()]).or_default() += 1;
        }
    }
    counts
}

#[test]
fn requests_have_the_stacks_below_their_starts() {
    for name in ["perf_script/stacks_fp.txt.gz", "perf_script/stacks_dwarf.txt.gz"] {
        let bytes = unpacked(name);
        let expected = stacks_of_requests(std::str::from_utf8(&bytes).unwrap());
        assert!(expected.values().sum::<u64>() > 50, "{expected:?}");
        same(&counted(&bytes, &[Field::Stack, Field::StackSource]).0, &expected);
        // Behind so many lines that the chunks of the reader start anywhere.
        let text = std::str::from_utf8(&bytes).unwrap();
        let later = |copy: usize| {
            let moved = |line: &str| match line.find("] ").filter(|_| line.contains(" block:block_")) {
                Some(at) => {
                    let point = at + line[at..].find('.').unwrap();
                    let second: usize = line[at + 1..point].trim().parse().unwrap();
                    format!("{} {}{}\n", &line[..=at], second + 100 * copy, &line[point..])
                }
                None => format!("{line}\n"),
            };
            text.trim_end().lines().map(moved).collect::<String>() + "\n"
        };
        let many: String = (0..40).map(later).collect();
        let of_many = stacks_of_requests(&many);
        let found = counted(many.as_bytes(), &[Field::Stack, Field::StackSource]).0;
        same(&found, &of_many);
    }
}

#[test]
fn samples_of_a_clock_are_events() {
    let bytes = unpacked("perf_script/cpu_clock.txt.gz");
    let text = std::str::from_utf8(&bytes).unwrap();
    let (counts, context) = counted(&bytes, &[Field::Kind, Field::Name, Field::Stack]);
    let of_inner: u64 = counts.iter().filter(|(texts, _)| texts[2].ends_with("main;outer;inner")).map(|(_, n)| n).sum();
    let samples = text.matches(" cpu-clock: \n").count();
    let expected =
        text.split("\n\n").filter(|record| record.lines().nth(1).is_some_and(|line| line.contains(" inner+")));
    assert_eq!(counts.values().sum::<u64>(), samples as u64);
    assert_eq!(of_inner, expected.count() as u64);
    assert!(counts.keys().all(|texts| texts[..2] == ["sample", "cpu-clock"]), "{counts:?}");
    assert_eq!(context.tally.iter().count(), 0);
    // Each is as long as its period, whether the stack is asked for or not.
    let printed =
        latscope(&["summary", "-r", "testdata/perf_script/cpu_clock.txt.gz", "--by", "kind", "--json"]).success();
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed["groups"][0]["count"], samples, "{printed}");
}
