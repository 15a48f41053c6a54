//! What an agent may do once it captures: nothing that others may not, unless its files need more.

use crate::plan::Agent as Plan;
use latscope_capture_bpf::Capabilities;
use latscope_event::{Field, FieldSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::scope;

/// Fields that are read from what processes have open, or run.
const NAMES: [Field; 11] = [
    Field::Path,
    Field::FdType,
    Field::LocalIp,
    Field::LocalPort,
    Field::RemoteIp,
    Field::RemotePort,
    Field::L4Proto,
    Field::ExePath,
    Field::Cwd,
    Field::ContainerName,
    Field::ContainerImage,
];

/// What is kept by the threads that send and write, and by the one that captures these fields.
pub struct Rights {
    pub files: Capabilities,
    pub capture: Capabilities,
}

impl Rights {
    /// What this agent needs. Its files are tried without any capability; where they cannot be used so, a note is printed.
    pub fn needed(plan: &Plan, fields: FieldSet) -> Rights {
        let try_files = || {
            Capabilities::default().keep_only().map_err(|error| error.to_string())?;
            usable(plan)
        };
        let tried = scope(|scope| scope.spawn(try_files).join());
        let files = match tried {
            Ok(Err(why)) if usable(plan).is_ok() => {
                say!("latscope: {why} without CAP_DAC_OVERRIDE, which is kept");
                Capabilities::FILES
            }
            _ => Capabilities::default(),
        };
        let has_names = NAMES.iter().any(|&field| fields.contains(field));
        let names = if has_names { Capabilities::NAMES } else { Capabilities::default() };
        Rights { files, capture: Capabilities::of_running_capture().with(files).with(names) }
    }
}

/// Gives up all others in this thread, and in those that it starts.
pub fn keep_only(rights: Capabilities) {
    if let Err(error) = rights.keep_only() {
        say!("latscope: the capabilities of this program cannot be given up: {error}");
    }
}

/// Whether all files of an agent can be read and written; else a sentence without its end.
pub fn usable(plan: &Plan) -> Result<(), String> {
    let folder = |path: &PathBuf| {
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
    };
    let written = plan.queue.iter().cloned().chain(plan.tee.iter().map(folder));
    for folder in written.filter(|folder| folder.exists()) {
        write_to(&folder).map_err(|error| format!("{}: cannot be written ({error})", folder.display()))?;
    }
    for probe in plan.probes.iter().filter(|probe| probe.target.is_dir()) {
        write_to(&probe.target).map_err(|error| format!("{}: cannot be written ({error})", probe.target.display()))?;
    }
    let targets = plan.probes.iter().map(|probe| probe.target.as_path()).filter(|target| !target.is_dir());
    for file in plan.credentials.paths().chain(targets) {
        File::open(file).map_err(|error| format!("{}: cannot be read ({error})", file.display()))?;
    }
    Ok(())
}

/// Writes a file to a folder and removes it.
pub fn write_to(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".latscope-{}", std::process::id()));
    File::create(&path)?;
    std::fs::remove_file(path)
}
