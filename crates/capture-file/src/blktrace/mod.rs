//! Recordings of blktrace: the records of the kernel's blk tracer, one file for each CPU or all in one stream.

mod order;
mod records;
mod set;

use crate::block_actions::{Action, ActionEvents, ActionRecord};
use crate::block_pairs::{NO_ID, padded, trimmed};
use crate::input::Input;
use crate::{Detected, Error, Position, ReadOptions, Sink, block_actions};
use hashbrown::HashMap;
use latscope_event::{Anomaly, Clock, Context, FieldSet, LossRange};
use order::Order;
use records::{Entry, Head, Layout, Raw, Stream};
pub use set::{is_of_cpu, one_of_each_recording};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

/// The fields of a request.
pub const FILLS: FieldSet = block_actions::FILLS;

/// No machine runs more threads at once.
const THREADS_LIMIT: usize = 1 << 18;
/// Streams of so many CPUs and devices are watched for gaps.
const NUMBERED_LIMIT: usize = 4096;

/// The first record has the magic.
pub fn detect(input: &Input) -> Detected {
    if Layout::detect(input.head()).is_some() { Detected::Yes } else { Detected::No }
}

/// Reads the recording; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    let Some(path) = input.path.clone().filter(|path| path.is_file()) else {
        return Reader::new(&name, options, sink).read_one(stream(input)?);
    };
    let files = set::files(&path)?;
    if files.len() <= 1 {
        return Reader::new(&name, options, sink).read_one(stream(input)?);
    }
    if options.follow.is_some() {
        let message =
            "The files of several CPUs cannot be followed; read a pipe: blktrace -d DEVICE -o - | latscope ... -r -.";
        return Err(Error::new(name, Position::File, message));
    }
    let (mut streams, mut given) = (Vec::new(), Some(input));
    for file in files {
        let input = match given.take_if(|input| input.path.as_ref() == Some(&file)) {
            Some(input) => input,
            None => Input::open(&file, options.progress)?,
        };
        // A CPU that did no I/O has an empty file.
        if !input.is_empty() {
            streams.push(stream(input)?);
        }
    }
    Reader::new(&name, options, sink).read_several(streams)
}

fn stream(input: Input) -> Result<Stream, Error> {
    let fail = |message: String| Err(Error::new(&input.name, Position::Byte(0), message));
    match Layout::detect(input.head()) {
        Some(layout @ Layout { version: 7 | 8, .. }) => Ok(Stream::new(input, layout)),
        Some(Layout { version, .. }) => fail(format!(
            "This is a recording of blktrace in format {version}, which kernels before 2.6.31 wrote; only formats 7 and 8 \
             can be read. Print it with the blkparse of that system, and read the text."
        )),
        None => fail("This is not a recording of blktrace.".into()),
    }
}

/// What is known while the records pass by.
struct Reader<'a, 's> {
    name: String,
    actions: ActionEvents<'a, 's>,
    names: HashMap<i32, [u8; 16]>,
    /// The thread that was looked up last, and its name.
    last_named: (i32, [u8; 16]),
    /// What to add to times to get Unix time.
    shift_ns: i64,
    sequences: Vec<Sequence>,
    latest: usize,
}

/// The numbers of the records of a CPU.
struct Sequence {
    dev: u32,
    cpu: u32,
    last: u32,
    time_ns: i64,
}

/// What comes out of a stream.
#[derive(Clone, Copy)]
enum Item {
    Action(ActionRecord),
    Lost(LossRange),
}

impl Item {
    fn time_ns(&self) -> i64 {
        match self {
            Item::Action(record) => record.time_ns,
            Item::Lost(range) => range.end_ns,
        }
    }
}

impl<'a, 's> Reader<'a, 's> {
    fn new(name: &str, options: &ReadOptions, sink: &'a mut Sink<'s>) -> Reader<'a, 's> {
        let context = Context::new(format!("blktrace, {name}"), Clock::unanchored("monotonic"));
        Reader {
            name: name.into(),
            actions: ActionEvents::new(context, options, sink),
            names: HashMap::new(),
            last_named: (NO_ID, [0; 16]),
            shift_ns: 0,
            sequences: Vec::new(),
            latest: 0,
        }
    }

    /// Adds a time of day that a record gave before the first event.
    fn anchor(&mut self, streams: &mut [Stream]) -> Result<(), Error> {
        for stream in streams {
            let found = stream.wall_clock().map_err(|error| self.error(&error))?;
            if let Some(shift_ns) = found.and_then(|(time_ns, unix_ns)| unix_ns.checked_sub(time_ns)) {
                (self.shift_ns, self.actions.context.clock) = (shift_ns, Clock::wall());
                return Ok(());
            }
        }
        Ok(())
    }

    fn error(&self, error: &std::io::Error) -> Error {
        Error::new(&self.name, Position::File, format!("Cannot be read: {error}."))
    }

    /// The action of a record, which has to be put in order.
    #[inline(always)]
    fn action(&mut self, raw: &Raw) -> Option<ActionRecord> {
        match raw.entry() {
            Entry::Action(record) => {
                let time_ns = record.time_ns.saturating_add(self.shift_ns);
                Some(ActionRecord { time_ns, ..record })
            }
            Entry::Process(tid, name) => {
                self.name(tid, name);
                None
            }
            Entry::WallClock { .. } | Entry::Other => None,
        }
    }

    #[cold]
    fn name(&mut self, tid: i32, name: &[u8]) {
        if self.names.len() < THREADS_LIMIT || self.names.contains_key(&tid) {
            self.names.insert(tid, padded(trimmed(name)));
            self.last_named.0 = NO_ID;
        }
    }

    /// The kernel numbers the records of each CPU.
    #[inline(always)]
    fn gap(&mut self, head: &Head) -> Option<LossRange> {
        let &Head { time_ns, dev, cpu, sequence, .. } = head;
        if sequence == 0 {
            return None;
        }
        let is_known = |known: &Sequence| (known.dev, known.cpu) == (dev, cpu);
        // Nearly always the number behind that of the record before.
        if let Some(known) = self.sequences.get_mut(self.latest).filter(|known| is_known(known))
            && known.last.wrapping_add(1) == sequence
        {
            (known.last, known.time_ns) = (sequence, time_ns);
            return None;
        }
        self.gap_before(head)
    }

    fn gap_before(&mut self, head: &Head) -> Option<LossRange> {
        let &Head { time_ns, dev, cpu, sequence, .. } = head;
        let is_known = |known: &Sequence| (known.dev, known.cpu) == (dev, cpu);
        if !self.sequences.get(self.latest).is_some_and(is_known) {
            match self.sequences.iter().position(is_known) {
                Some(at) => self.latest = at,
                None if self.sequences.len() >= NUMBERED_LIMIT => return None,
                None => {
                    self.latest = self.sequences.len();
                    self.sequences.push(Sequence { dev, cpu, last: sequence, time_ns });
                    return None;
                }
            }
        }
        let known = self.sequences.get_mut(self.latest)?;
        let before = std::mem::replace(known, Sequence { dev, cpu, last: sequence, time_ns });
        let missing = sequence.checked_sub(before.last)?.checked_sub(1).filter(|&missing| missing > 0)?;
        let shifted = |time_ns: i64| time_ns.saturating_add(self.shift_ns);
        let (start_ns, end_ns) = (shifted(before.time_ns.min(time_ns)), shifted(time_ns));
        Some(LossRange { start_ns, end_ns, cpu: Some(cpu), records: u64::from(missing) })
    }

    /// Adds the next action in time order.
    #[inline(always)]
    fn add(&mut self, record: &ActionRecord) -> ControlFlow<()> {
        // The others are not those of the thread whose request it is.
        let is_by_thread = matches!(record.action, Action::Queue | Action::Remap(_) | Action::Issue);
        let comm = if is_by_thread { self.name_of(record.tid) } else { [0; 16] };
        self.actions.add(record, comm)
    }

    /// Adds the next item in time order.
    fn add_item(&mut self, item: &Item) -> ControlFlow<()> {
        match item {
            Item::Action(record) => self.add(record),
            Item::Lost(range) => {
                self.actions.lose(*range);
                ControlFlow::Continue(())
            }
        }
    }

    #[inline]
    fn name_of(&mut self, tid: i32) -> [u8; 16] {
        if self.last_named.0 != tid {
            self.last_named = (tid, self.names.get(&tid).copied().unwrap_or_default());
        }
        self.last_named.1
    }

    /// One stream, in which each CPU is in order by itself.
    fn read_one(mut self, mut stream: Stream) -> Result<Context, Error> {
        self.anchor(std::slice::from_mut(&mut stream))?;
        let (mut order, is_stream) = (Order::new(), stream.is_stream());
        loop {
            let mut flow = stream.each_whole(|raw| {
                // A gap comes before the record behind it.
                if let Some(range) = self.gap(&raw.head) {
                    match order.is_next(range.end_ns) {
                        true => self.actions.lose(range),
                        false => order.hold(Item::Lost(range)),
                    }
                }
                if let Some(record) = self.action(raw) {
                    match order.is_next(record.time_ns) {
                        true => self.add(&record)?,
                        false => order.hold(Item::Action(record)),
                    }
                }
                order.release(&mut |item| self.add_item(item))
            });
            // More may take a while.
            if is_stream && flow.is_continue() {
                flow = order.release_held(&mut |item| self.add_item(item));
                flow = if flow.is_continue() { self.actions.hand_on() } else { flow };
            }
            if flow.is_break() || !stream.reads_on().map_err(|error| self.error(&error))? {
                break;
            }
        }
        let late = order.finish(&mut |item| self.add_item(item));
        self.actions.context.tally.add(Anomaly::OutOfOrder, late);
        self.finish(&[stream])
    }

    /// A stream for each CPU, merged by time.
    fn read_several(mut self, mut streams: Vec<Stream>) -> Result<Context, Error> {
        self.anchor(&mut streams)?;
        // Of each stream the next item is known; a gap comes with the record behind it.
        let mut next: Vec<(Option<Item>, Option<Item>)> = Vec::new();
        let mut heads = BinaryHeap::new();
        for (at, stream) in streams.iter_mut().enumerate() {
            let items = self.advance(stream)?;
            heads.extend(items.1.map(|item| Reverse((item.time_ns(), at))));
            next.push(items);
        }
        'all: while let Some(Reverse((_, at))) = heads.pop() {
            let bound = heads.peek().map_or((i64::MAX, usize::MAX), |&Reverse(bound)| bound);
            loop {
                let (gap, action) = next[at];
                if gap.iter().chain(&action).any(|item| self.add_item(item).is_break()) {
                    break 'all;
                }
                next[at] = self.advance(&mut streams[at])?;
                let Some(item) = next[at].1 else { break };
                if (item.time_ns(), at) > bound {
                    heads.push(Reverse((item.time_ns(), at)));
                    break;
                }
            }
        }
        self.finish(&streams)
    }

    /// The next record of a stream that says something.
    fn advance(&mut self, stream: &mut Stream) -> Result<(Option<Item>, Option<Item>), Error> {
        let mut lost = None;
        loop {
            let Some(raw) = stream.next().map_err(|error| self.error(&error))? else { return Ok((lost, None)) };
            lost = lost.or(self.gap(&raw.head).map(Item::Lost));
            let action = self.action(&raw).map(Item::Action);
            if action.is_some() {
                return Ok((lost, action));
            }
        }
    }

    fn finish(mut self, streams: &[Stream]) -> Result<Context, Error> {
        let context = &mut self.actions.context;
        for stream in streams {
            context.tally.add(Anomaly::DamagedRecords, stream.damaged);
            context.tally.add(Anomaly::Truncated, u64::from(stream.is_cut));
        }
        if let Some(at) = streams.iter().find_map(|stream| stream.damage) {
            context.properties.insert("damage".into(), format!("no record at byte {at}"));
        }
        if self.actions.records == 0 && streams.iter().any(|stream| stream.is_cut || stream.damaged > 0) {
            let message = "No record can be read: the file is truncated or damaged; copy or record it again.";
            return Err(Error::new(&self.name, Position::File, message));
        }
        Ok(self.actions.finish())
    }
}

#[cfg(test)]
mod tests;
