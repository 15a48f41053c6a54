//! Folders of labs: the directories of one lab are compared with each other, experiments of several labs with their like; by turns.

use crate::Failure;
use crate::plan::Reading;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of each side, and the files of each of its turns.
pub type Sides = Vec<(String, Vec<Reading>)>;

/// What is compared.
pub struct Experiment {
    pub job: String,
    /// The directory that all labs measured, if there are several.
    pub directory: Option<String>,
    pub sides: Sides,
}

/// Runs of one experiment in one directory, by experiment, directory and round.
type Rounds = BTreeMap<String, BTreeMap<String, BTreeMap<u32, PathBuf>>>;

/// The sides of each experiment: those of one lab are its directories, those of several labs are the labs, for each directory
/// that they share. `None` where a side is no folder of a lab.
///
/// # Errors
/// Where labs share no experiment, or it is unclear which of their directories belong together.
pub fn experiments(sides: &[(String, Vec<Reading>)]) -> Result<Option<Vec<Experiment>>, Failure> {
    let Some(labs) = sides.iter().map(|(_, turns)| lab(turns)).collect::<Option<Vec<_>>>() else { return Ok(None) };
    match (sides, &labs[..]) {
        ([(_, readings)], [lab]) => Ok(Some(directories(lab, &readings[0]))),
        _ => each_directory(sides, &labs).map(Some),
    }
}

/// The directories of one lab against each other.
fn directories(lab: &Rounds, folder: &Reading) -> Vec<Experiment> {
    let side = |(name, rounds): (&String, &BTreeMap<u32, PathBuf>)| (name.clone(), turns(rounds, folder));
    let experiment = |(job, directories): (&String, &BTreeMap<String, _>)| Experiment {
        job: job.clone(),
        directory: None,
        sides: directories.iter().map(side).collect(),
    };
    lab.iter().map(experiment).collect()
}

/// Labs against each other. A single directory of each belongs together whatever it is called; several, by their names.
fn each_directory(sides: &[(String, Vec<Reading>)], labs: &[Rounds]) -> Result<Vec<Experiment>, Failure> {
    let Some((first, others)) = labs.split_first() else { return Ok(Vec::new()) };
    let mut experiments = Vec::new();
    for (job, directories) in first.iter().filter(|(job, _)| others.iter().all(|lab| lab.contains_key(*job))) {
        if labs.iter().all(|lab| lab[job].len() == 1) {
            let side = |((name, readings), lab): (&(String, Vec<Reading>), &Rounds)| {
                let rounds = lab[job].values().next()?;
                Some((name.clone(), turns(rounds, &readings[0])))
            };
            let sides = sides.iter().zip(labs).filter_map(side).collect();
            experiments.push(Experiment { job: job.clone(), directory: None, sides });
            continue;
        }
        if let Some(at) = others.iter().position(|lab| !lab[job].keys().eq(directories.keys())) {
            return Err(Failure::Usage(format!(
                "{} and {} measured other directories ({} and {}), so it is unclear which to compare; select the runs: \
                 latscope compare --group NAME=TRACE,TRACE... --group NAME=TRACE,TRACE...",
                sides[0].0,
                sides[at + 1].0,
                directories.keys().cloned().collect::<Vec<_>>().join(", "),
                others[at][job].keys().cloned().collect::<Vec<_>>().join(", "),
            )));
        }
        for directory in directories.keys() {
            let side = |((name, readings), lab): (&(String, Vec<Reading>), &Rounds)| {
                (name.clone(), turns(&lab[job][directory], &readings[0]))
            };
            let sides = sides.iter().zip(labs).map(side).collect();
            experiments.push(Experiment { job: job.clone(), directory: Some(directory.clone()), sides });
        }
    }
    if experiments.is_empty() {
        let names: Vec<&str> = sides.iter().map(|(name, _)| name.as_str()).collect();
        return Err(Failure::Usage(format!("{} have no experiment in common.", names.join(" and "))));
    }
    Ok(experiments)
}

/// A turn for each round.
fn turns(rounds: &BTreeMap<u32, PathBuf>, folder: &Reading) -> Vec<Reading> {
    rounds.values().map(|file| Reading { files: vec![file.clone()], ..folder.clone() }).collect()
}

/// The runs in the folder of a lab; `None` of anything else.
fn lab(turns: &[Reading]) -> Option<Rounds> {
    let [folder] = turns else { return None };
    let mut lab = Rounds::new();
    for file in &folder.files {
        let (job, directory, round) = run_of(file)?;
        lab.entry(job).or_default().entry(directory).or_default().insert(round, file.clone());
    }
    (folder.files.len() > 1).then_some(lab)
}

/// `paced.mnt-ssd.2.lat` is the second turn of `paced` in `mnt-ssd`.
fn run_of(file: &Path) -> Option<(String, String, u32)> {
    let name = file.file_name()?.to_str()?.strip_suffix(".lat")?;
    let (rest, round) = name.rsplit_once('.')?;
    let (job, directory) = rest.split_once('.')?;
    Some((job.to_string(), directory.to_string(), round.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_traces() {
        assert_eq!(run_of(Path::new("x/paced.mnt-ssd.2.lat")), Some(("paced".into(), "mnt-ssd".into(), 2)));
        assert_eq!(run_of(Path::new("x/paced.2.lat")), None);
        assert_eq!(run_of(Path::new("x/run.lat")), None);
    }
}
