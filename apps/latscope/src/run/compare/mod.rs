//! `latscope compare`.

mod divide;
mod labs;
mod same;

use super::{output, reports};
use crate::Failure;
use crate::plan::{Compare as Plan, Reading, Shape, Uncompared};
use labs::Experiment;
use latscope_capture_file::{is_over, is_pipe};
use latscope_event::Context;
use latscope_pipeline::{Control, Pipeline, Subject, compare_sides, unlike};
use latscope_series::Quantity;
use latscope_series::compare::{CompareError, Judgement, Limit};
use latscope_view_report::CompareSide;
use latscope_view_term::CompareTable;
use std::path::{Path, PathBuf};

pub fn run(plan: &Plan) -> Result<(), Failure> {
    match compared(plan) {
        Ok(verdict) => verdict.map_or(Ok(()), Err),
        Err(failure) => {
            if let Failure::Input(sentence) | Failure::Usage(sentence) = &failure {
                leave_no_older_result(plan, sentence);
            }
            Err(failure)
        }
    }
}

/// Fails as what was typed makes no sense.
pub fn refuse(plan: Uncompared) -> Result<(), Failure> {
    let Uncompared { why, junit, markdown, inputs } = plan;
    // Each by itself: what cannot be opened is no reason to look less closely at another.
    let reading = |file| Reading { files: vec![file], ..Reading::default() };
    let inputs: Vec<Reading> = inputs.into_iter().map(reading).collect();
    markdown.iter().for_each(|path| replace_result(&inputs, path, &CompareTable::markdown_of_failure(&why)));
    junit.iter().for_each(|path| replace_result(&inputs, path, &CompareTable::junit_of_failure(&why)));
    Err(Failure::Usage(why))
}

/// A job publishes the results that it finds, and must not find those of its last run.
fn leave_no_older_result(plan: &Plan, sentence: &str) {
    let inputs: Vec<Reading> = plan.sides.iter().flat_map(|(_, turns)| turns).cloned().collect();
    if let Some(junit) = &plan.junit {
        replace_result(&inputs, junit, &CompareTable::junit_of_failure(sentence));
    }
    if let Some(markdown) = plan.output.as_deref().filter(|_| plan.markdown && plan.chart.is_none()) {
        replace_result(&inputs, markdown, &CompareTable::markdown_of_failure(sentence));
    }
}

/// Writes why there is no result in the place of one, unless that place is one of the inputs.
fn replace_result(inputs: &[Reading], path: &Path, text: &str) {
    let is_input = |reading: &Reading| {
        let mut reading = reading.clone();
        // What can be read once is no file that could be replaced, and may have to be waited for.
        reading.files.retain(|file| !is_pipe(file));
        let files: Vec<PathBuf> = match Pipeline::open(reading.clone(), Control::default()) {
            Ok(pipeline) => pipeline.reading().inputs().collect(),
            Err(_) => reading.inputs().collect(),
        };
        output::refuse_inputs(&files, Some(path)).is_err()
    };
    if path.exists() && inputs.iter().any(is_input) {
        return;
    }
    if let Err(failure) = output::text(Some(path), text) {
        say!("latscope: {failure}");
    }
}

/// Compares; hands back how the limit failed, if it did.
fn compared(plan: &Plan) -> Result<Option<Failure>, Failure> {
    let sides = expanded(plan)?;
    let divided = match (plan.by, &sides[..]) {
        (Some(field), [(_, turns)]) => divide::divide(&turns[0], field)?,
        _ => Vec::new(),
    };
    let sides = if divided.is_empty() { &sides } else { &divided };
    same::refuse_same_files(sides)?;
    let experiments = if divided.is_empty() { labs::experiments(sides)? } else { None };
    match experiments {
        Some(experiments) => each_experiment(plan, experiments),
        None => report(plan, &read_all(sides, plan.options.quantity)?),
    }
}

/// The sides with the files of folders in place of these.
fn expanded(plan: &Plan) -> Result<Vec<(String, Vec<Reading>)>, Failure> {
    let turn = |reading: &Reading| {
        let pipeline = reports::open(reading.clone(), plan.output.as_deref())?;
        let inputs: Vec<_> = pipeline.reading().inputs().collect();
        output::refuse_inputs(&inputs, plan.junit.as_deref().or(plan.output.as_deref()))?;
        Ok(pipeline.reading().clone())
    };
    let side = |(name, turns): &(String, Vec<Reading>)| {
        Ok((name.clone(), turns.iter().map(turn).collect::<Result<_, Failure>>()?))
    };
    plan.sides.iter().map(side).collect()
}

fn read_all(sides: &[(String, Vec<Reading>)], quantity: Quantity) -> Result<Vec<Subject>, Failure> {
    let open = |reading| reports::open(reading, None);
    let subjects = sides.iter().map(|(name, turns)| Subject::read(name.clone(), turns, quantity, open));
    let subjects: Vec<Subject> = subjects.collect::<Result<_, Failure>>()?;
    if is_over() {
        return Err(Failure::Input("Interrupted while the traces were read; nothing was compared.".into()));
    }
    same::refuse_same_requests(sides, &subjects)?;
    Ok(subjects)
}

/// Compares each experiment of labs between its turns. Those of which the filter lets nothing through are left out.
fn each_experiment(plan: &Plan, experiments: Vec<Experiment>) -> Result<Option<Failure>, Failure> {
    let mut compared = Vec::new();
    for experiment in experiments {
        let subjects = read_all(&experiment.sides, plan.options.quantity)?;
        if subjects.iter().any(|subject| subject.count() > 0) {
            compared.push((experiment, subjects));
        }
    }
    let is_single = plan.shape != Shape::Text || plan.output.is_some() || plan.limit.is_some();
    let is_single = is_single || plan.markdown || plan.junit.is_some();
    if is_single && compared.len() > 1 {
        let mut jobs: Vec<&str> = compared.iter().map(|(experiment, _)| experiment.job.as_str()).collect();
        jobs.dedup();
        return Err(Failure::Usage(if jobs.len() > 1 {
            let first = jobs[0];
            format!("There are several experiments ({}); select one with --filter 'job = {first}'.", jobs.join(", "))
        } else {
            format!(
                "These labs ran {} in several directories; select the runs of one with --group NAME=TRACE,TRACE...",
                jobs[0]
            )
        }));
    }
    if compared.is_empty() {
        return Err(Failure::Input("No event of these labs passes the filter; check --filter.".into()));
    }
    // More than one only without a limit.
    let mut verdict = None;
    for (experiment, subjects) in &compared {
        if !is_single {
            let directory = experiment.directory.as_ref().map_or(String::new(), |name| format!(", {name}"));
            output::text(None, &format!("{}{directory}\n", experiment.job))?;
        }
        verdict = report(plan, subjects)?;
        if !is_single {
            output::text(None, "\n")?;
        }
    }
    Ok(verdict)
}

/// Compares what was gathered, prints it, draws it, and hands back how the limit failed, if it did.
fn report(plan: &Plan, subjects: &[Subject]) -> Result<Option<Failure>, Failure> {
    if plan.limit.is_some() && subjects.len() < 2 {
        return Err(Failure::Usage(
            "--fail-if needs at least two sides: two traces, or one divided by --by FIELD or several --filter.".into(),
        ));
    }
    let quantity = plan.options.quantity;
    let (comparison, samples) = compare_sides(subjects, &plan.options).map_err(|error| match error {
        CompareError::Empty(side) if quantity != Quantity::Latency => Failure::Input(format!(
            "{} has no event with {}; latscope events -r FILE shows what its events have.",
            subjects[side].name,
            quantity.field().name()
        )),
        CompareError::Empty(side) => {
            let Subject { name, turns, .. } = &subjects[side];
            let run = turns.iter().filter(|_| turns.len() > 1).find(|run| run.count() == 0);
            let run = run.map_or(String::new(), |run| format!("{} of ", run.source));
            Failure::Input(format!("{run}{name} has no events to compare."))
        }
        error => Failure::Usage(format!("{error}.")),
    })?;
    let names: Vec<String> = subjects.iter().map(|subject| subject.name.clone()).collect();
    let (unlike, unknown) = unlike(subjects, quantity);
    let notes: Vec<String> = subjects.iter().filter_map(Subject::waiting_note).collect();
    let table = CompareTable {
        comparison: &comparison,
        names: &names,
        unlike: &unlike,
        unknown: unknown.as_deref(),
        notes: &notes,
    };
    let path = plan.output.as_deref().filter(|_| plan.chart.is_none());
    match plan.shape {
        Shape::Csv => output::text(path, &table.csv())?,
        Shape::Json => output::text(path, &table.json())?,
        Shape::Text if plan.markdown => {
            let picture = plan.output.as_deref().filter(|_| plan.chart.is_some()).map(Path::to_string_lossy);
            output::text(path, &table.markdown(plan.limit.as_ref(), picture.as_deref()))?;
        }
        Shape::Text => {
            let columns = if output::to_terminal(&plan.output) { output::columns(&plan.output) } else { 160 };
            output::lines(path, table.lines(columns))?;
        }
    }
    if plan.shape == Shape::Csv {
        unlike.iter().for_each(|text| say!("latscope: unlike: {text}"));
        unknown.iter().chain(&notes).for_each(|text| say!("latscope: {text}"));
        table.verdicts().iter().for_each(|text| say!("latscope: {text}"));
    }
    if let Some(junit) = &plan.junit {
        let written = output::text(Some(junit), &table.junit(plan.limit.as_ref()));
        // A file that cannot be written hides no limit that is exceeded.
        if let (true, Some(Err(judged))) = (written.is_err(), plan.limit.as_ref().map(|limit| judge(limit, &table))) {
            say!("latscope: {judged}");
        }
        written?;
    }
    subjects.iter().for_each(|subject| reports::say_notes(&subject.contexts));
    if let Some(options) = &plan.chart {
        let contexts: Vec<Context> = subjects.iter().map(|subject| Context::merged(&subject.contexts)).collect();
        let sides = subjects.iter().zip(&samples).zip(&contexts);
        let sides: Vec<CompareSide<'_>> = sides
            .map(|((subject, turns), context)| CompareSide {
                name: &subject.name,
                turns,
                series: subject.turns.iter().map(|run| &run.series).collect(),
                context,
            })
            .collect();
        let picture = latscope_view_report::compare(&comparison, &sides, &unlike, options);
        let picture = picture.map_err(|error| Failure::Usage(error.to_string()))?;
        output::text(plan.output.as_deref(), &picture)?;
    }
    Ok(plan.limit.as_ref().and_then(|limit| judge(limit, &table).err()))
}

/// Fails if a pair exceeds the limit, or if nobody knows.
fn judge(limit: &Limit, table: &CompareTable<'_>) -> Result<(), Failure> {
    let judged: Vec<_> = table.comparison.pairs.iter().map(|pair| table.judged(limit, pair)).collect();
    let with = |judgement| judged.iter().find(|(of, _)| *of == judgement).map(|(_, sentence)| sentence.clone());
    match (with(Judgement::Exceeded), with(Judgement::Unknown)) {
        (Some(sentence), _) => Err(Failure::Exceeded(sentence)),
        (_, Some(sentence)) => Err(Failure::Input(sentence)),
        _ => Ok(()),
    }
}
