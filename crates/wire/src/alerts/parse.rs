//! Reads a file of alerts.

use super::rules::{Delivery, Hold, OnNoData, Quorum, Rule, Rules, Slo};
use super::table::{Mistake, Table};
use crate::Url;
use latscope_event::{Field, FieldType, parse_duration};
use latscope_series::{Part, Threshold};
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::de::DeTable;

/// How much time is judged at once, unless the condition is about a moment.
const STEP_NS: u64 = 10_000_000_000;

impl Rules {
    /// Those of a file, with the built-in ones that it does not replace. `check` looks at a filter.
    ///
    /// # Errors
    /// A sentence with the line of the mistake.
    pub fn parse(text: &str, check: &dyn Fn(&str) -> Result<(), String>) -> Result<Rules, String> {
        let parsed = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
            format!("line {line}: {}.", error.message().trim().replace('\n', "; "))
        })?;
        let file = Table::new(text, parsed.get_ref());
        rules(&file, check).map_err(|mistake| mistake.to_string())
    }
}

fn rules(file: &Table, check: &dyn Fn(&str) -> Result<(), String>) -> Result<Rules, Mistake> {
    file.only(&["alert", "slo", "deliver", "built_in"])?;
    let mut rules = Rules::default();
    for table in file.tables("alert")? {
        let rule = alert(&table, check)?;
        if rules.alerts.iter().any(|other| other.name == rule.name) {
            return Err(table.wrong_value("name", format!("another alert is called {}", rule.name)));
        }
        rules.alerts.push(rule);
    }
    for table in file.tables("slo")? {
        let slo = objective(&table, check)?;
        let is_same = rules.slos.iter().any(|other| other.name == slo.name);
        if is_same || rules.alerts.iter().any(|other| other.name == slo.name) {
            return Err(table.wrong_value("name", format!("another alert is called {}", slo.name)));
        }
        rules.slos.push(slo);
    }
    rules.deliveries = file.tables("deliver")?.iter().map(delivery).collect::<Result<_, _>>()?;
    if file.flag("built_in")?.unwrap_or(true) {
        refuse_built_in_names(file, &rules.alerts)?;
        let Rules { alerts, faults, .. } = Rules::built_in();
        let is_free = |name: &str| rules.alerts.iter().all(|other| other.name != name);
        let new: Vec<Rule> = alerts.into_iter().filter(|rule| is_free(&rule.name)).collect();
        rules.faults = faults.into_iter().filter(|fault| is_free(fault.name())).collect();
        rules.alerts.extend(new);
    }
    Ok(rules)
}

/// An objective has no name of a built-in alert that stays.
fn refuse_built_in_names(file: &Table, replacing: &[Rule]) -> Result<(), Mistake> {
    let Rules { alerts, faults, .. } = Rules::built_in();
    let names = alerts.into_iter().map(|rule| rule.name).chain(faults.iter().map(|fault| fault.name().to_string()));
    let names: Vec<String> = names.filter(|name| replacing.iter().all(|rule| rule.name != *name)).collect();
    for table in file.tables("slo")? {
        if names.iter().any(|name| table.needed("name") == Ok(name)) {
            return Err(table.wrong_value("name", "a built-in alert has this name"));
        }
    }
    Ok(())
}

fn alert(table: &Table, check: &dyn Fn(&str) -> Result<(), String>) -> Result<Rule, Mistake> {
    table.only(&[
        "name",
        "where",
        "by",
        "if",
        "for",
        "until",
        "keep",
        "step",
        "hosts",
        "counting",
        "on_no_data",
        "labels",
        "annotations",
    ])?;
    let name = table.needed("name")?;
    table.needed("if")?;
    let condition = table.parsed("if", Threshold::parse_of_hub)?.ok_or_else(|| table.wrong("if is missing"))?;
    let in_words = condition.intervals();
    let hold = match table.parsed("for", hold)? {
        Some(_) if in_words > 1 => return Err(table.wrong_value("for", "the condition has a \"for\" already")),
        Some(hold) => hold,
        None if in_words > 1 => Hold::Steps(in_words),
        None => Hold::Time(0),
    };
    let until = table.parsed("until", Threshold::parse_of_hub)?;
    if until.as_ref().is_some_and(|until| until.intervals() > 1) {
        return Err(table.wrong_value("until", "\"for\" has no place here; use keep = \"30s\""));
    }
    if let Some(until) = &until {
        refuse_contradiction(&condition, until).map_err(|why| table.wrong_value("until", why))?;
    }
    let is_momentary = condition.is_momentary() && until.as_ref().is_none_or(Threshold::is_momentary);
    let step_ns = table.parsed("step", positive)?.or(if is_momentary { None } else { Some(STEP_NS) });
    let on_no_data = table.parsed("on_no_data", |text| match text {
        "keep" => Ok(OnNoData::Keep),
        "fire" => Ok(OnNoData::Fire),
        "ok" => Ok(OnNoData::Resolve),
        _ => Err("use keep, fire or ok".into()),
    })?;
    let done_only = table.parsed("counting", |text| match text {
        "done" => Ok(true),
        "done+waiting" => Ok(false),
        _ => Err("use done or done+waiting".into()),
    })?;
    let by = by(table)?;
    Ok(Rule {
        name: name.into(),
        filter: filter(table, check)?,
        condition,
        until,
        step_ns,
        hold,
        keep_ns: table.parsed("keep", duration)?.unwrap_or(0),
        quorum: table
            .number("hosts")?
            .map(|text| quorum(&text))
            .transpose()
            .map_err(|why| table.wrong_value("hosts", why))?,
        done_only: done_only.unwrap_or(false),
        on_no_data: on_no_data.unwrap_or_default(),
        labels: labels(table, &by, &[])?,
        by,
        annotations: table.map("annotations")?,
        is_built_in: false,
    })
}

fn objective(table: &Table, check: &dyn Fn(&str) -> Result<(), String>) -> Result<Slo, Mistake> {
    table.only(&["name", "where", "by", "good", "labels"])?;
    let good = table.table("good")?;
    let example = "good = { below = \"10ms\", target = \"99%\", over = \"30d\" }";
    let good = good.ok_or_else(|| table.wrong(format!("{example} is missing")))?;
    good.only(&["below", "target", "over"])?;
    ["below", "target", "over"].iter().try_for_each(|key| good.needed(key).map(drop))?;
    let missing = || table.wrong(format!("{example} is missing"));
    let target = good.parsed("target", share)?.ok_or_else(missing)?;
    if !(0.0 < target && target < 1.0) {
        return Err(good.wrong_value("target", "a share between 0 and 100 % is needed, such as 99%"));
    }
    let by = by(table)?;
    Ok(Slo {
        name: table.needed("name")?.into(),
        filter: filter(table, check)?,
        below_ns: good.parsed("below", positive)?.ok_or_else(missing)?,
        target,
        period_ns: good.parsed("over", period)?.ok_or_else(missing)?,
        labels: labels(table, &by, &["window"])?,
        by,
    })
}

fn delivery(table: &Table) -> Result<Delivery, Mistake> {
    table.only(&["alertmanager", "webhook", "command", "ca"])?;
    let url = |key: &str| {
        table.parsed(key, |text| match text.starts_with("http://") || text.starts_with("https://") {
            true => match Url::parse(text) {
                Ok(_) => Ok(text.trim_end_matches('/').to_string()),
                Err(why) => Err(why.trim_end_matches('.').to_string()),
            },
            false => Err("an address such as http://127.0.0.1:9093 is needed".into()),
        })
    };
    let ca = table.text("ca")?.map(PathBuf::from);
    let command = table.texts("command")?;
    let is_line = matches!(table.text("command"), Ok(Some(text)) if text.contains(char::is_whitespace));
    if is_line || (table.has("command") && command.first().is_none_or(String::is_empty)) {
        let why = "a program and its arguments are needed, such as [\"mail\", \"root\"]";
        return Err(table.wrong_value("command", why));
    }
    match (url("alertmanager")?, url("webhook")?, &command[..]) {
        (Some(url), None, []) => Ok(Delivery::Alertmanager { url, ca }),
        (None, Some(url), []) => Ok(Delivery::Webhook { url, ca }),
        (None, None, [_, ..]) if ca.is_none() => Ok(Delivery::Command(command)),
        _ => Err(table.wrong("give one of alertmanager, webhook and command")),
    }
}

fn filter(table: &Table, check: &dyn Fn(&str) -> Result<(), String>) -> Result<Option<String>, Mistake> {
    table.parsed("where", |text| check(text).map(|()| text.to_string()))
}

fn by(table: &Table) -> Result<Vec<String>, Mistake> {
    let names = table.texts("by")?;
    for name in &names {
        let Some(field) = Field::from_name(name) else {
            return Err(table.wrong_value("by", format!("unknown field {name}; latscope fields lists all fields")));
        };
        if matches!(field.field_type(), FieldType::Time | FieldType::Duration) {
            return Err(table.wrong_value("by", format!("no agent groups by {name}")));
        }
    }
    Ok(names)
}

/// Labels beside those of a group, which they do not replace.
fn labels(table: &Table, by: &[String], own: &[&str]) -> Result<BTreeMap<String, String>, Mistake> {
    let labels = table.map("labels")?;
    let is_taken = |name: &&String| by.contains(name) || *name == "alertname" || own.contains(&name.as_str());
    match labels.keys().find(is_taken) {
        Some(name) => Err(table.wrong_value("labels", format!("the alert has a label {name} of its own"))),
        None => Ok(labels),
    }
}

/// Refuses an end that comes never, or before the condition is over, where one bound on the same metric shows it.
fn refuse_contradiction(condition: &Threshold, until: &Threshold) -> Result<(), String> {
    let (parts, ends) = (condition.parts(), until.parts());
    let is_same = |one: &Part, other: &Part| one.metric == other.metric && one.argument == other.argument;
    for end in &ends {
        let of_metric: Vec<&Part> = parts.iter().filter(|part| is_same(part, end)).collect();
        let is_only = ends.iter().filter(|other| is_same(other, end)).count() == 1;
        let [part] = of_metric[..] else { continue };
        let is_above = |part: &Part| part.sign.starts_with('>');
        let is_beyond = if is_above(part) { end.value > part.value } else { end.value < part.value };
        if is_only && (is_above(part) == is_above(end) || is_beyond) {
            return Err(format!("{until} contradicts {condition}: it must hold only after the alert is over"));
        }
    }
    Ok(())
}

fn duration(text: &str) -> Result<u64, String> {
    let has_unit = text.bytes().any(|byte| byte.is_ascii_alphabetic()) || text == "0";
    if !has_unit {
        return Err(format!("{text} needs a unit, such as {text}s"));
    }
    let limit = i64::MAX as u64 / 4;
    parse_duration(text).map_err(|error| error.to_string()).and_then(|ns| match ns <= limit {
        true => Ok(ns),
        false => Err(format!("{text} is too long")),
    })
}

fn positive(text: &str) -> Result<u64, String> {
    duration(text).and_then(|ns| if ns > 0 { Ok(ns) } else { Err("it must be longer than zero".into()) })
}

/// At least as long as its shortest window makes sense.
fn period(text: &str) -> Result<u64, String> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    positive(text).and_then(|ns| match (HOUR_NS..=400 * 24 * HOUR_NS).contains(&ns) {
        true => Ok(ns),
        false => Err("between 1h and 400d are possible".into()),
    })
}

fn hold(text: &str) -> Result<Hold, String> {
    match text.strip_suffix("intervals").or_else(|| text.strip_suffix("interval")) {
        None => duration(text).map(Hold::Time),
        Some(count) => {
            let count = count.trim().parse().ok().filter(|&count| count > 0);
            count
                .map(Hold::Steps)
                .ok_or_else(|| "a duration or a number of intervals is needed, such as 3 intervals".into())
        }
    }
}

fn quorum(text: &str) -> Result<Quorum, String> {
    if text.ends_with('%') {
        return share(text).map(Quorum::Share);
    }
    text.parse().map(Quorum::Count).map_err(|_| "a number of hosts or a share is needed, such as 80%".into())
}

fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 100.0));
    let share = number.parse::<f64>().ok().map(|number| number / unit);
    share.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| format!("{text} is not a share, such as 99%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Rules, String> {
        Rules::parse(text, &|filter| {
            if filter.contains("nonsense") { Err("unknown field nonsense".into()) } else { Ok(()) }
        })
    }

    #[test]
    fn a_file_is_read() {
        let rules = parse(
            r#"
    [[alert]]
    name = "slow writes"
    where = 'kind = write and device startswith nvme'
    by = ["device"]
    if = 'p95 > 1s or p99 > 5s'
    for = "30s"
    until = 'p95 < 800ms'
    keep = "10s"
    hosts = "80%"
    counting = "done"
    on_no_data = "fire"
    labels = { severity = "page" }
    annotations = { runbook_url = "http://wiki/slow" }

    [[alert]]
    name = "stall"
    if = 'oldest > 3s for 2 intervals'

    [[slo]]
    name = "db"
    where = 'device = nvme0n1'
    good = { below = "10ms", target = "99%", over = "30d" }

    [[deliver]]
    alertmanager = "http://127.0.0.1:9093/"
    [[deliver]]
    webhook = "https://hooks.example/x"
    ca = "ca.pem"
    [[deliver]]
    command = ["mail", "root"]
    "#,
        )
        .unwrap();
        let [slow, stall, missing, lost] = &rules.alerts[..] else { panic!("{:?}", rules.alerts) };
        assert_eq!(
            (slow.name.as_str(), slow.hold, slow.keep_ns),
            ("slow writes", Hold::Time(30_000_000_000), 10_000_000_000)
        );
        assert_eq!((slow.step_ns, slow.quorum, slow.done_only), (Some(STEP_NS), Some(Quorum::Share(0.8)), true));
        assert_eq!((slow.on_no_data, slow.by.as_slice()), (OnNoData::Fire, &["device".to_string()][..]));
        assert_eq!(slow.labels["severity"], "page");
        // The built-in stall is replaced, the others stay.
        assert_eq!((stall.hold, stall.step_ns, stall.by.len()), (Hold::Steps(2), None, 0));
        assert_eq!((missing.name.as_str(), lost.name.as_str()), ("host missing", "events lost"));
        let slo = &rules.slos[0];
        assert_eq!((slo.below_ns, slo.target, slo.period_ns), (10_000_000, 0.99, 30 * 86_400 * 1_000_000_000));
        let deliveries: Vec<String> = rules.deliveries.iter().map(Delivery::key).collect();
        let expected = ["alertmanager http://127.0.0.1:9093", "webhook https://hooks.example/x", "command mail root"];
        assert_eq!(deliveries, expected);
        let alert = "[[alert]]\nname = 'a'\nif = 'p99 > 1s'\n";
        assert_eq!(parse(&format!("{alert}hosts = 40")).unwrap().alerts[0].quorum, Some(Quorum::Count(40)));
        for until in ["p99 <= 1s", "p95 < 2s", "p99 < 800ms and count > 3"] {
            assert!(parse(&format!("{alert}until = '{until}'")).is_ok(), "{until}");
        }
        assert_eq!(parse("built_in = false").unwrap(), Rules::default());
        assert_eq!(parse("").unwrap().alerts.len(), 3);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let alert = "[[alert]]\nname = 'a'\nif = 'p99 > 1s'\n";
        for (text, expected) in [
            (format!("{alert}foor = '30s'\n"), "line 4: unknown key foor in alert; did you mean for"),
            (format!("{alert}threshold = '30s'\n"), "line 4: unknown key threshold in alert; known are name, where"),
            ("[[alerts]]\nname = 'a'".into(), "line 1: unknown key alerts in the file; did you mean alert"),
            ("[[alert]]\nname = 'a'".into(), "line 1: alert: if is missing."),
            ("[[alert]]\nname = 'a'\nif = 'p99 > 5'".into(), "line 3: if: 5 needs a unit"),
            ("[[alert]]\nname = 'a'\nif = 'p9x > 5'".into(), "line 3: if: \"p9x\" is not a metric; use"),
            (format!("{alert}for = '30'\n"), "line 4: for: 30 needs a unit, such as 30s."),
            (format!("{alert}for = '0 intervals'\n"), "line 4: for: a duration or a number of intervals is needed"),
            (format!("{alert}by = ['devise']\n"), "line 4: by: unknown field devise"),
            (format!("{alert}where = 'nonsense = 1'\n"), "line 4: where: unknown field nonsense."),
            (format!("{alert}labels = {{ a-b = 'x' }}\n"), "line 4: labels: a-b is not a name"),
            (format!("{alert}hosts = 'many'\n"), "line 4: hosts: a number of hosts or a share"),
            (format!("{alert}{alert}"), "line 5: name: another alert is called a."),
            (format!("{alert}name = 'b'"), "line 4: duplicate key"),
            ("[[slo]]\nname = 's'".into(), "line 1: slo: good = { below"),
            (
                "[[slo]]\nname = 's'\ngood = { below = '1ms', target = '100%', over = '1d' }".into(),
                "line 3: target: a share between",
            ),
            (
                "[[slo]]\nname = 's'\ngood = { below = '1ms', target = '99%', over = '1s' }".into(),
                "line 3: over: between 1h",
            ),
            ("[[deliver]]\nwebhook = 'x:1'".into(), "line 2: webhook: an address such as"),
            (
                "[[deliver]]\nwebhook = 'http://127.0.0.1:99999'".into(),
                "line 2: webhook: http://127.0.0.1:99999 is not",
            ),
            ("[[deliver]]\nwebhook = 'http://u:pw@n1/x'".into(), "line 2: webhook: n1/x has a password"),
            ("[[deliver]]\ncommand = 'mail root'".into(), "line 2: command: a program and its arguments"),
            ("[[deliver]]\ncommand = []".into(), "line 2: command: a program and its arguments"),
            (format!("{alert}by = ['latency']\n"), "line 4: by: no agent groups by latency."),
            (
                format!("{alert}by = ['host']\nlabels = {{ host = 'x' }}\n"),
                "line 5: labels: the alert has a label host",
            ),
            (format!("{alert}labels = {{ alertname = 'x' }}\n"), "line 4: labels: the alert has a label alertname"),
            (format!("{alert}until = 'p99 > 2s'\n"), "line 4: until: p99 > 2s contradicts p99 > 1s"),
            (format!("{alert}until = 'p99 < 2s'\n"), "line 4: until: p99 < 2s contradicts p99 > 1s"),
            (format!("{alert}until = 'p99 > 500ms'\n"), "line 4: until: p99 > 500ms contradicts"),
            (
                "[[slo]]\nname = 'stall'\ngood = { below = '1ms', target = '99%', over = '1d' }".into(),
                "line 2: name: a built-in alert has this name.",
            ),
            ("[[deliver]]\n".into(), "line 1: deliver: give one of"),
        ] {
            let mistake = parse(&text).unwrap_err();
            assert!(mistake.starts_with(expected), "{mistake}\nexpected: {expected}");
        }
    }
}
