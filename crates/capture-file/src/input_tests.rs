use super::*;
use std::io::Write;

fn chunks_of(bytes: &[u8]) -> (Vec<u8>, u64) {
    let mut lines = Input::from_bytes("test", bytes).unwrap().lines();
    let (mut all, mut chunk) = (Vec::new(), Vec::new());
    while lines.next(&mut chunk).unwrap() {
        assert!(chunk.len() <= CHUNK_BYTES);
        all.extend_from_slice(&chunk);
    }
    (all, lines.too_long)
}

#[test]
fn chunks_are_the_file_cut_at_line_ends() {
    let text: Vec<u8> = (0..300_000).flat_map(|number| format!("line {number}\n").into_bytes()).collect();
    assert_eq!(chunks_of(&text), (text.clone(), 0));
    assert_eq!(chunks_of(b"no newline"), (b"no newline".to_vec(), 0));
    assert_eq!(chunks_of(b""), (Vec::new(), 0));
}

#[test]
fn an_endless_line_is_skipped_in_bounded_memory() {
    let mut text = b"first\n".to_vec();
    text.resize(3 * CHUNK_BYTES, b'x');
    text.extend_from_slice(b"\nlast\n");
    assert_eq!(chunks_of(&text), (b"first\nlast\n".to_vec(), 1));
}

#[test]
fn first_lines_that_are_too_long_are_skipped_and_counted() {
    let long = "1, ".repeat(HEAD_BYTES);
    for (text, head, too_long) in [
        (format!("{long}\n{long}\n5, 6\n7, 8\n"), "5, 6\n7, 8\n", 2),
        (format!("5, 6\n{long}\n"), "5, 6\n1, 1", 0),
        (long.clone(), "", 1),
        ("5, 6".into(), "5, 6", 0),
    ] {
        let mut input = Input::from_bytes("test", text.as_bytes()).unwrap();
        assert_eq!(input.skip_long_lines().unwrap(), too_long > 0);
        assert!(!input.is_empty() && input.head().starts_with(head.as_bytes()), "{too_long}");
        assert_eq!(input.head().is_empty(), head.is_empty());
        let (mut lines, mut all, mut chunk) = (input.lines(), Vec::new(), Vec::new());
        assert_eq!(lines.too_long, too_long);
        while lines.next(&mut chunk).unwrap() {
            all.extend_from_slice(&chunk);
        }
        let rest = if too_long > 0 { head } else { &text };
        assert!(all == rest.as_bytes(), "{} bytes, {} expected", all.len(), rest.len());
    }
}

#[test]
fn temporary_copies_are_as_long_as_the_header_says() {
    let mut head = [0; 104];
    head[..8].copy_from_slice(b"PERFILE2");
    assert_eq!(copy_limit(&head), COPY_LIMIT, "perf was killed");
    (head[40], head[48]) = (200, 100);
    assert_eq!(copy_limit(&head), 300 + PERF_FEATURES);
    head[40..56].fill(0xff);
    assert_eq!(copy_limit(&head), u64::MAX - 1);
    assert_eq!(copy_limit(b""), COPY_LIMIT);
}

#[test]
fn a_few_bytes_do_not_fill_the_temporary_folder() {
    let mut head = [0; 104];
    head[..8].copy_from_slice(b"PERFILE2");
    (head[40], head[48]) = (104, 100);
    let zeros = io::repeat(0).take(PERF_FEATURES + 200);
    let bomb = zstd::encode_all(head.chain(zeros), 1).unwrap();
    assert!(bomb.len() < 1 << 20);
    let error = Input::from_bytes("test", &bomb).unwrap().seekable().err().unwrap().message;
    assert!(error.contains("longer than 256MiB; unpack it to a file"), "{error}");
}

#[test]
fn a_byte_order_mark_is_no_text() {
    assert_eq!(chunks_of(b"\xef\xbb\xbf1, 2\n").0, b"1, 2\n");
    assert_eq!(chunks_of(b"1, 2\n\xef\xbb\xbf").0, b"1, 2\n\xef\xbb\xbf");
}

#[test]
fn compressed_data_of_which_nothing_can_be_read_is_an_error() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"a line\n").unwrap();
    for packed in [gzip.finish().unwrap(), zstd::encode_all(&b"a line\n"[..], 1).unwrap()] {
        let error = Input::from_bytes("test", &packed[..5]).err().unwrap();
        assert!(error.message.contains("truncated and nothing can be read"), "{error}");
    }
    let mut nothing = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    nothing.write_all(b"").unwrap();
    assert!(Input::from_bytes("test", &nothing.finish().unwrap()).unwrap().is_empty());
}

#[test]
fn compressed_data_that_is_cut_yields_what_comes_before() {
    let text: Vec<u8> = (0..200_000).flat_map(|number| format!("line {number}\n").into_bytes()).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&text).unwrap();
    for packed in [gzip.finish().unwrap(), zstd::encode_all(&text[..], 1).unwrap()] {
        let input = Input::from_bytes("test", &packed[..packed.len() / 2]).unwrap();
        let unpacked = Arc::clone(&input.unpacked);
        let (mut lines, mut all, mut chunk) = (input.lines(), Vec::new(), Vec::new());
        while lines.next(&mut chunk).unwrap() {
            all.extend_from_slice(&chunk);
        }
        assert!(!all.is_empty() && text.starts_with(&all) && unpacked.is_cut.load(Ordering::Relaxed));
    }
}

#[test]
fn gzip_and_zstd_are_seen_through() {
    let text = b"a line\nanother line\n".repeat(1000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&text).unwrap();
    let gzip = gzip.finish().unwrap();
    assert_eq!(chunks_of(&[gzip.clone(), gzip].concat()).0, [text.clone(), text.clone()].concat());
    assert_eq!(chunks_of(&zstd::encode_all(&text[..], 1).unwrap()).0, text);
}
