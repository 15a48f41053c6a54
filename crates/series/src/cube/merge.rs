//! One cube of several: turns of a live capture, or parts of a trace.

use super::{Cube, CubeAttribute, CubeColumn, CubeKey, CubeValue};
use hashbrown::HashMap;
use std::borrow::Cow;

/// The cube of all events of these cubes. Columns take the greatest width, attributes the order of the first cube; an attribute
/// that a cube does not have is missing for its events.
pub fn merge_cubes<'a>(cubes: impl IntoIterator<Item = &'a Cube>) -> Cube {
    let cubes: Vec<&Cube> = cubes.into_iter().collect();
    let width_ns = cubes.iter().map(|cube| cube.width_ns).max().unwrap_or(1);
    let mut merging = Merging::new(&cubes);
    let mut merged = Cube { width_ns, ..Cube::default() };
    for cube in cubes {
        let cube =
            if cube.width_ns == width_ns { Cow::Borrowed(cube) } else { Cow::Owned(cube.clone().widened(width_ns)) };
        let moved = merging.combinations_of(&cube);
        for (&at, column) in &cube.columns {
            merged.columns.entry(at).or_default().merge(column, &moved);
        }
        merged.exemplars.extend(cube.exemplars.iter().map(|exemplar| {
            let combination = moved[exemplar.combination as usize];
            super::Exemplar { combination, ..*exemplar }
        }));
        let left_out = cube.left_out.iter().filter(|key| !merged.left_out.contains(key)).copied();
        merged.left_out.extend(left_out.collect::<Vec<_>>());
    }
    merged.exemplars.sort_by(|one, other| other.latency_ns.cmp(&one.latency_ns).then_with(|| one.cmp(other)));
    merged.attributes = merging.attributes;
    merged.combinations = merging.combinations;
    merged.ordered()
}

struct Merging {
    attributes: Vec<CubeAttribute>,
    /// By attribute, the numbers of its values.
    values: Vec<HashMap<CubeValue, u32>>,
    combinations: Vec<Vec<u32>>,
    numbers: HashMap<Vec<u32>, u32>,
}

impl Merging {
    fn new(cubes: &[&Cube]) -> Merging {
        let mut keys: Vec<CubeKey> = Vec::new();
        for attribute in cubes.iter().flat_map(|cube| &cube.attributes) {
            if !keys.contains(&attribute.key) {
                keys.push(attribute.key);
            }
        }
        let values = keys.iter().map(|_| HashMap::new()).collect();
        let attributes = keys.into_iter().map(|key| CubeAttribute { key, values: Vec::new() }).collect();
        Merging { attributes, values, combinations: Vec::new(), numbers: HashMap::new() }
    }

    /// The new number of each combination of a cube.
    fn combinations_of(&mut self, cube: &Cube) -> Vec<u32> {
        let own = |key: CubeKey| cube.attributes.iter().position(|attribute| attribute.key == key);
        let owns: Vec<Option<usize>> = self.attributes.iter().map(|attribute| own(attribute.key)).collect();
        let moved = cube.combinations.iter().map(|values| {
            let value = |at: usize| {
                owns[at].map_or(&CubeValue::Missing, |own| &cube.attributes[own].values[values[own] as usize])
            };
            let values: Vec<u32> =
                (0..owns.len()).map(|at| number(&mut self.values[at], &mut self.attributes[at], value(at))).collect();
            let next = self.combinations.len() as u32;
            *self.numbers.entry(values).or_insert_with_key(|values| {
                self.combinations.push(values.clone());
                next
            })
        });
        moved.collect()
    }
}

fn number(numbers: &mut HashMap<CubeValue, u32>, attribute: &mut CubeAttribute, value: &CubeValue) -> u32 {
    *numbers.entry_ref(value).or_insert_with(|| {
        attribute.values.push(value.clone());
        attribute.values.len() as u32 - 1
    })
}

impl CubeColumn {
    /// Adds a column whose combinations have these numbers now.
    fn merge(&mut self, other: &CubeColumn, moved: &[u32]) {
        for (&(row, combination), count) in &other.cells {
            *self.cells.entry((row, moved[combination as usize])).or_insert(0) += count;
        }
        other.totals.iter().for_each(|(&bucket, count)| *self.totals.entry(bucket).or_insert(0) += count);
        for (&row, more) in &other.sums {
            let sums = self.sums.entry(row).or_default();
            sums.latency_ns += more.latency_ns;
            sums.bytes += more.bytes;
        }
        self.in_flight_ns += other.in_flight_ns;
    }
}
