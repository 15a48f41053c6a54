//! The one table of fields: names, storage, units and meaning. Everything that names a column
//! (`--by`, `--columns`, CSV, JSON, Parquet, the filter) takes the name from here.

/// How the values of a field are stored and what unit they carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldType {
    /// A moment, `i64` nanoseconds since the epoch of the trace's clock.
    Time,
    /// A length of time, `u64` nanoseconds.
    Duration,
    /// A number of bytes, `u64`.
    Bytes,
    /// An identifier or a result, `i64`.
    Number,
    /// Text, dictionary encoded.
    Text,
}

impl FieldType {
    /// The word that `latscope fields` prints.
    pub fn word(self) -> &'static str {
        match self {
            FieldType::Time => "time",
            FieldType::Duration => "duration",
            FieldType::Bytes => "bytes",
            FieldType::Number => "number",
            FieldType::Text => "text",
        }
    }
}

macro_rules! fields {
    ($($variant:ident $name:literal $type:ident $meaning:literal;)*) => {
        /// A column of an event.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Field {
            $(#[doc = $meaning] $variant,)*
        }

        impl Field {
            /// All fields, in the order in which tables show them.
            pub const ALL: &'static [Field] = &[$(Field::$variant,)*];
            /// How many fields there are.
            pub const COUNT: usize = Field::ALL.len();

            /// The name in `--by`, `--columns`, CSV, JSON and Parquet.
            pub fn name(self) -> &'static str {
                match self { $(Field::$variant => $name,)* }
            }

            /// Storage and unit.
            pub fn field_type(self) -> FieldType {
                match self { $(Field::$variant => FieldType::$type,)* }
            }

            /// What the field means, one line.
            pub fn meaning(self) -> &'static str {
                match self { $(Field::$variant => $meaning,)* }
            }
        }
    };
}

fields! {
    Time "time_ns" Time "Start of the event.";
    Latency "latency_ns" Duration "How long the event took, from start to completion.";
    Kind "kind" Text "Kind of operation: read, write, flush, discard, trim, sync, open or other; of Spark: task, stage, job, sql, executor or memory.";
    Name "name" Text "Name of the system call, or the kernel's flag letters of a block request.";
    Size "size" Bytes "Bytes requested or moved.";
    Offset "offset" Bytes "Position on the device or in the file, in bytes.";
    Device "device" Text "Device name if the source has it, otherwise its number.";
    Dev "dev" Text "Device number as major:minor; in a filter, also the name of the device.";
    Host "host" Text "Host on which the event happened.";
    Job "job" Text "fio job, thread or volume; job of a Spark application.";
    Pid "pid" Number "Process that issued the event.";
    Tid "tid" Number "Thread that issued the event.";
    Comm "comm" Text "Command name of the thread that issued the event (the kernel keeps 15 characters).";
    Process "process" Text "Name of the process: the command name of its main thread (if the trace lacks it, of \
                            the thread).";
    Fd "fd" Number "File descriptor.";
    FdType "fd_type" Text "What the file descriptor is: file, directory, ipv4, ipv6, unix, pipe ...";
    Path "path" Text "File name or socket address.";
    Error "error" Text "Name of the error; missing if the event succeeded.";
    Result "result" Number "What the system call returned; of memory of Spark, how many collections there were.";
    Queue "queue_ns" Duration "How long the request waited before it was (last) issued to the device.";
    Intended "intended_ns" Time "When a request of a probe was due.";
    Service "service_ns" Duration "How long the target took for a probe's request, from submission to completion.";
    Lag "lag_ns" Duration "How late the machine made a probe's request, not counting the wait for earlier \
                           requests; not part of the latency.";
    CpuWait "cpu_wait_ns" Duration "How long the thread waited for a CPU during a slow request of a probe.";
    Cache "cache" Text "Where the data of a probe's request was before it: memory or device.";
    Container "container" Text "Container identifier.";
    ContainerName "container_name" Text "Name of the container, if its runtime has it on disk.";
    ContainerImage "container_image" Text "Image of the container, if its runtime has it on disk.";
    Cgroup "cgroup" Text "Control group of the process, such as /system.slice/postgresql.service; with hierarchies of version 1, \
                          that of blkio, or where that is the root, of another.";
    Cpu "cpu" Number "CPU on which the event completed.";
    Category "category" Text "What the system call belongs to: file, net, ipc, memory, process, sleep, system, signal, user, time, wait, other or unknown.";
    CallArgs "call_args" Text "Arguments of the system call by name, as numbers (pointers are left out).";
    LocalIp "local_ip" Text "IP address of the socket's own end.";
    LocalPort "local_port" Number "Port of the socket's own end.";
    RemoteIp "remote_ip" Text "IP address of the socket's other end.";
    RemotePort "remote_port" Number "Port of the socket's other end.";
    L4Proto "l4proto" Text "Transport protocol of the socket: tcp, udp, icmp, raw ...";
    Exe "exe" Text "First argument of the process's command line, usually the name of its program.";
    ExePath "exe_path" Text "Path of the executable of the process.";
    Args "args" Text "Arguments of the process after the first.";
    Cmdline "cmdline" Text "Name of the process and its arguments.";
    Cwd "cwd" Text "Working directory of the process.";
    Ppid "ppid" Number "Parent of the process.";
    Parent "parent" Text "Name of the parent of the process.";
    Uid "uid" Number "Effective user ID of the thread.";
    User "user" Text "Name of the effective user.";
    Gid "gid" Number "Effective group ID of the thread.";
    Group "group" Text "Name of the effective group.";
    DiskModel "disk_model" Text "Model of the disk.";
    Rotational "disk_rotational" Text "Whether the disk says that it rotates: true or false.";
    Sequential "sequential" Text "sequential if the request starts where one of the last 32 requests of the same device and \
                                  kind ended, otherwise random.";
    InFlight "in_flight" Number "Requests of the same device that were in flight when this one started.";
    SincePrevious "since_previous_ns" Duration "Time since the previous request of the same device started.";
    Region "region" Text "Part of the device, 1/64 to 64/64; the device is taken to end at the power of two after the \
                          highest offset.";
    Dispatcher "dispatcher" Text "Which thread handed the block request to the driver: issuer if the one that made it, other if \
                                  another one, such as a kworker; missing if the trace does not record when requests are made.";
    Trace "trace" Text "File that the event was read from, as it was given.";
    State "state" Text "State of the thread when it was sampled: running, runnable, disk sleep, sleep, stopped ...";
    InIowait "in_iowait" Text "Whether the scheduler counts the waiting thread as one that waits for I/O: true or false; missing while it runs.";
    WaitClass "wait_class" Text "What a waiting thread waited for, by its kernel stack: direct read, page-cache miss, journal \
                                 commit, device flush, device queue full ...";
    Tags "tags" Text "Tags of the application, as key=value separated by semicolons.";
    Tag "tag" Text "Value of the tag that --by tag:KEY names.";
    StackQuality "stack_quality" Text "How the user part of the stack was found: complete, truncated, frame pointers or none; issuer moved \
                                       on: the thread that issued the request did something else by then, and no stack is given; issued by the kernel and issuer unknown: there \
                                       was no thread to look at.";
    StackSource "stack_source" Text "When the stack was taken: sampled, issue, completion, waiting, switch or timer.";
    StackHash "stack_hash" Text "Number of the call stack, the same on every host: FNV-1a of its text in 16 hexadecimal digits.";
    Stack "stack" Text "Call stack, from the outermost frame to the innermost, separated by semicolons; _[k] marks frames of \
                        the kernel, _[j] compiled at run time, _[i] inlined.";
    App "app" Text "Spark application.";
    Stage "stage" Number "Stage of the task, by its number in the application.";
    StageAttempt "stage_attempt" Number "Attempt of the stage, from 0.";
    Task "task" Number "Task, by its number in the application.";
    TaskIndex "task_index" Number "Place of the task in its stage, from 0.";
    Attempt "attempt" Number "Attempt of the task, from 0.";
    Sql "sql" Number "Execution of a Spark SQL query that the event belongs to.";
    Executor "executor" Text "Executor that ran the task.";
    Locality "locality" Text "How near the data of the task were: PROCESS_LOCAL, NODE_LOCAL, NO_PREF, RACK_LOCAL or ANY.";
    Speculative "speculative" Text "Whether the task is a second copy of a slow one: true or false.";
    Cores "cores" Number "Cores of the executor.";
    RunTime "run_ns" Duration "Time that the executor ran the task, with fetches, GC and I/O.";
    CpuTime "cpu_ns" Duration "CPU time of the task's own thread within its run time.";
    GcTime "gc_ns" Duration "Time that the JVM of the executor collected garbage during the task; tasks that run together each count it.";
    FetchWait "fetch_wait_ns" Duration "Time that the task waited for shuffle data from other executors.";
    ShuffleWrite "shuffle_write_ns" Duration "Time that the task wrote shuffle data.";
    SchedulerDelay "scheduler_delay_ns" Duration "Part of the task that is neither run, deserialization, serialization of the result nor its fetch.";
    Deserialize "deserialize_ns" Duration "Time until the executor had the task's code, before it ran.";
    DeserializeCpu "deserialize_cpu_ns" Duration "CPU time of that.";
    ResultSerialization "result_serialization_ns" Duration "Time that the executor serialized the result of the task.";
    GettingResult "getting_result_ns" Duration "Time that the driver fetched the result of the task.";
    Remainder "remainder_ns" Duration "Part of the run time that is neither CPU, GC, fetch wait nor shuffle write: I/O, Python, waits for a CPU.";
    Spilled "spilled" Bytes "Size in memory of what the task spilled.";
    DiskSpilled "disk_spilled" Bytes "What the task wrote to disk for that.";
    PeakMemory "peak_memory" Bytes "Peak of execution memory of the task.";
    ResultSize "result_size" Bytes "Size of the task's result.";
    InputBytes "input" Bytes "What the task read of files and caches.";
    InputRecords "input_records" Number "Records that the task read of files and caches.";
    OutputBytes "output" Bytes "What the task wrote to files.";
    OutputRecords "output_records" Number "Records that the task wrote to files.";
    ShuffleRemote "shuffle_remote" Bytes "Shuffle data that the task read from other executors.";
    ShuffleLocal "shuffle_local" Bytes "Shuffle data that the task read on its own executor.";
    ShuffleToDisk "shuffle_to_disk" Bytes "The part of shuffle_remote that went to disk first, as it was large.";
    ShuffleRecords "shuffle_records" Number "Records of shuffle data that the task read.";
    RemoteBlocks "remote_blocks" Number "Blocks of shuffle data that the task read from other executors.";
    LocalBlocks "local_blocks" Number "Blocks of shuffle data that the task read on its own executor.";
    ShuffleWritten "shuffle_written" Bytes "Shuffle data that the task wrote.";
    ShuffleWrittenRecords "shuffle_written_records" Number "Records of shuffle data that the task wrote.";
    SampleWeight "sample_weight" Number "How many events this one stands for, in a sampled trace; missing means one.";
}

impl Field {
    /// The field of this name; a name without its `_ns` suffix is accepted too.
    pub fn from_name(name: &str) -> Option<Field> {
        Field::ALL.iter().copied().find(|field| field.name() == name || field.name().strip_suffix("_ns") == Some(name))
    }

    /// The fields that an event must have for this one to be known: of a [derived](FieldSet::DERIVED) field those that it is
    /// computed from, else the field itself.
    pub fn needed(self) -> FieldSet {
        match self {
            Field::Sequential => FieldSet::ALWAYS.with(&[Field::Offset, Field::Size]),
            Field::InFlight | Field::SincePrevious | Field::Trace => FieldSet::ALWAYS,
            Field::Region => FieldSet::ALWAYS.with(&[Field::Offset]),
            Field::StackHash => FieldSet::default().with(&[Field::Stack]),
            field => FieldSet::default().with(&[field]),
        }
    }
}

impl serde::Serialize for Field {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> serde::Deserialize<'de> for Field {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Field, D::Error> {
        let name = String::deserialize(deserializer)?;
        Field::from_name(&name).ok_or_else(|| serde::de::Error::custom(format_args!("there is no field {name}")))
    }
}

/// A set of fields: what a view needs, or what a source fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FieldSet(u128);

impl FieldSet {
    /// No field.
    pub const EMPTY: FieldSet = FieldSet(0);
    /// Time and latency, which every event has.
    pub const ALWAYS: FieldSet = FieldSet(1 << Field::Time as u8 | 1 << Field::Latency as u8);
    /// What a tracer records of a request: what was asked, of which place and device, by whom, and how it ended.
    pub const TRACED: FieldSet = FieldSet::ALWAYS.with(&[
        Field::Kind,
        Field::Name,
        Field::Size,
        Field::Offset,
        Field::Device,
        Field::Dev,
        Field::Pid,
        Field::Tid,
        Field::Comm,
        Field::Error,
    ]);
    /// What a live capture learns of the process of an event.
    pub const OF_PROCESS: FieldSet = FieldSet(0).with(&[
        Field::Exe,
        Field::ExePath,
        Field::Args,
        Field::Cmdline,
        Field::Cwd,
        Field::Ppid,
        Field::Parent,
        Field::Uid,
        Field::User,
        Field::Gid,
        Field::Group,
    ]);
    /// What a live capture fills only when it is asked for by name, as it costs something per event.
    pub const BY_NAME: FieldSet = FieldSet::OF_PROCESS.with(&[
        Field::ContainerName,
        Field::ContainerImage,
        Field::Cgroup,
        Field::Cpu,
        Field::Category,
        Field::CallArgs,
        Field::LocalIp,
        Field::LocalPort,
        Field::RemoteIp,
        Field::RemotePort,
        Field::L4Proto,
        Field::DiskModel,
        Field::Rotational,
    ]);
    /// What is computed from the events of a whole trace in the order of their start, and only where it is asked for by name.
    pub const DERIVED: FieldSet =
        FieldSet(0).with(&[Field::Sequential, Field::InFlight, Field::SincePrevious, Field::Region]);
    /// Every field that a trace may hold.
    pub const EVERY: FieldSet = FieldSet((1 << Field::COUNT) - 1)
        .without(FieldSet::DERIVED)
        .without(FieldSet(1 << Field::Trace as u8 | 1 << Field::StackHash as u8));

    /// The set with these fields added.
    #[must_use]
    pub const fn with(self, fields: &[Field]) -> FieldSet {
        // A constant function has no iterators.
        let (mut set, mut at) = (self.0, 0);
        while at < fields.len() {
            set |= 1 << fields[at] as u8;
            at += 1;
        }
        FieldSet(set)
    }

    /// With what is stored in place of what follows from it by itself: a stack for its hash.
    #[must_use]
    pub const fn with_stored(self) -> FieldSet {
        match self.contains(Field::StackHash) {
            true => self.without(FieldSet(1 << Field::StackHash as u8)).with(&[Field::Stack]),
            false => self,
        }
    }

    /// With what follows by itself from what is in the set: the hash of a stack.
    #[must_use]
    pub const fn with_implied(self) -> FieldSet {
        if self.contains(Field::Stack) { self.with(&[Field::StackHash]) } else { self }
    }

    /// Whether the field is in the set.
    pub const fn contains(self, field: Field) -> bool {
        self.0 >> field as u8 & 1 == 1
    }

    /// Fields in either set.
    #[must_use]
    pub const fn union(self, other: FieldSet) -> FieldSet {
        FieldSet(self.0 | other.0)
    }

    /// Fields in both sets.
    #[must_use]
    pub const fn intersection(self, other: FieldSet) -> FieldSet {
        FieldSet(self.0 & other.0)
    }

    /// The fields of this set that are not in the other.
    #[must_use]
    pub const fn without(self, other: FieldSet) -> FieldSet {
        FieldSet(self.0 & !other.0)
    }

    /// The fields of the set in table order.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        Field::ALL.iter().copied().filter(move |&field| self.contains(field))
    }
}

impl FromIterator<Field> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> FieldSet {
        fields.into_iter().fold(FieldSet::default(), |set, field| set.with(&[field]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rename breaks every script that names a column, so it has to be a decision.
    #[test]
    fn the_list_of_fields_is_frozen() {
        let names: Vec<_> = Field::ALL.iter().map(|field| field.name()).collect();
        assert_eq!(
            names.join(" "),
            "time_ns latency_ns kind name size offset device dev host job pid tid comm process fd fd_type path error result \
             queue_ns intended_ns service_ns lag_ns cpu_wait_ns cache container container_name container_image cgroup cpu category \
             call_args local_ip local_port remote_ip remote_port l4proto exe exe_path args cmdline cwd ppid parent uid user \
             gid group disk_model disk_rotational sequential in_flight since_previous_ns region dispatcher trace state in_iowait wait_class tags tag \
             stack_quality stack_source stack_hash stack app stage stage_attempt task task_index attempt sql executor locality speculative cores \
             run_ns cpu_ns gc_ns fetch_wait_ns shuffle_write_ns scheduler_delay_ns deserialize_ns deserialize_cpu_ns \
             result_serialization_ns getting_result_ns remainder_ns spilled disk_spilled peak_memory result_size input \
             input_records output output_records shuffle_remote shuffle_local shuffle_to_disk shuffle_records remote_blocks \
             local_blocks shuffle_written shuffle_written_records sample_weight"
        );
    }

    #[test]
    fn names_lead_back_to_their_field() {
        for &field in Field::ALL {
            assert_eq!(Field::from_name(field.name()), Some(field));
        }
        assert_eq!(Field::from_name("latency"), Some(Field::Latency));
        assert_eq!(Field::from_name("nosuch"), None);
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        let set: FieldSet = [Field::Comm, Field::Time].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [Field::Time, Field::Comm]);
        assert!(FieldSet::EVERY.contains(Field::Stack));
        assert_eq!(set.intersection(FieldSet::ALWAYS).iter().collect::<Vec<_>>(), [Field::Time]);
    }
}
