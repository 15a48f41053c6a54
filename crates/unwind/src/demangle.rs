//! Names of functions of C++ and Rust as their sources have them, bounded in time and length: symbol tables are hostile.

use std::fmt::{Error, Result, Write};

/// A mangled name longer than this stays as it is.
const LONGEST: usize = 8192;
/// Letters of a demangled name; a few bytes of substitutions can ask for gigabytes.
const LONGEST_DEMANGLED: usize = 1024;
/// Levels of nesting in a name.
const DEEPEST: u32 = 128;

/// Takes what fits, then refuses.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> Result {
        let room = LONGEST_DEMANGLED - self.0.len();
        let fits = (0..=room.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        self.0.push_str(&text[..fits]);
        if fits == text.len() { Ok(()) } else { Err(Error) }
    }
}

/// The name in the source of what the compiler named so: paths and arguments of templates, no parameters, no hash.
pub fn demangle(symbol: &str) -> String {
    let mut text = Bounded(String::new());
    if symbol.len() <= LONGEST {
        if let Ok(name) = rustc_demangle::try_demangle(symbol) {
            // A name cut at the limit is still the best there is.
            let _ = write!(text, "{name:#}");
        } else if symbol.starts_with("_Z") {
            let parse = cpp_demangle::ParseOptions::default().recursion_limit(DEEPEST);
            let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type().recursion_limit(DEEPEST);
            if let Ok(name) = cpp_demangle::Symbol::new_with_options(symbol, &parse) {
                let _ = name.structured_demangle(&mut text, &options);
            }
        }
    }
    if text.0.is_empty() { symbol.to_string() } else { text.0 }
}

#[cfg(test)]
mod tests {
    use super::demangle;

    /// Expected as `c++filt -p` and `rustfilt` print them.
    #[test]
    fn names_are_those_of_the_source() {
        for (symbol, name) in [
            ("archive_scan", "archive_scan"),
            ("_ZN7archive4scanIiEEvSt6vectorIiSaIiEE", "archive::scan<int>"),
            ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_Z", "_Z"),
        ] {
            assert_eq!(demangle(symbol), name);
        }
    }

    #[test]
    fn hostile_names_are_bounded() {
        // Each substitution doubles what came before.
        let bomb = format!("_Z1fI{}E", "S_".repeat(4000));
        assert!(demangle(&bomb).len() <= bomb.len().max(1024));
        let deep = format!("_Z{}f", "N".repeat(8000));
        assert_eq!(demangle(&deep), deep);
        assert_eq!(demangle(&"x".repeat(70_000)).len(), 70_000);
    }
}
