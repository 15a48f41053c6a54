//! Keys: what they do, in one table from which the help, the manual and the reading of keys are made.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Pause,
    Left,
    Right,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    ZoomIn,
    ZoomOut,
    ValuesIn,
    ValuesOut,
    ZoomToSelection,
    Back,
    Select,
    Dig,
    NextSpot,
    PreviousSpot,
    Filter,
    Split,
    Waiting,
    Sources,
    Table,
    Weight,
    Palette,
    Scale,
    Turn,
    Percentiles,
    Different,
    Distribution,
    Rates,
    Save,
    Copy,
    Mode,
    Help,
    Redraw,
    Suspend,
    Quit,
    QuitLeaving,
}

/// A row of the table.
pub struct Entry {
    pub action: Action,
    pub keys: &'static [&'static str],
    pub meaning: &'static str,
}

const fn entry(action: Action, keys: &'static [&'static str], meaning: &'static str) -> Entry {
    Entry { action, keys, meaning }
}

/// All keys. `h` is the cursor's, as in vi and in csysdig's lists, so help is `?` and F1.
pub const TABLE: &[Entry] = &[
    entry(Action::Left, &["Left", "h"], "cursor left"),
    entry(Action::Right, &["Right", "l"], "cursor right"),
    entry(Action::Up, &["Up", "k"], "cursor up; at the edge, scroll back in time"),
    entry(Action::Down, &["Down", "j"], "cursor down; at the edge, scroll forward in time"),
    entry(Action::PageUp, &["PgUp"], "scroll back one screen"),
    entry(Action::PageDown, &["PgDn"], "scroll forward one screen"),
    entry(Action::Home, &["Home", "g"], "go to the oldest interval"),
    entry(Action::End, &["End", "G"], "go to the newest interval and follow it"),
    entry(Action::ZoomIn, &["+", "="], "zoom in on time: shorter intervals"),
    entry(Action::ZoomOut, &["-"], "zoom out of time: longer intervals"),
    entry(Action::ValuesIn, &["]", "Shift-Up", "Shift-Right"], "zoom in on latency around the cursor"),
    entry(Action::ValuesOut, &["[", "Shift-Down", "Shift-Left"], "zoom out of latency"),
    entry(Action::Select, &["v"], "start or end a selection at the cursor"),
    entry(
        Action::Dig,
        &["Enter", "F6"],
        "dig: show what is in the selection or under the cursor, and what sets it apart",
    ),
    entry(Action::NextSpot, &["n"], "go to the next unusual spot"),
    entry(Action::PreviousSpot, &["N"], "go to the previous unusual spot"),
    entry(Action::ZoomToSelection, &["z"], "zoom to the selection"),
    entry(Action::Back, &["Esc", "Backspace"], "close a panel, drop the selection, or undo a zoom"),
    entry(Action::Pause, &["Space", "p"], "freeze or resume the screen; capture continues"),
    entry(Action::Filter, &["/", "F4"], "edit the filter"),
    entry(Action::Split, &["b", "F2"], "split the map by device, kind, process, path ..."),
    entry(Action::Waiting, &["i", "F3"], "list requests in flight, with their age"),
    entry(Action::Sources, &["a"], "live: choose what is captured: block requests, calls, stacks"),
    entry(Action::Table, &["S"], "live: all call stacks in place of the map, or the map again"),
    entry(Action::Weight, &["w"], "colour by count, time or bytes"),
    entry(Action::Palette, &["c"], "next palette"),
    entry(Action::Scale, &["s"], "colour scale: log, sqrt, linear; in the panel of Enter: its call stacks"),
    entry(Action::Turn, &["t"], "time down or across"),
    entry(Action::Percentiles, &["o"], "lines of p50 and p99"),
    entry(Action::Different, &["d"], "which host of a hub, or value of the split, is not like the others"),
    entry(Action::Distribution, &["D"], "distribution of the whole map"),
    entry(Action::Rates, &["r"], "rate over time"),
    entry(Action::Save, &["e"], "save the selection as a trace"),
    entry(Action::Copy, &["y"], "show and copy the command that lists the selection"),
    entry(Action::Mode, &["m"], "live: histogram mode or event mode"),
    entry(Action::Help, &["?", "F1"], "this list"),
    entry(Action::Redraw, &["Ctrl-L"], "redraw the screen"),
    entry(Action::Suspend, &["Ctrl-Z"], "suspend; fg resumes"),
    entry(Action::Quit, &["q", "Ctrl-C", "F10"], "quit"),
    entry(Action::QuitLeaving, &["Q"], "quit and leave the picture"),
];

/// What the mouse does, for help and manual.
pub const MOUSE: &[(&str, &str)] = &[
    ("click", "move the cursor"),
    ("drag", "select; release to dig"),
    ("wheel", "scroll in time; with Ctrl or Shift, zoom time"),
];

/// The action of a key.
pub fn action(event: &KeyEvent) -> Option<Action> {
    let name = name(event)?;
    TABLE.iter().find(|entry| entry.keys.contains(&name.as_str())).map(|entry| entry.action)
}

fn name(event: &KeyEvent) -> Option<String> {
    let base = match event.code {
        KeyCode::Char(' ') => "Space".into(),
        // Terminals give the letter already shifted.
        KeyCode::Char(letter) if event.modifiers.contains(KeyModifiers::CONTROL) => letter.to_uppercase().to_string(),
        KeyCode::Char(letter) => letter.to_string(),
        KeyCode::Left => "Left".into(),
        KeyCode::Right => "Right".into(),
        KeyCode::Up => "Up".into(),
        KeyCode::Down => "Down".into(),
        KeyCode::PageUp => "PgUp".into(),
        KeyCode::PageDown => "PgDn".into(),
        KeyCode::Home => "Home".into(),
        KeyCode::End => "End".into(),
        KeyCode::Enter => "Enter".into(),
        KeyCode::Esc => "Esc".into(),
        KeyCode::Backspace => "Backspace".into(),
        KeyCode::F(number) => format!("F{number}"),
        _ => return None,
    };
    let letter = matches!(event.code, KeyCode::Char(_));
    Some(if event.modifiers.contains(KeyModifiers::CONTROL) {
        format!("Ctrl-{base}")
    } else if event.modifiers.contains(KeyModifiers::SHIFT) && !letter {
        format!("Shift-{base}")
    } else {
        base
    })
}

/// The help: keys with their meaning.
pub fn help() -> Vec<(String, &'static str)> {
    let keys = TABLE.iter().map(|entry| (entry.keys.join(" "), entry.meaning));
    keys.chain(MOUSE.iter().map(|&(what, meaning)| (format!("mouse {what}"), meaning))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of the manual.
    fn manual() -> String {
        let mut text = String::from("| key | what it does |\n|---|---|\n");
        for Entry { keys, meaning, .. } in TABLE {
            let keys: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
            text += &format!("| {} | {meaning} |\n", keys.join(" "));
        }
        text += "\n| mouse | what it does |\n|---|---|\n";
        MOUSE.iter().for_each(|(what, meaning)| text += &format!("| {what} | {meaning} |\n"));
        text
    }

    #[test]
    fn the_manual_lists_the_keys_of_the_program() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/views/spectrogram.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(&manual()), "docs/views/spectrogram.md should hold:\n{}", manual());
    }

    #[test]
    fn no_key_has_two_meanings_and_every_action_is_reached() {
        let mut keys: Vec<_> = TABLE.iter().flat_map(|entry| entry.keys).collect();
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
        let find = |code, modifiers| action(&KeyEvent::new(code, modifiers));
        assert_eq!(find(KeyCode::Char('Q'), KeyModifiers::SHIFT), Some(Action::QuitLeaving));
        assert_eq!(find(KeyCode::Char('z'), KeyModifiers::CONTROL), Some(Action::Suspend));
        assert_eq!(find(KeyCode::Char('z'), KeyModifiers::NONE), Some(Action::ZoomToSelection));
        assert_eq!(find(KeyCode::Up, KeyModifiers::SHIFT), Some(Action::ValuesIn));
        assert_eq!(find(KeyCode::Char(' '), KeyModifiers::NONE), Some(Action::Pause));
        assert_eq!(find(KeyCode::Char('X'), KeyModifiers::NONE), None);
    }
}
