//! The picture of the workspace in DESIGN, held against the manifests, and rules for every file.

use crate::program::{command, end, root, unpacked};
use latscope_capture_file::Format;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Which of our crates each may depend on. A stage never imports its sibling; the program may see all.
const ALLOWED: &[(&str, &[&str])] = &[
    ("event", &[]),
    ("histogram", &[]),
    ("filter", &["event"]),
    ("series", &["event", "histogram"]),
    ("unwind", &["event"]),
    ("capture-bpf", &["event", "histogram", "series", "unwind"]),
    ("wire", &["event", "histogram", "series"]),
    // Of what is on the wire, its records as a file.
    ("capture-file", &["event", "histogram", "series", "wire"]),
    ("capture-probe", &["event", "histogram", "series"]),
    ("pipeline", &["capture-bpf", "capture-file", "capture-probe", "event", "filter", "histogram", "series"]),
    ("view", &["event", "series"]),
    ("view-report", &["event", "histogram", "series", "view"]),
    ("view-term", &["event", "histogram", "series", "view"]),
    (
        "python",
        &[
            "capture-bpf",
            "capture-file",
            "event",
            "filter",
            "histogram",
            "pipeline",
            "series",
            "view",
            "view-report",
            "view-term",
        ],
    ),
];

/// What may have unsafe code: those that call the kernel. All others forbid it.
const WITH_UNSAFE: &[&str] = &["crates/capture-bpf", "crates/capture-probe", "tests/delayfs"];

/// Longest Rust file; tables that a program wrote would be named here as exceptions.
const LONGEST: usize = 1000;
/// The program only words and prints what the crates do.
const LONGEST_OF_APPS: usize = 350;

/// The packages of the workspace: folder and names of those of our crates that it depends on.
fn packages() -> BTreeMap<String, (String, Vec<String>)> {
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let text = end(command(env!("CARGO")).args(arguments), b"").success();
    let metadata: serde_json::Value = serde_json::from_str(&text).expect("cargo writes JSON");
    let root = root();
    let package = |package: &serde_json::Value| {
        let manifest = package["manifest_path"].as_str().expect("a path");
        let folder = Path::new(manifest).parent().expect("a folder").strip_prefix(&root).expect("below the root");
        let dependencies = package["dependencies"].as_array().expect("a list").iter();
        // What only tests use may look across.
        let ours = dependencies.filter(|dependency| dependency["kind"] != "dev").filter_map(|dependency| {
            let name = dependency["name"].as_str()?;
            dependency.get("path")?;
            Some(name.strip_prefix("latscope-").unwrap_or(name).to_string())
        });
        let name = package["name"].as_str().expect("a name").to_string();
        (name, (folder.to_str().expect("UTF-8").to_string(), ours.collect()))
    };
    metadata["packages"].as_array().expect("a list").iter().map(package).collect()
}

#[test]
fn packages_are_named_like_their_folder() {
    for (name, (folder, _)) in packages() {
        match folder.split_once('/') {
            Some(("crates", stem)) => assert_eq!(name, format!("latscope-{stem}")),
            Some(("apps", stem)) => assert_eq!(name, stem),
            // The one program that only tests run.
            Some(("tests", "delayfs")) => assert_eq!(name, "latscope-delayfs"),
            None if folder == "python" => assert_eq!(name, "latscope-python"),
            _ => panic!("{folder} is neither in crates/ nor in apps/"),
        }
    }
}

#[test]
fn dependencies_go_the_way_of_the_data() {
    for (name, (folder, dependencies)) in packages() {
        let stem = if folder == "python" { Some("python") } else { folder.strip_prefix("crates/") };
        let Some(stem) = stem else { continue };
        let allowed = ALLOWED.iter().find(|(of, _)| *of == stem);
        let Some((_, allowed)) = allowed else { panic!("{name} has no place in the picture yet; add it to ALLOWED") };
        for dependency in dependencies {
            assert!(allowed.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn only_what_calls_the_kernel_has_unsafe_code() {
    for (_, (folder, _)) in packages() {
        let roots = ["src/lib.rs", "src/main.rs"].map(|root_file| root().join(&folder).join(root_file));
        for path in roots.iter().filter(|path| path.is_file()) {
            let text = std::fs::read_to_string(path).expect("it is there");
            let forbids = text.lines().any(|line| line == "#![forbid(unsafe_code)]");
            assert_ne!(forbids, WITH_UNSAFE.contains(&folder.as_str()), "{}", path.display());
        }
    }
}

/// The files of the repository; none where it was unpacked without git.
fn files() -> Vec<String> {
    let listed = end(command("git").args(["ls-files", "-z"]), b"");
    if listed.status != Some(0) {
        eprintln!("this is no git repository; its files are not looked at");
        return Vec::new();
    }
    let text = String::from_utf8(listed.out).expect("names are UTF-8");
    // A file may have been deleted since it was added.
    text.split_terminator('\0').filter(|path| root().join(path).is_file()).map(str::to_string).collect()
}

/// What only `crates/pipeline` does: open sources, bind filters, read stored series.
const ASSEMBLY: &[&str] = &[
    "latscope_capture_file::read(",
    "EventCapture",
    "HistogramCapture",
    "SeriesReader",
    "BoundFilter",
    "filter.bind(",
];

#[test]
fn one_crate_assembles() {
    let users = ["apps/", "python/", "crates/view"];
    for path in files().iter().filter(|path| users.iter().any(|user| path.starts_with(user)) && path.ends_with(".rs")) {
        let text = std::fs::read_to_string(root().join(path)).expect(path);
        for word in ASSEMBLY {
            assert!(!text.contains(word), "{path} assembles by itself: {word}; use crates/pipeline");
        }
    }
}

#[test]
fn messages_go_through_the_one_place_that_makes_them_safe() {
    for path in files().iter().filter(|path| path.starts_with("apps/") && path.ends_with(".rs")) {
        let text = std::fs::read_to_string(root().join(path)).expect(path);
        assert!(!text.contains("eprint") && !text.contains("println!"), "{path} prints past say!");
    }
}

#[test]
fn no_rust_file_is_too_long() {
    for path in files().iter().filter(|path| path.ends_with(".rs")) {
        let lines = std::fs::read_to_string(root().join(path)).expect(path).lines().count();
        let most = if path.starts_with("apps/") { LONGEST_OF_APPS } else { LONGEST };
        assert!(lines <= most, "{path} has {lines} lines");
    }
}

/// Names that the glossary of ARCHITECTURE.md replaces: a function or field is called what it returns or holds.
const NAMELESS: &[&str] =
    &["fn of(", "fn told(", "fn untold(", "fn said(", "fn absorb(", "pub of:", "pub told:", "pub said:"];

#[test]
fn names_follow_the_glossary() {
    for path in files().iter().filter(|path| path.ends_with(".rs") && *path != "tests/house.rs") {
        let code = code(path);
        for name in NAMELESS {
            assert!(!code.contains(name), "{path}: {name}; see the glossary in ARCHITECTURE.md");
        }
    }
}

/// A source without comments, and without tests, which lie at its end.
fn code(path: &str) -> String {
    let text = std::fs::read_to_string(root().join(path)).expect(path);
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
    lines.filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// The modules at the top of this crate whose items a file uses: `crate::x`, and `super::x` as deep as it leads up there.
/// `exported` is where the crate's own root takes its names from.
fn imports(code: &str, depth: usize, exported: &BTreeMap<String, String>) -> BTreeSet<String> {
    let climbs = "super::".repeat(depth);
    let mut found = BTreeSet::new();
    for way in ["crate::", climbs.as_str()].into_iter().filter(|way| !way.is_empty()) {
        for (at, _) in code.match_indices(way) {
            let longer = code[..at].ends_with("super::") || code[..at].ends_with("$");
            let rest = if longer { "" } else { &code[at + way.len()..] };
            let listed = match rest.strip_prefix('{') {
                Some(list) => list.split_once("};").map_or(list, |(list, _)| list),
                None => rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or(""),
            };
            // Of a list the first name of each of its ways; lists in it are of the same module.
            let mut nested = 0;
            let mut names = String::new();
            for letter in listed.chars() {
                nested += i32::from(letter == '{') - i32::from(letter == '}');
                names.push(if nested == 0 { letter } else { ' ' });
            }
            for name in names.split(',').filter_map(|name| name.split("::").next()).map(str::trim) {
                let name = name.split(" as ").next().unwrap_or(name);
                found.insert(exported.get(name).map_or(name, String::as_str).to_string());
            }
        }
    }
    found
}

/// What a module may not take from the root of its crate: what is done there. Types of the root are what its modules are about.
const DONE_IN_ROOT: &str = "the root itself";

/// Which module at the top of a crate imports which others; [`DONE_IN_ROOT`] stands for functions of the root.
fn imports_of_crate(folder: &str, files: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let sources = format!("{folder}/src/");
    let own = files.iter().filter_map(|path| Some((path, path.strip_prefix(&sources)?.strip_suffix(".rs")?)));
    let own: Vec<_> = own.filter(|(_, name)| !name.contains("tests")).collect();
    let mut exported = BTreeMap::new();
    for (path, _) in own.iter().filter(|(_, name)| matches!(*name, "lib" | "main")) {
        let code = format!("\n{}", code(path));
        for (at, _) in code.match_indices("fn ").filter(|&(at, _)| is_of_root(&code[..at])) {
            let name = code[at + 3..].split(|letter: char| !letter.is_alphanumeric() && letter != '_').next();
            exported.extend(name.map(|name| (name.to_string(), DONE_IN_ROOT.to_string())));
        }
        let code = code.replace("\npub use ", "\nuse ");
        let used = code.split("\nuse ").skip(1).filter_map(|used| used.split_once(';')?.0.split_once("::"));
        for (module, names) in used {
            let names = names.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            exported.extend(names.map(|name| (name.to_string(), module.to_string())));
        }
    }
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, name) in own.iter().filter(|(_, name)| !matches!(*name, "lib" | "main")) {
        let depth = name.strip_suffix("/mod").unwrap_or(name).matches('/').count() + 1;
        let top = name.split('/').next().unwrap_or(name).to_string();
        graph.entry(top).or_default().extend(imports(&code(path), depth, &exported));
    }
    // The root uses all of them, so each that calls a function of the root is a circle.
    let calls: BTreeSet<String> = graph.keys().cloned().collect();
    graph.insert(DONE_IN_ROOT.to_string(), calls);
    let tops: BTreeSet<String> = graph.keys().cloned().collect();
    for (top, imported) in &mut graph {
        imported.retain(|name| name != top && tops.contains(name));
    }
    graph
}

/// Whether what follows this code is declared at the left margin, perhaps as public.
fn is_of_root(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.is_empty() || line.starts_with("pub ") || line.starts_with("pub(crate) ") || line == "const "
}

/// What is left of a graph without what imports nothing that is left, and without what nothing left imports: its circles.
fn circles(mut graph: BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    loop {
        let imported: BTreeSet<String> = graph.values().flatten().cloned().collect();
        let before = graph.len();
        graph.retain(|name, imports| !imports.is_empty() && imported.contains(name));
        let left: BTreeSet<String> = graph.keys().cloned().collect();
        graph.values_mut().for_each(|imports| imports.retain(|name| left.contains(name)));
        if graph.len() == before && graph.values().all(|imports| !imports.is_empty()) {
            return graph;
        }
    }
}

#[test]
fn modules_do_not_import_each_other() {
    let files = files();
    for (_, (folder, _)) in packages() {
        let found = circles(imports_of_crate(&folder, &files));
        assert!(found.is_empty(), "{folder}: these modules import each other: {found:#?}");
    }
}

#[test]
fn a_circle_is_found() {
    let exported = BTreeMap::from([("Cell".to_string(), "cell".to_string())]);
    let code = "use crate::axis::{Axis, crate_b};\nuse crate::{Cell, b::{c, d}, scale};\nuse super::super::near;";
    let expected = ["axis", "b", "cell", "near", "scale"].map(str::to_string);
    assert_eq!(imports(code, 2, &exported), BTreeSet::from(expected));
    let graph = |edges: &[(&str, &str)]| {
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in edges {
            graph.entry(to.to_string()).or_default();
            graph.entry(from.to_string()).or_default().insert(to.to_string());
        }
        graph
    };
    assert!(circles(graph(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    let found = circles(graph(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]));
    assert_eq!(found.keys().collect::<Vec<_>>(), ["b", "c"]);
}

/// What would name the machine that a file was made on, or need one like it. In pieces, to be allowed here.
const FOREIGN: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("index", "-url"), concat!("replace", "-with")];

/// Where tests of the filter language use names of files as anybody's machine has them.
const HOME: &str = concat!("/ho", "me/");
const HOME_ALLOWED: &[&str] = &["crates/filter/src/glob.rs"];

#[test]
fn no_file_names_the_machine_it_was_made_on() {
    for path in files() {
        let bytes = match path.rsplit('.').next() {
            Some("gz" | "zst") => unpack(&path),
            _ => std::fs::read(root().join(&path)).expect(&path),
        };
        let has = |word: &str| memchr::memmem::find(&bytes, word.as_bytes()).is_some();
        for word in FOREIGN {
            assert!(!has(word), "{path} contains {word}");
        }
        assert!(HOME_ALLOWED.contains(&path.as_str()) || !has(HOME), "{path} contains {HOME}");
    }
}

fn unpack(path: &str) -> Vec<u8> {
    match path.strip_prefix("testdata/") {
        Some(path) => unpacked(path),
        None => zstd::decode_all(std::fs::File::open(root().join(path)).expect(path)).expect(path),
    }
}

/// Most files that the repository may hold: many small inputs of one test are one archive or transcript.
const MOST_FILES: usize = 1580;

#[test]
fn the_repository_is_not_cluttered() {
    let files = files().len();
    assert!(files <= MOST_FILES, "{files} files; join small ones");
}

#[test]
fn crates_come_from_the_public_registry() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("there is a lock file");
    for line in lock.lines().filter(|line| line.starts_with("source = ")) {
        assert_eq!(line, r#"source = "registry+https://github.com/rust-lang/crates.io-index""#);
    }
}

/// What no workflow runs is checked only when somebody remembers to.
#[test]
fn the_workflows_run_every_check() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect(path);
    let (makefile, workflows) =
        (read("Makefile"), [read(".github/workflows/test.yml"), read(".github/workflows/release.yml")].concat());
    let run: BTreeSet<_> =
        workflows.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("run: make ")).collect();
    assert!(run.iter().all(|target| makefile.contains(&format!("\n{target}:"))), "{run:?}");
    for check in ["test", "lint", "licences", "docs", "package-test", "python-lint", "python-package-test", "notebooks"]
    {
        assert!(run.contains(check), "no workflow runs make {check}");
    }
}

/// One page may be of two formats, if its title names both.
#[test]
fn every_format_has_a_page() {
    let pages = std::fs::read_dir(root().join("docs/formats")).expect("the pages").flatten();
    let titles = pages.map(|page| std::fs::read_to_string(page.path()).expect("UTF-8"));
    let titles: Vec<String> = titles.map(|text| text.lines().next().unwrap_or_default().to_string()).collect();
    for format in Format::ALL {
        let name = format!("`{}`", format.name());
        assert_eq!(titles.iter().filter(|title| title.contains(&name)).count(), 1, "pages with {name} as their title");
    }
}
