//! The screen as it should be: title, map, panel, status.

use super::app::{App, Panel, Purpose};
use super::different::different_lines;
use super::keys;
use crate::notes::plural;
use latscope_event::{format_duration, format_duration_exact};
use latscope_view_term::{Cell, Color, Drawn, Line, Look, Screen, screen};

impl App {
    /// Draws the screen, and keeps where on it what is.
    pub fn draw(&mut self) -> &Drawn {
        self.drawn = self.picture();
        if !self.fitted && self.watch.is_none() && !self.series.slices().is_empty() && !self.drawn.maps.is_empty() {
            self.fit();
            self.drawn = self.picture();
        }
        &self.drawn
    }

    fn picture(&self) -> Drawn {
        let (title, status, panel) = (self.title(), self.status(), self.panel_lines());
        if self.table.is_shown {
            return self.table_picture(title, status, panel);
        }
        // A live map goes on when nothing happens, too.
        let newest = self.look.newest.or(self.range().map(|(_, last)| last).filter(|_| self.watch.is_some()));
        let look = Look { newest, ..self.look.clone() };
        screen(&Screen {
            size: self.size,
            series: &self.series,
            context: &self.context,
            look: &look,
            cursor: self.cursor,
            selection: self.selection,
            panel: &panel,
            title: &title,
            status: &status,
        })
    }

    /// `latscope  PAUSED  every 10ms  by device  filter: kind = read  perf script, out.txt`: what changes comes first,
    /// what is cut off where there is no room is where it all comes from.
    fn title(&self) -> Line {
        let mut line = Line::new("latscope");
        let mut mark = |text: String| {
            line.push("  ");
            marked(&mut line, &format!(" {text} "));
        };
        if self.paused {
            mark("PAUSED".into());
        }
        if let Some(percent) = self.progress {
            mark(percent.map_or("reading".into(), |percent| format!("reading {percent}%")));
        }
        if let Some(waiting) = self.watch.as_ref().and_then(|watch| watch.waiting(&self.context)) {
            mark(waiting);
        }
        let width = self.series.width_ns().saturating_mul(u64::from(self.look.merge));
        let mut parts = Vec::new();
        if self.table.is_shown {
            parts.extend(self.table_parts());
        } else if self.watch.is_some() || !self.series.slices().is_empty() {
            parts.push(format!("every {}", format_duration_exact(width)));
        }
        if !self.table.is_shown {
            parts.extend(self.watch.as_ref().map(|watch| watch.state()));
            parts.extend(self.series.by.first().map(|by| format!("by {}", by.name())));
        }
        parts.extend(Some(self.words.trim()).filter(|words| !words.is_empty()).map(|words| format!("filter: {words}")));
        parts.push(self.context.source.clone());
        parts.extend(self.context.host.clone());
        for part in &parts {
            line.push("  ").push(part);
        }
        line.truncate(self.size.0, true);
        line
    }

    fn status(&self) -> Line {
        let columns = self.size.0;
        if let Some((purpose, editor)) = &self.editor {
            let prompt = match purpose {
                Purpose::Filter => "filter: ",
                Purpose::Save => "save as: ",
            };
            return editor.line(prompt, columns);
        }
        let text = if let Some(notice) = &self.notice {
            notice.clone()
        } else if self.table.is_shown {
            super::table::KEYS.into()
        } else if let Some(spot) = self.selection.or(self.cursor) {
            let words = self.in_words();
            let what = if self.selection.is_some() { "selected " } else { "" };
            format!("{what}{}: {}", words.place(&spot), words.sum(&spot))
        } else {
            "? help  arrows cursor  v select  Enter dig  n next spot  / filter  + - zoom  b split  Space pause  q quit"
                .into()
        };
        let mut line = Line::new(&text);
        line.truncate(columns, true);
        line
    }

    /// Columns and rows of a panel: beside the map where the screen is wide, else below it.
    fn panel_room(&self) -> (usize, usize) {
        let (columns, rows) = self.size;
        match columns {
            _ if self.table.is_shown => (columns, rows.saturating_sub(2)),
            100.. => (columns / 2 - 3, rows.saturating_sub(2)),
            _ => (columns, (rows.saturating_sub(2) / 2).saturating_sub(1)),
        }
    }

    /// By how many lines a panel is turned over, and whether there is anything to turn.
    pub fn panel_page(&self) -> Option<usize> {
        let room = self.panel_room().1;
        (self.whole_panel().len() > room).then(|| room.saturating_sub(1).max(1))
    }

    fn panel_lines(&self) -> Vec<Line> {
        let room = self.panel_room().1;
        let mut lines = self.whole_panel();
        if lines.len() <= room || room < 2 {
            return lines;
        }
        let from = self.panel_from.min(lines.len() - 1);
        let rest = lines.len().saturating_sub(from + room - 1);
        lines.drain(..from);
        lines.truncate(room - 1);
        lines.push(Line::new(&match rest {
            0 => "PgUp back, Esc close".to_string(),
            rest => format!("PgDn {rest} more lines, Esc close"),
        }));
        lines
    }

    fn whole_panel(&self) -> Vec<Line> {
        let (columns, rows) = self.panel_room();
        match &self.panel {
            Panel::None => Vec::new(),
            Panel::Help => help(columns),
            Panel::Text(texts) => texts.iter().flat_map(|text| folded(text, columns)).collect(),
            Panel::Waiting => self.waiting_lines(columns),
            Panel::Splits(chosen) => {
                let fields = self.splits.iter().map(|field| format!("{:<12}{}", field.name(), field.meaning()));
                let entries = std::iter::once(format!("{:<12}one map of all events", "nothing")).chain(fields);
                let mut lines = vec![Line::new("Split the map by: (arrows or b select, Enter confirm, Esc close)")];
                lines.extend(entries.enumerate().map(|(at, text)| entry(&text, at == *chosen, columns)));
                lines
            }
            Panel::Spot => self.spot_lines(columns),
            Panel::Different(found) => different_lines(found.as_ref(), columns),
            Panel::Dig(dug) => self.dug_lines(dug, columns, rows),
            Panel::Stacks(stacked) => self.stacks_lines(stacked, columns),
            Panel::Sources(chosen) => chosen.lines(columns),
        }
    }

    /// What to leave on the screen: the picture without panel and status.
    pub fn last_picture(&mut self) -> Vec<Line> {
        (self.panel, self.editor) = (Panel::None, None);
        if self.table.is_shown {
            return self.table_lines(self.size.0);
        }
        let total = self.series.total(None).totals().count;
        let span = self.series.range().map_or(0, |(first, last)| (last - first + 1) as u64 * self.series.width_ns());
        self.notice = Some(format!("{} in {}", plural(total, "event"), format_duration(span)));
        self.picture().lines
    }
}

/// Appends text that stands out, on every terminal.
pub fn marked(line: &mut Line, text: &str) {
    for symbol in text.chars() {
        line.push_cell(Cell { symbol, foreground: Color::Indexed(0), background: Color::Indexed(3) });
    }
}

/// A line of a list; marked where the keys act on it.
pub fn entry(text: &str, is_marked: bool, columns: usize) -> Line {
    let mut line = Line::default();
    match is_marked {
        true => marked(&mut line, &format!("> {text}")),
        false => drop(line.push("  ").push(text)),
    }
    line.truncate(columns, true);
    line
}

/// Keys at the left, their meaning at the right of them.
fn help(columns: usize) -> Vec<Line> {
    const KEYS: usize = 16;
    let mut lines = Vec::new();
    for (keys, meaning) in keys::help() {
        for (at, meaning) in folded(meaning, columns.saturating_sub(KEYS).max(20)).into_iter().enumerate() {
            let mut line = Line::new(if at == 0 { &keys } else { "" });
            if line.width() >= KEYS {
                lines.push(std::mem::take(&mut line));
            }
            line.pad_to(KEYS).push(&meaning.text());
            lines.push(line);
        }
    }
    lines
}

/// Text in lines no wider than this, between words where it can.
pub fn folded(text: &str, columns: usize) -> Vec<Line> {
    if Line::new(text).width() <= columns {
        return vec![Line::new(text)];
    }
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let mut word = word.to_string();
        let last = lines.len() - 1;
        if Line::new(&lines[last]).width() + Line::new(word.trim_end()).width() > columns && !lines[last].is_empty() {
            lines.push(String::new());
        }
        while Line::new(word.trim_end()).width() > columns {
            let rest: String = word.chars().skip(columns).collect();
            let last = lines.len() - 1;
            lines[last] = word.chars().take(columns).collect();
            lines.push(String::new());
            word = rest;
        }
        let last = lines.len() - 1;
        lines[last] += &word;
    }
    lines.iter().map(|line| Line::new(line.trim_end())).collect()
}
