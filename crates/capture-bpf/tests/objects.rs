//! The BPF objects that are checked in are those that their sources make.
#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

#[macro_use]
#[path = "../../../tests/skip.rs"]
mod skip;

use std::path::{Path, PathBuf};
use std::process::Command;

fn objects(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries
        .flat_map(|path| if path.is_dir() { objects(&path) } else { vec![path] })
        .filter(|path| path.to_string_lossy().ends_with(".bpf.o.zst"))
        .collect();
    found.sort();
    found
}

#[test]
fn checked_in_objects_are_built_from_their_sources() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    for (needed, package) in [
        ("/usr/bin/clang-14", "clang-14"),
        ("/usr/bin/llvm-strip-14", "llvm-14"),
        ("/usr/include/bpf/bpf_core_read.h", "libbpf-dev"),
        ("/usr/bin/zstd", "zstd"),
    ] {
        if !Path::new(needed).exists() {
            skipped!("needs the package {package}");
            return;
        }
    }
    let built = tempfile::tempdir().unwrap();
    let made = Command::new(root.join("xtask/bpf.sh")).arg(built.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (checked_in, built) = (objects(&root.join("bpf")), objects(built.path()));
    let names =
        |paths: &[PathBuf]| -> Vec<_> { paths.iter().map(|path| path.file_name().unwrap().to_owned()).collect() };
    let mut expected = names(&checked_in);
    expected.sort();
    assert_eq!(expected, names(&built));
    for path in built {
        let ours = checked_in.iter().find(|ours| ours.file_name() == path.file_name()).unwrap();
        let [ours_unpacked, built] =
            [ours, &path].map(|path| zstd::decode_all(&*std::fs::read(path).unwrap()).unwrap());
        let same = ours_unpacked == built;
        assert!(same, "{} is not what its source makes: run `make bpf`", ours.display());
        let text = String::from_utf8_lossy(&built).into_owned();
        assert!(!text.contains(&*root.canonicalize().unwrap().to_string_lossy()), "no path of this machine");
    }
}
