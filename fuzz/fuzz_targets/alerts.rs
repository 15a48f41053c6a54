//! Any text as a file of alerts: rules or a sentence with a line, and rules that are printed for Prometheus.
#![no_main]

use latscope_wire::alerts::{Dialect, Rules, print};
use latscope_wire::exports::classic_edges_s;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Rules::parse(text, &|filter| if filter.len() > 100 { Err("too long".into()) } else { Ok(()) }) {
        Ok(rules) => {
            for dialect in [Dialect::Native, Dialect::Classic] {
                let (printed, tests) = print(&rules, dialect, &classic_edges_s());
                assert!(printed.starts_with("groups:"));
                assert!(tests.is_none_or(|tests| tests.starts_with("rule_files:")));
            }
            rules.slos.iter().for_each(|slo| drop(slo.remarks()));
        }
        Err(why) => assert!(why.starts_with("line "), "{why}"),
    }
});
