//! The arguments of a call by name, as the kernel's own description of its tracepoint has them.

use super::calls::Known;
use super::shared::ARGUMENTS;
use super::tracing::tracefs;
use std::fmt::Write;

/// Names and types of the arguments of a call.
pub struct Arguments(Vec<Argument>);

/// An argument that is a number.
struct Argument {
    name: String,
    at: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    I32,
    U32,
    I64,
}

impl Arguments {
    /// The arguments of a call; without tracefs those alone that latscope knows by itself.
    pub fn new(known: &Known, tracepoint: &str) -> Arguments {
        let format = tracefs().map(|root| root.join(format!("sys_enter_{tracepoint}")).join("format"));
        match format.and_then(|path| std::fs::read_to_string(path).ok()) {
            Some(format) => Arguments(described(&format)),
            None => {
                let of = |name: &str, at: Option<usize>| Some(Argument { name: name.into(), at: at?, kind: Kind::I64 });
                let shape = &known.shape;
                Arguments([of("size", shape.size), of("offset", shape.offset)].into_iter().flatten().collect())
            }
        }
    }

    /// `name=number` for each that is no pointer.
    pub fn text(&self, values: &[u64; ARGUMENTS], to: &mut String) {
        to.clear();
        for argument in &self.0 {
            let Some(&value) = values.get(argument.at) else { continue };
            let value = match argument.kind {
                Kind::I32 => i64::from(value as i32),
                Kind::U32 => i64::from(value as u32),
                Kind::I64 => value as i64,
            };
            let blank = if to.is_empty() { "" } else { " " };
            // Writing to a text cannot fail.
            let _ = write!(to, "{blank}{}={value}", argument.name);
        }
    }
}

/// The numbers among the fields of a tracepoint; the first field of its own is the number of the call.
fn described(format: &str) -> Vec<Argument> {
    let fields = format.lines().filter_map(|line| line.trim_start().strip_prefix("field:")?.split_once(';'));
    let own = fields.map(|(field, _)| field).skip_while(|field| !field.ends_with("__syscall_nr")).skip(1);
    let argument = |(at, field): (usize, &str)| {
        let (of, name) = field.rsplit_once(' ')?;
        let words: Vec<&str> = of.split_whitespace().filter(|word| *word != "const").collect();
        let kind = match &words[..] {
            _ if field.contains('*') => return None,
            ["int"] | ["pid_t" | "clockid_t" | "key_t" | "timer_t" | "key_serial_t" | "rwf_t"] => Kind::I32,
            ["unsigned" | "u32" | "umode_t" | "uid_t" | "gid_t" | "qid_t" | "uint32_t" | "__u32"]
            | ["unsigned", "int"] => Kind::U32,
            _ => Kind::I64,
        };
        Some(Argument { name: name.to_owned(), at, kind })
    };
    own.enumerate().filter_map(argument).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_width_of_their_type() {
        let format = "name: sys_enter_openat\nformat:\n\tfield:unsigned short common_type;\toffset:0;\n\n\
                      \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
                      \tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n\
                      \tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;\n\
                      \tfield:int flags;\toffset:32;\tsize:8;\tsigned:0;\n\
                      \tfield:umode_t mode;\toffset:40;\tsize:8;\tsigned:0;\n\nprint fmt: \"dfd: 0x%08lx\"\n";
        let arguments = Arguments(described(format));
        let mut text = String::new();
        arguments.text(&[0xffff_ff9c, 0x7fff_0000, 0o100, 0o644, 9, 9], &mut text);
        assert_eq!(text, "dfd=-100 flags=64 mode=420");
        assert!(described("").is_empty());
    }
}
