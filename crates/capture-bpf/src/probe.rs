//! What the running kernel offers to a live capture.

use crate::Error;
use latscope_event::KernelFeature;
use libbpf_rs::btf::types::{Func, FuncProto, Typedef};
use libbpf_rs::{Btf, MapType};
use std::path::Path;

/// Capabilities by their bit in `/proc/self/status`.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// The oldest kernel whose tracepoints carry what we read: since then a request comes without its queue.
const OLDEST: (u32, u32) = (5, 11);

/// The running kernel.
pub struct Kernel {
    /// Its release, `6.1.0-42-amd64`.
    pub release: String,
    btf: Option<Btf<'static>>,
    /// What it lacks that a capture can do without.
    lacks: Vec<KernelFeature>,
}

impl Kernel {
    /// Looks at the running kernel.
    ///
    /// # Errors
    /// When nothing at all can be captured here: rights are missing, or the kernel is too old.
    pub fn look() -> Result<Kernel, Error> {
        check_rights(&std::fs::read_to_string("/proc/self/status").unwrap_or_default())?;
        let release = read_trimmed("/proc/sys/kernel/osrelease").unwrap_or_default();
        if version(&release).is_some_and(|version| version < OLDEST) {
            return Err(Error::Unsupported(format!(
                "Live capture needs Linux {}.{} or newer, and this is {release}; read files instead (-r).",
                OLDEST.0, OLDEST.1
            )));
        }
        crate::loader::quiet();
        let carries = Path::new("/sys/kernel/btf/vmlinux").exists();
        let btf = carries.then(|| Btf::from_vmlinux().ok()).flatten();
        let lacks = if btf.is_none() { vec![KernelFeature::Btf] } else { Vec::new() };
        Ok(Kernel { release, btf, lacks })
    }

    /// Whether programs can be attached to this tracepoint.
    pub fn has_tracepoint(&self, name: &str) -> bool {
        match &self.btf {
            Some(btf) => btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}")).is_some(),
            None => tracefs_has(name).unwrap_or(true),
        }
    }

    /// Whether it has a function that programs may call, by its name.
    pub fn has_function(&self, name: &str) -> bool {
        self.btf.as_ref().is_some_and(|btf| btf.type_by_name::<Func<'_>>(name).is_some())
    }

    /// How many arguments programs get from a tracepoint, which differs between kernels.
    pub fn tracepoint_arguments(&self, name: &str) -> Option<usize> {
        let pointer = self.btf.as_ref()?.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}"))?.next_type()?;
        let prototype = FuncProto::try_from(pointer.next_type()?).ok()?;
        // The first is the tracepoint's own.
        prototype.iter().count().checked_sub(1)
    }

    /// Refuses to go on without this tracepoint.
    pub fn need_tracepoint(&self, name: &str) -> Result<(), Error> {
        if self.has_tracepoint(name) {
            return Ok(());
        }
        Err(Error::Unsupported(format!(
            "Live capture needs the tracepoint {name}, which {} does not have; read files instead (-r).",
            self.release
        )))
    }

    /// Refuses to go on without the kernel's own type information.
    pub fn need_btf(&self) -> Result<(), Error> {
        if self.btf.is_some() {
            return Ok(());
        }
        Err(Error::Unsupported(format!(
            "Capturing system calls needs a kernel with type information (CONFIG_DEBUG_INFO_BTF), which {} lacks; \
             try -s block.",
            self.release
        )))
    }

    /// Refuses to go on without maps of this type.
    pub fn need_map(&self, map: MapType) -> Result<(), Error> {
        if map.is_supported().unwrap_or(true) {
            return Ok(());
        }
        Err(Error::Unsupported(format!(
            "Live capture needs BPF maps of type {map:?}, which {} does not have; read files instead (-r).",
            self.release
        )))
    }

    /// Notes that the kernel lacks something that the capture can do without.
    pub fn note_lack(&mut self, feature: KernelFeature) {
        self.lacks.push(feature);
    }

    /// What was noted.
    pub fn lacks(&self) -> impl Iterator<Item = KernelFeature> {
        self.lacks.iter().copied()
    }
}

/// The first line of a file, without its end.
pub fn read_trimmed(path: impl AsRef<Path>) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Root, or the two capabilities. That the limit of locked memory cannot be raised is no matter: kernels that we work
/// with do not count maps against it.
fn check_rights(status: &str) -> Result<(), Error> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(effective) = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()) else { return Ok(()) };
    let has = |capability: u32| effective >> capability & 1 == 1;
    if has(CAP_SYS_ADMIN) || has(CAP_BPF) && has(CAP_PERFMON) {
        return Ok(());
    }
    let lacking = match (has(CAP_BPF), has(CAP_PERFMON)) {
        (true, false) => "CAP_PERFMON is missing",
        (false, true) => "CAP_BPF is missing",
        _ => "both are missing",
    };
    Err(Error::Rights(lacking.to_owned()))
}

/// Major and minor version of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Whether tracefs, where it is mounted, has an event of this name; `None` where it is not.
fn tracefs_has(name: &str) -> Option<bool> {
    let roots = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];
    let groups = roots.iter().find_map(|root| std::fs::read_dir(root).ok())?;
    Some(groups.flatten().any(|group| group.path().join(name).exists()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_root_or_two_capabilities() {
        let status = |bits: u64| format!("Name:\tx\nCapEff:\t{bits:016x}\nCapBnd:\t0\n");
        assert!(check_rights(&status(u64::MAX)).is_ok());
        assert!(check_rights(&status(1 << CAP_BPF | 1 << CAP_PERFMON)).is_ok());
        let refusal = check_rights(&status(1 << CAP_BPF)).unwrap_err().to_string();
        assert!(refusal.contains("CAP_PERFMON is missing") && refusal.contains("-r"), "{refusal}");
        assert!(check_rights(&status(0)).is_err());
    }

    #[test]
    fn releases_have_two_numbers() {
        assert_eq!(version("6.18.44-fc"), Some((6, 18)));
        assert_eq!(version("5.4"), Some((5, 4)));
        assert_eq!(version("x"), None);
    }

    #[test]
    fn tracepoints_are_found() {
        let Ok(kernel) = Kernel::look() else {
            skipped!("no right to capture here");
            return;
        };
        assert!(kernel.has_tracepoint("block_rq_complete"));
        assert!(kernel.btf.is_none() || !kernel.has_tracepoint("no_such_tracepoint"));
        let refusal = kernel.need_tracepoint("no_such_tracepoint");
        assert!(kernel.btf.is_none() || refusal.unwrap_err().to_string().contains("no_such_tracepoint"));
    }
}
