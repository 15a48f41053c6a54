//! Deflates the page of reports, which is the largest text in the program.

use flate2::{Compression, write::DeflateEncoder};
use std::io::Write;
use std::path::Path;

const PAGE: &str = "src/html/template.html";

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed={PAGE}");
    let folder = std::env::var_os("OUT_DIR").ok_or_else(|| std::io::Error::other("cargo sets OUT_DIR"))?;
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
    deflated.write_all(&std::fs::read(PAGE)?)?;
    std::fs::write(Path::new(&folder).join("template.html.deflated"), deflated.finish()?)
}
