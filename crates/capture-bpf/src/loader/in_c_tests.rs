//! What the headers in `bpf/` say, asked of a C compiler: there is one wherever libbpf was built.

use std::io::Write;
use std::process::{Command, Stdio};

const PRELUDE: &str = "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n\
    typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef int32_t s32;\n\
    typedef unsigned long long u64; typedef long long s64;\n";

/// The values of these expressions, with these headers of `bpf/`.
pub fn evaluate(headers: &[&str], expressions: &[&str]) -> Vec<u64> {
    let print = |expression: &&str| format!("printf(\"%llu\\n\", (u64)({expression}));\n");
    run(headers, "", &expressions.iter().map(print).collect::<String>())
}

/// The values of an expression of `value` for all of these values.
pub fn evaluate_for(headers: &[&str], expression: &str, values: &[u64]) -> Vec<u64> {
    let values: String = values.iter().map(|value| format!("{value}ULL,")).collect();
    let table = format!("static const u64 values[] = {{{values}}};\n");
    let each = "for (size_t at = 0; at < sizeof(values) / sizeof(*values); at++) { u64 value = values[at];";
    run(headers, &table, &format!("{each} printf(\"%llu\\n\", (u64)({expression})); }}\n"))
}

fn run(headers: &[&str], declarations: &str, statements: &str) -> Vec<u64> {
    let mut source = PRELUDE.to_owned();
    headers.iter().for_each(|header| source += &format!("#include \"{header}\"\n"));
    source += &format!("{declarations}int main(void) {{\n{statements}return 0; }}\n");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let headers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf");
    let mut compiler = Command::new("cc")
        .args(["-x", "c", "-O0", "-I", headers, "-o"])
        .arg(&program)
        .arg("-")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
    let printed = Command::new(program).output().unwrap().stdout;
    String::from_utf8(printed).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

/// Holds the layout of a shared struct against that of C.
pub fn assert_layout(headers: &[&str], name: &str, size: usize, layout: &[(&str, usize, usize)]) {
    let mut asked = vec![format!("sizeof(struct {name})")];
    let mut expected = vec![size as u64];
    for &(field, offset, size) in layout {
        asked.push(format!("offsetof(struct {name}, {field})"));
        asked.push(format!("sizeof(((struct {name} *)0)->{field})"));
        expected.extend([offset as u64, size as u64]);
    }
    let asked: Vec<_> = asked.iter().map(String::as_str).collect();
    assert_eq!(evaluate(headers, &asked), expected, "{name}");
}
