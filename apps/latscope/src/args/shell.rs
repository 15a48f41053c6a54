//! What shells and `man` ask of the program.

use super::{Arguments, Ping};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

const COMPLETIONS: &str = "\
Examples:
  latscope completions bash > latscope.bash    # then: source latscope.bash
  latscope completions zsh > _latscope         # into a folder of $fpath
  latscope completions fish > latscope.fish";

/// Print a script that completes commands, options and fields in a shell
///
/// In bash and zsh, names of fields are completed in filters too: latscope events 'lat > 1ms and proc<Tab>.
#[derive(Args, Debug)]
#[command(after_help = COMPLETIONS)]
pub struct Completions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

const MAN: &str = "\
Examples:
  latscope man | less
  latscope man compare | less
  latscope man ./man1";

/// Print the manual page, or write a page per command
///
/// To read it: latscope man | man -l -
#[derive(Args, Debug)]
#[command(after_help = MAN)]
pub struct Man {
    /// Print the page of this command, or write a page per command to this folder [default: print that of latscope]
    ///
    /// A folder that does not exist is made where its path has a slash: ./man1.
    #[arg(value_name = "COMMAND|FOLDER")]
    pub folder: Option<PathBuf>,
}

/// What is listed of the fields.
#[derive(Args, Debug)]
pub struct FieldList {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print only the names that filters understand, one per line
    #[arg(long, conflicts_with = "json")]
    pub names: bool,
}

impl Arguments {
    /// Every command and option, those of `ping` too, which reads its words by itself.
    pub fn described() -> clap::Command {
        let mut command = Arguments::understood().mut_subcommand("ping", Ping::described).disable_help_subcommand(true);
        command.build();
        command
    }
}
