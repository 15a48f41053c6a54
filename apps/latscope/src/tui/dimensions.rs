//! By which fields call stacks are split, and the list in which that is chosen.

use super::keys::Action;
use super::view::entry;
use latscope_event::Field;
use latscope_view_term::Line;

/// Where there is nothing to choose from.
pub const NO_FIELDS: &str = "No field has several values in these events.";

/// By which fields stacks are split, and the list in which that is chosen.
#[derive(Clone, Debug, Default)]
pub struct Dimensions {
    /// In the order of the columns.
    pub by: Vec<Field>,
    /// The line of the list, while that is open.
    at: Option<usize>,
}

/// What a key did to the choice of fields.
pub enum Acted {
    /// The key is not one of the list.
    Nothing,
    /// The list changed.
    List,
    /// Other fields are chosen.
    Fields,
    /// There is nothing to choose from.
    Empty,
}

impl Dimensions {
    /// Nothing is open yet.
    pub fn new(by: Vec<Field>) -> Dimensions {
        Dimensions { by, at: None }
    }

    /// Whether the list is open.
    pub fn is_open(&self) -> bool {
        self.at.is_some()
    }

    /// What may be chosen: fields with several values, and those that are chosen.
    fn offered(&self, several: &[Field]) -> Vec<Field> {
        let others = several.iter().filter(|field| !self.by.contains(field));
        self.by.iter().chain(others).copied().collect()
    }

    /// Takes a key, where these fields have several values.
    pub fn key(&mut self, action: Action, several: &[Field]) -> Acted {
        let offered = self.offered(several);
        let last = offered.len().saturating_sub(1);
        match (action, self.at) {
            (Action::Split, None) if offered.is_empty() => return Acted::Empty,
            (Action::Split, None) => self.at = Some(0),
            (Action::Back | Action::Dig | Action::Split, Some(_)) => self.at = None,
            (Action::Down, Some(at)) => self.at = Some(if at < last { at + 1 } else { 0 }),
            (Action::Up, Some(at)) => self.at = Some(at.checked_sub(1).unwrap_or(last)),
            (Action::Pause, Some(at)) => {
                let Some(&field) = offered.get(at) else { return Acted::List };
                match self.by.iter().position(|&by| by == field) {
                    Some(place) => drop(self.by.remove(place)),
                    None => self.by.push(field),
                }
                // It stands elsewhere now.
                self.at = self.offered(several).iter().position(|&known| known == field).or(self.at);
                return Acted::Fields;
            }
            _ => return Acted::Nothing,
        }
        Acted::List
    }

    /// The list, where it is open.
    pub fn lines(&self, several: &[Field], columns: usize) -> Option<Vec<Line>> {
        let at = self.at?;
        let mut lines = vec![Line::new("Split stacks by: (arrows, Space toggles, Enter or Esc closes)")];
        for (place, field) in self.offered(several).iter().enumerate() {
            let order = self.by.iter().position(|by| by == field);
            let mark = order.map_or(" ".into(), |order| (order + 1).to_string());
            let text = format!("[{mark}] {:<12}{}", field.name(), field.meaning());
            lines.push(entry(&text, place == at, columns));
        }
        Some(lines)
    }
}
