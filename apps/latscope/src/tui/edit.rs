//! A line that is being edited.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use latscope_view_term::{Cell, Color, Line};

/// What came of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edited {
    Going,
    Done,
    Left,
}

/// A line with a place in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Editor {
    letters: Vec<char>,
    at: usize,
}

impl Editor {
    /// The text to start with; the place is behind it.
    pub fn new(text: &str) -> Editor {
        let letters: Vec<char> = text.chars().filter(|letter| !letter.is_control()).collect();
        Editor { at: letters.len(), letters }
    }

    pub fn text(&self) -> String {
        self.letters.iter().collect()
    }

    /// Applies a key, as lines are edited in a shell.
    pub fn key(&mut self, event: &KeyEvent) -> Edited {
        let control = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Enter => return Edited::Done,
            KeyCode::Esc => return Edited::Left,
            KeyCode::Char('c' | 'g') if control => return Edited::Left,
            KeyCode::Char('a') if control => self.at = 0,
            KeyCode::Char('e') if control => self.at = self.letters.len(),
            KeyCode::Char('b') if control => self.at = self.at.saturating_sub(1),
            KeyCode::Char('f') if control => self.at = (self.at + 1).min(self.letters.len()),
            KeyCode::Char('u') if control => drop(self.letters.drain(..std::mem::take(&mut self.at))),
            KeyCode::Char('k') if control => self.letters.truncate(self.at),
            KeyCode::Char('w') if control => self.erase_word(),
            KeyCode::Char('h') if control => self.erase(),
            KeyCode::Char(letter) if !control && !event.modifiers.contains(KeyModifiers::ALT) => {
                self.letters.insert(self.at, letter);
                self.at += 1;
            }
            KeyCode::Backspace => self.erase(),
            KeyCode::Delete if self.at < self.letters.len() => drop(self.letters.remove(self.at)),
            KeyCode::Left => self.at = self.at.saturating_sub(1),
            KeyCode::Right => self.at = (self.at + 1).min(self.letters.len()),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = self.letters.len(),
            _ => {}
        }
        Edited::Going
    }

    fn erase(&mut self) {
        if self.at > 0 {
            self.at -= 1;
            self.letters.remove(self.at);
        }
    }

    fn erase_word(&mut self) {
        let end = self.at;
        while self.at > 0 && self.letters[self.at - 1] == ' ' {
            self.at -= 1;
        }
        while self.at > 0 && self.letters[self.at - 1] != ' ' {
            self.at -= 1;
        }
        self.letters.drain(self.at..end);
    }

    /// The line with its prompt, the part around the place when it is too long.
    pub fn line(&self, prompt: &str, columns: usize) -> Line {
        let mut line = Line::new(prompt);
        let room = columns.saturating_sub(line.width() + 1).max(1);
        let first = (self.at + 1).saturating_sub(room);
        for (at, &letter) in self.letters.iter().chain([&' ']).enumerate().skip(first).take(room) {
            let from = line.width();
            line.push(&letter.to_string());
            if at == self.at {
                for cell in &mut line.cells[from..] {
                    *cell = Cell { foreground: Color::Indexed(0), background: Color::Indexed(7), ..*cell };
                }
            }
        }
        line.truncate(columns, false);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(editor: &mut Editor, text: &str) {
        for letter in text.chars() {
            editor.key(&KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE));
        }
    }

    #[test]
    fn edits_as_a_shell_does() {
        let mut editor = Editor::new("kind = read");
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
        editor.key(&control('w'));
        typed(&mut editor, "write");
        assert_eq!(editor.text(), "kind = write");
        editor.key(&control('a'));
        typed(&mut editor, "not ");
        editor.key(&plain(KeyCode::Delete));
        typed(&mut editor, "k");
        assert_eq!(editor.text(), "not kind = write");
        editor.key(&control('k'));
        assert_eq!(editor.text(), "not k");
        editor.key(&plain(KeyCode::Backspace));
        editor.key(&plain(KeyCode::Left));
        editor.key(&control('u'));
        assert_eq!(editor.text(), " ");
        assert_eq!(editor.key(&plain(KeyCode::Enter)), Edited::Done);
        assert_eq!(editor.key(&plain(KeyCode::Esc)), Edited::Left);
    }

    #[test]
    fn shows_the_part_around_the_place() {
        let editor = Editor::new("0123456789abcdefghij");
        let line = editor.line("filter: ", 20);
        assert!(line.width() <= 20 && line.text().ends_with("hij"), "{:?}", line.text());
        assert_eq!(Editor::new("x").line("> ", 3).width(), 3);
    }
}
