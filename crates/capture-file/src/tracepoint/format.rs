//! The tracing data that perf stores beside the samples: the kernel's own description of every recorded tracepoint,
//! the `format` files of tracefs. All offsets of fields come from here, since they move from kernel to kernel.

use super::Endian;

/// No recording has more tracepoints, systems or fields than this; a file that says so is damaged.
const COUNT_LIMIT: u32 = 65_536;
/// The longest name of a system and the longest format text; the kernel's are far shorter.
const NAME_LIMIT: usize = 256;
const TEXT_LIMIT: usize = 1 << 20;

/// Where a field lies in the raw bytes of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldLayout {
    /// Offset in bytes.
    pub at: u16,
    /// Size in bytes, of all elements of an array.
    pub size: u16,
    /// Whether its sign bit counts.
    pub signed: bool,
}

/// A tracepoint as the kernel describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tracepoint {
    /// Its group, `block`.
    pub system: String,
    /// Its name, `block_rq_issue`.
    pub name: String,
    /// The number in the first two bytes of its samples; differs from boot to boot.
    pub id: u16,
    /// Names and places of its own fields, in the kernel's order.
    pub fields: Vec<(String, FieldLayout)>,
}

impl Tracepoint {
    /// The place of a field.
    pub fn field(&self, name: &str) -> Option<FieldLayout> {
        self.fields.iter().find(|(known, _)| known == name).map(|&(_, place)| place)
    }
}

/// Goes through tracing data.
pub struct Cursor<'a> {
    /// Byte order of the machine that recorded.
    pub endian: Endian,
    /// What is left.
    pub bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// So many bytes; `None` where fewer are left.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    /// Four bytes as a number.
    pub fn u32(&mut self) -> Option<u32> {
        let endian = self.endian;
        self.take(4).and_then(|bytes| endian.u32(bytes, 0))
    }

    /// A number of things that is plausible.
    pub fn count(&mut self) -> Option<u32> {
        self.u32().filter(|&count| count <= COUNT_LIMIT)
    }

    /// Bytes behind their length.
    pub fn block(&mut self) -> Option<&'a [u8]> {
        let length = self.u64()?;
        self.take(usize::try_from(length).ok()?)
    }

    /// A text that ends with a zero.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(0, self.bytes)?;
        let text = self.take(end)?;
        self.take(1)?;
        Some(text)
    }

    /// Two bytes as a number.
    pub fn u16(&mut self) -> Option<u16> {
        let endian = self.endian;
        self.take(2).and_then(|bytes| endian.u16(bytes, 0))
    }

    /// Eight bytes as a number.
    pub fn u64(&mut self) -> Option<u64> {
        let endian = self.endian;
        self.take(8).and_then(|bytes| endian.u64(bytes, 0))
    }
}

/// The tracepoints in tracing data; those before the damage when it is damaged.
pub fn parse(bytes: &[u8]) -> Vec<Tracepoint> {
    let mut tracepoints = Vec::new();
    let _ = parse_into(bytes, &mut tracepoints);
    tracepoints
}

fn parse_into(bytes: &[u8], tracepoints: &mut Vec<Tracepoint>) -> Option<()> {
    let mut cursor = Cursor { endian: Endian { big: false }, bytes };
    if cursor.take(10)? != b"\x17\x08\x44tracing" {
        return None;
    }
    cursor.text()?; // version
    cursor.endian.big = cursor.take(1)? == [1];
    cursor.take(1 + 4)?; // size of a long, size of a page
    cursor.take(b"header_page\0".len())?;
    cursor.block()?;
    cursor.take(b"header_event\0".len())?;
    cursor.block()?;
    for _ in 0..cursor.count()? {
        cursor.block()?; // ftrace's own events
    }
    systems(&mut cursor, tracepoints)
}

/// The events of each system; `None` where they end before their end.
pub fn systems(cursor: &mut Cursor, tracepoints: &mut Vec<Tracepoint>) -> Option<()> {
    for _ in 0..cursor.count()? {
        let system = String::from_utf8_lossy(cursor.text().filter(|name| name.len() <= NAME_LIMIT)?).into_owned();
        for _ in 0..cursor.count()? {
            let text = String::from_utf8_lossy(cursor.block().filter(|text| text.len() <= TEXT_LIMIT)?);
            tracepoints.extend(tracepoint(&system, &text));
            if tracepoints.len() >= COUNT_LIMIT as usize {
                return None;
            }
        }
    }
    Some(())
}

/// Reads one `format` file.
pub fn tracepoint(system: &str, text: &str) -> Option<Tracepoint> {
    let mut found = Tracepoint { system: system.into(), name: String::new(), id: 0, fields: Vec::new() };
    let mut id = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("name:") {
            found.name = name.trim().into();
        } else if let Some(number) = line.strip_prefix("ID:") {
            id = number.trim().parse().ok();
        } else if let Some(rest) = line.strip_prefix("field:") {
            found.fields.extend(field(rest).filter(|(name, _)| !name.starts_with("common_")));
        } else if line.starts_with("print fmt:") {
            break;
        }
    }
    found.id = id?;
    Some(found)
}

/// `unsigned int nr_sector; offset:24; size:4; signed:0;`, with tabs between.
fn field(text: &str) -> Option<(String, FieldLayout)> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next()?;
    let name = declaration.split('[').next()?.trim_end();
    // `__data_loc char[] cmd` has its brackets before the name.
    let name = if declaration.starts_with("__") && declaration.contains("[]") { declaration } else { name };
    let name = name.rsplit([' ', '*']).next()?;
    let mut place = FieldLayout { at: 0, size: 0, signed: false };
    let (mut has_at, mut has_size) = (false, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", number)) => (place.at, has_at) = (number.parse().ok()?, true),
            Some(("size", number)) => (place.size, has_size) = (number.parse().ok()?, true),
            Some(("signed", number)) => place.signed = number == "1",
            _ => {}
        }
    }
    (has_at && has_size).then(|| (name.to_string(), place))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUE: &str = "name: block_rq_issue\nID: 2104\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:int error;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\
        \tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;\n\
        \tfield:const char * filename;\toffset:64;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"%d,%d field:x\", REC->dev\n";

    #[test]
    fn a_format_file_has_name_number_and_fields() {
        let tracepoint = tracepoint("block", ISSUE).unwrap();
        assert_eq!((&*tracepoint.name, tracepoint.id), ("block_rq_issue", 2104));
        let names: Vec<_> = tracepoint.fields.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["dev", "error", "rwbs", "cmd", "filename"]);
        assert_eq!(tracepoint.field("rwbs"), Some(FieldLayout { at: 34, size: 10, signed: false }));
        assert_eq!(tracepoint.field("error"), Some(FieldLayout { at: 28, size: 4, signed: true }));
    }

    #[test]
    fn tracing_data_cut_anywhere_yields_what_is_whole() {
        let mut data = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0header_page\0".to_vec();
        data.extend(3u64.to_le_bytes());
        data.extend(b"abcheader_event\0");
        data.extend(0u64.to_le_bytes());
        data.extend(0u32.to_le_bytes());
        data.extend(1u32.to_le_bytes());
        data.extend(b"block\0");
        data.extend(2u32.to_le_bytes());
        let mut first_ends = 0;
        for _ in 0..2 {
            data.extend((ISSUE.len() as u64).to_le_bytes());
            data.extend(ISSUE.as_bytes());
            first_ends = if first_ends == 0 { data.len() } else { first_ends };
        }
        for end in 0..=data.len() {
            let whole = usize::from(end >= first_ends) + usize::from(end == data.len());
            assert_eq!(parse(&data[..end]).len(), whole, "cut at {end}");
        }
    }
}
