//! Names and numbers of block devices.

use crate::disk::Disk;
use latscope_event::{Batch, Field, FieldSet};
use std::path::Path;

/// The kernel's own form of a device number.
pub fn number_of(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}

/// A device number as `major:minor`.
pub fn text_of(dev: u32) -> String {
    format!("{}:{}", dev >> 20, dev & 0xf_ffff)
}

/// The name of a device that is there now.
pub fn name_of(dev: u32) -> Option<String> {
    let link = std::fs::read_link(Path::new("/sys/dev/block").join(text_of(dev))).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

/// The number of a device given as `major:minor`, or by the name of one that is there now.
pub fn find(device: &str) -> Option<u32> {
    let numbers = match device.contains(':') {
        true => device.to_owned(),
        false if device.contains('/') || device.starts_with('.') => return None,
        false => crate::probe::read_trimmed(Path::new("/sys/class/block").join(device).join("dev"))?,
    };
    let (major, minor) = numbers.split_once(':')?;
    Some(number_of(major.parse().ok()?, minor.parse().ok()?))
}

/// The whole disks that are there now and have a size.
pub fn disks() -> Vec<u32> {
    let has_size =
        |name: &str| crate::probe::read_trimmed(format!("/sys/block/{name}/size")).is_some_and(|size| size != "0");
    let entries = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| has_size(name)).filter_map(|name| find(&name)).collect()
}

/// All whole disks that are there now, each an event with its name and number and nothing else: to see which of them a
/// filter is about.
pub fn as_events() -> Batch {
    let mut batch = Batch::new(FieldSet::default().with(&[Field::Device, Field::Dev]));
    let entries = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
        if let Some(dev) = find(&name) {
            batch.push_text(Field::Device, Some(name.as_bytes()));
            batch.push_text(Field::Dev, Some(text_of(dev).as_bytes()));
            batch.end_row();
        }
    }
    batch
}

/// Model and kind of each disk, as properties of a trace.
pub fn described() -> Vec<(String, String)> {
    let named = disks().into_iter().filter_map(|dev| Some((dev, name_of(dev)?)));
    named.flat_map(|(dev, name)| Disk::read(dev).properties(&name)).collect()
}

/// How many devices a message names.
const NAMED: usize = 8;

/// Why there are no requests of a device, as a sentence with the way out; `None` when there may be some.
pub fn without_requests(device: &str) -> Option<String> {
    let Some(dev) = find(device) else { return Some(not_there(device)) };
    let own = Path::new("/sys/dev/block").join(text_of(dev)).canonicalize().ok()?;
    if own.join("partition").exists() {
        let disk = own.parent()?.file_name()?.to_string_lossy().into_owned();
        return Some(format!(
            "{device} is a partition, but requests are made to the whole disk; filter by device = {disk}, and by \
             offset."
        ));
    }
    if own.join("mq").exists() {
        return None;
    }
    let below: Vec<String> = std::fs::read_dir(own.join("slaves"))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let instead = match &below[..] {
        [] => String::new(),
        below => format!("the devices below it, device in ({}), or ", below.join(", ")),
    };
    Some(format!(
        "{device} has no requests of its own: its driver serves or passes on I/O without a queue. Use {instead}the \
         system calls, -s io."
    ))
}

/// That there is no device of this name.
fn not_there(device: &str) -> String {
    // Links such as /dev/mapper/root or /dev/disk/by-id/... lead to the kernel's name.
    let target = Path::new(device).canonicalize().ok().filter(|target| target.starts_with("/dev"));
    let name = target.and_then(|target| target.file_name()?.to_str().map(str::to_owned));
    if let Some(name) = name.filter(|name| find(name).is_some()) {
        return format!("The kernel's name of {device} is {name}: write device = {name}.");
    }
    format!(
        "No block device {device} on this machine (found: {}). Use a name without /dev/ or, for a device that will \
         appear later, its number, such as device = 8:16.",
        some_names()
    )
}

/// That a filter on devices is about none that is there now.
pub fn none_matches(filter: &str) -> String {
    format!("No block device of this machine matches {filter} (found: {}).", some_names())
}

fn some_names() -> String {
    let names: Vec<_> = disks().into_iter().filter_map(name_of).take(NAMED).collect();
    names.join(", ")
}

/// A stamp that the kernel may keep in a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stamp {
    /// When it started to wait: kept for the device's statistics.
    Start,
    /// When the device got it: kept for whoever measures the device, such as writeback throttling and some schedulers.
    Issue,
}

/// Whether the kernel seems not to stamp the requests of a device.
pub fn is_unstamped(dev: u32, needs: Stamp) -> bool {
    let setting = |file: &str| crate::probe::read_trimmed(format!("/sys/dev/block/{}/queue/{file}", text_of(dev)));
    match needs {
        Stamp::Start => setting("iostats").is_some_and(|on| on == "0"),
        Stamp::Issue => {
            let scheduler = setting("scheduler").unwrap_or_default();
            let measures = scheduler.contains("[bfq]") || scheduler.contains("[kyber]");
            !measures && setting("wbt_lat_usec").is_none_or(|target| target == "0")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_with_a_queue_have_requests() {
        for name in ["no-such-disk", "/dev/no-such-disk"] {
            let sentence = without_requests(name).unwrap();
            assert!(sentence.contains(name) && sentence.contains("device = 8:16"), "{sentence}");
        }
        assert_eq!(without_requests("4095:1048575"), None, "it may come");
        for dev in disks() {
            let name = name_of(dev).unwrap();
            let queue = Path::new("/sys/block").join(&name).join("mq").exists();
            let sentence = without_requests(&name);
            assert_eq!(sentence.is_none(), queue, "{name}: {sentence:?}");
            assert!(sentence.is_none_or(|sentence| sentence.contains("-s io")), "{name}");
        }
    }

    #[test]
    fn numbers_and_names_lead_to_each_other() {
        assert_eq!(find("259:3"), Some(259 << 20 | 3));
        assert_eq!(text_of(259 << 20 | 3), "259:3");
        assert_eq!((find("no-such-disk"), find("../sda"), find("a:b")), (None, None, None));
        for dev in disks() {
            let name = name_of(dev).unwrap();
            assert_eq!(find(&name), Some(dev), "{name}");
        }
    }
}
