//! Folds batches into a series.

mod share;
mod stretch;

pub use share::SHARES;
pub use stretch::Stretch;

use crate::budget::{Account, Budget, cost};
use crate::deviation::Squares;
use crate::group::{GROUP_LIMIT, Groups};
use crate::sequential::Sequence;
use crate::waiting::Waits;
use crate::{CountBy, Flow, HistogramSeries, Interval, Quantity, Slice, Waiter, Weight};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use latscope_event::{Batch, Context, Field, FieldSet, MISSING_U64, Mask};
use latscope_histogram::{Grid, Histogram};
use share::Spanning;
use stretch::Rest;

/// Dense histograms that are open at a time take no more than this; the rest is sparse. Ten minutes in intervals of a second
/// fit, so that the second and every further trace of the same time finds the histograms of the first.
const OPEN_BYTES: usize = 24 << 20;
const NONE: u32 = u32::MAX;

/// Builds a [`HistogramSeries`] from batches, in any order of time.
///
/// Memory grows with intervals x groups x non-empty buckets, not with events, and stays within a [`Budget`]: of too many groups
/// the heaviest are kept, intervals of an automatic width become wider, and with intervals of a given width the builder is
/// [full](SeriesBuilder::is_full).
pub struct SeriesBuilder {
    interval: Interval,
    /// No histogram is on a finer grid.
    finest: Option<Grid>,
    series: HistogramSeries,
    groups: Groups,
    open: Vec<Open>,
    free: Vec<Histogram>,
    current: Current,
    /// Events that lack the quantity.
    missing: u64,
    /// Place in `open` by interval and group.
    places: HashMap<(i64, u32), u32>,
    /// Nothing was in flight before this.
    earliest_ns: i64,
    /// Whether nobody asks for bytes and for requests in flight.
    values_only: bool,
    /// What offsets are compared with; nothing else needs it.
    sequence: Sequence,
    /// Where they are asked for.
    pub(crate) squares: Option<Squares>,
    account: Account,
    /// Memory of [stretches](crate::Stretch).
    pub(crate) rest: Rest,
}

struct Open {
    interval: i64,
    group: u32,
    histogram: Histogram,
}

/// The interval that the last event fell into; the next one mostly falls into it too.
struct Current {
    interval: i64,
    from_ns: i64,
    to_ns: i64,
    /// Place in `open` by group number, or `NONE`.
    slots: Vec<u32>,
    bytes: u64,
    sequential: u64,
    in_flight_ns: u128,
}

impl SeriesBuilder {
    /// A builder for an empty series.
    pub fn new(quantity: Quantity, weight: Weight, by: Vec<Field>, interval: Interval) -> SeriesBuilder {
        SeriesBuilder {
            interval,
            finest: None,
            series: HistogramSeries::new(quantity, weight, by.clone(), interval.first_width()),
            groups: Groups::new(by),
            open: Vec::new(),
            free: Vec::new(),
            // An empty range, so that the first event opens its interval.
            current: Current {
                interval: 0,
                from_ns: 0,
                to_ns: 0,
                slots: Vec::new(),
                bytes: 0,
                sequential: 0,
                in_flight_ns: 0,
            },
            missing: 0,
            places: HashMap::new(),
            earliest_ns: i64::MIN,
            values_only: false,
            sequence: Sequence::default(),
            squares: None,
            account: Account::default(),
            rest: Rest::default(),
        }
    }

    /// Counts on this grid, if one is given and it is coarser than that of the quantity; of histograms that are added, too.
    #[must_use]
    pub fn on_grid(mut self, grid: Option<Grid>) -> SeriesBuilder {
        if let Some(grid) = grid {
            self.finest = Some(grid);
            self.series.grid = self.series.grid.min(grid);
        }
        self
    }

    /// Leaves out the bytes of the [slices](Slice) and the requests [in flight](HistogramSeries::in_flight): both are then 0.
    #[must_use]
    pub fn values_only(mut self) -> SeriesBuilder {
        self.values_only = true;
        self
    }

    /// Shares this memory with other builders.
    #[must_use]
    pub fn within(mut self, budget: Budget) -> SeriesBuilder {
        self.account = Account::new(budget);
        self
    }

    /// Keeps these groups and counts all others as one, as a second pass over events of [pruned](SeriesBuilder::is_pruned) groups
    /// does.
    #[must_use]
    pub fn only(mut self, groups: &[Vec<String>]) -> SeriesBuilder {
        self.groups.only(groups);
        self
    }

    /// Whether intervals of the given width take more memory than there is. What was added since then is in no histogram.
    pub fn is_full(&self) -> bool {
        self.account.is_full
    }

    /// Whether light groups were dropped, which may have become heavier later: the counts of others are then too low.
    pub fn is_pruned(&self) -> bool {
        self.groups.is_pruned()
    }

    /// Sums up squares too, for exact [deviations](HistogramSeries::deviation) of the whole time.
    #[must_use]
    pub fn with_squares(mut self) -> SeriesBuilder {
        self.squares = Some(Squares::default());
        self
    }

    /// In which intervals events count; [by completion](CountBy::Completion) unless set.
    #[must_use]
    pub fn count_by(mut self, count_by: CountBy) -> SeriesBuilder {
        self.series.count_by = count_by;
        self
    }

    /// Says when the next trace started, where that is known: what would have started earlier (times are rounded) counts, by
    /// share, from there.
    pub fn starts_at(&mut self, earliest_ns: Option<i64>) {
        self.earliest_ns = earliest_ns.unwrap_or(i64::MIN);
    }

    /// The columns that the builder reads.
    pub fn fields(&self) -> FieldSet {
        let by = self.series.by.iter().copied().collect::<FieldSet>();
        let fields = by.union(FieldSet::ALWAYS).with(&[Field::SampleWeight, self.series.quantity.field()]);
        if self.series.quantity == Quantity::Offset {
            return fields.with(&[Field::Size, Field::Result, Field::Device, Field::Kind]);
        }
        let counts_bytes = !self.values_only || self.series.weight == Weight::Bytes;
        if counts_bytes { fields.with(&[Field::Size, Field::Result]) } else { fields }
    }

    /// Events so far that lack the quantity (a size, an offset, a queue time) and are in no histogram.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Call before the first batch of every further trace: its dictionaries are others.
    pub fn start_trace(&mut self) {
        self.sequence.clear();
        self.groups.start_trace(None);
    }

    /// As [`SeriesBuilder::start_trace`], where several builders share the traces: groups are numbered as if one builder had
    /// been given all traces in the order of these numbers.
    pub fn start_trace_number(&mut self, number: u32) {
        self.sequence.clear();
        self.groups.start_trace(Some(number));
    }

    /// Adds the events of a batch that the mask lets through, or all.
    pub fn add(&mut self, batch: &Batch, mask: Option<&Mask>) {
        match mask {
            _ if self.account.is_full => {}
            Some(mask) => mask.ones().for_each(|row| self.add_row(batch, row)),
            None if self.is_plain(batch) => self.add_runs(batch),
            None => (0..batch.len()).for_each(|row| self.add_row(batch, row)),
        }
    }

    /// Says of events that are added that those from before the capture are [lower bounds](HistogramSeries::has_bounds).
    pub fn add_bounds(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) {
        if self.series.quantity == Quantity::Latency && !context.begun_before_ns.is_empty() {
            let begun = Waiter::of_rows(batch, mask, &self.series.by, &|start_ns, _| context.had_begun(start_ns));
            self.series.waits.add_begun(begun);
        }
    }

    /// Whether every event just counts one, in one group, by its latency.
    fn is_plain(&self, batch: &Batch) -> bool {
        self.series.by.is_empty()
            && self.squares.is_none()
            && self.series.weight == Weight::Count
            && self.series.quantity == Quantity::Latency
            && batch.column(Field::SampleWeight).is_none()
    }

    /// Counts runs of events that start and end in the current interval at once, all others one by one.
    fn add_runs(&mut self, batch: &Batch) {
        let has_sizes = !self.values_only && batch.column(Field::Size).is_some();
        let (times, latencies) = (batch.time(), batch.latency());
        let mut row = 0;
        while row < times.len() {
            let (from_ns, width_ns) = (self.current.from_ns, self.current.to_ns.abs_diff(self.current.from_ns));
            let inside = |(&start_ns, &latency_ns): (&i64, &u64)| {
                // A start before the interval is a number beyond its width, and so is a missing latency.
                latency_ns < width_ns.saturating_sub(start_ns.wrapping_sub(from_ns) as u64)
            };
            let run = times[row..].iter().zip(&latencies[row..]).take_while(|&event| inside(event)).count();
            if run == 0 {
                self.add_row(batch, row);
                row += 1;
                continue;
            }
            let latencies = &latencies[row..row + run];
            if has_sizes {
                let moved = (row..row + run).filter_map(|row| batch.moved_bytes(row));
                self.current.bytes = moved.fold(self.current.bytes, u64::saturating_add);
            }
            let slot = self.current_slot(0);
            let sum = self.open[slot as usize].histogram.record_all(latencies, self.series.per_event());
            self.current.in_flight_ns += sum;
            row += run;
        }
    }

    #[inline]
    fn add_row(&mut self, batch: &Batch, row: usize) {
        let (start_ns, latency_ns) = (batch.time()[row], batch.latency()[row]);
        let value = match self.series.quantity {
            Quantity::Latency => latency_ns,
            quantity => batch.u64s(quantity.field()).map_or(MISSING_U64, |values| values[row]),
        };
        if value == MISSING_U64 {
            self.missing += 1;
            return;
        }
        let count = batch
            .i64s(Field::SampleWeight)
            .map_or(1, |weights| u64::try_from(weights[row]).map_or(1, |weight| weight.min(u64::from(u32::MAX))));
        let bytes = batch.moved_bytes(row).map_or(0, |bytes| bytes.saturating_mul(count));
        let end_ns = start_ns.saturating_add_unsigned(latency_ns);
        if !(self.current.from_ns..self.current.to_ns).contains(&end_ns) {
            self.move_to(start_ns, end_ns);
        }
        if !self.values_only {
            self.current.bytes = self.current.bytes.saturating_add(bytes);
            if self.series.quantity == Quantity::Offset {
                self.current.sequential += self.sequence.neighbours(batch, row) * count;
            }
            if start_ns >= self.current.from_ns {
                self.current.in_flight_ns += u128::from(latency_ns) * u128::from(count);
            } else {
                self.add_span(start_ns, end_ns, count);
            }
        }
        let group = match self.groups.number_of(batch, row) {
            group if (group as usize) < 2 * GROUP_LIMIT => group,
            _ => {
                self.prune(true);
                self.groups.number_of(batch, row)
            }
        };
        if let Some(squares) = &mut self.squares {
            squares.add(group, value, count);
        }
        let weight = match self.series.weight {
            Weight::Count => count,
            Weight::Time => latency_ns.saturating_mul(count),
            Weight::Bytes => bytes,
        };
        if self.is_by_share() && start_ns < self.current.from_ns && latency_ns > 0 {
            let event = Spanning { start_ns, end_ns, value, count, weight, group };
            return self.spread(&event, self.series.width_ns);
        }
        let slot = self.current_slot(group);
        self.open[slot as usize].histogram.record_many(value, count.saturating_mul(self.series.per_event()), weight);
    }

    /// Counts a value in any interval.
    pub(crate) fn record(&mut self, interval: i64, group: u32, value: u64, count: u64, weight: u64) {
        self.histogram_at(interval, group).record_many(value, count, weight);
    }

    pub(crate) fn earliest_ns(&self) -> i64 {
        self.earliest_ns
    }

    pub(crate) fn width_ns(&self) -> u64 {
        self.series.width_ns
    }

    pub(crate) fn is_by_share(&self) -> bool {
        self.series.count_by == CountBy::Overlap
    }

    pub(crate) fn per_event(&self) -> u64 {
        self.series.per_event()
    }

    pub(crate) fn group_of(&mut self, labels: &[String]) -> u32 {
        match self.groups.labelled(labels) {
            group if (group as usize) < 2 * GROUP_LIMIT => group,
            _ => {
                self.prune(true);
                self.groups.labelled(labels)
            }
        }
    }

    /// An event that lasts for several intervals is in flight.
    fn add_span(&mut self, start_ns: i64, end_ns: i64, count: u64) {
        let before = self.series.flow.bytes();
        if !self.account.is_full {
            self.series.flow.add_span(self.series.width_ns, start_ns, end_ns, count);
        }
        self.account.add(self.series.flow.bytes() - before);
        if self.account.is_due() && self.interval.limit().is_none() {
            self.fit();
        }
    }

    /// Drops the lighter groups: what they counted goes to that of all others.
    fn prune(&mut self, more_come: bool) {
        self.seal();
        let mut weights = vec![0u128; self.groups.labels().len()];
        for (group, sparse) in self.series.slices.values().flat_map(|slice| &slice.groups) {
            let totals = sparse.totals();
            // The sum of offsets says nothing.
            let more = if self.series.quantity == Quantity::Offset { u128::from(totals.count) } else { totals.sum };
            let weight = &mut weights[*group as usize];
            *weight = weight.saturating_add(more);
        }
        let numbers = self.groups.prune(&weights, more_come);
        self.series.regroup(&numbers);
        self.squares = self.squares.take().map(|squares| squares.renumbered(&numbers));
    }

    /// Makes the series fit into its memory, if that can be done.
    #[cold]
    fn fit(&mut self) {
        while !self.account.book(self.series.bytes()) {
            let width_ns = self.series.width_ns;
            if self.interval.limit().is_none() || width_ns > i64::MAX as u64 / 4 {
                self.account.is_full = true;
                return;
            }
            self.seal();
            self.series.widen(crate::next_wider(width_ns) / width_ns);
        }
    }

    /// Goes over to a coarser grid, or to any while there is nothing yet.
    pub(crate) fn fold_to(&mut self, grid: Grid) {
        let grid = self.finest.map_or(grid, |finest| grid.min(finest));
        if grid > self.series.grid && self.has_nothing() {
            self.free.clear();
            self.series.grid = grid;
        }
        if grid < self.series.grid {
            self.seal();
            self.free.clear();
            self.series.fold(grid);
        }
    }

    fn has_nothing(&self) -> bool {
        self.open.is_empty() && self.series.slices.is_empty()
    }

    /// The histogram of an interval and group, to add to.
    pub(crate) fn histogram_at(&mut self, interval: i64, group: u32) -> &mut Histogram {
        let slot = self.slot(interval, group);
        &mut self.open[slot as usize].histogram
    }

    /// The place of a group's histogram of the current interval.
    #[inline]
    fn current_slot(&mut self, group: u32) -> u32 {
        match self.current.slots.get(group as usize) {
            Some(&slot) if slot != NONE => slot,
            _ => {
                let slot = self.slot(self.current.interval, group);
                if self.current.slots.len() <= group as usize {
                    self.current.slots.resize(group as usize + 1, NONE);
                }
                self.current.slots[group as usize] = slot;
                slot
            }
        }
    }

    /// Makes the interval in which an event completed the current one.
    #[cold]
    fn move_to(&mut self, start_ns: i64, end_ns: i64) {
        self.settle();
        if self.account.is_due() {
            self.fit();
        }
        if let Some(limit) = self.interval.limit() {
            self.widen(if self.is_by_share() { start_ns } else { end_ns }, end_ns, limit);
        }
        let width = self.series.width_ns as i64;
        let interval = end_ns.div_euclid(width);
        let from_ns = interval.saturating_mul(width);
        self.current.slots.fill(NONE);
        (self.current.interval, self.current.from_ns, self.current.to_ns) =
            (interval, from_ns, from_ns.saturating_add(width));
    }

    /// Widens the intervals until the whole time, with this moment, needs no more than `limit` (two at least: intervals
    /// are aligned to the epoch, and no width joins the one before it with the one after).
    fn widen(&mut self, start_ns: i64, end_ns: i64, limit: u32) {
        let known = self.open.iter().map(|open| open.interval).chain(self.series.slices.keys().copied().take(1));
        let known = known.chain(self.series.slices.keys().copied().next_back());
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        known.for_each(|interval| (first, last) = (first.min(interval), last.max(interval)));
        let old = self.series.width_ns;
        if first > last {
            // The first event may last longer than all intervals.
            (first, last) = (start_ns.div_euclid(old as i64), end_ns.div_euclid(old as i64));
        }
        let mut width = old;
        loop {
            let factor = (width / old) as i64;
            let from = first.div_euclid(factor).min(start_ns.div_euclid(width as i64));
            let to = last.div_euclid(factor).max(end_ns.div_euclid(width as i64));
            if i128::from(to) - i128::from(from) < i128::from(limit.max(2)) || width > i64::MAX as u64 / 4 {
                break;
            }
            width = crate::next_wider(width);
        }
        if width != old {
            self.seal();
            self.series.widen(width / old);
        }
    }

    /// The place of the histogram of any interval, which is opened if it was not.
    fn slot(&mut self, interval: i64, group: u32) -> u32 {
        let weighted = self.series.weight != Weight::Count;
        if self.open.len() >= OPEN_BYTES / (8 * self.series.grid.len() * (1 + usize::from(weighted)))
            && !self.places.contains_key(&(interval, group))
        {
            self.seal();
        }
        match self.places.entry((interval, group)) {
            Entry::Occupied(place) => *place.get(),
            Entry::Vacant(place) => {
                let histogram = self.free.pop().unwrap_or_else(|| Histogram::new(self.series.grid, weighted));
                let slot = self.open.len() as u32;
                self.open.push(Open { interval, group, histogram });
                *place.insert(slot)
            }
        }
    }

    /// Turns all dense histograms into sparse ones.
    fn seal(&mut self) {
        for mut open in self.open.drain(..) {
            if open.histogram.totals().count > 0 && !self.account.is_full {
                let sparse = open.histogram.to_sparse();
                self.account.add(cost(sparse.indices().len(), self.series.is_weighted()));
                self.series.slices.entry(open.interval).or_default().add(open.group, sparse);
            }
            open.histogram.clear();
            self.free.push(open.histogram);
        }
        // Numbers of intervals that somebody is about to use stay what they are; only where they may change it has to wait.
        if self.account.is_due() && self.interval.limit().is_none() {
            self.fit();
        }
        self.current.slots.fill(NONE);
        self.places.clear();
    }

    /// Books what was summed up aside for the current interval.
    fn settle(&mut self) {
        if self.values_only {
            self.current.in_flight_ns = 0;
        }
        let sums = Slice {
            groups: Vec::new(),
            bytes: std::mem::take(&mut self.current.bytes),
            sequential: std::mem::take(&mut self.current.sequential),
        };
        if self.account.is_full {
            self.current.in_flight_ns = 0;
            return;
        }
        if sums.bytes > 0 || sums.sequential > 0 {
            self.series.slices.entry(self.current.interval).or_default().add_sums(&sums);
        }
        if self.current.in_flight_ns > 0 {
            self.series.flow.add_partial(self.current.interval, std::mem::take(&mut self.current.in_flight_ns));
        }
    }

    /// Takes over what another builder of the same kind counted, of other traces.
    pub fn merge(&mut self, mut other: SeriesBuilder) {
        for builder in [&mut *self, &mut other] {
            builder.seal();
            builder.settle();
        }
        // Nothing goes with any grid.
        let grid = match (self.has_nothing(), other.has_nothing()) {
            (true, false) => other.series.grid,
            (false, true) => self.series.grid,
            _ => self.series.grid.min(other.series.grid),
        };
        for series in [&mut self.series, &mut other.series] {
            series.fold(grid);
            series.grid = grid;
        }
        self.free.clear();
        let width = self.series.width_ns.max(other.series.width_ns);
        self.series.widen(width / self.series.width_ns);
        other.series.widen(width / other.series.width_ns);
        if let (Some(limit), Some((first, last))) = (self.interval.limit(), other.series.range()) {
            let (first_ns, end_ns) = (other.series.start_ns(first), other.series.start_ns(last.saturating_add(1)));
            self.widen(first_ns, end_ns.saturating_sub(1), limit);
            other.series.widen(self.series.width_ns / width);
        }
        // The width may be another one now, and so the next event opens its interval.
        (self.current.from_ns, self.current.to_ns) = (0, 0);
        self.missing += other.missing;
        let numbers = self.groups.merge(other.groups);
        self.series.take_in(other.series, &numbers);
        if let (Some(squares), Some(more)) = (&mut self.squares, &other.squares) {
            squares.merge(more, &numbers);
        }
        self.account.is_full |= other.account.is_full;
        drop(other.account);
        self.fit();
        if self.groups.labels().len() > 2 * GROUP_LIMIT {
            self.prune(true);
        }
    }

    /// The series.
    pub fn finish(self) -> HistogramSeries {
        self.finish_over(None)
    }

    /// The series of traces that cover this stretch of time, nanoseconds on their clock. Intervals that nobody has given are chosen
    /// for all of it: those chosen for the events alone may be too short, and need not divide the next ones.
    pub fn finish_over(mut self, covered_ns: Option<(i64, i64)>) -> HistogramSeries {
        self.seal();
        self.settle();
        if self.groups.are_too_many() {
            self.prune(false);
        }
        if let Some(order) = self.groups.sort() {
            self.series.renumber(&order);
            self.squares = self.squares.take().map(|squares| squares.renumbered(&order));
        }
        self.series.squares = self.squares.take().filter(|_| !self.account.is_full);
        self.series.others = self.groups.others();
        self.series.groups = self.groups.into_labels();
        if let (Interval::Auto(_), Some((from_ns, to_ns))) = (self.interval, covered_ns)
            && !self.series.slices.is_empty()
        {
            self.series.reach(from_ns, to_ns);
        }
        self.interval.finish(self.series)
    }

    /// Takes out the intervals before this one, for what prints a live series bit by bit: memory stays flat. An event
    /// that comes for an interval that was taken opens it again.
    pub fn take_before(&mut self, interval: i64) -> HistogramSeries {
        self.seal();
        self.settle();
        let later = self.series.slices.split_off(&interval);
        let taken = std::mem::replace(&mut self.series.slices, later);
        let before_ns = self.series.start_ns(interval);
        let begun = self.series.waits.begun.extract_if(.., |event| event.seen_ns() < before_ns).collect();
        let groups = self.groups.labels().to_vec();
        self.series.flow = Flow::default();
        HistogramSeries {
            slices: taken,
            groups,
            repeated: Default::default(),
            flow: Flow::default(),
            by: self.series.by.clone(),
            lengths: Default::default(),
            runs: Default::default(),
            waits: Waits { begun, ..Waits::default() },
            squares: None,
            ..self.series
        }
    }

    /// The series as it stands, for a picture while events still come.
    pub fn snapshot(&mut self) -> HistogramSeries {
        self.seal();
        self.settle();
        self.series.groups = self.groups.labels().to_vec();
        self.interval.finish(self.series.clone())
    }
}

impl HistogramSeries {
    /// Makes the intervals `factor` times as wide.
    pub(crate) fn widen(&mut self, factor: u64) {
        if factor <= 1 {
            return;
        }
        self.widen_waits(factor as i64);
        let mut wide = std::collections::BTreeMap::<i64, Slice>::new();
        for (interval, slice) in std::mem::take(&mut self.slices) {
            let target = wide.entry(interval.div_euclid(factor as i64)).or_default();
            target.add_sums(&slice);
            slice.groups.into_iter().for_each(|(group, sparse)| target.add(group, sparse));
        }
        self.slices = wide;
        let flow: Flow = self.flow.rebinned(self.width_ns, factor as i64);
        self.flow = flow;
        self.width_ns = self.width_ns.saturating_mul(factor);
        self.renumber_repeated(|interval| interval.div_euclid(factor as i64));
    }
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
