use super::*;

fn section(major: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(kind::SECTION.to_le_bytes());
    bytes.extend(28u32.to_le_bytes());
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend(major.to_le_bytes());
    bytes.extend(2u16.to_le_bytes());
    bytes.extend(u64::MAX.to_le_bytes());
    bytes.extend(28u32.to_le_bytes());
    bytes
}

#[test]
fn a_packet_capture_is_none_of_ours() {
    let with = |next: u32| [section(1), next.to_le_bytes().to_vec()].concat();
    assert_eq!(detect(&section(1)), Detected::Yes);
    assert_eq!(detect(&with(0x201)), Detected::Yes);
    assert_eq!(detect(&with(0x8001_abcd)), Detected::Yes);
    assert_eq!(detect(&with(1)), Detected::No);
    assert_eq!(detect(b"\n\r\r\n"), Detected::No);
}

#[test]
fn other_versions_are_refused_in_a_sentence() {
    assert!(check_version("x", &section(1)).is_ok());
    assert!(check_version("x", &section(2)).unwrap_err().message.contains("version 2 of the format"));
    let mut swapped = section(1);
    swapped[8..12].reverse();
    assert!(check_version("x", &swapped).unwrap_err().message.contains("big-endian"));
}
