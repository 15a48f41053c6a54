//! The report: one HTML file that holds the cube and the page that draws it. The page is built from `web/` into
//! `html/template.html`; here the data are put into it.

mod encode;
mod head;

#[cfg(test)]
mod tests;

pub use head::report_keys;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::DeflateDecoder;
use latscope_event::{Context, Unfinished, Wording, printable};
use latscope_series::Cube;
use latscope_series::explain::Spot;
use std::io::Read;
use std::path::PathBuf;
use std::sync::LazyLock;

/// The page without data: what `make web` builds from `web/`. `build.rs` deflates it.
pub static REPORT_TEMPLATE: LazyLock<String> = LazyLock::new(|| {
    let mut page = String::new();
    let deflated = include_bytes!(concat!(env!("OUT_DIR"), "/template.html.deflated"));
    DeflateDecoder::new(&deflated[..]).read_to_string(&mut page).expect("our own page");
    page
});

/// Where the template takes the title and the data.
const TITLE: &str = "{{title}}";
const DATA: &str = "{{data}}";

/// Longest title, in characters.
const LONGEST_TITLE: usize = 200;

/// So many columns there are at least, if the trace is long enough, before attributes are left out.
const COLUMNS: usize = 1200;

/// What the page says beside the counts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReportOptions {
    /// Title of the page.
    pub title: String,
    /// How notes are worded.
    pub wording: Wording,
    /// The filter of the events.
    pub filter: Option<String>,
    /// The words of a command that reads the same events, up to the filter: `-r perf.data`.
    pub source: String,
    /// The traces by number, where there are several.
    pub traces: Vec<String>,
    /// What is unusual in the trace, the most important first.
    pub spots: Vec<Spot>,
    /// What waits now, of a live capture; otherwise the page shows what the traces left unfinished.
    pub waiting: Option<Vec<Unfinished>>,
    /// What else there is to know.
    pub section: Option<ReportSection>,
}

/// The title of the page where none is given: what is shown, in short.
pub fn report_title(files: &[PathBuf]) -> String {
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    match files {
        [] => "live capture".into(),
        [file] => name(file).unwrap_or_else(|| file.display().to_string()),
        [file, rest @ ..] => format!("{} and {} more", name(file).unwrap_or_default(), rest.len()),
    }
}

/// More about what was traced: a line at the foot of the page that opens to a picture and a text.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReportSection {
    /// The line.
    pub title: String,
    /// An SVG document without a style of its own, which the page would not allow.
    pub picture: String,
    /// Lines in columns.
    pub text: String,
}

/// How a section looks, and the digest that lets the page's security policy accept it.
const SECTION_STYLE: &str = "details.more{border-top:1px solid var(--line);padding:0 16px}\
                             details.more summary{cursor:pointer;line-height:24px}\
                             details.more[open]{position:fixed;inset:44px 0 0;z-index:9;overflow:auto;background:var(--bg)}\
                             details.more pre{font:12px/16px ui-monospace,monospace}";
const SECTION_DIGEST: &str = "'sha256-SYWbV/7Q46ePijgWyLnz6VzBhkfrNjYBnL9BWTwCoMY='";

/// The page with a section. What stands before and after the title and the data is the template's own.
fn with_section([before, between, after]: [&str; 3], section: &ReportSection) -> [String; 3] {
    let body = format!(
        "<details class=\"more\"><summary>{}</summary>{}<pre>{}</pre></details>",
        escaped(&section.title),
        section.picture,
        escaped_lines(&section.text)
    );
    let (script, end) = after.rsplit_once("</body>").unwrap_or((after, ""));
    [
        before.replacen("style-src ", &format!("style-src {SECTION_DIGEST} "), 1),
        between.replacen("</head>", &format!("<style>{SECTION_STYLE}</style></head>"), 1),
        format!("{script}{body}</body>{end}"),
    ]
}

fn escaped_lines(text: &str) -> String {
    text.lines().map(|line| escaped(line) + "\n").collect()
}

/// The page of a cube.
pub fn report(cube: &Cube, contexts: &[Context], options: &ReportOptions) -> String {
    let title: String = options.title.chars().take(LONGEST_TITLE).collect();
    let data = report_data(cube, contexts, options);
    // The title is put in first: what a trace is called must not be taken for a place.
    let (before, rest) = REPORT_TEMPLATE.split_once(TITLE).unwrap_or((&REPORT_TEMPLATE, ""));
    let (between, after) = rest.split_once(DATA).unwrap_or((rest, ""));
    let Some(section) = &options.section else { return [before, &escaped(&title), between, &data, after].concat() };
    let [before, between, after] = with_section([before, between, after], section);
    [before, escaped(&title), between, data, after].concat()
}

/// The data of a page, as the page decodes them: deflated, in base64.
pub fn report_data(cube: &Cube, contexts: &[Context], options: &ReportOptions) -> String {
    BASE64_STANDARD.encode(encode::packed(cube, contexts, options))
}

/// The page without data, which then asks the server that it came from for them; and its content security policy, for the header.
pub fn live_report(title: &str) -> (String, String) {
    // A page in a file may connect to nothing, this one to its own server.
    let template = REPORT_TEMPLATE.replacen("default-src 'none'", "default-src 'none'; connect-src 'self'", 1);
    let policy = template.split_once("content=\"").and_then(|(_, rest)| rest.split_once('"'));
    let policy = policy.map(|(policy, _)| policy.to_string()).unwrap_or_default();
    let title: String = title.chars().take(LONGEST_TITLE).collect();
    let page = template.replacen(DATA, "", 1).replacen(TITLE, &escaped(&title), 1);
    (page, policy)
}

/// The cube with as many columns and attributes as fit into so many bytes of the page.
pub fn fit_report(cube: Cube, contexts: &[Context], options: &ReportOptions, budget: u64) -> Cube {
    let fits = |cube: &Cube| {
        let bytes = encode::packed(cube, contexts, options).len() as u64;
        bytes.div_ceil(3) * 4 <= budget
    };
    if fits(&cube) {
        return cube;
    }
    let mut widths: Vec<u64> = cube.wider(usize::MAX).take_while(|&width| cube.columns_at(width) > 2).collect();
    let few = widths.iter().position(|&width_ns| cube.columns_at(width_ns) <= COLUMNS).unwrap_or(0);
    let Some(&wide_ns) = widths.get(few) else { return cube };
    widths.truncate(few);
    let mut small = cube.clone().widened(wide_ns);
    let mut dropped = 0;
    while !fits(&small) && !small.attributes.is_empty() {
        small = small.without_last_attribute();
        dropped += 1;
    }
    // Where there is room left, columns become narrower.
    for width_ns in widths.into_iter().rev() {
        let finer = (0..dropped).fold(cube.clone().widened(width_ns), |cube, _| cube.without_last_attribute());
        if !fits(&finer) {
            break;
        }
        small = finer;
    }
    small
}

/// A text in HTML: nothing in it is markup, and what a terminal would obey is shown as its number.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for symbol in printable(text).chars() {
        match symbol {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(symbol),
        }
    }
    safe
}
