//! No import circle inside a crate: of the modules beside each other, none uses one that uses it.
//!
//! A module may use what its parents define, since those are one with it; what a parent only hands on (`pub use`) counts as
//! what it is.

use crate::program::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The path of a module below its crate.
type Module = Vec<String>;

/// Crates that are held to it.
const WITHOUT_CIRCLES: &[&str] = &["capture-file", "event", "view", "view-report", "view-term"];

/// The code of each module, without its tests.
fn modules(src: &Path) -> BTreeMap<Module, String> {
    let (mut modules, mut folders) = (BTreeMap::new(), vec![src.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.path()) {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") && !stem.ends_with("tests") {
                let of_parent = matches!(stem, "lib" | "main" | "mod");
                let relative = path.strip_prefix(src).expect("below").with_extension("");
                let mut module: Module = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
                module.truncate(module.len() - usize::from(of_parent));
                let text = std::fs::read_to_string(&path).expect("UTF-8");
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
                modules.insert(module, lines.collect::<Vec<_>>().join("\n"));
            }
        }
    }
    modules
}

/// The paths of a tree such as `a::{b, c::{d, e as f}}`, and what is left of the text behind it.
fn paths<'t>(text: &'t str, before: &[String], found: &mut Vec<Module>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = paths(rest, before, found).trim_start();
            match rest.split_at_checked(1) {
                Some((",", more)) => rest = more,
                Some(("}", more)) => return more,
                // A name in front of another word: `e as f`.
                Some(_) => rest = rest.trim_start_matches(|c: char| c != ',' && c != '}'),
                None => return rest,
            }
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return rest;
    }
    let path: Module = before.iter().cloned().chain([name.to_string()]).collect();
    match rest.strip_prefix("::") {
        Some(rest) => paths(rest, &path, found),
        None => {
            found.push(path);
            rest
        }
    }
}

/// Every path behind this word.
fn paths_behind(word: &str, code: &str) -> Vec<Module> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(word) {
        if !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            paths(&code[at + word.len()..], &[], &mut found);
        }
    }
    found
}

/// What a module uses, as paths below the crate.
fn used(module: &Module, code: &str) -> Vec<Module> {
    let from_parent = paths_behind("super::", code).into_iter().map(|path| {
        let up = 1 + path.iter().take_while(|part| *part == "super").count();
        let base = &module[..module.len().saturating_sub(up)];
        base.iter().chain(&path[up - 1..]).cloned().collect()
    });
    paths_behind("crate::", code).into_iter().chain(from_parent).collect()
}

/// Follows what modules hand on to where it is defined, and drops the names that are no module.
fn resolved(mut path: Module, modules: &BTreeMap<Module, String>) -> Module {
    for _ in 0..8 {
        let depth = (0..=path.len()).rev().find(|&depth| modules.contains_key(&path[..depth])).unwrap_or(0);
        let Some(item) = path.get(depth) else { break };
        let Some(code) = modules.get(&path[..depth]) else { break };
        let handed_on = paths_behind("pub use ", code).into_iter().chain(paths_behind("pub(crate) use ", code));
        let children = handed_on.filter(|from| from.first().is_some_and(|name| name != "crate" && name != "super"));
        let from = children.into_iter().find(|from| from.last() == Some(item));
        match from {
            Some(from) if from.len() > 1 => path = path[..depth].iter().cloned().chain(from).collect(),
            _ => {
                path.truncate(depth);
                break;
            }
        }
    }
    path
}

/// A way from one of these back to it.
fn circle(edges: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn walk(
        at: &str,
        edges: &BTreeMap<String, BTreeSet<String>>,
        way: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> bool {
        if way.iter().any(|before| before == at) {
            way.push(at.to_string());
            return true;
        }
        if !done.insert(at.to_string()) {
            return false;
        }
        way.push(at.to_string());
        let found = edges.get(at).into_iter().flatten().any(|next| walk(next, edges, way, done));
        if !found {
            way.pop();
        }
        found
    }
    let (mut way, mut done) = (Vec::new(), BTreeSet::new());
    edges.keys().any(|at| walk(at, edges, &mut way, &mut done)).then_some(way)
}

#[test]
fn modules_beside_each_other_have_no_import_circle() {
    let mut circles = Vec::new();
    for name in WITHOUT_CIRCLES {
        let modules = modules(&root().join("crates").join(name).join("src"));
        // By the module that they lie in, what uses what.
        let mut beside = BTreeMap::<Module, BTreeMap<String, BTreeSet<String>>>::new();
        for (module, code) in &modules {
            for path in used(module, code) {
                let target = resolved(path, &modules);
                let common = module.iter().zip(&target).take_while(|(one, other)| one == other).count();
                if let (Some(one), Some(other)) = (module.get(common), target.get(common)) {
                    let edges = beside.entry(module[..common].to_vec()).or_default();
                    edges.entry(one.clone()).or_default().insert(other.clone());
                }
            }
        }
        for (parent, edges) in beside {
            circles.extend(circle(&edges).map(|way| format!("{name}: {parent:?}: {}", way.join(" -> "))));
        }
    }
    assert!(circles.is_empty(), "\n{}", circles.join("\n"));
}

#[test]
fn paths_of_use_trees() {
    let of = |code: &str| -> Vec<String> { paths_behind("crate::", code).iter().map(|path| path.join(".")).collect() };
    assert_eq!(of("use crate::{Error, a::{self, b as c}, d::E};"), ["Error", "a.self", "a.b", "d.E"]);
    assert_eq!(of("crate::a::f(crate::b::C)"), ["a.f", "b.C"]);
    let ring = |edges: &[(&str, &str)]| {
        let mut all = BTreeMap::<String, BTreeSet<String>>::new();
        for (from, to) in edges {
            all.entry(from.to_string()).or_default().insert(to.to_string());
        }
        circle(&all).is_some()
    };
    assert!(ring(&[("a", "b"), ("b", "c"), ("c", "b")]) && !ring(&[("a", "b"), ("a", "c"), ("b", "c")]));
}
