//! What the language accepts, how it is written back, and what it says about mistakes.

use latscope_event::{Field, FieldSet, TraceStart};
use latscope_filter::Filter;
use proptest::prelude::*;

fn normal(text: &str) -> String {
    let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}\n{}", error.caret()));
    let written = filter.to_string();
    assert_eq!(Filter::parse(&written).as_ref(), Ok(&filter), "{text} is written as {written}");
    written
}

#[test]
fn filters_and_their_bracketed_form() {
    for (text, written) in [
        // Precedence, brackets, spellings.
        ("lat>1 or lat<2 and size=3", "latency_ns > 1ns or (latency_ns < 2ns and size = 3B)"),
        ("lat > 1 and (size = 3 or size = 4)", "latency_ns > 1ns and (size = 3B or size = 4B)"),
        ("lat>1&&size=3||kind=read", "(latency_ns > 1ns and size = 3B) or kind = read"),
        ("lat > 1 AND NOT size = 3 Or pid = 1", "(latency_ns > 1ns and not (size = 3B)) or pid = 1"),
        ("not not pid=1", "pid = 1"),
        ("not(pid=1)", "not (pid = 1)"),
        ("!pid=1", "not (pid = 1)"),
        ("! ( pid = 1 )", "not (pid = 1)"),
        ("not (not pid=1)", "not (not (pid = 1))"),
        ("pid=1 or(pid=2)", "pid = 1 or pid = 2"),
        ("pid=1 and(pid=2 or pid=3)", "pid = 1 and (pid = 2 or pid = 3)"),
        ("((pid=1))and tid=2 and fd=3", "pid = 1 and tid = 2 and fd = 3"),
        ("evt.is_io", "evt.is_io = true"),
        ("evt.is_io and not evt.failed", "evt.is_io = true and not (evt.failed = true)"),
        ("evt.is_io=1 or evt.failed = FALSE", "evt.is_io = true or evt.failed = false"),
        // Names.
        ("evt.latency >= 1.5ms", "latency_ns >= 1.5ms"),
        ("latency < 0xF4240", "latency_ns < 1ms"),
        ("proc.name=fio", "process = fio"),
        ("thread.name=fio", "comm = fio"),
        ("rw = read and client = a", "kind = read and host = a"),
        ("dev = /dev/sda or device in (/dev/sdb, sdc)", "dev = sda or device in (sdb, sdc)"),
        (r"path regex '.*\.log'", r#"path regex ".*\\.log""#),
        (r"path regex '.*\\.log'", r#"path regex ".*\\.log""#),
        (r"path glob '\*'", r#"path glob "\\*""#),
        ("size = 1024kB", "size = 1000KiB"),
        ("size > 4KB", "size > 4000B"),
        ("evt.type == open", "name = open"),
        ("disk.dev = \"254,0\"", "disk.dev = \"254:0\""),
        ("dev=254:0", "dev = \"254:0\""),
        ("dev in (vda, loop0)", "dev in (vda, loop0)"),
        ("evt.dir=<", "evt.dir = \"<\""),
        ("evt.dir=< and evt.type=read", "evt.dir = \"<\" and name = read"),
        ("evt.dir!=>", "evt.dir != \">\""),
        // Values by type.
        ("lat > 1e6", "latency_ns > 1ms"),
        ("lat > 250µs", "latency_ns > 250us"),
        ("size >= 4k and offset < 1.5GiB", "size >= 4KiB and offset < 1536MiB"),
        ("result < -1 and result != 0x10", "result < -1 and result != 16"),
        ("evt.rawres<0", "result < 0"),
        ("evt.buflen>=1e3", "size >= 1000B"),
        ("evt.time >= 10:32:05.5", "end >= 10:32:05.5"),
        ("ts in [+5s, +10s]", "end between +5s and +10s"),
        ("start between 2026-11-21T10:32:05Z and 1500000000", "time_ns between 2026-11-21T10:32:05Z and 1500000000"),
        ("evt.reltime > +5s or evt.reltime > 5000000000", "evt.reltime > 5s or evt.reltime > 5s"),
        ("evt.around[1404996934793590564]=1000", "evt.around[1404996934793590564] = 1s"),
        ("evt.around[\"10:32:05\"] = 500us", "evt.around[10:32:05] = 500us"),
        ("evt.phase[10000ms]<1s", "evt.phase[10s] < 1s"),
        ("not evt.phase[ 1m ] between 1s and 2s", "not (evt.phase[60s] between 1s and 2s)"),
        ("lat between 1ms and 5ms and pid = 1", "latency_ns between 1ms and 5ms and pid = 1"),
        ("comm in [a,c]", "comm between a and c"),
        // Operators on texts.
        ("path contains /var and path icontains 'A b'", "path contains /var and path icontains \"A b\""),
        ("path startswith /lib or path endswith .so.6", "path startswith /lib or path endswith \".so.6\""),
        ("comm glob \"h*d\" or comm iglob H?D", "comm glob \"h*d\" or comm iglob \"H?D\""),
        ("comm regex 'a(b|c)+'", "comm regex \"a(b|c)+\""),
        ("path pmatch (/etc, /var/*/log)", "path pmatch (/etc, \"/var/*/log\")"),
        ("comm in (a,'b c' , \"d\")", "comm in (a, \"b c\", d)"),
        ("comm intersects (a)", "comm in (a)"),
        ("comm in ()", "comm in ()"),
        ("evt.is_io in (true, false)", "evt.is_io in (true, false)"),
        ("pid IN (1,2) and fd.name EXISTS", "pid in (1, 2) and path exists"),
        ("comm contains anyof (a, b)", "comm contains a or comm contains b"),
        ("comm = allof (a, b) or pid=1", "(comm = a and comm = b) or pid = 1"),
        ("comm = allof", "comm = allof"),
        ("comm < \"5\" and comm >= b", "comm < \"5\" and comm >= b"),
        ("comm != 5ms", "comm != \"5ms\""),
        ("comm = and", "comm = and"),
        // Transformers, fields on the right.
        ("tolower(proc.name) = x", "tolower(process) = x"),
        ("toupper( basename( fd.name ) )=X", "toupper(basename(path)) = X"),
        ("len(fd.name) > 10", "len(path) > 10"),
        ("len(basename(path)) in (1,2)", "len(basename(path)) in (1, 2)"),
        ("lat > val(queue_ns)", "latency_ns > val(queue_ns)"),
        ("comm = tolower(path)", "comm = tolower(path)"),
        ("fd.name startswith val(fd.directory)", "path startswith val(fd.directory)"),
        ("comm in val(path)", "comm = val(path)"),
        // Quotes and escapes.
        ("comm = \"a'b\"", "comm = \"a'b\""),
        ("comm = 'a\"b'", "comm = \"a\\\"b\""),
        ("comm = 'a\\tb\\x41\\\\\\/'", "comm = \"a\\tbA\\\\/\""),
        ("comm = ''", "comm = \"\""),
        ("comm=ünï", "comm = ünï"),
        ("\n\t comm =\r\n fio \u{8}", "comm = fio"),
    ] {
        assert_eq!(normal(text), written, "{text}");
    }
}

#[test]
fn mistakes_are_named_and_pointed_at() {
    for (text, sentence, caret) in [
        ("", "The filter is empty; omit it to see all events.", "\n^"),
        (
            "evt.latncy > 1",
            "evt.latncy is not a field; \"latscope fields\" lists them all.",
            "evt.latncy > 1\n^^^^^^^^^^\ndid you mean evt.latency?",
        ),
        (
            "lat > 1ms and cmom = fio",
            "cmom is not a field, and macros are not supported; \"latscope fields\" lists the fields.",
            "lat > 1ms and cmom = fio\n              ^^^^\ndid you mean comm?",
        ),
        (
            "open_write",
            "open_write is not a field, and macros are not supported; \"latscope fields\" lists the fields.",
            "open_write\n^^^^^^^^^^",
        ),
        (
            "proc.env = a",
            "latscope does not record proc.env; the recorded fields of a process are proc.name, proc.pid, \
             proc.exe, proc.exepath, proc.args and proc.cwd.",
            "proc.env = a\n^^^^^^^^",
        ),
        (
            "fd.uid=1-2",
            "latscope does not record fd.uid; use fd.name, which has the path or both ends of the socket.",
            "fd.uid=1-2\n^^^^^^",
        ),
        (
            "evt.latency contains x",
            "This operator does not apply to latency_ns, which is a duration; use one of = != < <= > >= in between exists.",
            "evt.latency contains x\n            ^^^^^^^^",
        ),
        (
            "comm > 5ms",
            "comm is text and 5ms is a duration; put quotes around it to compare alphabetically.",
            "comm > 5ms\n       ^^^",
        ),
        (
            "lat > abc",
            "\"abc\" is not a duration such as 250us, 1.5ms or 2s; latency_ns is a duration.",
            "lat > abc\n      ^^^",
        ),
        (
            "lat > queue",
            "\"queue\" is not a duration such as 250us, 1.5ms or 2s; write val(queue) to compare with that field.",
            "lat > queue\n      ^^^^^",
        ),
        (
            "evt.is_io = 2",
            "\"2\" is neither true nor false; evt.is_io is either true or false.",
            "evt.is_io = 2\n            ^",
        ),
        (
            "evt.is_io > true",
            "This operator does not apply to evt.is_io, which is either true or false; use one of = != in exists.",
            "evt.is_io > true\n          ^",
        ),
        ("pid = 1.5", "\"1.5\" is not a whole number; pid is a number.", "pid = 1.5\n      ^^^"),
        (
            "evt.time > noon",
            "\"noon\" is not a moment such as 10:32:05.5, 2026-11-21T10:32:05, +5s, or on the trace's clock \
             1763892725.25 (seconds) or 1763892725250000000 (nanoseconds); \
             end is a time.",
            "evt.time > noon\n           ^^^^",
        ),
        (
            "lat > -5",
            "\"-5\" is not a duration such as 250us, 1.5ms or 2s; latency_ns is a duration.",
            "lat > -5\n      ^^",
        ),
        ("lat >", "Expected a value to compare latency_ns with, not the end.", "lat >\n     ^"),
        ("lat = = 5", "Expected a value to compare latency_ns with, not \"=\".", "lat = = 5\n      ^"),
        ("lat", "Expected a comparison after latency_ns, which is a duration, as in latency_ns > 1ms.", "lat\n^^^"),
        (
            "lat > 1 ms",
            "Write a unit directly after its number, as in 1ms, or put both in quotes.",
            "lat > 1 ms\n        ^^",
        ),
        (
            "comm = a b",
            "Expected \"and\" or \"or\" after a complete test, not \"b\"; put text with blanks or signs in quotes.",
            "comm = a b\n         ^",
        ),
        ("(lat > 1", "This bracket is not closed; \")\" is missing.", "(lat > 1\n^"),
        ("lat > 1)", "This bracket has no opening bracket.", "lat > 1)\n       ^"),
        ("lat > 1 and", "Expected the name of a field, not the end.", "lat > 1 and\n           ^"),
        (
            "lat in [5ms, 1ms]",
            "This range ends before it starts; write [1ms, 5ms].",
            "lat in [5ms, 1ms]\n        ^^^^^^^^",
        ),
        (
            "pid between 5 and 1",
            "This range ends before it starts; write [1, 5].",
            "pid between 5 and 1\n            ^^^^^^^",
        ),
        ("kind = raed", "kind is never raed.", "kind = raed\n       ^^^^\ndid you mean read?"),
        (
            "disk.dev = /dev/sda",
            "disk.dev is a number such as 8:0; write device = sda.",
            "disk.dev = /dev/sda\n           ^^^^^^^^",
        ),
        ("fd.type in (fil)", "fd_type is never fil.", "fd.type in (fil)\n            ^^^\ndid you mean file?"),
        (
            "size = 4KB",
            "4KB is 4000 bytes, which is unlikely as the size of an I/O; write 4000 or 4096.",
            "size = 4KB\n       ^^^",
        ),
        ("comm = 'fio", "The text that starts here has no closing '.", "comm = 'fio\n       ^^^^"),
        (
            "comm = 'a\\qb'",
            "This escape is not known; \\b \\f \\n \\r \\t \\\\ \\/ \\\" \\' and \\xNN are.",
            "comm = 'a\\qb'\n         ^^",
        ),
        ("comm = 'a\0b'", "A text cannot contain a NUL character.", "comm = 'a b'\n         ^"),
        (
            "comm bcontains cafe",
            "bcontains cannot be used, because the data that was read and written is not recorded.",
            "comm bcontains cafe\n     ^^^^^^^^^",
        ),
        (
            "comm in shells",
            "Expected a list in parentheses, as in (a, b); named lists are not supported.",
            "comm in shells\n        ^^^^^^",
        ),
        ("comm in (a, )", "Expected a value of the list.", "comm in (a, )\n            ^"),
        (
            "comm in (a b)",
            "Expected a comma or the closing parenthesis after a value of a list.",
            "comm in (a b)\n           ^",
        ),
        ("lat in [1ms]", "A range has two ends, as in lat in [1ms, 5ms].", "lat in [1ms]\n       ^^^^^"),
        (
            "lat between 1ms",
            "between needs two values, as in lat between 1ms and 5ms.",
            "lat between 1ms\n               ^",
        ),
        (
            "b64(comm) = x",
            "b64() cannot be used here; the functions are tolower, toupper, basename and len.",
            "b64(comm) = x\n^^^",
        ),
        (
            "tolwer(comm) = x",
            "tolwer is not a function; the functions are tolower, toupper, basename and len.",
            "tolwer(comm) = x\n^^^^^^\ndid you mean tolower?",
        ),
        ("tolower(lat) = x", "lat is a duration; functions need text.", "tolower(lat) = x\n        ^^^"),
        (
            "basename(len(comm)) = x",
            "len() is a number, not text, so no function can be applied to it.",
            "basename(len(comm)) = x\n         ^^^",
        ),
        (
            "lat > val(size)",
            "latency_ns is a duration and size is a size in bytes.",
            "lat > val(size)\n      ^^^^^^^^^",
        ),
        ("comm = val(dev)", "dev cannot be compared with another field.", "comm = val(dev)\n       ^^^^^^^^"),
        ("comm[1] = x", "comm takes no argument in square brackets.", "comm[1] = x\n^^^^"),
        (
            "evt.phase < 1s",
            "Use the form evt.phase[P], where P is a duration, as in evt.phase[10s] < 1s.",
            "evt.phase < 1s\n^^^^^^^^^",
        ),
        ("evt.phase[0s] < 1s", "A period is longer than 0.", "evt.phase[0s] < 1s\n          ^^"),
        (
            "evt.around = 5",
            "Use the form evt.around[MOMENT]=D, where D is in milliseconds or has a unit.",
            "evt.around = 5\n^^^^^^^^^^",
        ),
        (
            "comm glob '+(a|b)'",
            "Alternatives such as +(a|b) are not supported by glob; use regex, or write \\( for a parenthesis.",
            "comm glob '+(a|b)'\n          ^^^^^^^^",
        ),
    ] {
        let error = Filter::parse(text).expect_err(text);
        assert_eq!(error.to_string(), sentence, "{text}");
        assert_eq!(error.caret(), caret, "{text}");
    }
}

#[test]
fn of_several_lines_the_wrong_one_is_shown() {
    let error = Filter::parse("pid = 1 and\n\tlat >> 5\nand tid = 3").unwrap_err();
    assert_eq!(error.caret(), " lat >> 5\n      ^");
}

#[test]
fn a_long_filter_is_shown_around_its_mistake() {
    let text = format!("{}cmom = fio and {}pid = 1", "pid = 1 and ".repeat(50), "pid = 2 and ".repeat(50));
    let error = Filter::parse(&text).unwrap_err();
    let caret = error.caret();
    let lines: Vec<_> = caret.lines().collect();
    assert!(lines[0].starts_with('…') && lines[0].ends_with('…') && lines[0].chars().count() <= 102, "{caret}");
    let at = lines[1].find('^').unwrap();
    assert_eq!(lines[0].chars().skip(at).take(4).collect::<String>(), "cmom");
    assert_eq!((&text[error.span()], error.nearest()), ("cmom", &["comm"][..]));
}

#[test]
fn nesting_has_a_limit() {
    let nested = |levels: usize| format!("{}pid=1{}", "(".repeat(levels), ")".repeat(levels));
    assert!(Filter::parse(&nested(100)).is_ok());
    assert!(Filter::parse(&nested(101)).unwrap_err().to_string().contains("deeper than 100"));
    let bushy = |levels: usize| format!("{}pid=1{}", "pid=1 or pid=2 and (".repeat(levels), ")".repeat(levels));
    normal(&bushy(50));
    assert!(Filter::parse(&bushy(51)).is_err(), "its bracketed form would nest too deep to be read back");
    for deep in ["(", "not ", "!", "tolower(", "val(", "not(", "comm = tolower("] {
        assert!(Filter::parse(&deep.repeat(100_000)).is_err());
    }
    normal(&format!("{}pid=1", "not ".repeat(100_001)));
}

#[test]
fn a_filter_names_the_columns_it_needs() {
    let fields = |text: &str| Filter::parse(text).unwrap().fields();
    let set = |fields: &[Field]| fields.iter().copied().collect::<FieldSet>();
    assert_eq!(fields("lat > 1ms"), set(&[Field::Latency]));
    assert_eq!(
        fields("evt.time > +1s and not dev = vda"),
        set(&[Field::Time, Field::Latency, Field::Device, Field::Dev])
    );
    assert_eq!(fields("comm = val(path)"), set(&[Field::Comm, Field::Path]));
    assert_eq!(fields("evt.dir=<"), FieldSet::default());
}

#[test]
fn a_moment_that_the_clock_does_not_know_is_pointed_at() {
    let filter = Filter::parse("lat > 1ms and evt.time > 10:32:05").unwrap();
    let error = filter.bind(TraceStart { start_ns: Some(0), to_unix_ns: None }).unwrap_err();
    assert!(error.to_string().contains("wall-clock time is unknown"), "{error}");
    assert_eq!(error.caret(), "lat > 1ms and evt.time > 10:32:05\n                         ^^^^^^^^");
    assert!(Filter::parse("evt.reltime > 5s").unwrap().bind(TraceStart::default()).is_err());
    assert!(Filter::parse("evt.time > 5000").unwrap().bind(TraceStart::default()).is_ok());
}

/// The filters of a comparison with sysdig 0.29.3; what latscope has no column for says so.
#[test]
fn filters_that_sysdig_is_known_to_accept() {
    let mut refused = Vec::new();
    for text in include_str!("sysdig_filters.txt").lines() {
        match Filter::parse(text) {
            Ok(_) => drop(normal(text)),
            Err(error) => {
                assert!(error.to_string().starts_with("latscope does not record "), "{text}: {error}");
                refused.push(text);
            }
        }
    }
    assert_eq!(refused, [""; 0]);
}

/// The page for users lists every field as the program knows it.
#[test]
fn the_documentation_lists_every_field() {
    let page = include_str!("../../../docs/reference/filter.md");
    let mut lacking = Vec::new();
    for field in latscope_filter::filter_fields() {
        let aliases = field.aliases().iter().map(|alias| format!("`{alias}`")).collect::<Vec<_>>().join(" ");
        let meaning = field.meaning().trim_end_matches('.');
        let row = format!("| `{}` | {aliases} | {} | {meaning} |\n", field.name(), field.type_word());
        if !page.contains(&row) {
            lacking.push(row);
        }
    }
    assert!(lacking.is_empty(), "docs/reference/filter.md lacks the rows\n{}", lacking.concat());
}

/// It classifies every field of sysdig (`sysdig -l` of 0.29.3) as the program does.
#[test]
fn the_documentation_classifies_every_field_of_sysdig() {
    let page = include_str!("../../../docs/reference/filter.md");
    let known: Vec<_> = latscope_filter::filter_fields().iter().collect();
    let mut rows = std::collections::BTreeMap::<String, Vec<String>>::new();
    for name in include_str!("sysdig_fields.txt").lines() {
        let same = known.iter().any(|field| field.name() == name || field.aliases().contains(&name));
        let meaning = match Filter::parse(&format!("{name} exists")) {
            _ if same => "the same here".to_string(),
            Ok(_) => panic!("{name} is no field of the table"),
            Err(error) => {
                let sentence = error.to_string();
                let reason = sentence.strip_prefix(&format!("latscope does not record {name}; "));
                format!("not recorded: {}", reason.unwrap_or_else(|| panic!("{sentence}")).trim_end_matches('.'))
            }
        };
        rows.entry(meaning).or_default().push(format!("`{name}`"));
    }
    for (meaning, names) in rows {
        let row = format!("| {meaning} | {} |\n", names.join(" "));
        assert!(page.contains(&row), "docs/reference/filter.md lacks the row\n{row}");
    }
}

/// Its examples are filters.
#[test]
fn the_documentation_is_right() {
    let page = include_str!("../../../docs/reference/filter.md");
    let examples: Vec<_> = page.lines().filter(|line| line.starts_with("    latscope ")).collect();
    assert!(examples.len() >= 8);
    for line in examples {
        let (_, filter) = line.split_once("-r ").and_then(|(_, rest)| rest.split_once(' ')).unwrap();
        // What the shell does with quotes: around the whole, or around a sign.
        let filter = filter.trim();
        let filter = match filter.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
            Some(inside) => inside.to_string(),
            None => filter.replace('\'', ""),
        };
        normal(&filter);
    }
}

/// Pieces from which filters, and things that are nearly filters, are made.
const PIECES: &[&str] = &[
    "lat",
    "evt.time",
    "comm",
    "proc.exe",
    "dev",
    "pid",
    "evt.is_io",
    "evt.around[5]",
    "evt.phase[5s]",
    "evt.reltime",
    "size",
    "=",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    "in",
    "between",
    "and",
    "or",
    "not",
    "&&",
    "||",
    "!",
    "(",
    ")",
    "[",
    "]",
    ",",
    "'a b'",
    "\"",
    "'",
    "5",
    "-1",
    "1ms",
    "4k",
    "true",
    "abc",
    "+5s",
    "10:32:05",
    "contains",
    "glob",
    "regex",
    "pmatch",
    "exists",
    "anyof",
    "val(",
    "tolower(",
    "len(",
    "\\",
    "a*[",
    "é",
    "\0",
    "\n",
    "0x10",
    "1e3",
    "bcontains",
];

proptest! {
    #[test]
    fn any_text_is_refused_or_read(text in "\\PC{0,40}") {
        check(&text);
    }

    #[test]
    fn any_words_are_refused_or_read(words in proptest::collection::vec((0..PIECES.len(), any::<bool>()), 0..14)) {
        let text: String = words.iter().flat_map(|&(at, blank)| [PIECES[at], if blank { " " } else { "" }]).collect();
        check(&text);
    }

    #[test]
    fn any_text_can_be_a_value(text in "[^\\x00]{0,12}") {
        let quoted: String = text.chars().flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c])).collect();
        for operator in ["=", "contains", "<"] {
            normal(&format!("comm {operator} \"{quoted}\""));
        }
    }
}

fn check(text: &str) {
    match Filter::parse(text) {
        Ok(_) => drop(normal(text)),
        Err(error) => {
            let sentence = error.to_string();
            assert!(sentence.ends_with('.') && !sentence.ends_with(".."), "{text}: {sentence}");
            assert!(error.caret().lines().count() >= 2 && text.is_char_boundary(error.span().start));
        }
    }
}
