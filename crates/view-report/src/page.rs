//! What every picture has around its plots: heading, origin, notes, text alternative, ground.

use crate::palette::{Inks, dark_style};
use crate::svg::{Area, Num, Svg, shortened, wrapped};
use latscope_event::{Context, NoteLine, Severity, Wording, format_count};
use latscope_view::{Escaped, Palette};

/// So many lines of notes at most; the rest is counted.
const NOTE_LINES: usize = 14;
/// A sentence of the heading may be so long.
const SENTENCE_LINES: usize = 5;
/// Contexts named one by one.
const NAMED: usize = 3;
const MARGIN_PX: f64 = 20.0;

/// The sheet that a picture is drawn on.
pub(crate) struct Page<'a> {
    pub width_px: f64,
    pub inks: Inks,
    pub title: String,
    /// Of the traces that the picture was made from.
    pub contexts: &'a [Context],
    /// How their notes are worded.
    pub wording: Wording,
    /// The filter that made the series, to be named.
    pub filter: Option<&'a str>,
}

impl Page<'_> {
    /// How many letters of this size fit on a line.
    pub fn letters(&self, size: f64) -> usize {
        ((self.width_px - 2.0 * MARGIN_PX) / (size * 0.57)) as usize
    }

    /// Draws the heading and sentences below it; returns where they end.
    pub fn head(&self, svg: &mut Svg, sentences: &[String]) -> f64 {
        let title = shortened(&self.title, self.letters(17.0));
        svg.text(MARGIN_PX, 28.0, " font-size=\"17\" font-weight=\"bold\"", &title);
        let mut y = 47.0;
        let style = format!(" font-size=\"12\" fill=\"{}\"", self.inks.muted);
        for sentence in sentences {
            for line in wrapped(sentence, self.letters(12.0), SENTENCE_LINES) {
                svg.text(MARGIN_PX, y, &style, &line);
                y += 16.0;
            }
        }
        y
    }

    /// Host, source, filter.
    pub fn origin(&self) -> String {
        let mut parts: Vec<String> = self.contexts.iter().take(NAMED).map(name).collect();
        if self.contexts.len() > NAMED {
            parts.push(format!("and {} more", self.contexts.len() - NAMED));
        }
        if let Some(filter) = self.filter {
            parts.push(format!("filter: {filter}"));
        }
        parts.join(" · ")
    }

    /// What was lost, repaired and unfinished, as lines below `y`; returns where they end.
    pub fn notes(&self, svg: &mut Svg, y: f64) -> f64 {
        let mut lines: Vec<(String, &str)> = Vec::new();
        for note in self.note_lines() {
            let ink = if note.severity == Severity::Lost { self.inks.alarm } else { self.inks.muted };
            let rest = std::iter::repeat(self.inks.muted);
            lines.extend(wrapped(&note.text, self.letters(11.0), 4).into_iter().zip(std::iter::once(ink).chain(rest)));
        }
        if lines.len() > NOTE_LINES {
            let left_out = lines.len() - (NOTE_LINES - 1);
            lines.truncate(NOTE_LINES - 1);
            let more = format!("and {left_out} more notes; `summary` prints them");
            lines.push((more, self.inks.muted));
        }
        let mut y = y + 6.0;
        for (line, ink) in lines {
            y += 15.0;
            svg.text(MARGIN_PX, y, &format!(" fill=\"{ink}\""), &line);
        }
        y
    }

    /// The notes of the traces, each kind once, behind the traces that have it where there are several.
    fn note_lines(&self) -> impl Iterator<Item = NoteLine> {
        let several = self.contexts.len() > 1;
        self.wording.lines_of_all(self.contexts).into_iter().map(move |note| match several {
            true => NoteLine { text: format!("{}: {}", shortened(&note.source, 90), note.text), ..note },
            false => note,
        })
    }

    /// The notes as text, for those who cannot see the picture.
    pub fn note_texts(&self) -> impl Iterator<Item = String> {
        self.note_lines().map(|note| note.text)
    }

    /// A plot without anything in it, and a word that says so; returns where it ends.
    pub fn nothing(&self, svg: &mut Svg, left: f64, y: f64) -> f64 {
        let area = Area { x: left, y, width: self.width_px - left - 24.0, height: 160.0 };
        svg.rect(area, &format!(" fill=\"{}\" stroke=\"{}\"", self.inks.plot, self.inks.frame));
        let style = format!(" text-anchor=\"middle\" font-size=\"15\" fill=\"{}\"", self.inks.muted);
        svg.text(area.x + area.width / 2.0, y + 85.0, &style, "no events");
        area.bottom() + 12.0
    }

    /// The document: what was drawn on its ground, with the picture in words for those who cannot see it.
    pub fn document(&self, body: Svg, height: f64, description: &[String]) -> String {
        self.document_with(body, height, description, "", None)
    }

    /// The document, with more definitions (markup) than patterns of what is lost and partial, and the ramp (palette, steps)
    /// whose colours it has as `fill` or `stroke`.
    pub fn document_with(
        &self,
        body: Svg,
        height: f64,
        description: &[String],
        more: &str,
        ramp: Option<(Palette, usize)>,
    ) -> String {
        let (width, inks) = (self.width_px, &self.inks);
        let parts: Vec<&str> = description.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        let mut page = Svg::new();
        page.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" \
             aria-labelledby=\"t d\" font-family=\"sans-serif\" font-size=\"11\" fill=\"{2}\">\n<title id=\"t\">{3}</title>\n\
             <desc id=\"d\">{4}</desc>\n",
            Num(width),
            Num(height),
            inks.text,
            Escaped(&self.title),
            Escaped(&parts.join(". "))
        ));
        page.put(format_args!(
            "<defs><pattern id=\"lost\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><rect width=\"1.6\" height=\"6\" fill=\"{}\"/></pattern>\
             <pattern id=\"partial\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(-45)\">\
             <rect width=\"1\" height=\"4\" fill=\"{}\"/></pattern>{more}</defs>\n",
            inks.alarm, inks.muted
        ));
        if inks.adapt {
            page.put(format_args!("{}", dark_style(ramp)));
        }
        page.rect(Area { x: 0.0, y: 0.0, width, height }, &format!(" fill=\"{}\"", inks.page));
        page.put(format_args!("{}</svg>\n", body.finish()));
        page.finish()
    }
}

/// Host and source of a trace.
pub(crate) fn name(context: &Context) -> String {
    let source = shortened(&context.source, 90);
    context.host.as_ref().map_or(source.clone(), |host| format!("{} · {source}", shortened(host, 60)))
}

/// A count of events in words.
pub(crate) fn events(count: u64) -> String {
    if count == 1 { "1 event".into() } else { format!("{} events", format_count(count)) }
}

/// A share for people: `0.27 %`.
pub(crate) fn percent(share: f64) -> String {
    match share {
        share if share == 0.0 || share == 100.0 => format!("{share:.0} %"),
        share if share < 0.01 => "< 0.01 %".into(),
        share if share < 1.0 => format!("{share:.2} %"),
        share if share > 99.9 => "> 99.9 %".into(),
        share => format!("{share:.1} %"),
    }
}

/// `p99.9`, `min`, `max`.
pub(crate) fn quantile_name(quantile: f64) -> String {
    if quantile <= 0.0 {
        "min".into()
    } else if quantile >= 1.0 {
        "max".into()
    } else {
        // Eight decimals hide what a multiplication by 100 adds.
        let text = format!("{:.8}", quantile * 100.0);
        format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}
