//! Any bytes as what is behind the length and checksum of a record of a cluster: no panic, and what is read agrees with itself.
#![no_main]

use latscope_wire::{Data, Dictionary, Hello, Kind, Record};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&fields, payload)) = bytes.split_first() else { return };
    if let Ok(hello) = Hello::parse(payload) {
        assert_eq!(Hello::parse(hello.record().payload()), Ok(hello));
    }
    let mut groups = Dictionary::default();
    if groups.add(&Record::new(Kind::Dictionary, payload), usize::from(fields % 4)).is_err() {
        assert!(groups.is_empty());
    }
    if let Ok(data) = Data::parse(&Record::new(Kind::Data, payload)) {
        assert_eq!(Data::parse(&data.record()), Ok(data));
    }
});
