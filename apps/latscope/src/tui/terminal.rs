//! The terminal: put into its state for a full screen, and back out of it whatever happens.

use super::painter::Painter;
use latscope_view_term::Drawn;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Other screen, cursor hidden, no wrapping at the edge, mouse buttons with drags in SGR form.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?1002h\x1b[?1006h";
/// Undoes that, and what may be half done.
const LEAVE: &str = "\x1b[?2026l\x1b[r\x1b[0m\x1b[?1006l\x1b[?1002l\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Whether the terminal is in our hands, for the panic hook, which has no access to the [`Terminal`].
static ENTERED: AtomicBool = AtomicBool::new(false);

/// The terminal in full screen mode, until it is dropped.
pub struct Terminal {
    painter: Painter,
}

impl Terminal {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When standard input or output is no terminal.
    pub fn enter() -> io::Result<Terminal> {
        take_over()?;
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // Whichever thread it is: what it left behind would make the screen wrong.
            leave();
            before(info);
            std::process::exit(101);
        }));
        Ok(Terminal { painter: Painter::default() })
    }

    /// Columns and rows.
    pub fn size() -> (usize, usize) {
        let (columns, rows) = crossterm::terminal::size().unwrap_or((80, 24));
        (usize::from(columns.max(1)), usize::from(rows.max(1)))
    }

    /// Shows a picture.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn draw(&mut self, drawn: &Drawn, size: (usize, usize)) -> io::Result<()> {
        let bytes = self.painter.paint(drawn, size);
        let mut out = io::stdout().lock();
        out.write_all(bytes.as_bytes())?;
        out.flush()
    }

    /// Sends a sequence that does not touch the screen.
    pub fn send(&mut self, sequence: &str) {
        let _ = io::stdout().lock().write_all(sequence.as_bytes()).and_then(|()| io::stdout().flush());
    }

    /// What is on the terminal is not known any more.
    pub fn forget(&mut self) {
        self.painter.forget();
    }

    /// Stops the process as Ctrl-Z does outside of full screen programs; returns when it goes on.
    ///
    /// # Errors
    /// When the terminal cannot be taken again.
    pub fn suspend(&mut self) -> io::Result<()> {
        leave();
        signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
        self.forget();
        take_over()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        leave();
        drop(std::panic::take_hook());
    }
}

fn take_over() -> io::Result<()> {
    crossterm::terminal::enable_raw_mode()?;
    ENTERED.store(true, Ordering::SeqCst);
    let mut out = io::stdout().lock();
    out.write_all(ENTER.as_bytes())?;
    out.flush()
}

/// Gives the terminal back; does nothing when it has been given back already.
fn leave() {
    if !ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout().lock();
    // The terminal may be gone; then there is nobody left to restore it for.
    let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    let _ = crossterm::terminal::disable_raw_mode();
}
