//! The package `latscope` of Python, as users import it: its own tests compare it with the program, and with other engines.

use crate::program::{LATSCOPE, command, end, root};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// The package in a folder, laid together as a wheel does: the native half is what the workspace was built to.
pub fn package() -> Option<TempDir> {
    let native = Path::new(LATSCOPE).with_file_name("liblatscope_native.so");
    if !native.is_file() {
        skipped!("the native half of the Python package is not built (cargo build --workspace)");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("latscope");
    std::fs::create_dir(&package).unwrap();
    for file in std::fs::read_dir(root().join("python/latscope")).unwrap().flatten() {
        if file.path().is_file() {
            std::fs::copy(file.path(), package.join(file.file_name())).unwrap();
        }
    }
    std::os::unix::fs::symlink(native, package.join("_native.abi3.so")).unwrap();
    Some(folder)
}

/// A hint for what fails: a build of the program alone leaves the native half as it was.
fn stale(package: &TempDir) -> &'static str {
    let built = |path: &Path| path.metadata().and_then(|file| file.modified()).expect("a built file");
    let native = built(&package.path().join("latscope/_native.abi3.so"));
    // One build links both within minutes.
    let is_stale = native + Duration::from_secs(900) < built(Path::new(LATSCOPE));
    if is_stale { "the native half is older than the program: cargo build --release --workspace" } else { "" }
}

/// A Python that has all of these modules.
fn python_with(modules: &[&str]) -> Option<OsString> {
    let Some(python) = std::env::var_os("LATSCOPE_PYTHON") else {
        skipped!("LATSCOPE_PYTHON is not set; the Python package is not tested");
        return None;
    };
    let imports = "import importlib.util as i, sys; sys.exit(' '.join(m for m in sys.argv[1:] if not i.find_spec(m)))";
    let lacking = end(command(&python).args(["-c", imports]).args(modules), b"").err;
    if !lacking.trim().is_empty() {
        skipped!("Python lacks {}; the Python package is not tested", lacking.trim());
        return None;
    }
    Some(python)
}

#[test]
fn python_sees_what_the_program_sees() {
    let Some(python) = python_with(&["pytest", "numpy", "pyarrow", "polars", "duckdb"]) else { return };
    let Some(package) = package() else { return };
    let mut pytest = command(python);
    pytest.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "python/tests"]);
    pytest.env("PYTHONPATH", package.path()).env("PYTHONDONTWRITEBYTECODE", "1").env("LATSCOPE", LATSCOPE);
    let ended = end(&mut pytest, b"");
    let out = String::from_utf8_lossy(&ended.out).into_owned();
    assert_eq!(ended.status, Some(0), "{out}{}{}", ended.err, stale(&package));
    out.lines().filter(|line| line.starts_with("SKIPPED")).for_each(|line| skipped!("{line}"));
}
