//! The flame graph: stacks as boxes, each as wide as its share, the called above the calling. Fields of `--by` are grey boxes
//! `field=value` beneath the code.

mod boxes;
mod colour;
mod draw;

use crate::Theme;
use crate::page::Page;
use crate::svg::Svg;
use boxes::Boxes;
use latscope_event::{Context, Wording, format_count, format_duration};
use latscope_series::{StackDifference, StackShares, StackSum, StackTree, StackWidth};

/// What colours say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FlameColour {
    /// Where the code comes from: program, kernel, run time, Python, inlined.
    #[default]
    Kind,
    /// The mean latency of a frame's events, beside the mean of all.
    Latency,
}

/// How a flame graph shall look.
#[derive(Clone, PartialEq, Debug)]
pub struct FlamegraphOptions {
    /// Heading; by default it names the width.
    pub title: Option<String>,
    /// Width of the boxes together, pixels. From 200 to 4000.
    pub width: u32,
    /// Background.
    pub theme: Theme,
    /// How notes are worded.
    pub wording: Wording,
    /// The filter that chose the events.
    pub filter: Option<String>,
    /// What the boxes are shares of.
    pub unit: StackWidth,
    /// Whether the root is above.
    pub icicle: bool,
    /// What colours say; not used by a difference.
    pub colour: FlameColour,
    /// Boxes of a smaller share are gathered in `(N more)`.
    pub min_share: f64,
    /// A sentence about how the samples were taken: how often, with which error of time.
    pub sampling: Option<String>,
}

impl Default for FlamegraphOptions {
    fn default() -> FlamegraphOptions {
        FlamegraphOptions {
            title: None,
            width: 1200,
            theme: Theme::default(),
            wording: Wording::default(),
            filter: None,
            unit: StackWidth::Time,
            icicle: false,
            colour: FlameColour::Kind,
            min_share: 0.001,
            sampling: None,
        }
    }
}

/// What is drawn.
#[derive(Clone, Copy)]
pub enum Flames<'a> {
    /// One tree.
    Tree(&'a StackTree),
    /// What a selection has beside a baseline of this name. A box is as wide as the mean of its two shares, so that what only
    /// one side has is seen, too.
    Difference(&'a StackDifference, &'a str),
}

impl Flames<'_> {
    fn tree(&self) -> &StackTree {
        match self {
            Flames::Tree(tree) => tree,
            Flames::Difference(difference, _) => &difference.tree,
        }
    }
}

/// Everything that is drawn, before it is drawn.
struct Picture<'a> {
    flames: Flames<'a>,
    options: &'a FlamegraphOptions,
    page: Page<'a>,
    boxes: Boxes,
    /// Of the selection, and of the baseline.
    totals: [StackSum; 2],
    /// How exact their shares are.
    shares: [StackShares; 2],
    /// As many samples of equal weight the shares here are from.
    samples: f64,
}

/// Boxes start here.
const LEFT_PX: f64 = 20.0;

/// Draws stacks as one self-contained SVG. It is complete as a still picture; where scripts may run it can be searched and zoomed,
/// by mouse and by keys. The contexts are those of the traces.
#[must_use]
pub fn flamegraph(flames: Flames<'_>, contexts: &[Context], options: &FlamegraphOptions) -> String {
    let options = &FlamegraphOptions { width: options.width.clamp(200, 4000), ..options.clone() };
    let boxes = Boxes::new(flames, options);
    let page = Page {
        width_px: f64::from(options.width).max(560.0) + 2.0 * LEFT_PX,
        inks: options.theme.inks(),
        title: options.title.clone().unwrap_or_else(|| title(flames, options.unit)),
        contexts,
        wording: options.wording,
        filter: options.filter.as_deref(),
    };
    let tree = flames.tree();
    let baseline = match flames {
        Flames::Difference(StackDifference { baseline, .. }, _) => baseline,
        Flames::Tree(tree) => tree,
    };
    let totals = [tree, baseline].map(StackTree::total);
    let shares = [tree, baseline].map(|tree| tree.shares(options.unit));
    let samples = tree.effective_samples(options.unit);
    let picture = Picture { flames, options, page, boxes, totals, shares, samples };
    let mut body = Svg::new();
    let sentences: Vec<String> = picture.sentences().into_iter().filter(|sentence| !sentence.is_empty()).collect();
    let mut y = picture.page.head(&mut body, &sentences);
    y = picture.legend(&mut body, y);
    y = match picture.boxes.is_empty() {
        true => picture.page.nothing(&mut body, LEFT_PX, y),
        false => picture.draw(&mut body, y),
    };
    let height = picture.page.notes(&mut body, y) + 12.0;
    let description: Vec<String> =
        sentences.into_iter().chain(picture.widest()).chain(picture.page.note_texts()).collect();
    picture.page.document(body, height, &description)
}

fn title(flames: Flames<'_>, unit: StackWidth) -> String {
    let what = match unit {
        StackWidth::Time => "time",
        StackWidth::Events => "events",
        StackWidth::Samples => "samples",
    };
    match flames {
        Flames::Tree(_) => format!("Stacks by {what}"),
        Flames::Difference(..) => format!("Difference of stacks by {what}"),
    }
}

impl Picture<'_> {
    /// A sum in the unit of the width.
    fn amount(&self, sum: StackSum) -> String {
        amount(sum, self.options.unit)
    }

    fn sentences(&self) -> [String; 5] {
        let tree = self.flames.tree();
        let total = self.totals[0];
        let mut numbers = vec![format!("{} in all", self.amount(total))];
        if self.options.unit == StackWidth::Time {
            numbers.push(crate::page::events(total.events));
        }
        if total.samples != total.events {
            numbers.push(amount(total, StackWidth::Samples));
        }
        if total.waiting > 0 {
            numbers.push(match total.waiting {
                1 => "1 of them waits still and counts with its age so far".into(),
                waiting => format!("{} of them wait still and count with their age so far", format_count(waiting)),
            });
        }
        let sides = match self.flames {
            Flames::Tree(_) => String::new(),
            Flames::Difference(_, baseline) => format!(
                "compared with {baseline}: {} in all · red: a larger share here, blue: a larger share there; width: the mean of both \
                 shares; grey: within the error",
                self.amount(self.totals[1])
            ),
        };
        let mut how = self.options.sampling.clone().unwrap_or_default();
        if self.samples > 0.0 {
            let error = match self.samples.round() as u64 {
                0 | 1 => "shares with 95 % intervals, from one sample".to_string(),
                samples => {
                    format!("shares with 95 % intervals, from {} samples of equal weight", format_count(samples))
                }
            };
            how = if how.is_empty() { error } else { format!("{how} · {error}") };
        }
        let mut left_out = Vec::new();
        if tree.without().samples > 0 {
            let is_one = self.options.unit != StackWidth::Time && tree.without().amount(self.options.unit) == 1;
            let are = if is_one { "is" } else { "are" };
            left_out.push(format!("{} without a stack {are} not shown", self.amount(tree.without())));
        }
        if tree.truncated().samples > 0 {
            let share = tree.truncated().samples as f64 / tree.total().samples.max(1) as f64;
            left_out.push(format!("{} of the samples lack their outer frames", percent(share)));
        }
        if self.boxes.min_share > self.options.min_share {
            left_out.push(format!(
                "frames below {} are gathered, so that the picture stays small",
                percent(self.boxes.min_share).trim_start_matches("< ")
            ));
        }
        if tree.cut() > 0 {
            left_out.push(match tree.cut() {
                1 => "1 stack is shown without some of its frames".into(),
                cut => format!("{} stacks are shown without some of their frames", format_count(cut)),
            });
        }
        [self.page.origin(), numbers.join(" · "), sides, how, left_out.join(" · ")]
    }

    /// The picture in words, for those who cannot see it: the widest ends.
    fn widest(&self) -> Vec<String> {
        let tree = self.flames.tree();
        let mut ends: Vec<usize> = (1..tree.nodes().len()).filter(|&at| tree.nodes()[at].own.samples > 0).collect();
        ends.sort_by_key(|&at| std::cmp::Reverse(tree.nodes()[at].own.amount(self.options.unit)));
        let total = self.totals[0].amount(self.options.unit).max(1) as f64;
        let words = ends.into_iter().take(5).map(|at| {
            let node = &tree.nodes()[at];
            let share = node.own.amount(self.options.unit) as f64 / total;
            format!("{} ends in {}", percent(share), crate::svg::shortened(tree.name(node), 80))
        });
        words.collect()
    }
}

/// A sum in the unit of a width, with its name.
fn amount(sum: StackSum, unit: StackWidth) -> String {
    match unit {
        StackWidth::Time => format_duration(u64::try_from(sum.time_ns).unwrap_or(u64::MAX)),
        StackWidth::Events => crate::page::events(sum.events),
        StackWidth::Samples if sum.samples == 1 => "1 sample".into(),
        StackWidth::Samples => format!("{} samples", format_count(sum.samples)),
    }
}

/// A share for people.
fn percent(share: f64) -> String {
    crate::page::percent(100.0 * share)
}

#[cfg(test)]
mod tests;
