//! What a lab says that it wrote, against what the device says that it was given.

use super::text;
use crate::ping::faults::Loop;
use crate::program::latscope;
use serde_json::Value;

/// Bytes that a device has written, and a limit for what memory may hold of it.
struct Oracle(String);

impl Oracle {
    /// Of `/dev/loopN`, with a limit of 16 MiB.
    fn new(path: &str) -> Oracle {
        let name = path.trim_start_matches("/dev/").to_string();
        std::fs::write(format!("/sys/block/{name}/queue/iostats"), "1").unwrap();
        let number = std::fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap();
        for (file, value) in [("strict_limit", "1"), ("max_bytes", "16777216")] {
            // Kernels before 6.2 have no such limits; then the machine's own one holds.
            let _ = std::fs::write(format!("/sys/class/bdi/{}/{file}", number.trim()), value);
        }
        Oracle(name)
    }

    fn bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/sys/block/{}/stat", self.0)).unwrap();
        text.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap() * 512
    }
}

#[test]
fn buffered_writes_reach_the_device() {
    let Some(mut device) = Loop::new(400 << 20) else { return };
    let place = device.mount();
    let oracle = Oracle::new(&device.path);
    let before = oracle.bytes();
    let out = tempfile::tempdir().unwrap();
    let mine = "about = 'x'\nrounds = 2\n[[experiment]]\nname = 'sustained'\nabout = 'x'\noperation = 'write'\n\
        order = 'append'\nsize = '100k'\nwork_size = '64m'\nbeyond_cache = true\nturn = '500ms'\n";
    let file = out.path().join("mine.toml");
    std::fs::write(&file, mine).unwrap();
    let folder = text(&out.path().join("out"));
    let printed = latscope(&["lab", "run", &text(&file), &text(&place), "-o", &folder, "--json"]).success();
    let json: Value = serde_json::from_str(&printed).unwrap();
    let result = &json["results"][0];
    let written = result["count"].as_u64().unwrap() * 102_400;
    let found = oracle.bytes() - before;
    // Metadata and journal come on top.
    assert!(found >= written / 100 * 95, "{found} of {written} bytes reached the device");
    assert!(
        result["unwritten_left_bytes"] == 0 && result["device_written_bytes"].as_u64().unwrap() <= found,
        "{result}"
    );
    assert!(result["device_written_bytes"].as_u64().unwrap() >= written / 100 * 90, "{result}");
}

#[test]
fn a_file_is_not_emptied_before_the_device_has_it() {
    let Some(mut device) = Loop::new(64 << 20) else { return };
    let place = device.mount();
    let oracle = Oracle::new(&device.path);
    let before = oracle.bytes();
    let words = ["ping", "-q", "-W", "-C", "--append", "-i", "0", "-s", "16k", "-S", "2m", "-c", "1024"];
    latscope(&[&words[..], &[&text(&place)]].concat()).success();
    let (found, written) = (oracle.bytes() - before, 1024 * 16384);
    // The last file is thrown away with the process.
    assert!(found >= written - (2 << 20), "{found} of {written} bytes reached the device");
}
