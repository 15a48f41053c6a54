//! Folders of labs: an experiment of one is compared with the same experiment of the other, turn by turn.

use crate::plan::Reading;
use std::collections::BTreeMap;
use std::path::Path;

/// Name of each side, and the files of each of its turns.
pub type Sides = Vec<(String, Vec<Reading>)>;

/// The sides of each experiment that all have; `None` where a side is no folder of a lab.
pub fn experiments(sides: &[(String, Vec<Reading>)]) -> Option<Vec<(String, Sides)>> {
    let of_sides: Vec<_> = sides.iter().map(|(_, turns)| side(turns)).collect::<Option<_>>()?;
    let (first, others) = of_sides.split_first()?;
    let common = first.keys().filter(|job| others.iter().all(|side| side.contains_key(*job)));
    let experiment = |job: &String| {
        let sides = sides.iter().zip(&of_sides).map(|((name, _), turns)| (name.clone(), turns[job].clone()));
        (job.clone(), sides.collect())
    };
    Some(common.map(experiment).collect())
}

/// The turns of each experiment, by its name.
fn side(turns: &[Reading]) -> Option<BTreeMap<String, Vec<Reading>>> {
    let [folder] = turns else { return None };
    let mut rounds: BTreeMap<String, BTreeMap<u32, Vec<_>>> = BTreeMap::new();
    for file in &folder.files {
        let (job, round) = job_and_round(file)?;
        rounds.entry(job).or_default().entry(round).or_default().push(file.clone());
    }
    let turns =
        |rounds: BTreeMap<u32, Vec<_>>| rounds.into_values().map(|files| Reading { files, ..folder.clone() }).collect();
    (folder.files.len() > 1).then(|| rounds.into_iter().map(|(job, rounds)| (job, turns(rounds))).collect())
}

/// `paced.mnt-ssd.2.lat` is the second turn of `paced`.
fn job_and_round(file: &Path) -> Option<(String, u32)> {
    let name = file.file_name()?.to_str()?.strip_suffix(".lat")?;
    let (rest, round) = name.rsplit_once('.')?;
    let (job, _directory) = rest.split_once('.')?;
    Some((job.to_string(), round.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_traces() {
        assert_eq!(job_and_round(Path::new("x/paced.mnt-ssd.2.lat")), Some(("paced".into(), 2)));
        assert_eq!(job_and_round(Path::new("x/paced.2.lat")), None);
        assert_eq!(job_and_round(Path::new("x/run.lat")), None);
    }
}
