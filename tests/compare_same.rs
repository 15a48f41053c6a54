//! One measurement is no two runs, whatever it is called.

use crate::program::{latscope, testdata};
use std::fs;

#[test]
fn one_measurement_is_refused_as_two_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (a, b) = (path("a.txt"), path("b.txt"));
    for (from, to) in [("volA", &a), ("volB", &b), ("volA", &path("copy.txt"))] {
        fs::copy(testdata("compare").join(format!("{from}.txt")), to).unwrap();
    }
    std::os::unix::fs::symlink(&a, path("link.txt")).unwrap();
    fs::hard_link(&a, path("hard.txt")).unwrap();
    fs::create_dir_all(path("lab/sub")).unwrap();
    let ns = ["--unitstime", "ns"];
    for (to, more) in
        [("a.lat", &[][..]), ("a.parquet", &["--series", "-i", "100ms"]), ("a2.parquet", &["--series", "-i", "100ms"])]
    {
        latscope(&[&["convert", "-r", &a, "-w", &path(to)], more, &ns].concat()).success();
    }
    for (from, job, turn) in [(&a, "paced", 1), (&b, "paced", 2)] {
        let to = path(&format!("lab/{job}.mnt.{turn}.lat"));
        latscope(&[&["convert", "-r", from, "-w", &to], &ns[..]].concat()).success();
    }
    let around = path("lab/../a.txt");
    let sides: [&[&str]; 9] = [
        &[&a, &a],
        &[&a, &b, &a],
        &[&a, &around],
        &[&a, &path("link.txt")],
        &[&a, &path("hard.txt")],
        &[&a, &path("copy.txt")],
        &[&a, &path("a.lat")],
        &[&path("a.parquet"), &path("a2.parquet")],
        &[&path("lab"), &path("lab/sub/..")],
    ];
    let groups = [format!("x={a},{around}"), format!("y={b}"), format!("x={a}"), format!("y={b},{}", path("copy.txt"))];
    let groups: [&[&str]; 2] =
        [&["--group", &groups[0], "--group", &groups[1]], &["--group", &groups[2], "--group", &groups[3]]];
    for words in sides.into_iter().chain(groups) {
        let printed = latscope(&[&["compare"], words, &ns[..]].concat()).failure(2);
        assert!(printed.contains("every run in a comparison needs a measurement of its own"), "{words:?}: {printed}");
    }
    let printed = latscope(&["compare", &a, &around]).failure(2);
    assert!(printed.contains(&format!("{a} and {around} are the same file")), "{printed}");
    // Neither parts of one trace nor two volumes are repetitions.
    for words in [&[&a[..], "--filter", "lat > 400us", "--filter", "lat <= 400us"][..], &[&a[..], &b]] {
        latscope(&[&["compare"], words, &ns[..]].concat()).success();
    }
}
