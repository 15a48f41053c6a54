//! Names that sysdig filters know and latscope's events do not hold: a message that says so is better than "unknown".

/// Classes of names, and the names of each without their class.
static CLASSES: &[(&str, &str)] = &[
    (
        "evt",
        "num time.s datetime.s pluginname plugininfo latency.human latency.quantized deltatime deltatime.s deltatime.ns \
         type.is arg rawarg info buffer wait_latency is_syslog is_async asynctype hostname count.error \
         count.error.file count.error.net count.error.memory count.error.other count.exit count.procinfo \
         count.threadinfo abspath is_open_read is_open_write is_open_exec is_open_create source",
    ),
    (
        "proc",
        "env cmdnargs cmdlenargs exeline nthreads nchilds pexe pexepath pcmdline \
         apid aname aexe aexepath acmdline aargs aenv loginshellid duration ppid.duration pid.ts ppid.ts fdopencount \
         fdlimit fdusage vmsize vmrss vmswap sid sname sid.exe sid.exepath tty vpid pvpid vpgid vpgid.name pgid \
         stdin.type stdout.type stderr.type is_container_healthcheck is_container_liveness_probe \
         is_container_readiness_probe is_exe_writable is_exe_upper_layer is_exe_from_memfd is_sid_leader is_vpgid_leader \
         exe_ino",
    ),
    (
        "thread",
        "pfmajor pfminor exectime totexectime cgroups cgroup vtid cpu cpu.user cpu.system vmsize vmrss nametid \
         cap_permitted cap_inheritable cap_effective",
    ),
    ("user", "homedir shell loginuid loginname"),
    (
        "container",
        "full_id image.id image.repository image.tag image.digest type privileged mounts mount healthcheck \
         liveness_probe readiness_probe start_ts duration ip cni.json",
    ),
    (
        "fd",
        "sockfamily is_server uid containername \
         containerdirectory cip.name sip.name lip.name rip.name proto cproto sproto lproto rproto connected name_changed dev ino \
         nameraw types is_upper_layer is_lower_layer",
    ),
    ("fs", "path"),
    ("syslog", "facility severity message"),
    ("fdlist", "nums names cips sips cports sports"),
    ("mesos", "task framework"),
    ("marathon", "app group"),
    ("k8s", "pod ns rc rs svc deployment"),
    ("k8smeta", "pod ns rc rs svc deployment"),
    ("span", "id time ntags nargs tags tag args arg enterargs enterarg duration"),
    ("evtin", "span"),
];

/// Whether sysdig has a field of this name: one of the table, or one of its sub-fields (`evt.arg.fd`).
fn knows(name: &str) -> bool {
    let Some((class, rest)) = name.split_once('.') else { return false };
    let inside = |known: &str| rest.strip_prefix(known).is_some_and(|more| more.is_empty() || more.starts_with('.'));
    CLASSES.iter().any(|&(of, names)| of == class && names.split_whitespace().any(inside))
}

/// A sentence about a field that sysdig has and latscope has not; `None` for any other name.
pub(crate) fn not_recorded(name: &str) -> Option<String> {
    if !knows(name) {
        return None;
    }
    let (class, rest) = name.split_once('.')?;
    let instead = match (class, rest.split('.').next().unwrap_or(rest)) {
        ("evt", "type") => "compare the name, as in evt.type = open",
        ("evt", "latency") => "use evt.latency with a unit, as in evt.latency > 10ms",
        ("evt", "time" | "datetime") => "use evt.time with a moment of any precision, as in evt.time >= 10:32:05",
        ("evt", "wait_latency") => "use evt.is_wait and evt.latency",
        ("evt", "count") => "use evt.failed to select the events with an error",
        ("evt", "arg" | "rawarg") => {
            "use evt.args, which has all arguments as one text, as in evt.args contains \
                                      \"flags=0\""
        }
        ("evt", "hostname") => "use host.name for the name of the host",
        ("evt", _) => "the recorded arguments of a call are fd.num, fd.name, size, offset, result and evt.args",
        ("proc", "aname" | "apid" | "aexe" | "aexepath" | "acmdline" | "aargs" | "aenv") => {
            "the only recorded ancestor is the parent (proc.ppid, proc.pname)"
        }
        ("proc", "pcmdline" | "pexe" | "pexepath") => {
            "the recorded fields of the parent are proc.ppid and \
                                                       proc.pname"
        }
        ("proc", "exeline") => "use proc.exe and proc.args",
        ("proc", _) => {
            "the recorded fields of a process are proc.name, proc.pid, proc.exe, proc.exepath, \
                        proc.args and proc.cwd"
        }
        ("thread", _) => "the recorded fields of a thread are thread.tid and thread.name",
        ("user", _) => "the recorded fields of a user are user.uid and user.name",
        ("fd", "dev" | "ino") => "use disk.dev for the device of an event",
        ("fd", "containername" | "containerdirectory") => "use container.id and fd.name",
        ("fd", "proto" | "cproto" | "sproto" | "lproto" | "rproto") => "compare the port, as in fd.port = 443",
        ("fd" | "fs", _) => "use fd.name, which has the path or both ends of the socket",
        ("container" | "k8s" | "k8smeta" | "mesos" | "marathon", _) => {
            "the recorded fields of a container are container.id, container.name and container.image"
        }
        _ => "\"latscope fields\" lists what is recorded",
    };
    Some(format!("latscope does not record {name}; {instead}."))
}
