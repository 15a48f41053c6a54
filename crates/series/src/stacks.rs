//! Call stacks with weights, merged from the root: what flame graphs and tables of stacks show.

use crate::group::Groups;
use crate::stack_sums::{StackShares, StackSum, StackWidth};
use hashbrown::HashMap;
use latscope_event::{Batch, Field, FieldSet, Frame, MISSING_CODE, MISSING_I64, MISSING_U64, Mask, bounded_frame};

/// More nodes are not kept: what lies deeper then counts at the deepest node that there is.
const NODES: usize = 1 << 18;
/// Of deeper stacks the frames in the middle are one.
const DEPTH: usize = 4096;
/// The groups of more values than this share one.
const GROUPS: usize = 10_000;
/// The qualities of stacks whose outer frames were not found, or none of user space at all.
const TRUNCATED: [&str; 2] = ["truncated", "none"];

/// A frame below another one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StackNode {
    /// Its name, see [`StackTree::name`].
    pub frame: u32,
    /// The node of the calling frame; the root is its own.
    pub parent: u32,
    /// How many nodes are above: 0 for the root.
    pub depth: u16,
    /// What ends here.
    pub own: StackSum,
}

/// Stacks merged from the root. Fields that were asked for are frames `field=value` between the root and the code. Node 0 is
/// the root, and every node comes after its parent.
#[derive(Clone)]
pub struct StackTree {
    by: Vec<Field>,
    /// The key of the tag that [`Field::Tag`] is.
    tag: Option<String>,
    names: Vec<Box<str>>,
    frames: HashMap<Box<str>, u32>,
    nodes: Vec<StackNode>,
    children: HashMap<(u32, u32), u32>,
    without: StackSum,
    truncated: StackSum,
    cut: u64,
    groups: Groups,
    /// The nodes of stacks of this trace, by group and code.
    ends: HashMap<(u32, u32), u32>,
}

impl StackTree {
    /// A tree of nothing, with these fields above the code.
    #[must_use]
    pub fn new(by: Vec<Field>) -> StackTree {
        let root = StackNode { frame: 0, parent: 0, depth: 0, own: StackSum::default() };
        StackTree {
            groups: Groups::new(by.clone()),
            by,
            tag: None,
            names: vec!["all".into()],
            frames: HashMap::new(),
            nodes: vec![root],
            children: HashMap::new(),
            without: StackSum::default(),
            truncated: StackSum::default(),
            cut: 0,
            ends: HashMap::new(),
        }
    }

    /// The same; frames of [`Field::Tag`] are called by the key of that tag: `stage=3`.
    #[must_use]
    pub fn with_tag(self, key: Option<&str>) -> StackTree {
        StackTree { tag: key.map(str::to_string), ..self }
    }

    /// The columns that it needs.
    #[must_use]
    pub fn fields(&self) -> FieldSet {
        FieldSet::ALWAYS.with(&[Field::Stack, Field::StackQuality, Field::SampleWeight]).with(&self.by)
    }

    /// The fields above the code.
    #[must_use]
    pub fn by(&self) -> &[Field] {
        &self.by
    }

    /// A new trace has new dictionaries, so codes mean other texts.
    pub fn start_trace(&mut self) {
        self.groups.start_trace(None);
        self.ends.clear();
    }

    /// Adds the events that the mask lets through (`None`: all).
    pub fn add(&mut self, batch: &Batch, mask: Option<&Mask>) {
        self.add_rows(batch, mask, 0);
    }

    /// Adds what waits still, with its age. Its batch has dictionaries of its own.
    pub fn add_waiting(&mut self, batch: &Batch, mask: Option<&Mask>) {
        self.start_trace();
        self.add_rows(batch, mask, 1);
        self.start_trace();
    }

    fn add_rows(&mut self, batch: &Batch, mask: Option<&Mask>, waiting: u64) {
        let stacks = batch.codes(Field::Stack);
        let weights = batch.i64s(Field::SampleWeight);
        let qualities = batch.codes(Field::StackQuality);
        let texts = batch.dictionary(Field::StackQuality).texts();
        let code = |name: &str| texts.iter().position(|text| &**text == name).map_or(MISSING_CODE, |at| at as u32);
        let truncated = TRUNCATED.map(code);
        let mut last = (u32::MAX, u32::MAX, 0);
        for row in (0..batch.len()).filter(|&row| mask.is_none_or(|mask| mask.get(row))) {
            let weight = weights.map_or(MISSING_I64, |weights| weights[row]);
            let events = if weight == MISSING_I64 { 1 } else { u64::try_from(weight).unwrap_or(0) };
            let latency = batch.latency()[row];
            let latency = if latency == MISSING_U64 { 0 } else { latency };
            let time_ns = u128::from(latency) * u128::from(events);
            let squares = [(events as f64).powi(2), (time_ns as f64).powi(2)];
            let sum = StackSum { samples: 1, events, time_ns, waiting, squares };
            let stack = stacks.map_or(MISSING_CODE, |stacks| stacks[row]);
            if stack == MISSING_CODE {
                self.without = self.without.plus(sum);
                continue;
            }
            let quality = qualities.map_or(MISSING_CODE, |qualities| qualities[row]);
            if quality != MISSING_CODE && truncated.contains(&quality) {
                self.truncated = self.truncated.plus(sum);
            }
            let group = self.groups.number_of(batch, row);
            if (last.0, last.1) != (group, stack) {
                last = (group, stack, self.end(batch, row, group, stack));
            }
            let own = &mut self.nodes[last.2 as usize].own;
            *own = own.plus(sum);
        }
    }

    /// The node at which the stack of a row ends.
    fn end(&mut self, batch: &Batch, row: usize, group: u32, stack: u32) -> u32 {
        if let Some(&end) = self.ends.get(&(group, stack)) {
            return end;
        }
        if self.groups.labels().len() > GROUPS {
            self.groups.only(&[]);
        }
        let labels = self.groups.labels()[group as usize].clone();
        let mut node = 0;
        for (field, label) in self.by.clone().into_iter().zip(&labels) {
            let name = if field == Field::Tag { self.tag.as_deref() } else { None };
            let frame = format!("{}={label}", name.unwrap_or(field.name()));
            node = self.child(node, &frame);
        }
        let text = batch.text(Field::Stack, row).unwrap_or_default();
        let frames: Vec<&str> = text.split(';').filter(|frame| !frame.is_empty()).collect();
        if let Some(more) = frames.len().checked_sub(DEPTH).filter(|&more| more > 0) {
            self.cut += 1;
            // Both ends say most: where it started, and what waited.
            let (outer, inner) = (&frames[..DEPTH / 2], &frames[DEPTH / 2 + more + 1..]);
            let gap = format!("[{} frames left out]", more + 1);
            for frame in outer.iter().chain([&&*gap]).chain(inner) {
                node = self.child(node, frame);
            }
        } else {
            for frame in frames {
                node = self.child(node, frame);
            }
        }
        self.ends.insert((group, stack), node);
        node
    }

    /// The node of this frame below a node; the node itself where there is no room for more.
    fn child(&mut self, parent: u32, name: &str) -> u32 {
        let name = &*bounded_frame(name);
        let known = self.frames.get(name).copied();
        if let Some(&node) = known.and_then(|frame| self.children.get(&(parent, frame))) {
            return node;
        }
        if self.nodes.len() >= NODES {
            self.cut += 1;
            return parent;
        }
        let frame = known.unwrap_or_else(|| {
            let frame = self.names.len() as u32;
            self.names.push(name.into());
            self.frames.insert(name.into(), frame);
            frame
        });
        let node = self.nodes.len() as u32;
        let depth = self.nodes[parent as usize].depth.saturating_add(1);
        self.nodes.push(StackNode { frame, parent, depth, own: StackSum::default() });
        self.children.insert((parent, frame), node);
        node
    }

    /// Adds all of another tree of the same fields.
    pub fn merge(&mut self, other: &StackTree) {
        for (node, own) in self.graft(other).into_iter().zip(other.nodes.iter().map(|node| node.own)) {
            let mine = &mut self.nodes[node as usize].own;
            *mine = mine.plus(own);
        }
        self.without = self.without.plus(other.without);
        self.truncated = self.truncated.plus(other.truncated);
        self.cut += other.cut;
    }

    /// Makes a node for each of another tree; returns the nodes here, by those there.
    fn graft(&mut self, other: &StackTree) -> Vec<u32> {
        let mut here: Vec<u32> = Vec::with_capacity(other.nodes.len());
        here.push(0);
        for node in &other.nodes[1..] {
            here.push(self.child(here[node.parent as usize], other.name(node)));
        }
        here
    }

    /// All nodes, the root first and every parent before its children.
    #[must_use]
    pub fn nodes(&self) -> &[StackNode] {
        &self.nodes
    }

    /// The name of a node's frame: `field=value`, or the frame as the stack's text has it.
    #[must_use]
    pub fn name(&self, node: &StackNode) -> &str {
        &self.names[node.frame as usize]
    }

    /// Whether a node is a value of a field, and no code.
    #[must_use]
    pub fn is_dimension(&self, node: &StackNode) -> bool {
        usize::from(node.depth) <= self.by.len()
    }

    /// What each node and all below it add up to.
    #[must_use]
    pub fn inclusive(&self) -> Vec<StackSum> {
        let mut sums: Vec<StackSum> = self.nodes.iter().map(|node| node.own).collect();
        for at in (1..sums.len()).rev() {
            let parent = self.nodes[at].parent as usize;
            sums[parent] = sums[parent].plus(sums[at]);
        }
        sums
    }

    /// What has a stack, in all.
    #[must_use]
    pub fn total(&self) -> StackSum {
        self.nodes.iter().fold(StackSum::default(), |sum, node| sum.plus(node.own))
    }

    /// What has no stack, and is in no node.
    #[must_use]
    pub fn without(&self) -> StackSum {
        self.without
    }

    /// What of the total has a stack that could not be followed to its outermost frame.
    #[must_use]
    pub fn truncated(&self) -> StackSum {
        self.truncated
    }

    /// How many stacks are shown shorter than they are: they were too deep, or there was no room for more nodes.
    #[must_use]
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// The width that tells most: time, unless nothing took any, as in files that have counts only.
    #[must_use]
    pub fn usual_width(&self) -> StackWidth {
        if self.total().time_ns > 0 { StackWidth::Time } else { StackWidth::Events }
    }

    /// As many samples of equal weight would give shares as exact as these: fewer than there are where a few weigh most
    /// (Kish's effective size).
    #[must_use]
    pub fn effective_samples(&self, width: StackWidth) -> f64 {
        self.shares(width).samples()
    }

    /// How exact shares of this tree are.
    #[must_use]
    pub fn shares(&self, width: StackWidth) -> StackShares {
        StackShares::new(self.total(), width)
    }

    /// The nodes of a stack from below the root to this one.
    #[must_use]
    pub fn path(&self, mut node: u32) -> Vec<u32> {
        let mut path = Vec::new();
        while node != 0 {
            path.push(node);
            node = self.nodes[node as usize].parent;
        }
        path.reverse();
        path
    }

    /// What this tree (the selection) has compared with another one.
    #[must_use]
    pub fn against(&self, baseline: &StackTree) -> StackDifference {
        let mut tree = self.clone();
        let here = tree.graft(baseline);
        let mut other = tree.clone();
        other.nodes.iter_mut().for_each(|node| node.own = StackSum::default());
        for (node, own) in here.into_iter().zip(baseline.nodes.iter().map(|node| node.own)) {
            let sum = &mut other.nodes[node as usize].own;
            *sum = sum.plus(own);
        }
        (other.without, other.cut) = (baseline.without, baseline.cut);
        other.truncated = baseline.truncated;
        StackDifference { tree, baseline: other }
    }
}

/// Two trees with the same nodes, of a selection and of what it is compared with.
pub struct StackDifference {
    /// The selection.
    pub tree: StackTree,
    /// What it is compared with.
    pub baseline: StackTree,
}

/// The innermost frame of a stack that is code of the program and no library's way into the kernel: what a reader looks for
/// first. Where all is kernel, its outermost frame.
#[must_use]
pub fn application_frame<'a>(frames: impl DoubleEndedIterator<Item = Frame<'a>> + Clone) -> Option<Frame<'a>> {
    use latscope_event::FrameKind;
    let is_code = |frame: &Frame| frame.kind != FrameKind::Kernel && !is_plumbing(frame.name);
    let not_kernel = |frame: &Frame| frame.kind != FrameKind::Kernel;
    let found = frames.clone().rfind(is_code).or_else(|| frames.clone().rfind(not_kernel));
    found.or_else(|| frames.clone().next())
}

/// Whether a frame only leads from the program into the kernel, or has no name.
pub(crate) fn is_plumbing(name: &str) -> bool {
    const WRAPPERS: [&str; 36] = [
        "preadv64v2",
        "pwritev64v2",
        "preadv64",
        "pwritev64",
        "open64",
        "openat64",
        "read",
        "pread",
        "pread64",
        "readv",
        "preadv",
        "preadv2",
        "write",
        "pwrite",
        "pwrite64",
        "writev",
        "pwritev",
        "pwritev2",
        "fsync",
        "fdatasync",
        "sync",
        "syncfs",
        "sync_file_range",
        "open",
        "openat",
        "close",
        "syscall",
        "ioctl",
        "poll",
        "epoll_wait",
        "io_getevents",
        "io_submit",
        "nanosleep",
        "clock_nanosleep",
        "fallocate",
        "copy_file_range",
    ];
    let bare = name.split('@').next().unwrap_or(name);
    let bare = bare.strip_suffix("_nocancel").unwrap_or(bare);
    let bare =
        ["__libc_", "__GI___", "__GI_", "___", "__"].iter().find_map(|head| bare.strip_prefix(head)).unwrap_or(bare);
    let bare = bare.strip_prefix("libc_").unwrap_or(bare);
    name.starts_with('[')
        // Of folded stacks: here the stack of another thread starts.
        || name == "--"
        || name.starts_with("0x")
        || bare.starts_with("syscall_cancel")
        || bare.starts_with("internal_syscall_cancel")
        || name.starts_with("libc.so")
        || name.starts_with("libpthread")
        || WRAPPERS.contains(&bare)
}

#[cfg(test)]
#[path = "stacks_tests.rs"]
mod tests;
