//! The Debian package, installed and used in a fresh Debian.

use crate::program::{LATSCOPE, command, end, installed, root};

#[test]
fn the_package_works_in_a_fresh_debian() {
    if !["dpkg-deb", "dpkg-shlibdeps", "strip"].into_iter().all(installed) {
        skipped!("the tools that make a Debian package are not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = |path: &str| command(root().join(path));
    // The program that is there; the one that is released is optimised as a whole, which takes minutes.
    let made =
        end(script("packaging/deb/build.sh").arg(LATSCOPE).arg(folder.path()).env("DEB_COMPRESSION", "none"), b"");
    let package = made.success();
    let trace = root().join("testdata/perf_script/story_2s.txt.gz");
    let used = end(script("packaging/deb/test.sh").arg(package.trim_end()).arg(trace), b"").success();
    used.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| skipped!("{line}"));
    assert!(used.contains("\npassed: ") || used.starts_with("skipped: "), "{used}");
}
