//! Where boxes are: shares as places from 0 to 1, the heaviest first; those too thin are gathered, so that no width is lost.

use super::{FlamegraphOptions, Flames};
use latscope_series::StackSum;

/// More boxes make a picture that browsers are slow with; the least share is raised until they are fewer.
const MOST: usize = 10_000;

/// A box of the picture.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlameBox {
    /// The node; of gathered ones their parent.
    pub node: u32,
    /// The box of the calling frame; the first is its own.
    pub parent: usize,
    /// How many boxes are beneath.
    pub depth: u16,
    /// The left edge, as a share of the picture.
    pub x: f64,
    /// The width, as a share of the picture.
    pub share: f64,
    /// So many frames are gathered here; 0: it is one frame.
    pub gathered: usize,
    /// What it adds up to: here, and in the baseline.
    pub sums: [StackSum; 2],
}

/// The boxes of a picture: every one is followed by all above it.
pub struct Boxes {
    pub all: Vec<FlameBox>,
    /// The least share that has a box of its own.
    pub min_share: f64,
}

impl Boxes {
    pub fn new(flames: Flames<'_>, options: &FlamegraphOptions) -> Boxes {
        let tree = flames.tree();
        let here = tree.inclusive();
        let there = match flames {
            Flames::Tree(_) => Vec::new(),
            Flames::Difference(difference, _) => difference.baseline.inclusive(),
        };
        let of = |sum: Option<&StackSum>| sum.map_or(0.0, |sum| sum.amount(options.unit) as f64);
        let totals = [of(here.first()), of(there.first())];
        // A side without anything has no shares.
        let sides = totals.iter().filter(|&&total| total > 0.0).count().max(1) as f64;
        let part = |value: f64, total: f64| if total > 0.0 { value / total } else { 0.0 };
        let share = |node: usize| (part(of(here.get(node)), totals[0]) + part(of(there.get(node)), totals[1])) / sides;
        let sums = |node: usize| [here[node], there.get(node).copied().unwrap_or_default()];
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); tree.nodes().len()];
        for (at, node) in tree.nodes().iter().enumerate().skip(1).filter(|&(at, _)| share(at) > 0.0) {
            children[node.parent as usize].push(at as u32);
        }
        let name = |node: u32| tree.name(&tree.nodes()[node as usize]);
        for row in &mut children {
            row.sort_by(|&a, &b| share(b as usize).total_cmp(&share(a as usize)).then_with(|| name(a).cmp(name(b))));
        }
        let mut min_share = options.min_share.max(0.0);
        if totals == [0.0; 2] {
            return Boxes { all: Vec::new(), min_share };
        }
        loop {
            let layout = Layout { children: &children, share: &share, sums: &sums, min_share };
            match layout.boxes() {
                Some(all) => return Boxes { all, min_share },
                None => min_share = (min_share * 2.0).max(1e-6),
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many rows there are.
    pub fn rows(&self) -> u16 {
        self.all.iter().map(|one| one.depth + 1).max().unwrap_or(0)
    }
}

struct Layout<'a> {
    children: &'a [Vec<u32>],
    share: &'a dyn Fn(usize) -> f64,
    sums: &'a dyn Fn(usize) -> [StackSum; 2],
    min_share: f64,
}

impl Layout<'_> {
    /// The boxes, each before those above it; `None` if they are too many.
    fn boxes(&self) -> Option<Vec<FlameBox>> {
        let root = FlameBox { node: 0, parent: 0, depth: 0, x: 0.0, share: 1.0, gathered: 0, sums: (self.sums)(0) };
        let (mut all, mut open) = (Vec::new(), vec![root]);
        while let Some(one) = open.pop() {
            let at = all.len();
            all.push(one);
            if all.len() + open.len() > MOST {
                return None;
            }
            if one.gathered > 0 {
                continue;
            }
            let row = &self.children[one.node as usize];
            let wide = row.iter().take_while(|&&node| (self.share)(node as usize) >= self.min_share).count();
            let mut x = one.x;
            let above = |node, x, share, gathered, sums| FlameBox {
                node,
                parent: at,
                depth: one.depth + 1,
                x,
                share,
                gathered,
                sums,
            };
            let mut next = Vec::with_capacity(wide + 1);
            for &node in &row[..wide] {
                let share = (self.share)(node as usize);
                next.push(above(node, x, share, 0, (self.sums)(node as usize)));
                x += share;
            }
            let thin = &row[wide..];
            if !thin.is_empty() {
                let share = thin.iter().map(|&node| (self.share)(node as usize)).sum();
                let sums = thin.iter().fold([StackSum::default(); 2], |[here, there], &node| {
                    let [more, other] = (self.sums)(node as usize);
                    [here.plus(more), there.plus(other)]
                });
                next.push(above(one.node, x, share, thin.len(), sums));
            }
            open.extend(next.into_iter().rev());
        }
        Some(all)
    }
}
