//! Completion in shells, asked of the shells themselves, and manual pages as `man` and troff read them.

use crate::program::{LATSCOPE, command, end, installed, latscope};
use std::path::Path;

fn path_with_latscope() -> String {
    let folder = Path::new(LATSCOPE).parent().expect("a folder").display();
    format!("{folder}:{}", std::env::var("PATH").unwrap_or_default())
}

/// What bash would offer for the last of these words.
fn completed(script: &Path, words: &[&str]) -> Vec<String> {
    let (at, last, before) = (words.len() - 1, words[words.len() - 1], words[words.len() - 2]);
    let ask = r#"source "$1"; at=$2 last=$3 before=$4; shift 4; COMP_WORDS=("$@") COMP_CWORD=$at
        _latscope_with_fields latscope "$last" "$before"; printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = command("bash");
    bash.args(["--norc", "-c", ask, "bash"]).arg(script).args([&at.to_string(), last, before]).args(words);
    let offered = end(bash.env("PATH", path_with_latscope()), b"").success();
    offered.lines().filter(|line| !line.is_empty()).map(str::to_string).collect()
}

#[test]
fn bash_completes_commands_options_and_fields() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("latscope.bash");
    std::fs::write(&script, latscope(&["completions", "bash"]).success()).unwrap();
    let offers = |words: &[&str]| completed(&script, words);
    assert_eq!(offers(&["latscope", "perc"]), ["percentiles"]);
    assert_eq!(offers(&["latscope", "compare", "--mark"]), ["--markdown"]);
    assert_eq!(offers(&["latscope", "heatmap", "--latency", "dev"]), ["device"]);
    assert_eq!(offers(&["latscope", "ping", "--speed"]), ["--speed-limit"]);
    // Fields: as a word, as the last name of a filter in quotes, behind an option without a value, and in a list.
    assert_eq!(offers(&["latscope", "events", "proc.na"]), ["proc.name"]);
    let quoted = offers(&["latscope", "events", "lat > 1ms and (proc.na"]);
    assert_eq!(quoted, ["lat > 1ms and (proc.name"]);
    assert_eq!(offers(&["latscope", "events", "--json", "wait_cl"]), ["wait_class"]);
    assert_eq!(offers(&["latscope", "compare", "a.lat", "--filter", "wait_cl"]), ["wait_class"]);
    assert_eq!(offers(&["latscope", "summary", "--by", "kind,wait_cl"]), ["kind,wait_class"]);
    // Files, and folders whose names have spaces.
    std::fs::create_dir(folder.path().join("two words")).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    assert_eq!(offers(&["latscope", "heatmap", "-r", &path("two")]), [path("two words")]);
    assert_eq!(offers(&["latscope", "man", "perc"]), ["percentiles"]);
    assert_eq!(offers(&["latscope", "events", "-s", "sys"]), ["syscall"]);
    assert_eq!(offers(&["latscope", "events", "--format", "perf_d"]), ["perf_data"]);
    assert_eq!(offers(&["latscope", "help", "perc"]), ["percentiles"]);
    // bash divides words at equals signs.
    assert_eq!(offers(&["latscope", "summary", "--by", "=", "wait_cl"]), ["wait_class"]);
    assert!(offers(&["latscope", "summary", "--by", "="]).contains(&"wait_class".to_string()));
    assert_eq!(offers(&["latscope", "percentiles", "--csv", "=", "wait_cl"]), [""; 0]);
    assert_eq!(offers(&["latscope", "lab", "c"]), ["commit", "curve"]);
    assert_eq!(offers(&["latscope", "lab", ""]).len(), 8, "no lone dash where nothing is typed");
    assert_eq!(offers(&["latscope", "lab", "etcd", ""]), [""; 0], "folders");
    // No options of ours for another program.
    assert_eq!(offers(&["latscope", "record", "-w", "t.lat", "--", "ls", "--al"]), [""; 0]);
    assert_eq!(offers(&["latscope", "heatmap", "-r", "a.lat", "-y", "que"]), ["queue"]);
    assert_eq!(offers(&["latscope", "compare", "--y", "=", "offs"]), ["offset"]);
    // Nothing where a value or a limit is meant; not even files, which bash would add.
    let values = ["kind = ", "kind = wait_cl", "kind=wait_cl", "kind in (read, wait_cl", "comm contains wait_cl"];
    for value in values {
        assert_eq!(offers(&["latscope", "events", value]), [""; 0], "{value}");
        assert_eq!(offers(&["latscope", "compare", "a.lat", "--filter", value]), [""; 0], "{value}");
    }
    assert_eq!(offers(&["latscope", "events", "kind", "=", "wait_cl"]), [""; 0]);
    assert_eq!(offers(&["latscope", "events", "kind in (read, write) and wait_cl"]).len(), 1, "a field again");
    assert_eq!(offers(&["latscope", "compare", "a.lat", "b.lat", "--fail-if", ""]), [""; 0]);
    // Not where a file or a number is meant.
    assert_eq!(offers(&["latscope", "events", "--top", "wait_cl"]), [""; 0]);
    assert_eq!(offers(&["latscope", "ping", "wait_cl"]), [""; 0]);
}

/// Writes what the line has become when it is completed.
const ASK_ZSH: &str = r#"zmodload zsh/zpty
zpty -b asked zsh -f -i
until_there() { local text; repeat 200; do while zpty -rt asked text; do :; done; [[ -e $1 ]] && return; sleep 0.05; done }
zpty -w asked "PS1= fpath=($1 \$fpath); autoload -U compinit; compinit -D -u
line() { print -r -- \"\$BUFFER\" > $1/line.new; mv $1/line.new $1/line }; zle -N line; bindkey '^E' line; : > $1/ready"
until_there $1/ready
zpty -w -n asked "$2"$'\t\x05'
until_there $1/line
"#;

#[test]
fn zsh_and_fish_complete_commands_options_and_fields() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("_latscope"), latscope(&["completions", "zsh"]).success()).unwrap();
    std::fs::write(at("latscope.fish"), latscope(&["completions", "fish"]).success()).unwrap();
    std::fs::write(at("ask"), ASK_ZSH).unwrap();
    if installed("zsh") {
        for (typed, completed) in [
            ("latscope perc", "latscope percentiles "),
            ("latscope compare a b --mark", "latscope compare a b --markdown "),
            ("latscope events 'lat > 1ms and proc.na", "latscope events 'lat > 1ms and proc.name' "),
            ("latscope summary --by kind,wait_cl", "latscope summary --by kind,wait_class"),
            ("latscope lab et", "latscope lab etcd "),
            ("latscope events -s sys", "latscope events -s syscall "),
            ("latscope events --format perf_d", "latscope events --format perf_data "),
            ("latscope help perc", "latscope help percentiles "),
            ("latscope record -w t.lat -- wait_cl", "latscope record -w t.lat -- wait_cl"),
            ("latscope heatmap -r a.lat -y que", "latscope heatmap -r a.lat -y queue "),
            ("latscope ping -y README", "latscope ping -y README.md "),
            ("latscope compare --group old=README", "latscope compare --group old=README.md "),
            ("latscope compare --group old=a,ARCH", "latscope compare --group old=a,ARCHITECTURE.md "),
            // Nothing where a value or a limit is meant.
            ("latscope compare a b --fail-if READ", "latscope compare a b --fail-if READ"),
            ("latscope events 'kind = ", "latscope events 'kind = "),
            ("latscope events 'kind = wait_cl", "latscope events 'kind = wait_cl"),
            ("latscope events kind = wait_cl", "latscope events kind = wait_cl"),
            ("latscope events 'kind = read and wait_cl", "latscope events 'kind = read and wait_class' "),
        ] {
            let mut zsh = command("zsh");
            zsh.arg("-f").args([at("ask"), folder.path().to_path_buf()]).arg(typed);
            end(zsh.env("PATH", path_with_latscope()), b"").success();
            assert_eq!(std::fs::read_to_string(at("line")).unwrap().trim_end(), completed.trim_end());
            std::fs::remove_file(at("line")).unwrap();
        }
    }
    if installed("fish") {
        for (typed, offered) in [
            ("perc", "percentiles"),
            ("compare a b --mark", "--markdown"),
            ("lab et", "etcd"),
            ("help perc", "percentiles"),
            ("events -s sys", "syscall"),
            ("events --format perf_d", "perf_data"),
            ("completions f", "fish"),
            ("heatmap --latency dev", "device"),
            // Fields: as a word, as the last name of a filter in quotes, and in a list.
            ("events wait_cl", "wait_class"),
            ("events \"lat > 1ms and (proc.na", "lat > 1ms and (proc.name"),
            ("compare a.lat --filter wait_cl", "wait_class"),
            ("summary --by kind,wait_cl", "kind,wait_class"),
            ("heatmap -y que", "queue"),
            ("ping -y README", "README.md"),
            ("events \"kind = read and wait_cl", "kind = read and wait_class"),
            // Nothing where a value or a limit is meant.
            ("events \"kind = wait_cl", ""),
            ("events kind = wait_cl", ""),
            ("compare a b --fail-if READ", ""),
        ] {
            let ask = format!("source {}; complete -C 'latscope {typed}'", at("latscope.fish").display());
            let mut fish = command("fish");
            fish.args(["--no-config", "-c", &ask]).env("HOME", folder.path()).env("PATH", path_with_latscope());
            let offers = end(&mut fish, b"").success();
            let offers: Vec<&str> = offers.lines().map(|line| line.split('\t').next().unwrap()).collect();
            assert_eq!(offers.join("\n"), offered, "{typed}");
        }
    }
}

#[test]
fn names_for_shells_are_those_of_filters() {
    let names = latscope(&["fields", "--names"]).success();
    let listed: serde_json::Value = serde_json::from_str(&latscope(&["fields", "--json"]).success()).unwrap();
    let mut expected: Vec<&str> = Vec::new();
    for field in listed.as_array().unwrap() {
        expected.push(field["name"].as_str().unwrap());
        expected.extend(field["aliases"].as_array().unwrap().iter().filter_map(|alias| alias.as_str()));
    }
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(names.lines().collect::<Vec<_>>(), expected);
    assert!(expected.len() > 100);
}

#[test]
fn shells_can_read_the_scripts() {
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = latscope(&["completions", shell]).success();
        if installed(shell) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("script");
            std::fs::write(&path, script).unwrap();
            end(command(shell).arg(check).arg(&path), b"").success();
        }
    }
    let zsh = latscope(&["completions", "zsh"]).success();
    assert!(zsh.contains("and kind = write'\\'':_latscope_filter' \\\n"), "filters are completed");
    assert!(zsh.contains(":FIELD:_latscope_field_list' \\\n"), "fields are completed");
    assert!(!zsh.contains(":NAMES:_latscope_field_list"), "columns of logs are no fields");
    latscope(&["completions", "tcsh"]).failure(2);
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    latscope(&["man", pages.to_str().unwrap()]).success();
    let help = latscope(&["--help"]).success();
    let (_, verbs) = help.split_once("Commands:\n").unwrap();
    let verbs = verbs.lines().take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
    let verbs: Vec<&str> = verbs.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.len() > 20);
    for verb in verbs.into_iter().filter(|verb| *verb != "help") {
        let page = std::fs::read_to_string(pages.join(format!("latscope-{verb}.1"))).unwrap();
        assert!(page.contains(&format!("\n.TH latscope-{verb} 1 ")), "{verb}: {}", &page[..200]);
        assert!(!page.contains("Examples:\n"), "{verb}: examples have a section");
        let usage = page.split_once("\n.SH SYNOPSIS\n").unwrap().1.lines().next().unwrap();
        assert!(usage.starts_with(&format!("latscope {verb}")), "{usage}");
        // Every other name of an option that the help lists.
        let help = latscope(&[verb, "--help"]).success();
        for aliases in help.lines().map(str::trim).filter(|line| line.starts_with("[alias")) {
            assert!(page.contains(&aliases.replace('-', "\\-")), "{verb}: {aliases}");
        }
    }
    let no_folder = pages.join("latscope.1");
    assert!(latscope(&["man", no_folder.to_str().unwrap()]).failure(2).contains("is no folder; give the name of"));
    // The name of a command is not that of a folder beside it, a mistyped one makes none, and what is written is reported.
    std::fs::create_dir(folder.path().join("ping")).unwrap();
    let page = end(command(LATSCOPE).args(["man", "ping"]).current_dir(folder.path()), b"").success();
    assert!(page.contains(".TH latscope-ping 1 "));
    let man = |name: &str| end(command(LATSCOPE).args(["man", name]).current_dir(folder.path()), b"");
    let mistyped = man("pnig").failure(2);
    assert!(
        mistyped.contains("pnig is neither a command nor a folder; ") && mistyped.contains(", ping."),
        "{mistyped}"
    );
    assert!(!folder.path().join("pnig").exists());
    for name in ["./pnig", "new/", "man1"] {
        let written = man(name).err;
        assert!(written.ends_with(&format!(" manual pages in {name}\n")), "{written}");
    }
    assert_eq!(latscope(&["man"]).success(), std::fs::read_to_string(pages.join("latscope.1")).unwrap());
    let ping = std::fs::read_to_string(pages.join("latscope-ping.1")).unwrap();
    assert_eq!(latscope(&["man", "ping"]).success(), ping, "the page of a command by its name");
    assert!(latscope(&["man", "compare"]).success().contains("\n[alias: \\-\\-columns]\n"));
    assert!(ping.contains("speed\\-limit") && ping.contains("limit throughput to SIZE per second"));
    if installed("groff") {
        let all: Vec<_> = std::fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().path()).collect();
        let ended = end(command("groff").args(["-Tutf8", "-man", "-ww", "-z"]).args(all), b"");
        assert_eq!((ended.status, ended.err.as_str()), (Some(0), ""), "troff warns of nothing");
    }
}
