//! The one table of names that a filter knows.

use crate::address::{Ends, What};
use latscope_event::{Field, FieldSet, FieldType};

/// What the values of a filter field are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A moment.
    Time,
    /// A length of time since the start of the trace.
    Elapsed,
    Duration,
    Bytes,
    Number,
    Text,
    Bool,
    Ip,
    Net,
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Kind::Time => "time",
            Kind::Elapsed | Kind::Duration => "duration",
            Kind::Bytes => "bytes",
            Kind::Number => "number",
            Kind::Text => "text",
            Kind::Bool => "boolean",
            Kind::Ip => "address",
            Kind::Net => "network",
        }
    }

    /// The word in a sentence.
    pub fn phrase(self) -> &'static str {
        match self {
            Kind::Time => "a time",
            Kind::Elapsed | Kind::Duration => "a duration",
            Kind::Bytes => "a size in bytes",
            Kind::Number => "a number",
            Kind::Text => "a text",
            Kind::Bool => "either true or false",
            Kind::Ip => "an IP address",
            Kind::Net => "a network of IP addresses",
        }
    }

    /// A test that fits, for messages.
    pub fn example(self) -> &'static str {
        match self {
            Kind::Time => ">= 10:32:05",
            Kind::Elapsed => ">= 5s",
            Kind::Duration => "> 1ms",
            Kind::Bytes => ">= 4k",
            Kind::Number => "= 1",
            Kind::Text => "contains log",
            Kind::Bool => "= true",
            Kind::Ip => "= 10.0.0.1",
            Kind::Net => "= 10.0.0.0/8",
        }
    }
}

/// Where the values of a filter field come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Number(Number),
    Text(Text),
    Bool(Bool),
    /// Of the ends of a socket.
    Address(Ends, What),
    /// Of a column of IP addresses.
    Ip(Field, What),
    /// `evt.around[T]`.
    Around,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Number {
    Column(Field),
    /// Start and latency added up.
    End,
    /// From the start of the trace to the completion.
    SinceStart,
    /// Whole seconds of another number.
    Seconds(Clocked),
    /// What is left of it beside whole seconds, in nanoseconds.
    Nanos(Clocked),
    /// `evt.phase[P]`: the completion within a period.
    Phase,
    /// 1 for every event.
    One,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clocked {
    Latency,
    End,
    SinceStart,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Text {
    Column(Field),
    Part(Field, Part),
    /// Either of two columns.
    Either(Field, Field),
    /// The name of the error, `SUCCESS` without an error.
    Outcome,
    /// `<` for every event, which is sysdig's sign for a completion.
    Completed,
}

/// Something that a column gives beside its own text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Directory,
    FileName,
    /// The letter by which sysdig names a type of file descriptor.
    TypeLetter,
    /// `read` or `write`, nothing else.
    Direction,
    /// Each function of a stack, without the mark of its kind.
    Frame,
    /// Each `key=value` of tags.
    Pair,
}

impl Part {
    /// Whether a text may have several of it; a test then asks whether any of them passes.
    pub fn is_each(self) -> bool {
        matches!(self, Part::Frame | Part::Pair)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bool {
    Failed,
    MainThread,
    Among(Field, &'static [&'static str]),
    /// A column of the texts `true` and `false`.
    Column(Field),
}

/// A name that filters know.
#[derive(Clone, PartialEq, Debug)]
pub struct FilterField {
    name: &'static str,
    aliases: &'static [&'static str],
    meaning: &'static str,
    pub(crate) source: Source,
}

impl FilterField {
    /// The name; that of the column where the field is one.
    pub fn name(&self) -> &'static str {
        match self.column() {
            Some(column) if self.name.is_empty() => column.name(),
            _ => self.name,
        }
    }

    /// Other names for the same: sysdig's, and short ones.
    pub fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    /// The type in a word: time, duration, bytes, number, text, boolean, address or network.
    pub fn type_word(&self) -> &'static str {
        self.kind().word()
    }

    /// What it means, one line.
    pub fn meaning(&self) -> &'static str {
        match self.column() {
            Some(column) if self.meaning.is_empty() => column.meaning(),
            _ => self.meaning,
        }
    }

    /// The columns of an event that it is made of.
    pub fn fields(&self) -> FieldSet {
        let clocked = |base| match base {
            Clocked::Latency => FieldSet::default().with(&[Field::Latency]),
            Clocked::End | Clocked::SinceStart => FieldSet::ALWAYS,
        };
        match self.source {
            Source::Number(Number::Column(field))
            | Source::Text(Text::Column(field) | Text::Part(field, _))
            | Source::Bool(Bool::Among(field, _) | Bool::Column(field))
            | Source::Ip(field, _) => FieldSet::default().with(&[field]),
            Source::Number(Number::Seconds(base) | Number::Nanos(base)) => clocked(base),
            Source::Number(Number::End | Number::SinceStart | Number::Phase) | Source::Around => FieldSet::ALWAYS,
            Source::Text(Text::Either(one, other)) => FieldSet::default().with(&[one, other]),
            Source::Text(Text::Outcome) | Source::Bool(Bool::Failed) => {
                FieldSet::default().with(&[Field::Error, Field::Result])
            }
            Source::Address(..) => FieldSet::default().with(&[Field::FdType, Field::Path]),
            Source::Bool(Bool::MainThread) => FieldSet::default().with(&[Field::Pid, Field::Tid]),
            Source::Number(Number::One) | Source::Text(Text::Completed) => FieldSet::default(),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.source {
            Source::Number(Number::Column(field)) => match field.field_type() {
                FieldType::Time => Kind::Time,
                FieldType::Duration => Kind::Duration,
                FieldType::Bytes => Kind::Bytes,
                FieldType::Number | FieldType::Text => Kind::Number,
            },
            Source::Number(Number::End) | Source::Around => Kind::Time,
            Source::Number(Number::SinceStart) => Kind::Elapsed,
            Source::Number(Number::Phase) => Kind::Duration,
            Source::Number(Number::Seconds(_) | Number::Nanos(_) | Number::One) => Kind::Number,
            Source::Text(_) => Kind::Text,
            Source::Bool(_) => Kind::Bool,
            Source::Address(_, What::Ip) | Source::Ip(_, What::Ip) => Kind::Ip,
            Source::Address(_, What::Net) | Source::Ip(_, What::Net) => Kind::Net,
            Source::Address(_, What::Port) | Source::Ip(_, What::Port) => Kind::Number,
        }
    }

    /// The column, where it is nothing but one.
    pub(crate) fn column(&self) -> Option<Field> {
        match self.source {
            Source::Number(Number::Column(field))
            | Source::Text(Text::Column(field))
            | Source::Bool(Bool::Column(field))
            | Source::Ip(field, What::Ip) => Some(field),
            _ => None,
        }
    }
}

const fn number(field: Field, aliases: &'static [&'static str]) -> FilterField {
    FilterField { name: "", aliases, meaning: "", source: Source::Number(Number::Column(field)) }
}

const fn text(field: Field, aliases: &'static [&'static str]) -> FilterField {
    FilterField { name: "", aliases, meaning: "", source: Source::Text(Text::Column(field)) }
}

const fn derived(
    name: &'static str,
    aliases: &'static [&'static str],
    source: Source,
    meaning: &'static str,
) -> FilterField {
    FilterField { name, aliases, meaning, source }
}

const fn counted(name: &'static str, number: Number, meaning: &'static str) -> FilterField {
    derived(name, &[], Source::Number(number), meaning)
}

const fn part(name: &'static str, field: Field, part: Part, meaning: &'static str) -> FilterField {
    derived(name, &[], Source::Text(Text::Part(field, part)), meaning)
}

const fn truth(name: &'static str, source: Bool, meaning: &'static str) -> FilterField {
    derived(name, &[], Source::Bool(source), meaning)
}

const fn address(name: &'static str, ends: Ends, what: What, meaning: &'static str) -> FilterField {
    derived(name, &[], Source::Address(ends, what), meaning)
}

const fn ip(field: Field, aliases: &'static [&'static str]) -> FilterField {
    FilterField { name: "", aliases, meaning: "", source: Source::Ip(field, What::Ip) }
}

const fn network(name: &'static str, field: Field, meaning: &'static str) -> FilterField {
    derived(name, &[], Source::Ip(field, What::Net), meaning)
}

static FIELDS: &[FilterField] = &[
    number(Field::Time, &["time", "start"]),
    derived(
        "end",
        &["ts", "evt.time", "evt.rawtime", "evt.datetime", "evt.time.iso8601"],
        Source::Number(Number::End),
        "Completion of the event: start plus latency (views place an event here).",
    ),
    derived(
        "evt.reltime",
        &["reltime"],
        Source::Number(Number::SinceStart),
        "Completion of the event, counted from the start of the trace.",
    ),
    number(Field::Latency, &["lat", "latency", "evt.latency"]),
    number(Field::Queue, &["queue", "io.queue"]),
    number(Field::Intended, &["intended"]),
    number(Field::Service, &["service"]),
    number(Field::Lag, &["lag"]),
    number(Field::CpuWait, &["cpu_wait"]),
    text(Field::Cache, &["io.cache"]),
    text(Field::Kind, &["io.kind", "rw", "direction"]),
    text(Field::Name, &["evt.type", "syscall.type"]),
    number(Field::Size, &["io.size", "evt.buflen"]),
    number(Field::Offset, &["io.offset"]),
    text(Field::Device, &["disk.name"]),
    derived(
        "disk.dev",
        &[],
        Source::Text(Text::Column(Field::Dev)),
        "Device number as major:minor; \"254,0\" means 254:0.",
    ),
    derived(
        "dev",
        &[],
        Source::Text(Text::Either(Field::Device, Field::Dev)),
        "Device by name or by number: dev=vda, dev=254:0; as a column, the number.",
    ),
    text(Field::Host, &["host.name", "client"]),
    text(Field::Job, &["job.name"]),
    number(Field::Pid, &["proc.pid"]),
    number(Field::Tid, &["thread.tid"]),
    text(Field::Comm, &["thread.name"]),
    text(Field::Process, &["proc.name"]),
    truth("thread.ismain", Bool::MainThread, "Whether the thread is the main one of its process."),
    number(Field::Fd, &["fd.num"]),
    text(Field::FdType, &["fd.type"]),
    part(
        "fd.typechar",
        Field::FdType,
        Part::TypeLetter,
        "Type of the file descriptor as sysdig's letter: f file, d directory, 4, 6, u unix, p pipe, e event ...",
    ),
    text(Field::Path, &["fd.name"]),
    part("fd.directory", Field::Path, Part::Directory, "Directory part of the path."),
    part("fd.filename", Field::Path, Part::FileName, "Last part of the path."),
    address("fd.cip", Ends::Client, What::Ip, "IP address of the socket's client."),
    address(
        "fd.sip",
        Ends::Server,
        What::Ip,
        "IP address of the socket's server; of a socket that is not connected, the address it is bound to.",
    ),
    address("fd.ip", Ends::Either, What::Ip, "IP address of either end of the socket (with !=, neither is)."),
    address("fd.cport", Ends::Client, What::Port, "Port of the socket's client."),
    address(
        "fd.sport",
        Ends::Server,
        What::Port,
        "Port of the socket's server; of a socket that is not connected, the port it is bound to.",
    ),
    address("fd.port", Ends::Either, What::Port, "Port of either end of the socket (with !=, neither is)."),
    address("fd.cnet", Ends::Client, What::Net, "Network of the client: fd.cnet = 10.0.0.0/8."),
    address("fd.snet", Ends::Server, What::Net, "Network of the server: fd.snet = 10.0.0.0/8."),
    address(
        "fd.net",
        Ends::Either,
        What::Net,
        "Network of either end of the socket: fd.net = 10.0.0.0/8 (with !=, neither is in it).",
    ),
    ip(Field::LocalIp, &["fd.lip"]),
    ip(Field::RemoteIp, &["fd.rip"]),
    number(Field::LocalPort, &["fd.lport"]),
    number(Field::RemotePort, &["fd.rport"]),
    network("fd.lnet", Field::LocalIp, "Network of the socket's own end: fd.lnet = 10.0.0.0/8."),
    network("fd.rnet", Field::RemoteIp, "Network of the socket's other end: fd.rnet = 10.0.0.0/8."),
    text(Field::L4Proto, &["fd.l4proto"]),
    text(Field::Error, &["io.error"]),
    number(Field::Result, &["evt.rawres"]),
    derived("evt.res", &[], Source::Text(Text::Outcome), "Name of the error; SUCCESS if the event did not fail."),
    truth("evt.failed", Bool::Failed, "Whether the event failed: it has an error, or a result below 0."),
    truth(
        "evt.is_io",
        Bool::Among(Field::Kind, &["read", "write"]),
        "Whether the event reads or writes: its kind is read or write.",
    ),
    truth("evt.is_io_read", Bool::Among(Field::Kind, &["read"]), "Whether the kind of the event is read."),
    truth("evt.is_io_write", Bool::Among(Field::Kind, &["write"]), "Whether the kind of the event is write."),
    part("evt.io_dir", Field::Kind, Part::Direction, "read or write; missing for every other kind."),
    truth(
        "evt.is_wait",
        Bool::Among(Field::Name, &["poll", "ppoll", "select", "epoll_wait", "nanosleep"]),
        "Whether the system call is one that waits: poll, ppoll, select, epoll_wait or nanosleep.",
    ),
    derived(
        "evt.dir",
        &[],
        Source::Text(Text::Completed),
        "Always <, sysdig's sign for a completion: every event is a completed one.",
    ),
    counted("evt.count", Number::One, "Always 1."),
    derived(
        "evt.around",
        &[],
        Source::Around,
        "evt.around[T]=D holds when the event completed within D of the moment T; a bare D counts milliseconds.",
    ),
    counted(
        "evt.phase",
        Number::Phase,
        "evt.phase[P] is the time from the last multiple of P on the trace's clock to the completion.",
    ),
    counted("evt.latency.s", Number::Seconds(Clocked::Latency), "Whole seconds of the latency."),
    counted("evt.latency.ns", Number::Nanos(Clocked::Latency), "Nanoseconds of the latency after its whole seconds."),
    counted("evt.rawtime.s", Number::Seconds(Clocked::End), "Whole seconds of the completion on the trace's clock."),
    counted("evt.rawtime.ns", Number::Nanos(Clocked::End), "Nanoseconds of the completion after its whole seconds."),
    counted("evt.reltime.s", Number::Seconds(Clocked::SinceStart), "Whole seconds of evt.reltime."),
    counted(
        "evt.reltime.ns",
        Number::Nanos(Clocked::SinceStart),
        "Nanoseconds of evt.reltime after its whole seconds.",
    ),
    number(Field::Cpu, &["evt.cpu"]),
    text(Field::Category, &["evt.category"]),
    text(Field::CallArgs, &["evt.args"]),
    text(Field::Exe, &["proc.exe"]),
    text(Field::ExePath, &["proc.exepath"]),
    text(Field::Args, &["proc.args"]),
    text(Field::Cmdline, &["proc.cmdline"]),
    text(Field::Cwd, &["proc.cwd"]),
    number(Field::Ppid, &["proc.ppid"]),
    text(Field::Parent, &["proc.pname"]),
    number(Field::Uid, &["user.uid"]),
    text(Field::User, &["user.name"]),
    number(Field::Gid, &["group.gid"]),
    text(Field::Group, &["group.name"]),
    text(Field::DiskModel, &["disk.model"]),
    FilterField {
        name: "",
        aliases: &["disk.rotational"],
        meaning: "",
        source: Source::Bool(Bool::Column(Field::Rotational)),
    },
    text(Field::Container, &["container.id"]),
    text(Field::ContainerName, &["container.name"]),
    text(Field::ContainerImage, &["container.image"]),
    text(Field::Cgroup, &[]),
    text(Field::Sequential, &["io.sequential"]),
    number(Field::InFlight, &["io.in_flight"]),
    number(Field::SincePrevious, &["since_previous", "io.since_previous"]),
    text(Field::Region, &["io.region"]),
    text(Field::Dispatcher, &["io.dispatcher"]),
    text(Field::Trace, &[]),
    text(Field::State, &["thread.state"]),
    FilterField { name: "", aliases: &[], meaning: "", source: Source::Bool(Bool::Column(Field::InIowait)) },
    text(Field::WaitClass, &["wait"]),
    text(Field::Tags, &[]),
    part(
        "tags.pair",
        Field::Tags,
        Part::Pair,
        "Each key=value of the tags: tags.pair = \"stage=3\" (with !=, none is).",
    ),
    text(Field::Tag, &[]),
    text(Field::StackQuality, &[]),
    text(Field::StackSource, &[]),
    text(Field::StackHash, &[]),
    text(Field::Stack, &[]),
    part("frame", Field::Stack, Part::Frame, "Each function of the stack: frame = archive_scan (with !=, none is)."),
    text(Field::App, &[]),
    number(Field::Stage, &[]),
    number(Field::StageAttempt, &[]),
    number(Field::Task, &[]),
    number(Field::TaskIndex, &[]),
    number(Field::Attempt, &[]),
    number(Field::Sql, &[]),
    text(Field::Executor, &[]),
    text(Field::Locality, &[]),
    FilterField { name: "", aliases: &[], meaning: "", source: Source::Bool(Bool::Column(Field::Speculative)) },
    number(Field::Cores, &[]),
    number(Field::RunTime, &["run"]),
    number(Field::CpuTime, &["task.cpu"]),
    number(Field::GcTime, &["gc"]),
    number(Field::FetchWait, &["fetch_wait"]),
    number(Field::ShuffleWrite, &["shuffle_write"]),
    number(Field::SchedulerDelay, &["scheduler_delay"]),
    number(Field::Deserialize, &["deserialize"]),
    number(Field::DeserializeCpu, &["deserialize_cpu"]),
    number(Field::ResultSerialization, &["result_serialization"]),
    number(Field::GettingResult, &["getting_result"]),
    number(Field::Remainder, &["remainder"]),
    number(Field::Spilled, &[]),
    number(Field::DiskSpilled, &[]),
    number(Field::PeakMemory, &[]),
    number(Field::ResultSize, &[]),
    number(Field::InputBytes, &[]),
    number(Field::InputRecords, &[]),
    number(Field::OutputBytes, &[]),
    number(Field::OutputRecords, &[]),
    number(Field::ShuffleRemote, &[]),
    number(Field::ShuffleLocal, &[]),
    number(Field::ShuffleToDisk, &[]),
    number(Field::ShuffleRecords, &[]),
    number(Field::RemoteBlocks, &[]),
    number(Field::LocalBlocks, &[]),
    number(Field::ShuffleWritten, &[]),
    number(Field::ShuffleWrittenRecords, &[]),
    number(Field::SampleWeight, &["evt.sample_weight"]),
];

/// Every name that filters know, in the order of `latscope fields`.
pub fn filter_fields() -> &'static [FilterField] {
    FIELDS
}

/// The field of this name or alias.
pub(crate) fn find(name: &str) -> Option<&'static FilterField> {
    FIELDS.iter().find(|field| field.name() == name || field.aliases.contains(&name))
}

/// All names and aliases.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().flat_map(|field| std::iter::once(field.name()).chain(field.aliases.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// A rename breaks every filter that was ever saved, so it has to be a decision.
    #[test]
    fn the_list_of_names_is_frozen() {
        assert_eq!(
            names().collect::<Vec<_>>().join(" "),
            "time_ns time start end ts evt.time evt.rawtime evt.datetime evt.time.iso8601 evt.reltime reltime \
             latency_ns lat latency evt.latency queue_ns queue io.queue intended_ns intended \
             service_ns service lag_ns lag cpu_wait_ns cpu_wait cache io.cache kind io.kind rw direction name evt.type \
             syscall.type size io.size evt.buflen offset io.offset device disk.name disk.dev dev host host.name client job \
             job.name pid proc.pid tid thread.tid comm thread.name process proc.name thread.ismain fd fd.num fd_type fd.type fd.typechar \
             path fd.name fd.directory fd.filename fd.cip fd.sip fd.ip fd.cport fd.sport fd.port fd.cnet fd.snet fd.net \
             local_ip fd.lip remote_ip fd.rip local_port fd.lport remote_port fd.rport fd.lnet fd.rnet l4proto fd.l4proto \
             error io.error result evt.rawres evt.res evt.failed evt.is_io \
             evt.is_io_read evt.is_io_write evt.io_dir evt.is_wait evt.dir evt.count evt.around evt.phase evt.latency.s \
             evt.latency.ns evt.rawtime.s evt.rawtime.ns evt.reltime.s evt.reltime.ns cpu evt.cpu category evt.category \
             call_args evt.args exe proc.exe exe_path proc.exepath args proc.args cmdline proc.cmdline cwd proc.cwd ppid \
             proc.ppid parent proc.pname uid user.uid user user.name gid group.gid group group.name disk_model disk.model \
             disk_rotational disk.rotational container container.id container_name container.name container_image \
             container.image cgroup sequential io.sequential in_flight io.in_flight since_previous_ns since_previous \
             io.since_previous region io.region dispatcher io.dispatcher trace state thread.state in_iowait wait_class wait tags tags.pair tag \
             stack_quality stack_source stack_hash stack frame \
             app stage stage_attempt task task_index attempt sql executor locality speculative cores run_ns run \
             cpu_ns task.cpu gc_ns gc fetch_wait_ns fetch_wait shuffle_write_ns shuffle_write scheduler_delay_ns \
             scheduler_delay deserialize_ns deserialize deserialize_cpu_ns deserialize_cpu \
             result_serialization_ns result_serialization getting_result_ns getting_result remainder_ns remainder \
             spilled disk_spilled peak_memory result_size input input_records output output_records \
             shuffle_remote shuffle_local shuffle_to_disk shuffle_records remote_blocks local_blocks \
             shuffle_written shuffle_written_records \
             sample_weight \
             evt.sample_weight"
        );
    }

    #[test]
    fn no_name_means_two_things_and_every_column_has_one() {
        let mut seen = HashSet::new();
        assert!(names().all(|name| seen.insert(name)));
        for &field in Field::ALL {
            let found = find(field.name()).unwrap();
            assert!(found.fields().contains(field), "{}", field.name());
        }
        assert!(filter_fields().iter().all(|field| field.meaning().ends_with('.')));
    }
}
