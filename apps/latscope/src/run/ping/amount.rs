//! Amounts as ioping prints them: whole where they are, else with two digits behind the point below ten and one above.

const SIZES: &[(f64, &str)] = &[
    (1152921504606846976.0, "EiB"),
    (1125899906842624.0, "PiB"),
    (1099511627776.0, "TiB"),
    (1073741824.0, "GiB"),
    (1048576.0, "MiB"),
    (1024.0, "KiB"),
    (1.0, "B"),
];
const TIMES: &[(f64, &str)] =
    &[(86_400e9, "day"), (3600e9, "hour"), (60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
const COUNTS: &[(f64, &str)] = &[(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];

/// Bytes: `4 KiB`, `252.0 GiB`.
pub fn size(bytes: f64) -> String {
    amount(bytes, SIZES)
}

/// Bytes per second.
pub fn speed(bytes: f64) -> String {
    amount(bytes, SIZES) + "/s"
}

/// Nanoseconds: `423.2 us`.
pub fn time(ns: f64) -> String {
    amount(ns.round(), TIMES)
}

/// A number: `99`, `19.1 k`.
pub fn count(number: f64) -> String {
    amount(number, COUNTS)
}

/// Per second.
pub fn rate(number: f64) -> String {
    amount(number, COUNTS)
}

fn amount(value: f64, units: &[(f64, &str)]) -> String {
    // Fractions of the smallest unit are cut off.
    let value = value.trunc();
    let (factor, unit) = units.iter().find(|(factor, _)| value >= *factor).or(units.last()).unwrap_or(&(1.0, ""));
    let scaled = value / factor;
    let text = if scaled.fract() == 0.0 {
        format!("{scaled:.0} {unit}")
    } else if scaled < 10.0 {
        format!("{scaled:.2} {unit}")
    } else {
        format!("{scaled:.1} {unit}")
    };
    text.trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Taken from outputs of ioping 1.3.
    #[test]
    fn amounts_as_ioping_prints_them() {
        assert_eq!(size(4096.0), "4 KiB");
        assert_eq!(size(270_553_174_016.0), "252.0 GiB");
        assert_eq!((size(2560.0), size(0.0), size(1000.0)), ("2.50 KiB".into(), "0 B".into(), "1000 B".into()));
        assert_eq!(speed(453_836.8), "443.2 KiB/s");
        assert_eq!((time(511.0), time(8000.0), time(0.0)), ("511 ns".into(), "8 us".into(), "0 ns".into()));
        assert_eq!(
            (time(423_210.0), time(1_060.0), time(5_610_000.0)),
            ("423.2 us".into(), "1.06 us".into(), "5.61 ms".into())
        );
        assert_eq!(time(8_999_000_000.0), "9.00 s");
        assert_eq!((rate(110.8), rate(1602.0), rate(11_545.0)), ("110".into(), "1.60 k".into(), "11.5 k".into()));
        assert_eq!((rate(0.0), count(19_100.0), count(9.0)), ("0".into(), "19.1 k".into(), "9".into()));
    }
}
