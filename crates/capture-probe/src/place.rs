//! What a target lies on: file system and device.

use latscope_event::format_size;
use std::fs;

/// What a target lies on.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    /// Type of the file system; `block` or `character` for devices.
    pub fstype: String,
    /// What is mounted there, resolved; `device` for devices.
    pub device: String,
    /// Bytes of the file system or the device; 0 when unknown.
    pub size: u64,
    /// The device's number.
    pub dev: Option<(u32, u32)>,
    /// Options of the mount.
    pub mount_options: String,
}

impl Place {
    /// Whether all its data stays in memory, so that there is no device whose latency could be measured.
    pub fn is_memory(&self) -> bool {
        is_memory(&self.fstype)
    }

    /// The name of the device as the kernel has it (`vda`), where there is one.
    pub fn device_name(&self) -> Option<String> {
        sys_name(self.dev?)
            .or_else(|| (!self.device.is_empty() && self.device != "device").then(|| self.device.clone()))
    }
}

/// Whether a file system of this type keeps all data in memory.
pub fn is_memory(fstype: &str) -> bool {
    ["tmpfs", "ramfs"].contains(&fstype)
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.fstype, self.device, format_size(self.size))
    }
}

/// The name of a block device, where there is a `/sys`.
pub(crate) fn sys_name((major, minor): (u32, u32)) -> Option<String> {
    let target = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}
