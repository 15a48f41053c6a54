//! Lines of ioping.

/// A line about one request: `4 KiB <<< /tmp (ext4 /dev/vda1 39.3 GiB): request=2 time=636.9 us (slow)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Request<'a> {
    pub write: bool,
    pub size: u64,
    pub path: &'a [u8],
    pub device: &'a [u8],
    pub latency_ns: u64,
    notice: Option<&'a [u8]>,
    pub error: Option<&'a [u8]>,
}

impl Request<'_> {
    /// A request line of any version, with the time of day in front of it or without.
    pub fn parse(line: &[u8]) -> Option<Request<'_>> {
        // The path may hold anything, so the numbers are looked for from the end.
        let at = memchr::memmem::rfind(line, b": request=")?;
        let (front, back) = (&line[..at], &line[at + b": request=".len()..]);
        let time = memchr::memmem::find(back, b" time=")?;
        if time == 0 || !back[..time].iter().all(u8::is_ascii_digit) {
            return None;
        }
        let back = &back[time + b" time=".len()..];
        let (value, notice) = match memchr::memchr(b'(', back) {
            Some(at) => (&back[..at], Some(back[at + 1..].strip_suffix(b")")?)),
            None => (back, None),
        };
        let latency_ns = amount(value.trim_ascii(), TIMES)?;
        let (before, write, after) = [(" <<< ", false), (" >>> ", true), (" from ", false), (" to ", true)]
            .into_iter()
            .filter_map(|(sign, write)| {
                let at = memchr::memmem::find(front, sign.as_bytes())?;
                Some((at, write, at + sign.len()))
            })
            .min()
            .map(|(at, write, after)| (&front[..at], write, &front[after..]))?;
        // The last two words, behind a time of day of any form.
        let mut words = before.rsplitn(3, |&byte| byte == b' ');
        let (unit, number) = (words.next()?, words.next()?);
        let size = amount(&[number, b" ", unit].concat(), SIZES)?;
        let open = memchr::memmem::rfind(after, b" (")?;
        let (path, place) = (&after[..open], after[open + 2..].strip_suffix(b")")?);
        let device = place.split(|&byte| byte == b' ').nth(1).unwrap_or(b"");
        let error =
            notice.filter(|notice| notice.first() == Some(&b'E') && notice.iter().all(u8::is_ascii_alphanumeric));
        Some(Request { write, size, path, device, latency_ns, notice, error })
    }

    /// Whether ioping left it out of its own statistics, though it went well.
    pub fn is_left_out(&self) -> bool {
        matches!(self.notice, Some(b"warmup" | b"too fast" | b"too slow"))
    }
}

/// What else ioping prints.
pub fn is_summary(line: &[u8]) -> bool {
    let has = |word: &str| memchr::memmem::find(line, word.as_bytes()).is_some();
    line.is_empty()
        || line.starts_with(b"--- ")
        || line.starts_with(b"min/avg/max/mdev = ")
        || has(" requests completed in ")
        || has("generated ") && has(" requests in ")
        || line.starts_with(b"ioping: ")
}

const TIMES: &[(&str, f64)] =
    &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("hour", 3600e9), ("day", 86_400e9)];
const SIZES: &[(&str, f64)] = &[
    ("b", 1.0),
    ("bytes", 1.0),
    ("kib", 1024.0),
    ("mib", 1048576.0),
    ("gib", 1073741824.0),
    ("kb", 1024.0),
    ("mb", 1048576.0),
    ("gb", 1073741824.0),
];

/// A number and its unit.
fn amount(text: &[u8], units: &[(&str, f64)]) -> Option<u64> {
    let (number, unit) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    let factor = units.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name))?.1;
    let digits = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = number.parse::<f64>().ok().filter(|_| digits)? * factor;
    (value < i64::MAX as f64).then_some(value.round() as u64)
}

/// A raw line: 4 columns (0.6), 8 (0.7 to 0.9) or 10 (1.0 on).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Raw {
    /// Requests; of 4 columns, 1 when there can be only one.
    pub count: u64,
    /// The sum of their latencies, in `unit_ns`.
    pub sum: u64,
    min: u64,
    avg: u64,
    max: u64,
    bytes_per_s: u64,
    unit_ns: u64,
    /// Since the line before.
    pub wall_ns: Option<u64>,
}

impl Raw {
    /// A raw line: whole numbers, except for the deviation, which may be no number at all.
    pub fn parse(line: &[u8]) -> Option<Raw> {
        let mut columns = [0u64; 10];
        let mut len = 0;
        for word in line.split(|&byte| byte == b' ') {
            let deviation = matches!(len, 3 | 7) && matches!(word, b"nan" | b"-nan");
            let number = if deviation { 0 } else { whole(word)? };
            *columns.get_mut(len)? = number;
            len += 1;
        }
        match len {
            4 => {
                let [min, avg, max, ..] = columns;
                let one = u64::from(min == max);
                let raw =
                    Raw { count: one.max(2), sum: avg, min, avg, max, bytes_per_s: 0, unit_ns: 1000, wall_ns: None };
                (min <= avg && avg <= max).then_some(Raw { count: if one == 1 { 1 } else { raw.count }, ..raw })
            }
            8 | 10 => {
                let [count, sum, iops, bytes_per_s, min, avg, max, ..] = columns;
                let unit_ns = unit_ns(count, sum, iops)?.unwrap_or(if len == 10 { 1 } else { 1000 });
                let wall_ns = (len == 10).then_some(columns[9]);
                // The mean is rounded.
                (min <= avg.saturating_add(1) && avg <= max.saturating_add(1)).then_some(Raw {
                    count,
                    sum,
                    min,
                    avg,
                    max,
                    bytes_per_s,
                    unit_ns,
                    wall_ns,
                })
            }
            _ => None,
        }
    }

    /// Whether it is about several requests, of which only the mean is known.
    pub fn is_window(&self) -> bool {
        self.count > 1 && self.min != self.max
    }

    /// The latency, or the mean of them.
    pub fn latency_ns(&self) -> u64 {
        let latency = if self.count == 1 { self.max } else { self.avg };
        latency.saturating_mul(self.unit_ns).min(i64::MAX as u64)
    }

    /// The sum of all latencies.
    pub fn sum_ns(&self) -> u64 {
        self.sum.saturating_mul(self.unit_ns).min(i64::MAX as u64)
    }

    /// What it sums up.
    pub fn total(&self) -> super::Sum {
        super::Sum { count: self.count, sum: self.sum, min: self.min, max: self.max }
    }

    /// Bytes of a request.
    pub fn size(&self) -> Option<u64> {
        if self.bytes_per_s == 0 || self.count == 0 {
            return None;
        }
        let bytes = self.bytes_per_s as f64 * (self.sum as f64 * self.unit_ns as f64) / self.count as f64 / 1e9;
        let rounded = bytes.round();
        // Speeds are rounded to whole bytes per second, so sizes of slow requests are too: to a multiple of 512.
        let sectors = (bytes / 512.0).round() * 512.0;
        let error = self.sum as f64 * self.unit_ns as f64 / self.count as f64 / 1e9;
        Some(if sectors > 0.0 && (sectors - bytes).abs() <= error + 0.5 { sectors } else { rounded } as u64)
    }
}

/// The unit in which requests per second and times agree; `Some(None)` when they say nothing, `None` when they do not fit.
fn unit_ns(count: u64, sum: u64, iops: u64) -> Option<Option<u64>> {
    if count == 0 || sum == 0 || iops == 0 {
        return Some(None);
    }
    let per_second = count as f64 / sum as f64;
    let fits = |unit_ns: u64| {
        let expect = per_second * 1e9 / unit_ns as f64;
        (expect - iops as f64).abs() <= expect * 0.01 + 1.0
    };
    [1, 1000].into_iter().find(|&unit_ns| fits(unit_ns)).map(Some)
}

fn whole(word: &[u8]) -> Option<u64> {
    let digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(word).ok()?.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines_of_all_versions() {
        for (line, size, write, latency_ns) in [
            (&b"4096 bytes from e4 (ext4 /dev/vda): request=1 time=4.0 ms"[..], 4096, false, 4_000_000),
            (b"4.0 kb from e4 (ext4 /dev/vda): request=2 time=212 us", 4096, false, 212_000),
            (b"4 KiB to e4 (ext4 /dev/vda): request=1 time=9.97 ms", 4096, true, 9_970_000),
            (b"4 KiB <<< e4 (ext4 /dev/vda): request=3 time=73.6 us", 4096, false, 73_600),
            (
                b"Nov 21 01:04:40 256 KiB >>> e4 (ext4 /dev/vda 252.0 GiB): request=12 time=511 ns (slow)",
                262_144,
                true,
                511,
            ),
        ] {
            let request = Request::parse(line).unwrap();
            assert_eq!((request.size, request.write, request.latency_ns), (size, write, latency_ns));
            assert_eq!((request.path, request.device, request.is_left_out()), (&b"e4"[..], &b"/dev/vda"[..], false));
        }
        let odd = b"0 B <<< a <<< b (x): request=9 time=1 s (block device 1 B): request=1 time=29.1 us (EAGAIN)";
        let request = Request::parse(odd).unwrap();
        assert_eq!((request.path, request.error), (&b"a <<< b (x): request=9 time=1 s"[..], Some(&b"EAGAIN"[..])));
        assert!(
            Request::parse(b"4 KiB <<< e4 (ext4 /dev/vda): request=1 time=94.4 us (warmup)").unwrap().is_left_out()
        );
        for line in [
            &b"4 KiB <<< e4 (x y): request= time=1 us"[..],
            b"x: request=1 time=1 us",
            b"",
            b"4 KiB <<< e4: request=1 time=1 us",
        ] {
            assert_eq!(Request::parse(line), None);
        }
    }

    #[test]
    fn raw_lines_of_all_versions() {
        let raw = Raw::parse(b"1 374622 2669 10933688 374622 374622 374622 0 2 10412785").unwrap();
        assert_eq!(
            (raw.latency_ns(), raw.size(), raw.wall_ns, raw.is_window()),
            (374_622, Some(4096), Some(10_412_785), false)
        );
        let raw = Raw::parse(b"1 704 1420 5818182 704 704 704 0").unwrap();
        assert_eq!((raw.latency_ns(), raw.size(), raw.wall_ns), (704_000, Some(4096), None));
        let raw = Raw::parse(b"6 6843 877 3591407 159 1140 2536 867").unwrap();
        assert_eq!((raw.latency_ns(), raw.is_window(), raw.size()), (1_140_000, true, Some(4096)));
        let raw = Raw::parse(b"2296 2296 2296 0").unwrap();
        assert_eq!((raw.latency_ns(), raw.is_window(), raw.size()), (2_296_000, false, None));
        assert!(Raw::parse(b"120 1882 3805 1316").unwrap().is_window());
        assert_eq!(Raw::parse(b"0 0 0 0 0 0 0 0 1 5").unwrap().count, 0);
        assert_eq!(
            Raw::parse(b"1 10000000000 0 410 10000000000 10000000000 10000000000 -nan 1 5").unwrap().size(),
            Some(4096)
        );
        for line in [
            &b"1 2 3"[..],
            b"1 2 3 4 5 6 7 8",
            b"5 4 3 1",
            b"1 2 3 4 5 6 7 8 9 10 11",
            b"a b c d",
            b"1 100 77 5 100 100 100 0 1 1",
        ] {
            assert_eq!(Raw::parse(line), None, "{}", String::from_utf8_lossy(line));
        }
    }
}
