//! Stacks of those who issue requests: taken when a slow request completes, or when one is issued.

use super::account::Capture;
use super::layout::{BlockHung, BlockIssuer, BlockRecord, looked};
use super::letters;
use crate::Error;
use crate::loader::Raw;
use crate::stacks::{Names, Over, Parts, Record, Returns, Stack, State};
use crate::{Options, RequestStacks};
use latscope_event::{Batch, Column, Context, Field, MISSING_CODE, Note};
use latscope_unwind::Quality;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// So many stacks of issues are kept for requests that have not completed.
const KEPT: usize = 1 << 16;
/// So many fast requests a second have a stack, for the slow ones to be compared with.
const BASELINE_PER_S: u64 = 5;
/// The share of fast requests that have one is adapted this often.
const ADAPT_EVERY: Duration = Duration::from_millis(200);
/// The issuer did something else by the time at which its request completed.
const MOVED_ON: &str = "issuer moved on";
/// A thread of the kernel issued it, which works for others.
const KERNEL: &str = "issued by the kernel";
/// It was issued before the capture, or by an unknown thread.
const UNKNOWN: &str = "issuer unknown";

/// What becomes of records with stacks.
pub struct IssuerStacks {
    how: RequestStacks,
    names: Names,
    /// Stacks of issues by number, and their numbers, the oldest first.
    issued: HashMap<u32, Stack>,
    order: VecDeque<u32>,
    /// Requests whose issuer has not returned to user space.
    returns: Returns<BlockRecord>,
    sees_returns: bool,
    user_stacks: bool,
    /// What the kernel tests of the filter.
    counted: String,
    /// Fast requests since the share was adapted.
    fast: u64,
    adapted: Instant,
    counts: Counts,
    /// Where the issuers of requests stand that have waited for long, by request and its issue; `None`: elsewhere.
    hung: HashMap<(u64, u64), Option<Stack>>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    slow: u64,
    waiting: u64,
    bare: u64,
    issued: u64,
    moved_on: u64,
    kernel: u64,
    unknown: u64,
    fast: u64,
    baseline: u64,
    /// Slow ones that have not completed, and those of them that have a stack.
    unfinished: u64,
    standing: u64,
    /// Those of them that were issued before the capture.
    before: u64,
}

/// Codes of the columns of a request about its stack.
#[derive(Clone, Copy)]
pub struct Columns {
    stack: u32,
    wait_class: u32,
    quality: u32,
    source: Option<&'static str>,
}

/// A request without a stack.
const NOTHING: Columns = Columns { stack: MISSING_CODE, wait_class: MISSING_CODE, quality: MISSING_CODE, source: None };

impl Columns {
    fn new(stack: Stack, source: &'static str) -> Columns {
        Columns { stack: stack.text, wait_class: stack.wait_class, quality: stack.quality, source: Some(source) }
    }

    /// Appends them to a row.
    pub fn push(&self, batch: &mut Batch) {
        batch.push_code(Field::WaitClass, self.wait_class);
        batch.push_code(Field::StackQuality, self.quality);
        batch.push_text(Field::StackSource, self.source.map(str::as_bytes));
        batch.push_code(Field::Stack, self.stack);
    }
}

impl IssuerStacks {
    /// `sees_returns`: the kernel lets programs see threads return.
    /// `counted`: the requests that come here, by what the kernel tests of them.
    pub fn new(options: &Options, how: RequestStacks, sees_returns: bool, counted: String) -> IssuerStacks {
        IssuerStacks {
            how,
            names: Names::new(&options.stacks),
            issued: HashMap::new(),
            order: VecDeque::new(),
            returns: Returns::default(),
            sees_returns: sees_returns && options.stacks.user_stacks,
            user_stacks: options.stacks.user_stacks,
            counted,
            fast: 0,
            adapted: Instant::now(),
            counts: Counts::default(),
            hung: HashMap::new(),
        }
    }

    /// Takes in the stack of an issue.
    pub fn add_issue(&mut self, number: u32, bytes: &[u8], batch: &mut Batch) {
        let Some((record, parts, _)) = Record::next(bytes) else { return };
        let stack = self.names.name(&record, &parts, State::Running, batch);
        if self.order.len() >= KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.issued.remove(&oldest);
        }
        self.issued.insert(number, stack);
        self.order.push_back(number);
    }

    /// The stacks of requests in flight, and when they were taken: that of the issuer, if it still waits for a request that is slow
    /// already, or else that of its issue.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn of_waiting(
        &mut self,
        in_flight: impl Iterator<Item = (u64, BlockIssuer)>,
        capture: &mut Capture,
        batch: &mut Batch,
    ) -> Result<HashMap<u64, (Stack, &'static str)>, Error> {
        let now_ns = capture.clock.now_stamp_ns();
        let (mut stacks, known) = (HashMap::new(), std::mem::take(&mut self.hung));
        for (request, issuer) in in_flight {
            let since_ns = if issuer.issue_ns > 0 { issuer.issue_ns } else { issuer.start_ns };
            let mut standing = None;
            if issuer.wait > 0 && now_ns.saturating_sub(since_ns) >= self.how.slow_ns {
                let found = match known.get(&(request, since_ns)) {
                    Some(&found) => found,
                    None => self.look_at(request, capture, batch)?,
                };
                self.hung.insert((request, since_ns), found);
                standing = found.map(|stack| (stack, "waiting"));
            }
            let issued = || Some((*self.issued.get(&issuer.issued)?, "issue"));
            if let Some(stack) = standing.or_else(issued) {
                stacks.insert(request, stack);
            }
        }
        Ok(stacks)
    }

    /// Where the issuer of a request stands now, if it waits for it.
    fn look_at(&mut self, request: u64, capture: &mut Capture, batch: &mut Batch) -> Result<Option<Stack>, Error> {
        let mut asked = BlockHung { request, found: 0 };
        capture.loaded.run("look_at_hung", &mut asked)?;
        if asked.found == 0 {
            return Ok(None);
        }
        let bytes = capture.loaded.first("hung")?;
        let found = Record::next(bytes.get(BlockRecord::SIZE..).unwrap_or_default());
        let name = |(record, parts, _): (Record, Parts, _)| {
            self.names.name(&record, &parts, State::from_record(&record), batch)
        };
        Ok(found.map(name))
    }

    /// Puts the stacks of requests that wait into their rows; `names` is the batch that they were added with. Who issued those from
    /// before `started_ns` (Unix, nanoseconds) nobody saw.
    pub fn add_to_waiting(
        &mut self,
        stacks: impl Iterator<Item = Option<(Stack, &'static str)>>,
        started_ns: i64,
        names: &Batch,
        waiting: &mut Batch,
    ) {
        let mut found =
            [Field::WaitClass, Field::StackQuality, Field::StackSource, Field::Stack].map(|field| (field, Vec::new()));
        (self.counts.unfinished, self.counts.standing, self.counts.before) = (0, 0, 0);
        for (row, stack) in stacks.enumerate() {
            let is_before = stack.is_none() && waiting.time()[row] < started_ns;
            if waiting.latency()[row] >= self.how.slow_ns {
                self.counts.unfinished += 1;
                self.counts.standing += u64::from(stack.is_some());
                self.counts.before += u64::from(is_before);
            }
            for (field, codes) in &mut found {
                let text = stack.and_then(|(stack, source)| match field {
                    Field::WaitClass => names.dictionary(*field).text(stack.wait_class),
                    Field::StackQuality => names.dictionary(*field).text(stack.quality),
                    Field::StackSource => Some(source),
                    _ => names.dictionary(*field).text(stack.text),
                });
                let text = text.or_else(|| (is_before && *field == Field::StackQuality).then_some(UNKNOWN));
                codes.push(text.map_or(MISSING_CODE, |text| waiting.intern(*field, text.as_bytes())));
            }
        }
        let fields = waiting.fields();
        let found = found.into_iter().filter(|(field, _)| fields.contains(*field));
        waiting.set_columns(found.map(|(field, codes)| (field, Column::Text(codes))));
    }

    /// What is known of a request that has completed, with what follows its record; `None`: it is handed on later.
    pub fn add(&mut self, request: &BlockRecord, bytes: &[u8], batch: &mut Batch) -> Option<Columns> {
        let is_slow = matches!(request.looked, looked::SLOW | looked::KERNEL) || request.latency_ns >= self.how.slow_ns;
        self.fast += u64::from(!is_slow);
        let issued = match request.issued {
            0 => None,
            // The request that a flush is for may have data to write, too: then it is an event of its own.
            number if letters::is_flush(request.letters) => self.issued.get(&number).copied(),
            number => self.issued.remove(&number),
        };
        let count = if is_slow { &mut self.counts.slow } else { &mut self.counts.fast };
        *count += 1;
        if let Some((record, parts, _)) = Record::next(bytes).filter(|_| !bytes.is_empty()) {
            *if is_slow { &mut self.counts.waiting } else { &mut self.counts.baseline } += 1;
            if self.sees_returns {
                self.returns.keep(&record, &parts, *request);
                return None;
            }
            return Some(self.completion(is_slow, &record, &parts, batch));
        }
        if let Some(issued) = issued {
            self.counts.issued += 1;
            return Some(Columns::new(issued, "issue"));
        }
        let (count, quality) = match request.looked {
            looked::NOT if !is_slow => return Some(NOTHING),
            _ if request.pid == 0 => (&mut self.counts.unknown, UNKNOWN),
            looked::KERNEL => (&mut self.counts.kernel, KERNEL),
            _ => (&mut self.counts.moved_on, MOVED_ON),
        };
        *count += u64::from(is_slow);
        let quality = batch.intern(Field::StackQuality, quality.as_bytes());
        Some(Columns { quality, source: Some("completion"), ..NOTHING })
    }

    fn completion(&mut self, is_slow: bool, record: &Record, parts: &Parts, batch: &mut Batch) -> Columns {
        let stack = self.names.name(record, parts, State::from_record(record), batch);
        let ends_in_kernel = batch.dictionary(Field::StackQuality).text(stack.quality) == Some(Quality::None.name());
        self.counts.bare += u64::from(is_slow && self.user_stacks && ends_in_kernel);
        Columns::new(stack, "completion")
    }

    /// A thread returned: the requests that it waited for.
    pub fn returned(&mut self, bytes: &[u8], batch: &mut Batch) -> Vec<(BlockRecord, Columns)> {
        let Some((record, parts, _)) = Record::next(bytes) else { return Vec::new() };
        let over = self.returns.take(&record);
        self.columns(over, Some((&record, parts.user)), batch)
    }

    /// Requests whose issuers do not return; `all`: whatever is left.
    pub fn expired(&mut self, all: bool, batch: &mut Batch) -> Vec<(BlockRecord, Columns)> {
        let over = self.returns.expired(all);
        self.columns(over, None, batch)
    }

    fn columns(
        &mut self,
        over: Vec<Over<BlockRecord>>,
        back: Option<(&Record, &[u8])>,
        batch: &mut Batch,
    ) -> Vec<(BlockRecord, Columns)> {
        let columns = |over: Over<BlockRecord>| {
            let (record, user) = over.with_user(back);
            let is_slow = over.what.looked == looked::SLOW || over.what.latency_ns >= self.how.slow_ns;
            (over.what, self.completion(is_slow, &record, &over.parts(user), batch))
        };
        over.into_iter().map(columns).collect()
    }

    /// Of how many fast requests in 2^32 the issuer is to be looked at, where that has changed.
    pub fn adapt(&mut self) -> Option<u32> {
        let since = self.adapted.elapsed();
        if self.how.slow_ns == u64::MAX || since < ADAPT_EVERY {
            return None;
        }
        let per_s = self.fast as f64 / since.as_secs_f64();
        (self.fast, self.adapted) = (0, Instant::now());
        Some(u32::MAX / (per_s as u64 / BASELINE_PER_S).clamp(1, 1 << 20) as u32)
    }

    /// Puts the account into the context.
    pub fn account(&self, context: &mut Context) {
        let Counts {
            slow,
            waiting,
            bare,
            issued,
            moved_on,
            kernel,
            unknown,
            fast,
            baseline,
            unfinished,
            standing,
            before,
        } = self.counts;
        let slow_ns = (self.how.slow_ns != u64::MAX).then_some(self.how.slow_ns);
        let (unfinished, without) = ([unfinished, standing], [kernel, unknown, before]);
        let counted = Some(self.counted.clone());
        let note = Note::RequestStacks {
            slow_ns,
            slow,
            waiting,
            bare,
            issued,
            moved_on,
            fast,
            baseline,
            unfinished,
            without,
            counted,
        };
        context.notes.retain(|note| !matches!(note, Note::RequestStacks { .. }));
        context.note(note);
        self.names.account(context);
    }
}
