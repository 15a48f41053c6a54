//! The program: what was typed (`args`), what it means (`plan`), and doing it (`run`).

#![forbid(unsafe_code)]

/// Writes a line to standard error, where nothing that a terminal would obey ever goes.
macro_rules! say {
    ($($argument:tt)*) => { crate::output::say(&format!("{}\n", format_args!($($argument)*))) };
}

mod args;
mod config;
mod notes;
mod output;
mod plan;
mod run;
mod tui;
mod world;

use std::process::ExitCode;

/// Why the program ends early, and with which status.
#[derive(Debug, PartialEq)]
enum Failure {
    /// What was typed makes no sense: status 2.
    Usage(String),
    /// Input or capture failed: status 3.
    Input(String),
    /// A threshold was exceeded: status 1.
    Exceeded(String),
    /// Called as ioping, it ends as ioping does: status 1.
    Ioping(String),
    /// The command that was recorded ended so.
    Command(u8),
    /// Standard output was closed by its reader, which is how `| head` ends us: success.
    Closed,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Usage(message) | Failure::Input(message) | Failure::Exceeded(message) => f.write_str(message),
            Failure::Ioping(message) => f.write_str(message),
            Failure::Command(status) => write!(f, "The command ended with status {status}."),
            Failure::Closed => f.write_str("The output was closed by its reader."),
        }
    }
}

impl Failure {
    /// A failure to write the result.
    fn output(error: &std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::Closed,
            _ => Failure::Input(format!("The output cannot be written: {error}.")),
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let world = world::World::this_machine();
    let plan = match called_ioping(&words) {
        true => plan::ioping(&words[1..], &world).map(|plan| (plan, Vec::new())),
        false => match config::expanded(words) {
            Err(why) => return fail(2, &why),
            Ok(words) => match args::Arguments::typed(words.clone()) {
                Ok(typed) => plan::plan(typed, &world),
                Err(error) => {
                    // Clap says why; what would have been written must not be of the last run.
                    if let Some(plan) = plan::uncompared(&words, &error, &world).filter(|_| error.use_stderr()) {
                        drop(run::run(plan));
                    }
                    return refuse(&error);
                }
            },
        },
    };
    let done = plan.and_then(|(plan, remarks)| {
        remarks.iter().for_each(|remark| say!("latscope: {remark}"));
        run::run(plan)
    });
    match done {
        Ok(()) | Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(Failure::Exceeded(message)) => fail(1, &message),
        Err(Failure::Command(status)) => ExitCode::from(status),
        Err(Failure::Ioping(message)) => {
            say!("ioping: {message}");
            ExitCode::FAILURE
        }
        Err(Failure::Usage(message)) => fail(2, &message),
        Err(Failure::Input(message)) => fail(3, &message),
    }
}

/// Prints what clap has to say, which repeats what was typed: an error, or the help that was asked for.
fn refuse(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let status = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    if error.use_stderr() {
        output::say(&text);
        return status;
    }
    // Help that could not be written was not given.
    match output::text(None, &text) {
        Err(Failure::Input(message)) => fail(3, &message),
        _ => status,
    }
}

/// Whether this was started as `ioping`, by a link of that name: then it is that program.
fn called_ioping(words: &[std::ffi::OsString]) -> bool {
    words.first().is_some_and(|name| std::path::Path::new(name).file_name() == Some("ioping".as_ref()))
}

fn fail(status: u8, message: &str) -> ExitCode {
    say!("latscope: {message}");
    ExitCode::from(status)
}
