//! Tests that cannot run on a machine say why.

/// Prints why a test is left out, past the harness: it shows what a test prints only where it fails.
macro_rules! skipped {
    ($($reason:tt)*) => {{
        let (test, reason) = (std::thread::current(), format!($($reason)*));
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("skipped {}: {reason}\n", test.name().unwrap_or("a test")).as_bytes(),
        );
    }};
}
