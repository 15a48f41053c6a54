//! Scripts of shells and manual pages, from the description of every command and option.

use super::Plan;
use crate::Failure;
use crate::args::{self, Arguments};
use crate::world::World;
use clap::{Arg, Command};
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use latscope_event::Field;
use latscope_series::Quantity;
use std::collections::BTreeSet;
use std::io;

/// Names of fields are asked for while somebody types; clap knows nothing of filters.
const BASH: &str = include_str!("shell/fields.bash");
const ZSH: &str = include_str!("shell/fields.zsh");
const FISH: &str = r#"
# Names of fields, behind what stands before the last one: in a filter, which is a word in quotes, or in a list with commas.
function __latscope_fields --argument-names behind
    set -l typed (commandline -ct)
    set -l word (string unescape -- $typed; or string trim --left --chars "'\"" -- $typed)
    # Without a letter, files are meant rather than a filter.
    test -n "$word" -o "$behind" = ,; or return
    # Behind an operator stands a value.
    if test "$behind" != ,
        contains -- (commandline -opc)[-1] = == !=; and return
        string match --quiet --regex '[=<>]\s*\S*$|\si?(contains|startswith|endswith|glob|regex|between)\s+\S*$|\s(in|pmatch|intersects)\s*\([^)]*$' -- $word; and return
    end
    set -l before (string match --regex -- "^.*[$behind]" $word)
    for name in (latscope fields --names 2>/dev/null)
        printf '%s\n' "$before$name"
    end
end

for verb in @VERBS@
    complete -c latscope -n "__fish_latscope_using_subcommand $verb" -a '(__latscope_fields " (!")'
end
"#;

/// What `-s` takes, alone or with commas.
const SOURCES: &str = "block io syscall stacks offcpu oncpu";

/// Arguments that hold a filter, and those that hold a list of fields.
const FILTERS: [&str; 2] = ["filter", "within"];
const FIELDS: [&str; 2] = ["by", "columns"];

/// The script for a shell.
pub fn completions(shell: args::Shell) -> Result<String, Failure> {
    let mut command = Arguments::described();
    let mut script = Vec::new();
    let generator = match shell {
        args::Shell::Bash => Shell::Bash,
        args::Shell::Zsh => Shell::Zsh,
        args::Shell::Fish => Shell::Fish,
    };
    generate(generator, &mut command, "latscope", &mut script);
    let script = String::from_utf8(script).map_err(|error| Failure::Input(error.to_string()))?;
    Ok(match shell {
        // A folder would get a space behind it, and a name be cut at one within.
        args::Shell::Bash => {
            script.replace(r#"COMPREPLY=($(compgen -f "${cur}"))"#, "_latscope_files") + &bash(&command)
        }
        args::Shell::Zsh => zsh(&script),
        args::Shell::Fish => script + &fish(&command),
    })
}

/// The commands that take a filter at the end.
fn that_filter(command: &Command) -> Vec<&str> {
    let takes_filter = |verb: &&Command| verb.get_positionals().any(|argument| argument.get_id() == "filter");
    command.get_subcommands().filter(takes_filter).map(Command::get_name).collect()
}

/// The names of all formats.
fn formats() -> String {
    latscope_capture_file::Format::ALL.iter().map(|format| format.name()).collect::<Vec<_>>().join(" ")
}

/// What `-y` takes.
fn quantities() -> String {
    let quantities = Field::ALL.iter().filter_map(|field| Quantity::from_word(field.name()));
    quantities.map(Quantity::word).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
}

/// What completes fields around what clap completes.
fn bash(command: &Command) -> String {
    let verbs = that_filter(command).join("|");
    let arguments = || command.get_subcommands().flat_map(Command::get_arguments);
    let named = |is_meant: &dyn Fn(&&Arg) -> bool| {
        let meant = arguments().filter(is_meant);
        let names = meant.flat_map(|argument| {
            let long = argument.get_long().map(|long| format!("--{long}"));
            long.into_iter().chain(argument.get_short().map(|short| format!("-{short}")))
        });
        names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("|")
    };
    let is_one_of = |names: &'static [&'static str]| move |argument: &&Arg| names.contains(&argument.get_id().as_str());
    let all: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    BASH.replace("@VERBS@", &verbs)
        .replace("@FORMATS@", &formats())
        .replace("@SOURCES@", SOURCES)
        .replace("@QUANTITIES@", &quantities())
        .replace("@COMMANDS@", &all.join(" "))
        .replace("@FLAGS@", &named(&|argument| !argument.get_action().takes_values()))
        .replace("@FILTERS@", &named(&is_one_of(&FILTERS)))
        .replace("@FIELDS@", &named(&is_one_of(&FIELDS)))
}

/// The script with our functions where clap would complete names of files.
fn zsh(script: &str) -> String {
    let mut text = String::with_capacity(script.len() + ZSH.len());
    let (sources, formats) = (format!("({SOURCES})"), format!("({})", formats()));
    let quantities = format!("({})", quantities());
    for line in script.lines() {
        let is_of = |names: &[&str]| {
            names.iter().any(|name| line.contains(&format!("--{name}=[")) || line.contains(&format!("::{name} -- ")))
        };
        let ours: Option<&str> = match line {
            _ if line.contains("]:SOURCE:") => Some(&sources),
            _ if line.contains("--format=[") && line.contains("]:NAME:") => Some(&formats),
            _ if line.contains("]:QUANTITY:") => Some(&quantities),
            _ if is_of(&["group"]) => Some("_latscope_runs"),
            // Nothing, not even files.
            _ if is_of(&["fail-if"]) => Some(" "),
            _ if is_of(&FILTERS) => Some("_latscope_filter"),
            // Columns of logs are no fields.
            _ if is_of(&FIELDS) && !line.contains(":NAMES:") => Some("_latscope_field_list"),
            _ => None,
        };
        if line.starts_with("if [ \"$funcstack[1]\"") {
            text += ZSH;
        }
        match ours.zip(line.rsplit_once(":_default'")) {
            Some((ours, (before, after))) => text += &format!("{before}:{ours}'{after}\n"),
            None => text += &format!("{line}\n"),
        }
    }
    // With two colons zsh would offer no option behind the first file or filter.
    let text = text.replace("\n'*::", "\n'*:");
    // clap knows of no word behind help.
    text.replacen("case $line[1] in\n", "case $line[1] in\n(help)\n_latscope_commands && ret=0\n;;\n", 1)
}

/// What completes fields beside what clap completes: a line for each option that takes some.
fn fish(command: &Command) -> String {
    let all: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    let mut script = FISH.replace("@VERBS@", &that_filter(command).join(" "));
    let words = [
        ("__fish_seen_subcommand_from help", "", all.join(" ")),
        ("__fish_seen_subcommand_from man", "", all.join(" ")),
        ("", "-s s -l source", SOURCES.into()),
        ("", "-l format", formats()),
        ("", "-l fail-if", String::new()),
        // That of ping has no value.
        ("not __fish_seen_subcommand_from ping", "-s y -l y", quantities()),
    ];
    for (when, option, offered) in words {
        let when = if when.is_empty() { String::new() } else { format!(" -n '{when}'") };
        script += &format!("complete -c latscope{when} {option} -x -a '{offered}'\n");
    }
    for verb in command.get_subcommands() {
        // clap forgets those of the first word.
        let first = verb.get_positionals().next().map(Arg::get_possible_values).unwrap_or_default();
        if !first.is_empty() {
            let names = first.iter().map(|value| value.get_name()).collect::<Vec<_>>().join(" ");
            let when = format!(
                "__fish_latscope_using_subcommand {}; and test (commandline -opc | count) -eq 2",
                verb.get_name()
            );
            script += &format!("complete -c latscope -n '{when}' -x -a '{names}'\n");
        }
        for argument in verb.get_arguments() {
            let behind = match argument.get_id().as_str() {
                id if FILTERS.contains(&id) => " (!",
                id if FIELDS.contains(&id) => ",",
                _ => continue,
            };
            if let Some(long) = argument.get_long() {
                let when = format!("__fish_latscope_using_subcommand {}", verb.get_name());
                script +=
                    &format!("complete -c latscope -n '{when}' -l {long} -x -a '(__latscope_fields \"{behind}\")'\n");
            }
        }
    }
    script
}

/// A page per command for a folder, or one to be printed: that of the program, or of a command that is named.
pub fn pages(typed: args::Man, world: &World) -> Result<Plan, Failure> {
    let command = Arguments::described();
    let made = |error: io::Error| Failure::Input(error.to_string());
    let Some(folder) = typed.folder else { return page(&command, &command).map(Plan::Say).map_err(made) };
    // A folder that is called like a command is ./NAME.
    if let Some(verb) = folder.to_str().and_then(|name| command.find_subcommand(name)) {
        return page(verb, &command).map(Plan::Say).map_err(made);
    }
    // A new folder is made only where a path is given: a word is rather a command that is mistyped.
    let is_path = folder.as_os_str().as_encoded_bytes().contains(&b'/');
    if !is_path && !(world.exists)(&folder) {
        let verbs: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let (name, verbs) = (folder.display(), verbs.join(", "));
        return Err(Failure::Usage(format!(
            "{name} is neither a command nor a folder; to write the manual pages to a new folder, use latscope man ./{name}. \
             The commands are {verbs}."
        )));
    }
    let of_each = |verb: &Command| Ok((format!("latscope-{}.1", verb.get_name()), page(verb, &command)?));
    let mut pages = command.get_subcommands().map(of_each).collect::<io::Result<Vec<_>>>().map_err(made)?;
    pages.push(("latscope.1".into(), page(&command, &command).map_err(made)?));
    Ok(Plan::Pages { folder, pages })
}

/// The manual page of a command. What clap_mangen makes of what follows the options would be filled like prose.
fn page(command: &Command, program: &Command) -> io::Result<String> {
    let version = program.get_version().unwrap_or_default();
    let man = Man::new(with_aliases(command.clone())).source(format!("latscope {version}")).manual("latscope");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    // Of a dozen options one sees nothing in a list without their values; each has its paragraph below.
    let usage = command.clone().render_usage().to_string();
    let usage: Vec<String> = usage.trim_start_matches("Usage: ").lines().map(|line| escaped(line.trim())).collect();
    page.extend_from_slice(format!(".SH SYNOPSIS\n{}\n", usage.join("\n.br\n")).as_bytes());
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut page = String::from_utf8(page).map_err(io::Error::other)?;
    for paragraph in after.split("\n\n").map(str::trim_end).filter(|paragraph| !paragraph.trim().is_empty()) {
        page += &section(paragraph.trim_start_matches('\n'));
    }
    let other = if command.has_subcommands() { "latscope-COMMAND" } else { "latscope" };
    Ok(page + &format!(".SH SEE ALSO\n.BR {} (1)\n", escaped(other)))
}

/// The command with the aliases of options in their descriptions, where `--help` has them and clap_mangen has not.
fn with_aliases(command: Command) -> Command {
    command.mut_args(|argument| {
        let (letters, names) = (argument.get_visible_short_aliases(), argument.get_visible_aliases());
        let letters = letters.unwrap_or_default().into_iter().map(|letter| format!("-{letter}"));
        let names = names.unwrap_or_default().into_iter().map(|name| format!("--{name}"));
        let aliases: Vec<String> = letters.chain(names).collect();
        if aliases.is_empty() {
            return argument;
        }
        let help = argument.get_long_help().or_else(|| argument.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let title = if aliases.len() == 1 { "alias" } else { "aliases" };
        argument.long_help(format!("{help}\n\n[{title}: {}]", aliases.join(", ")))
    })
}

/// A paragraph behind the options: examples as they stand, the statuses, or prose.
fn section(paragraph: &str) -> String {
    if let Some(examples) = paragraph.strip_prefix("Examples:\n") {
        let lines = examples.lines().map(|line| escaped(line.trim_start()) + "\n");
        return format!(".SH EXAMPLES\n.nf\n{}.fi\n", lines.collect::<String>());
    }
    match paragraph.strip_prefix("Exit status: ") {
        Some(statuses) => format!(".SH EXIT STATUS\n{}\n", escaped(statuses)),
        None => format!(".PP\n{}\n", escaped(paragraph)),
    }
}

/// Text that troff prints as it stands.
fn escaped(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
        if line.starts_with('.') { format!("\\&{line}") } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}
