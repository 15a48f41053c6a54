//! The subject of a certificate and its end, which rustls verifies but does not hand on.

use latscope_event::TimeLiteral;

/// What stands before the name of a host in a URI.
const HOST: &str = "latscope://host/";
/// The URI of who may read.
const READ: &str = "latscope://read";
/// The object identifier 2.5.29.17.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
/// Tags of DER.
const EXTENSIONS: u8 = 0xa3;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;
const VERSION: u8 = 0xa0;
/// A time with a year of two digits.
const SHORT_TIME: u8 = 0x17;
const LONG_TIME: u8 = 0x18;

/// The names in a certificate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Names {
    /// The hosts: its DNS names, and the URIs `latscope://host/NAME`.
    pub hosts: Vec<String>,
    /// Whether its holder may read: the URI `latscope://read`.
    pub reads: bool,
    /// When it ends, nanoseconds since the epoch.
    pub end_ns: Option<i64>,
}

impl Names {
    /// Of a certificate in DER; empty where it has no names.
    pub fn of_certificate(der: &[u8]) -> Names {
        let mut names = Names { end_ns: end_ns(der), ..Names::default() };
        for (tag, name) in alternative_names(der).unwrap_or_default() {
            let Ok(name) = std::str::from_utf8(name) else { continue };
            match tag {
                DNS => names.hosts.push(name.to_string()),
                URI if name == READ => names.reads = true,
                URI => names.hosts.extend(name.strip_prefix(HOST).map(str::to_string)),
                _ => {}
            }
        }
        names
    }
}

/// When a certificate in DER ends, nanoseconds since the epoch; `None` where it cannot be read.
pub fn end_ns(mut der: &[u8]) -> Option<i64> {
    let (_, mut certificate) = element(&mut der)?;
    let (_, mut fields) = element(&mut certificate)?;
    if fields.first() == Some(&VERSION) {
        element(&mut fields)?;
    }
    // Serial number, algorithm and issuer stand before.
    (0..3).try_for_each(|_| element(&mut fields).map(drop))?;
    let (_, mut validity) = element(&mut fields)?;
    element(&mut validity)?;
    let (tag, text) = element(&mut validity)?;
    let text = std::str::from_utf8(text).ok().filter(|text| text.is_ascii())?;
    let text = match (tag, text.get(..2)?.parse::<u32>().ok()?) {
        (SHORT_TIME, 50..) => format!("19{text}"),
        (SHORT_TIME, _) => format!("20{text}"),
        (LONG_TIME, _) => text.to_string(),
        _ => return None,
    };
    let part = |range| text.get(range);
    let date = format!("{}-{}-{}", part(0..4)?, part(4..6)?, part(6..8)?);
    let time = format!("{date}T{}:{}:{}Z", part(8..10)?, part(10..12)?, part(12..14)?);
    match TimeLiteral::parse(&time) {
        Ok(TimeLiteral::Unix(end_ns)) => Some(end_ns),
        _ => None,
    }
}

fn alternative_names(mut der: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let (_, mut certificate) = element(&mut der)?;
    let (_, mut fields) = element(&mut certificate)?;
    let mut extensions = loop {
        if let (EXTENSIONS, mut content) = element(&mut fields)? {
            break element(&mut content)?.1;
        }
    };
    while let Some((_, mut extension)) = element(&mut extensions) {
        if element(&mut extension)?.1 != ALTERNATIVE_NAMES {
            continue;
        }
        // Whether it is critical may stand before the value.
        let mut value = std::iter::from_fn(|| element(&mut extension)).last()?.1;
        let mut names = element(&mut value)?.1;
        return Some(std::iter::from_fn(|| element(&mut names)).collect());
    }
    None
}

/// The next element: its tag and its content.
fn element<'a>(der: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let [tag, length, rest @ ..] = *der else { return None };
    let (length, rest) = match *length {
        short @ ..128 => (usize::from(short), rest),
        long => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long - 128)).filter(|(bytes, _)| bytes.len() <= 4)?;
            (bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)), rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *der = rest;
    Some((*tag, content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len();
        let head =
            if length < 128 { vec![tag, length as u8] } else { vec![tag, 0x82, (length >> 8) as u8, length as u8] };
        [&head, content].concat()
    }

    #[test]
    fn names_are_found() {
        let long = format!("latscope://host/{}", "x".repeat(150));
        let names =
            [der(DNS, b"n1.example"), der(URI, b"latscope://host/n1"), der(URI, long.as_bytes()), der(0x87, &[1; 4])];
        let value = der(4, &der(0x30, &[&names.concat()[..], &der(URI, READ.as_bytes())].concat()));
        let extension = der(0x30, &[&der(6, ALTERNATIVE_NAMES)[..], &der(1, &[255]), &value].concat());
        let other = der(0x30, &[der(6, &[0x55, 0x1d, 0x13]), der(4, &[])].concat());
        let extensions = der(EXTENSIONS, &der(0x30, &[other, extension].concat()));
        let validity = |end| der(0x30, &[der(SHORT_TIME, b"250101000000Z"), end].concat());
        let with_end = |end| {
            let fields = [
                der(VERSION, &[2, 1, 2]),
                der(2, &[1]),
                der(0x30, &[]),
                der(0x30, &[]),
                validity(end),
                extensions.clone(),
            ];
            der(0x30, &der(0x30, &fields.concat()))
        };
        let certificate = with_end(der(SHORT_TIME, b"261123123456Z"));
        let names = Names::of_certificate(&certificate);
        assert_eq!((names.hosts, names.reads), (vec!["n1.example".into(), "n1".into(), "x".repeat(150)], true));
        assert_eq!(names.end_ns, Some(1_795_437_296_000_000_000));
        assert_eq!(end_ns(&with_end(der(LONG_TIME, b"20261123123456Z"))), names.end_ns);
        assert_eq!(end_ns(&with_end(der(LONG_TIME, b"x"))), None);
        for cut in 0..certificate.len() {
            assert_eq!(Names::of_certificate(&certificate[..cut]), Names::default());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            let _ = Names::of_certificate(&bytes);
        }
    }
}
