//! The options of `ping` as those of all other commands are described.

use super::{EXAMPLES, KNOWN, Ping, Takes};
use clap::{Arg, ArgAction, Command, ValueHint};

impl Ping {
    /// The command with an argument for each option, in place of the words that it takes.
    pub fn described(command: Command) -> Command {
        let known = KNOWN.iter().filter(|known| !["help", "version"].contains(&known.name));
        let options = known.map(|known| {
            let option = Arg::new(known.name).long(known.name).help(known.meaning);
            let option = known.letter.map_or(option.clone(), |letter| option.short(letter));
            match known.takes {
                Takes::Nothing => option.action(ArgAction::SetTrue),
                Takes::Value(name) => option.value_name(name),
                Takes::Perhaps(name) => option.value_name(name).num_args(0..=1).require_equals(true),
            }
        });
        let targets = Arg::new("targets").value_name("TARGET").num_args(1..).required(true);
        Command::new("ping")
            .about(command.get_about().cloned().unwrap_or_default())
            .after_help(EXAMPLES)
            .args(options)
            .arg(targets.value_hint(ValueHint::AnyPath).help("Directories, files and devices"))
    }
}
