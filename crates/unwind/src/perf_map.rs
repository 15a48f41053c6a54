//! Perf maps: text files in which a runtime writes where it put the code that it compiled, `START LENGTH NAME` a line with
//! numbers in hexadecimal, with `0x` as the JVM writes them or without. A process writes its own, so it may hold anything.

/// Bytes of a map that are read; a large JVM writes 10 MB.
pub const LARGEST: u64 = 64 << 20;
/// Functions of a map.
const MOST: usize = 1 << 20;
/// A name is cut here, in bytes.
const LONGEST_NAME: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Function {
    start: u64,
    end: u64,
    /// Where its name is, and how long.
    name: (u32, u32),
}

/// Code that was compiled at run time, by address.
#[derive(Default, Debug)]
pub struct PerfMap {
    /// By start; of those with the same start, the one that was written first comes first.
    functions: Vec<Function>,
    names: String,
}

impl PerfMap {
    /// Adds whole lines; others than `START LENGTH NAME` are passed over.
    pub fn add(&mut self, text: &[u8]) {
        let known = self.functions.len();
        for line in text.split(|&byte| byte == b'\n') {
            if self.functions.len() >= MOST {
                break;
            }
            let Some((start, rest)) = hexadecimal(line) else { continue };
            let Some((length, name)) = hexadecimal(rest) else { continue };
            let name = &name[..name.len().min(LONGEST_NAME)];
            let Some(end) = start.checked_add(length).filter(|&end| end > start) else { continue };
            let at = self.names.len();
            self.names.push_str(String::from_utf8_lossy(name).trim());
            if self.names.len() == at {
                continue;
            }
            // Less than 2^20 names of 3 kB, as the worst is with replaced letters, fit into 32 bits.
            let name = (at as u32, (self.names.len() - at) as u32);
            self.functions.push(Function { start, end, name });
        }
        if self.functions.len() > known {
            self.functions.sort_by_key(|function| function.start);
        }
    }

    /// The function at this address: where code was replaced, the one that was written last.
    pub fn find(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|function| function.start <= address);
        // What was replaced by smaller pieces can have its start further back.
        let found =
            self.functions[after.saturating_sub(8)..after].iter().rev().find(|function| address < function.end)?;
        self.names.get(found.name.0 as usize..)?.get(..found.name.1 as usize)
    }

    /// Functions in it.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.functions.len() * size_of::<Function>() + self.names.len()
    }
}

/// The number at the start of a line, and what follows the spaces after it.
fn hexadecimal(line: &[u8]) -> Option<(u64, &[u8])> {
    let line = line.trim_ascii_start();
    let digits = line.strip_prefix(b"0x").or(line.strip_prefix(b"0X")).unwrap_or(line);
    let end = digits.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(digits.len());
    if end == 0 || end > 16 || !digits.get(end)?.is_ascii_whitespace() {
        return None;
    }
    let number = u64::from_str_radix(std::str::from_utf8(&digits[..end]).ok()?, 16).ok()?;
    Some((number, digits[end..].trim_ascii_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_numbers_and_names_with_spaces() {
        let mut map = PerfMap::default();
        map.add(b"7f1000 20 py::load:/srv/a b.py\n0x7f2000 0x10 void Rd.main(java.lang.String[])\r\n");
        assert_eq!(map.find(0x7f1000), Some("py::load:/srv/a b.py"));
        assert_eq!(map.find(0x7f101f), Some("py::load:/srv/a b.py"));
        assert_eq!(map.find(0x7f1020), None);
        assert_eq!(map.find(0x7f0fff), None);
        assert_eq!(map.find(0x7f200f), Some("void Rd.main(java.lang.String[])"));
    }

    #[test]
    fn replaced_code_has_its_last_name() {
        let mut map = PerfMap::default();
        map.add(b"1000 100 old\n");
        map.add(b"1000 100 new\n1040 10 inner\n");
        assert_eq!(map.find(0x1001), Some("new"));
        assert_eq!(map.find(0x1044), Some("inner"));
        assert_eq!(map.find(0x1050), Some("new"));
    }

    #[test]
    fn hostile_lines_are_passed_over() {
        let mut map = PerfMap::default();
        map.add(b"\0\xff\n1000\n1000 \n1000 10\n1000 10 \nffffffffffffffff 10 over\n1 0 empty\n-1 2 x\n 12345678901234567 1 x\nroot:x:0:0:root\n");
        assert_eq!(map.len(), 0);
        map.add(&[b"1000 10 ", "é".repeat(100_000).as_bytes(), b"\n2000 10 \xff\xfe\n"].concat());
        assert!(map.find(0x1000).unwrap().len() <= LONGEST_NAME + 3);
        assert_eq!(map.find(0x2000), Some("\u{fffd}\u{fffd}"));
    }
}
