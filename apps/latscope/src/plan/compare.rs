//! What the words of `compare` mean.

use super::folding::fields;
use super::reading::reading;
use super::{Plan, Reading, Shape, is_svg, percentile_list, shape, theme};
use crate::notes::WORDING;
use crate::world::World;
use crate::{Failure, args};
use latscope_event::Field;
use latscope_filter::Filter;
use latscope_series::compare::{CompareOptions, Limit};
use latscope_view_report::ComparePicture;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf, absolute};

/// Plan of `compare`.
#[derive(Debug, PartialEq)]
pub struct Compare {
    /// Name of each side, and the files of each of its turns.
    pub sides: Vec<(String, Vec<Reading>)>,
    /// The only side is divided by this field.
    pub by: Option<Field>,
    pub options: CompareOptions,
    pub limit: Option<Limit>,
    pub shape: Shape,
    /// Markdown in place of the text.
    pub markdown: bool,
    /// Where the result goes as JUnit XML.
    pub junit: Option<PathBuf>,
    pub output: Option<PathBuf>,
    /// The picture, beside the table.
    pub chart: Option<ComparePicture>,
}

/// What was typed makes no sense as a comparison, but names files of results that are there, perhaps from the last run.
#[derive(Debug, PartialEq)]
pub struct Uncompared {
    pub why: String,
    /// Results as JUnit XML.
    pub junit: Vec<PathBuf>,
    /// Results as Markdown.
    pub markdown: Vec<PathBuf>,
    /// What would have been read.
    pub inputs: Vec<PathBuf>,
}

impl Uncompared {
    /// Keeps the results that are there; of the outputs, those that would have been Markdown. `None` where nothing is left.
    fn found(mut self, is_markdown: bool, world: &World) -> Option<Uncompared> {
        let is_text = |path: &Path| super::refuse_pictures(Some(path), false).is_ok();
        self.markdown.retain(|path| (is_markdown || names_markdown(path)) && is_text(path));
        for results in [&mut self.junit, &mut self.markdown] {
            results.retain(|path| (world.is_file)(path));
        }
        (!self.junit.is_empty() || !self.markdown.is_empty()).then_some(self)
    }
}

/// Plans `compare`.
pub fn plan(typed: args::Compare, world: &World) -> Result<Plan, Failure> {
    let runs = typed.group.iter().filter_map(|text| text.split_once('=')).flat_map(|(_, runs)| runs.split(','));
    let inputs = typed.traces.iter().cloned().chain(runs.map(PathBuf::from)).collect();
    let (junit, markdown) = (typed.junit.iter().cloned().collect(), typed.output.iter().cloned().collect());
    let is_markdown = typed.markdown;
    match comparison(typed, world) {
        Err(Failure::Usage(why)) => {
            let found = Uncompared { why: why.clone(), junit, markdown, inputs }.found(is_markdown, world);
            found.map(Plan::Uncompared).ok_or(Failure::Usage(why))
        }
        plan => plan,
    }
}

/// Which result files of an earlier run to replace when clap refuses the command line. Only `--junit` and `-o` are looked for; any other
/// word may name an input, which is never replaced.
pub fn uncompared(words: &[OsString], error: &clap::Error, world: &World) -> Option<Plan> {
    if words.get(1).is_none_or(|verb| verb != "compare") {
        return None;
    }
    let text = error.render().to_string();
    // Behind the first paragraph clap describes the usage.
    let why = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    let why = format!("{}.", why.trim_end_matches('.'));
    let mut plan = Uncompared { why, junit: Vec::new(), markdown: Vec::new(), inputs: Vec::new() };
    let mut is_markdown = false;
    let mut rest = words.iter().skip(2).peekable();
    while let Some(word) = rest.next() {
        let (option, value) = option_and_value(word.to_str().unwrap_or_default());
        let results = match option {
            "--junit" => &mut plan.junit,
            "-o" | "--output" => &mut plan.markdown,
            _ => {
                is_markdown |= option == "--markdown";
                plan.inputs.extend(paths(word));
                continue;
            }
        };
        // An option is no value of another one.
        let next = rest.next_if(|next| value.is_none() && !next.as_encoded_bytes().starts_with(b"-"));
        results.extend(value.map(PathBuf::from).or_else(|| next.map(PathBuf::from)));
    }
    plan.inputs.retain(|path| (world.exists)(path));
    plan.found(is_markdown, world).map(Plan::Uncompared)
}

/// The option that a word is, and its value if that is in the same word.
fn option_and_value(word: &str) -> (&str, Option<&str>) {
    match word.strip_prefix("-o") {
        Some(value) if !value.is_empty() => ("-o", Some(value.trim_start_matches('='))),
        _ => word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value))),
    }
}

/// Every path that a word may name: itself, and the runs of a `--group`.
fn paths(word: &OsStr) -> Vec<PathBuf> {
    let text = word.to_str().unwrap_or_default();
    let behind = text.match_indices('=').map(|(at, _)| &text[at + 1..]);
    let runs = behind.flat_map(|runs| runs.split(',')).filter(|run| !run.is_empty());
    std::iter::once(PathBuf::from(word)).chain(runs.map(PathBuf::from)).collect()
}

fn comparison(typed: args::Compare, world: &World) -> Result<Plan, Failure> {
    super::refuse_pictures(typed.output.as_deref(), true)?;
    let by = typed.by.as_ref().map(|name| fields("--by", std::slice::from_ref(name))).transpose()?;
    let by = by.and_then(|fields| fields.first().copied());
    let sides = if typed.group.is_empty() { single(&typed, world)? } else { groups(&typed.group)? };
    refuse_same_names(&sides, &typed)?;
    let side = |path: &PathBuf, filter: &Option<String>| {
        reading(
            &args::Input {
                read: vec![path.clone()],
                source: None,
                follow: false,
                files: typed.files.clone(),
                tagging: args::Tagging::default(),
                offsets: None,
                align_starts: false,
                live: args::Live::default(),
                explain_filter: false,
                filter: filter.iter().cloned().collect(),
            },
            false,
        )
    };
    let turns = |(name, paths, filter): Side| -> Result<(String, Vec<Reading>), Failure> {
        Ok((name, paths.iter().map(|path| side(path, &filter)).collect::<Result<_, _>>()?))
    };
    let sides =
        sides.into_iter().map(|(name, paths, own)| (name, paths, own.or_else(|| typed.filter.first().cloned())));
    let sides: Vec<(String, Vec<Reading>)> = sides.map(turns).collect::<Result<_, _>>()?;
    refuse_standard_input(&sides, by.is_some())?;
    let same =
        |(junit, output): &(&PathBuf, &PathBuf)| junit == output || absolute(junit).ok() == absolute(output).ok();
    if let Some((junit, _)) = typed.junit.as_ref().zip(typed.output.as_ref()).filter(same) {
        let junit = junit.display();
        return Err(Failure::Usage(format!("--junit and -o both name {junit}; give each a file of its own.")));
    }
    let limit = typed.fail_if.as_deref().map(|text| Limit::parse(text, typed.quantity)).transpose();
    let limit = limit.map_err(|message| Failure::Usage(format!("--fail-if: {message}.")))?;
    let mut quantiles: Vec<f64> = percentile_list("--p", &typed.percentiles)?.iter().map(|p| p / 100.0).collect();
    // A limit on a percentile that nobody looks at could never be exceeded.
    quantiles.extend(limit.iter().flat_map(Limit::quantiles));
    let chart = is_svg(&typed.output).then(|| ComparePicture {
        wording: WORDING,
        title: typed.look.title,
        width: typed.look.width,
        theme: theme(typed.look.dark, typed.look.light),
        filter: (typed.filter.len() == 1).then(|| typed.filter[0].clone()),
    });
    Ok(Plan::Compare(Compare {
        sides,
        by,
        options: CompareOptions {
            quantity: typed.quantity,
            quantiles,
            rounds: typed.rounds,
            seed: typed.seed,
            ..CompareOptions::default()
        },
        limit,
        shape: shape(typed.table, &typed.output),
        markdown: typed.markdown || typed.output.as_deref().is_some_and(names_markdown),
        junit: typed.junit,
        output: typed.output,
        chart,
    }))
}

/// Fails if two sides were given one name: a verdict would not say which of them is slower.
fn refuse_same_names(sides: &[Side], typed: &args::Compare) -> Result<(), Failure> {
    let names: Vec<&str> = sides.iter().map(|(name, ..)| name.as_str()).collect();
    let twice = (1..names.len()).find(|&at| names[..at].contains(&names[at])).map(|at| names[at]);
    match twice {
        Some(name) if !typed.group.is_empty() => Err(Failure::Usage(format!(
            "--group {name} is given twice; give all runs of a side at once (--group {name}=TRACE,TRACE...), and the other \
             side another name."
        ))),
        Some(name) if !typed.names.is_empty() => {
            Err(Failure::Usage(format!("--names has {name} twice; give each trace a name of its own.")))
        }
        // One file twice is refused as that.
        _ => Ok(()),
    }
}

/// Fails if standard input would have to be read twice.
fn refuse_standard_input(sides: &[(String, Vec<Reading>)], is_divided: bool) -> Result<(), Failure> {
    let files = sides.iter().flat_map(|(_, turns)| turns).flat_map(|reading| &reading.files);
    match files.filter(|file| *file == Path::new("-")).count() {
        0 => Ok(()),
        1 if !is_divided => Ok(()),
        _ => Err(Failure::Usage(
            "Standard input (-) can be read only once, and this comparison needs it twice; write it to a file first."
                .into(),
        )),
    }
}

/// Whether the name of the file asks for Markdown.
fn names_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md"))
}

/// Name, traces of each turn, and a filter of its own.
type Side = (String, Vec<PathBuf>, Option<String>);

/// A side for each trace; of one trace, for each filter.
fn single(typed: &args::Compare, world: &World) -> Result<Vec<Side>, Failure> {
    // The other views take a filter at the end.
    let is_filter = |text: &str| text.contains(['=', '<', '>', ' ']) && Filter::parse(text).is_ok();
    let missing = typed.traces.iter().filter(|path| !(world.exists)(path)).filter_map(|path| path.to_str());
    if let Some(filter) = missing.into_iter().find(|text| is_filter(text)) {
        return Err(Failure::Usage(format!("{filter}: No such file; to filter, use --filter '{filter}'.")));
    }
    let name = |path: &PathBuf| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let mut names: Vec<String> = typed.traces.iter().map(name).collect();
    if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
        names = typed.traces.iter().map(|path| path.display().to_string()).collect();
    }
    let trace = |path: &PathBuf| vec![path.clone()];
    let several = typed.filter.len() > 1;
    match &typed.traces[..] {
        [_, _, ..] if typed.by.is_some() => {
            return Err(Failure::Usage("--by divides a single trace; give only one.".into()));
        }
        [_, _, ..] if several => {
            return Err(Failure::Usage(
                "Several filters divide a single trace; give only one trace, or one filter.".into(),
            ));
        }
        [path] if several && typed.by.is_none() => {
            names.clone_from(&typed.filter);
            if typed.names.len() == names.len() {
                names.clone_from(&typed.names);
            }
            let sides = names.into_iter().zip(&typed.filter);
            return Ok(sides.map(|(name, filter)| (name, trace(path), Some(filter.clone()))).collect());
        }
        _ => {}
    }
    if !typed.names.is_empty() {
        if typed.names.len() != names.len() {
            return Err(Failure::Usage(format!("--names needs a name for each of the {} traces.", names.len())));
        }
        names.clone_from(&typed.names);
    }
    Ok(names.into_iter().zip(&typed.traces).map(|(name, path)| (name, trace(path), None)).collect())
}

/// A side for each group.
fn groups(typed: &[String]) -> Result<Vec<Side>, Failure> {
    let side = |text: &String| {
        let (name, runs) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            Failure::Usage(format!("--group {text} has no name; use the form --group old=a.lat,b.lat."))
        })?;
        let runs: Vec<PathBuf> = runs.split(',').filter(|run| !run.is_empty()).map(PathBuf::from).collect();
        if runs.is_empty() {
            return Err(Failure::Usage(format!(
                "--group {name} has no trace; use the form --group {name}=a.lat,b.lat."
            )));
        }
        Ok((name.to_string(), runs, None))
    };
    let sides: Vec<Side> = typed.iter().map(side).collect::<Result<_, _>>()?;
    if sides.len() < 2 {
        return Err(Failure::Usage("--group must be given at least twice, once per side.".into()));
    }
    Ok(sides)
}
