//! Moving over the map: cursor, scrolling, zooms, mouse.

use super::app::{App, Panel, View};
use super::keys::Action;
use super::select;
use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use latscope_series::round_multiples;
use latscope_view_term::{MapArea, Orient, Spot};

/// Cells that a turn of the wheel scrolls.
const WHEEL: i64 = 3;
/// A strip may start so many cells beyond the edge of another.
const BETWEEN_STRIPS: usize = 16;

impl App {
    /// The spot at a cell of the screen.
    fn spot_at(&self, column: usize, row: usize) -> Option<Spot> {
        self.drawn.maps.iter().find_map(|map| map.spot(column, row))
    }

    /// First and last cell of the first strip, by time.
    fn ends(&self) -> Option<(Spot, Spot)> {
        let map = self.drawn.maps.first()?;
        let cells = (0..map.rows).flat_map(|row| (0..map.columns).map(move |column| (column, row)));
        let mut spots = cells.filter_map(|(column, row)| map.spot(map.left + column, map.top + row));
        let first = spots.next()?;
        let (oldest, newest) = spots.fold((first, first), |(oldest, newest), spot| {
            let earlier = if spot.from_ns < oldest.from_ns { spot } else { oldest };
            (earlier, if spot.to_ns > newest.to_ns { spot } else { newest })
        });
        Some((oldest, newest))
    }

    /// Where the cursor starts: in the newest interval, in the middle of the axis.
    pub fn middle(&self) -> Option<Spot> {
        let map = self.drawn.maps.first()?;
        let newest = self.ends()?.1;
        let spots = || (0..map.rows).flat_map(|row| (0..map.columns).map(move |column| (column, row)));
        let mut of_newest: Vec<Spot> = spots()
            .filter_map(|(column, row)| map.spot(map.left + column, map.top + row))
            .filter(|spot| spot.to_ns == newest.to_ns)
            .collect();
        of_newest.sort_by_key(|spot| spot.low);
        of_newest.get(of_newest.len() / 2).copied()
    }

    /// Moves the cursor by a cell; at the edge of time the map scrolls.
    pub fn step(&mut self, action: Action) {
        let (right, down): (isize, isize) = match action {
            Action::Left => (-1, 0),
            Action::Right => (1, 0),
            Action::Up => (0, -1),
            _ => (0, 1),
        };
        let Some(cursor) = self.cursor else {
            self.cursor = self.middle();
            return;
        };
        let on = self.drawn.maps.iter().find(|map| map.group == cursor.group && map.cells(&cursor).is_some());
        let Some(map) = on else {
            // It was scrolled away.
            self.cursor = self.middle();
            return;
        };
        let along_time = (self.look.options.orient == Orient::Down) == (down != 0);
        if let Some(spot) = map.beside(&cursor, right, down) {
            self.cursor = Some(spot);
        } else if let Some(spot) = self.in_next_strip(map, &cursor, (right, down)) {
            self.cursor = Some(spot);
        } else if along_time {
            let newer = if right + down > 0 { 1 } else { -1 };
            let by = self.scroll(newer).saturating_mul(self.series.width_ns() as i64);
            self.cursor = Some(Spot {
                from_ns: cursor.from_ns.saturating_add(by),
                to_ns: cursor.to_ns.saturating_add(by),
                ..cursor
            });
        }
        self.stretch();
    }

    /// Where the cursor comes to over the edge of a strip; a selection stays in its own.
    fn in_next_strip(&self, map: &MapArea, cursor: &Spot, (right, down): (isize, isize)) -> Option<Spot> {
        let cells = map.cells(cursor).filter(|_| self.anchor.is_none())?;
        (1..BETWEEN_STRIPS as isize).find_map(|by| {
            let column = cells.left.checked_add_signed(right * by)?;
            let row = cells.top.checked_add_signed(down * by)?;
            self.spot_at(column, row).filter(|spot| spot.group != cursor.group)
        })
    }

    /// While something is being selected, it reaches to the cursor.
    fn stretch(&mut self) {
        if let (Some(anchor), Some(cursor)) = (self.anchor, self.cursor) {
            self.selection = Some(select::union(anchor, cursor));
        }
    }

    /// Intervals of the series to a cell, and on the whole map.
    fn extent(&self) -> Option<(i64, i64)> {
        let (oldest, newest) = self.ends()?;
        let width = self.series.width_ns() as i64;
        let cell = (newest.to_ns - newest.from_ns) / width;
        Some((cell.max(1), ((newest.to_ns - oldest.from_ns) / width).max(1)))
    }

    /// Scrolls by cells, on in time or back; returns by how many intervals it did.
    fn scroll(&mut self, cells: i64) -> i64 {
        let Some((cell, page)) = self.extent() else { return 0 };
        self.scroll_intervals(cells * cell, page)
    }

    fn scroll_intervals(&mut self, by: i64, page: i64) -> i64 {
        let Some((first, last)) = self.range() else { return 0 };
        let now = self.look.newest.unwrap_or(last);
        let oldest = (first + page - 1).min(last);
        let then = (now + by).clamp(oldest.min(now), last.max(now));
        self.look.newest = if then >= last && !self.paused { None } else { Some(then) };
        then - now
    }

    pub fn page(&mut self, pages: i64) {
        if let Some((cell, page)) = self.extent() {
            // A cell stays on the screen, so that the eye does not lose its place.
            self.scroll_intervals(pages * (page - cell).max(cell), page);
        }
    }

    pub fn show_oldest(&mut self) {
        if let Some((_, page)) = self.extent() {
            self.scroll_intervals(-(1 << 40), page);
        }
    }

    fn remember_view(&mut self) {
        let options = &self.look.options;
        self.back.push(View { min: options.min, max: options.max, merge: self.look.merge, newest: self.look.newest });
        if self.back.len() > 100 {
            self.back.remove(0);
        }
    }

    /// The next wider or narrower round interval, with the cursor's time in its place.
    pub fn zoom_time(&mut self, closer: bool) {
        let width = self.series.width_ns();
        let now = width * u64::from(self.look.merge);
        let next = match closer {
            true => round_multiples(width).take_while(|&wide| wide < now).last(),
            false => round_multiples(width).find(|&wide| wide > now),
        };
        let Some(next) = next.filter(|_| closer || self.extent().is_some_and(|(_, page)| self.is_longer_than(page)))
        else {
            self.notice = Some(match closer {
                true => format!("The shortest stored interval is {}.", latscope_event::format_duration(width)),
                false => "The whole range is on the map.".into(),
            });
            return;
        };
        self.remember_view();
        if let (Some(newest), Some((_, last))) = (self.look.newest, self.range()) {
            let pivot = self.cursor.map_or(newest, |cursor| cursor.to_ns.div_euclid(width as i64));
            let beyond = i128::from(newest - pivot) * i128::from(next) / i128::from(now.max(1));
            let moved = pivot.saturating_add(beyond as i64);
            self.look.newest = (moved < last || self.paused).then_some(moved.min(last));
        } else if let (Some(cursor), Some((_, last)), true) = (self.cursor, self.range(), closer) {
            let pivot = cursor.to_ns.div_euclid(width as i64);
            let beyond = i128::from(last - pivot) * i128::from(next) / i128::from(now.max(1));
            self.look.newest = Some(pivot.saturating_add(beyond as i64)).filter(|&newest| newest < last);
        }
        self.look.merge = (next / width).max(1) as u32;
    }

    fn is_longer_than(&self, intervals: i64) -> bool {
        self.range().is_some_and(|(first, last)| last - first >= intervals)
    }

    /// Chooses the interval so that all of it fits on the map.
    pub fn fit(&mut self) {
        let (Some((_, page)), Some((first, last))) = (self.extent(), self.range()) else { return };
        let width = self.series.width_ns();
        let cells = (page / i64::from(self.look.merge)).max(1);
        let fits = |wide: &u64| {
            let merge = (wide / width) as i64;
            last.div_euclid(merge) - first.div_euclid(merge) < cells
        };
        if let Some(wide) = round_multiples(width).find(fits) {
            self.look.merge = (wide / width) as u32;
        }
        self.fitted = true;
    }

    /// The values that the axis shows.
    fn values(&self) -> Option<(f64, f64)> {
        let map = self.drawn.maps.first()?;
        let cells = (0..map.rows).flat_map(|row| (0..map.columns).map(move |column| (column, row)));
        let spots: Vec<Spot> = cells.filter_map(|(column, row)| map.spot(map.left + column, map.top + row)).collect();
        let (lowest, highest) = (self.look.options.min, self.look.options.max);
        let low = lowest.or_else(|| spots.iter().map(|spot| spot.low).min())?;
        let high = highest.or_else(|| spots.iter().map(|spot| spot.high).filter(|&high| high < u64::MAX).max())?;
        Some((low.max(1) as f64, (high as f64).max(2.0 * low.max(1) as f64)))
    }

    pub fn zoom_values(&mut self, closer: bool) {
        let Some((low, high)) = self.values() else { return };
        let ratio = (high / low).ln();
        let center = self.cursor.filter(|cursor| cursor.high < u64::MAX).map_or((low * high).sqrt(), |cursor| {
            (cursor.low.max(1) as f64 * cursor.high.max(1) as f64).sqrt().clamp(low, high)
        });
        if closer && ratio < 0.2 {
            self.notice = Some("Cannot zoom further: one bucket per column.".into());
            return;
        }
        self.remember_view();
        let power = if closer { 0.5 } else { 2.0 };
        let (new_low, new_high) = (center / (center / low).powf(power), center * (high / center).powf(power));
        let whole = self.series.total(None);
        let (least, most) = (whole.totals().min as f64, whole.totals().max as f64);
        self.look.options.min = (new_low > least).then_some(new_low.round() as u64);
        self.look.options.max = (new_high < most).then_some((new_high.round() as u64).max(new_low.round() as u64 + 1));
    }

    pub fn zoom_to_selection(&mut self) {
        let (Some(spot), Some((_, page))) = (self.selection, self.extent()) else {
            self.notice = Some("Nothing is selected: press v, or drag with the mouse.".into());
            return;
        };
        self.remember_view();
        let width = self.series.width_ns();
        let cells = (page / i64::from(self.look.merge)).max(1) as u64;
        let needed = spot.to_ns.saturating_sub(spot.from_ns) as u64;
        if let Some(wide) = round_multiples(width).find(|wide| needed.div_ceil(*wide) < cells) {
            self.look.merge = (wide / width) as u32;
        }
        self.look.options.min = Some(spot.low).filter(|&low| low > 0);
        self.look.options.max = Some(spot.high).filter(|&high| high < u64::MAX);
        let newest = (spot.to_ns - 1).div_euclid(width as i64);
        // The selection in the middle, if it is shorter than the map.
        let room = cells as i64 * i64::from(self.look.merge) - (needed / width) as i64;
        let last = self.range().map_or(newest, |(_, last)| last);
        self.look.newest = Some((newest + room / 2).min(last));
        (self.anchor, self.selection, self.panel) = (None, None, Panel::None);
    }

    pub fn mouse(&mut self, event: MouseEvent) {
        let (column, row) = (usize::from(event.column), usize::from(event.row));
        let zoom = event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::SHIFT);
        match event.kind {
            MouseEventKind::ScrollUp if self.table.is_shown => self.scroll_table(-WHEEL as isize),
            MouseEventKind::ScrollDown if self.table.is_shown => self.scroll_table(WHEEL as isize),
            _ if self.table.is_shown => {}
            MouseEventKind::Down(MouseButton::Left) => {
                self.notice = None;
                let Some(spot) = self.spot_at(column, row) else { return };
                (self.cursor, self.anchor, self.selection) = (Some(spot), Some(spot), None);
            }
            MouseEventKind::Drag(MouseButton::Left) => {
                let Some(anchor) = self.anchor else { return };
                let Some(map) = self.drawn.maps.iter().find(|map| map.group == anchor.group) else { return };
                let column = column.clamp(map.left, map.left + map.columns.saturating_sub(1));
                let row = row.clamp(map.top, map.top + map.rows.saturating_sub(1));
                if let Some(spot) = map.spot(column, row) {
                    self.cursor = Some(spot);
                    self.stretch();
                }
            }
            MouseEventKind::Up(MouseButton::Left) if self.anchor.take().is_some() && self.selection.is_some() => {
                self.dig();
            }
            MouseEventKind::ScrollUp if zoom => self.zoom_time(true),
            MouseEventKind::ScrollDown if zoom => self.zoom_time(false),
            MouseEventKind::ScrollUp => drop(self.scroll(-WHEEL)),
            MouseEventKind::ScrollDown => drop(self.scroll(WHEEL)),
            _ => {}
        }
    }
}
