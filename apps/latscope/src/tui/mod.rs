//! The interactive spectrogram.
//!
//! Threads read (files, the keyboard, signals) and send messages; one thread takes them in ([`app::App`]) and draws,
//! only when something changed and at most thirty times a second.

mod actions;
mod app;
mod ask;
mod command;
mod different;
mod dig;
mod digest;
mod dimensions;
mod edit;
mod files;
mod keys;
mod live;
mod moves;
mod painter;
mod recent;
mod select;
mod sources;
mod spots;
mod stacks;
mod table;
mod terminal;
mod view;
mod waiting;
mod watch;

use crate::Failure;
use crate::plan::{Reading, Spectrogram};
use app::{App, Quit};
use latscope_event::{Batch, Context, Field};
use latscope_pipeline::Explained;
use latscope_series::HistogramSeries;
use latscope_view_term::{Line, Look};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
pub use table::Shown;
pub use terminal::Terminal;

/// Between two pictures.
const FRAME: Duration = Duration::from_millis(33);

/// What the drawing thread receives.
enum Message {
    Input(crossterm::event::Event),
    /// Nobody types any more.
    InputEnded,
    Signal(i32),
    /// An answer to the question of this number.
    Fed(u64, Box<Fed>),
    /// What the events of a selection are.
    Dug(u64, Result<digest::Digest, String>),
    /// What sets them apart from all others.
    Ranked(u64, Result<Box<Explained>, String>),
    /// Its call stacks.
    Stacked(u64, Result<stacks::Found, String>),
    /// The call stacks of all that is captured.
    Tabled(u64, Result<stacks::Found, String>),
    /// Which group is not like the others.
    Different(u64, Result<String, String>),
    /// What is unusual.
    Spots(u64, Result<Box<spots::Found>, String>),
    /// The fields by which the map can be split.
    Splits(Vec<Field>),
    /// The time given with `--for` is over.
    Over,
    /// A sentence for the user.
    Notice(String),
}

/// What a source yields; it is sent in a box.
#[allow(clippy::large_enum_variant)]
enum Fed {
    /// All of it, or what was read so far (then with percent, where known).
    Series {
        series: HistogramSeries,
        context: Context,
        reading: Option<Option<u8>>,
    },
    /// What was captured since the last time.
    More {
        series: HistogramSeries,
        context: Context,
        /// What waits now, as the capture has it.
        waiting: Batch,
    },
    Failed(Failure),
}

/// Whether somebody sits before standard input and output.
pub fn is_possible() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Takes the terminal for a screen that only shows.
pub fn enter() -> Result<Terminal, Failure> {
    Terminal::enter().map_err(|error| terminal_failure(&error))
}

/// Whether a key was pressed that ends a screen that only shows.
pub fn is_quit() -> bool {
    use crossterm::event::{Event, KeyCode, KeyModifiers, poll, read};
    let is_end = |event| match event {
        Event::Key(key) if key.modifiers.contains(KeyModifiers::CONTROL) => key.code == KeyCode::Char('c'),
        Event::Key(key) => matches!(key.code, KeyCode::Char('q') | KeyCode::Esc),
        _ => false,
    };
    // Whoever is gone has seen enough.
    while poll(Duration::ZERO).unwrap_or(false) {
        if read().map_or(true, is_end) {
            return true;
        }
    }
    false
}

/// Shows it until the user has seen enough; first a table of stacks, where one is given.
pub fn run(reading: Reading, look: Look, plan: Spectrogram, table: Option<Shown>) -> Result<(), Failure> {
    let (sender, messages) = channel();
    watch_signals(sender.clone()).map_err(|error| terminal_failure(&error))?;
    let mut terminal = Terminal::enter().map_err(|error| terminal_failure(&error))?;
    let mut app = App::new(reading, look, plan, table, sender.clone());
    std::thread::spawn(move || watch_keys(&sender));
    let quit = show(&mut terminal, &mut app, &messages);
    let left = if matches!(quit, Quit::Leaving) { app.last_picture() } else { Vec::new() };
    drop(terminal);
    match quit {
        Quit::Clean => Ok(()),
        Quit::Leaving => leave_behind(&left),
        Quit::Failed(failure) => Err(failure),
        Quit::Signal(signal) => {
            // Whoever waits for us learns that it was the signal.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            Ok(())
        }
    }
}

fn terminal_failure(error: &io::Error) -> Failure {
    Failure::Input(format!("Cannot use the terminal: {error}; --plain prints rows instead."))
}

fn show(terminal: &mut Terminal, app: &mut App, messages: &Receiver<Message>) -> Quit {
    let mut drawn = Instant::now() - FRAME;
    app.size = Terminal::size();
    loop {
        let wait = match app.dirty {
            true => FRAME.saturating_sub(drawn.elapsed()),
            false => Duration::from_secs(3600),
        };
        match messages.recv_timeout(wait) {
            Ok(message) => app.handle(message),
            Err(RecvTimeoutError::Disconnected) => return Quit::Clean,
            Err(RecvTimeoutError::Timeout) if !app.dirty => continue,
            Err(RecvTimeoutError::Timeout) => {
                app.dirty = false;
                drawn = Instant::now();
                let size = app.size;
                if terminal.draw(app.draw(), size).is_err() {
                    return Quit::Clean;
                }
            }
        }
        if let Some(sequence) = app.send.take() {
            terminal.send(&sequence);
        }
        if std::mem::take(&mut app.suspend) {
            if let Err(error) = terminal.suspend() {
                return Quit::Failed(terminal_failure(&error));
            }
            app.redraw = true;
        }
        if std::mem::take(&mut app.redraw) {
            terminal.forget();
            app.size = Terminal::size();
            app.dirty = true;
        }
        if let Some(quit) = app.quit.take() {
            return quit;
        }
    }
}

/// Puts the last picture where the next prompt comes.
fn leave_behind(lines: &[Line]) -> Result<(), Failure> {
    let mut text = String::new();
    lines.iter().for_each(|line| line.encode(&mut text));
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
}

fn watch_keys(sender: &Sender<Message>) {
    while let Ok(event) = crossterm::event::read() {
        if sender.send(Message::Input(event)).is_err() {
            return;
        }
    }
    let _ = sender.send(Message::InputEnded);
}

/// Signals become messages, so that the terminal is given back before they do what they do.
fn watch_signals(sender: Sender<Message>) -> io::Result<()> {
    let (mut woken, wake) = UnixStream::pair()?;
    let last = Arc::new(AtomicUsize::new(0));
    for signal in [SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP] {
        // The number is stored before the pipe is written to: actions run in the order of their registration.
        signal_hook::flag::register_usize(signal, Arc::clone(&last), signal as usize)?;
        signal_hook::low_level::pipe::register(signal, wake.try_clone()?)?;
    }
    std::thread::spawn(move || {
        let mut byte = [0];
        while woken.read_exact(&mut byte).is_ok() {
            let signal = last.swap(0, Ordering::SeqCst) as i32;
            if signal != 0 && sender.send(Message::Signal(signal)).is_err() {
                return;
            }
        }
    });
    Ok(())
}
