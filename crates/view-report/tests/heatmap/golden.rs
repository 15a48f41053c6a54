//! Pictures against the ones that somebody has looked at.

use std::path::PathBuf;

/// Compares with `testdata/<name>.svg`; with LATSCOPE_BLESS=1 writes it instead. The bytes of the images are
/// left out: another version of deflate may pack them otherwise.
#[track_caller]
pub fn same(name: &str, svg: &str) {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../testdata", &format!("{name}.svg")].iter().collect();
    if std::env::var_os("LATSCOPE_BLESS").is_some() {
        std::fs::write(&path, svg).expect("testdata can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let without_image = |svg: &str| -> String {
        let mut parts = svg.split("base64,");
        let head = parts.next().unwrap_or_default().to_string();
        parts.fold(head, |text, part| text + part.split_once('"').map_or("", |(_, rest)| rest))
    };
    let (found, expected) = (without_image(svg), without_image(&expected));
    for (line, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {} of {name}.svg; LATSCOPE_BLESS=1 accepts the new picture", line + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{name}.svg; LATSCOPE_BLESS=1 accepts the new picture");
}
