//! What is read, and which of its events.

use super::folding::duration;
use super::{Live, Mode, Reading};
use crate::{Failure, args};
use latscope_capture_bpf::Source;
use latscope_capture_file::{FioColumns, Format, TwoColumns};
use latscope_filter::Filter;
use latscope_pipeline::{Server, TagSources, Tagging};
use latscope_wire::{Address, Credentials};

pub fn reading(input: &args::Input, over_time: bool) -> Result<Reading, Failure> {
    check_hubs(input)?;
    let live = if input.read.is_empty() { Some(live(input.source, &input.live)?) } else { None };
    let typed = &input.files;
    let of_files = [
        ("--correct-omission", typed.correct_omission.is_some()),
        ("--log-columns", typed.log_columns.is_some()),
        ("--lenient", typed.lenient),
        ("--unitstime", typed.units_time.is_some()),
        ("--unitslat", typed.units_latency.is_some()),
        ("--format", typed.format.is_some()),
        ("--offsets", input.offsets.is_some()),
        ("--align-starts", input.align_starts),
    ];
    if let Some((option, _)) = of_files.iter().find(|(_, given)| *given && live.is_some()) {
        return Err(Failure::Usage(format!("{option} needs a file; give one with -r.")));
    }
    // Files at the end are files too, of which clap knows nothing.
    if let Some(option) = input.live.given().filter(|_| live.is_none()) {
        let file = input.read.first().map(|file| file.display().to_string()).unwrap_or_default();
        return Err(Failure::Usage(format!(
            "{option} is for live captures and cannot be combined with a file ({file})."
        )));
    }
    let format = match &typed.format {
        None => None,
        Some(name) => Some(Format::from_name(name).ok_or_else(|| {
            let known: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
            Failure::Usage(format!("Unknown format {name}; known formats: {}.", known.join(", ")))
        })?),
    };
    let unit = |name: &Option<String>| match name {
        None => Ok(None),
        Some(name) => TwoColumns::unit(name)
            .map(Some)
            .ok_or_else(|| Failure::Usage(format!("{name} is not a unit of time; use s, ms, us or ns."))),
    };
    let unit_bytes = typed.units_latency.as_deref().and_then(TwoColumns::bytes);
    let two_columns = TwoColumns {
        time_unit_ns: unit(&typed.units_time)?.unwrap_or(TwoColumns::default().time_unit_ns),
        latency_unit_ns: if unit_bytes.is_some() { None } else { unit(&typed.units_latency)? },
        unit_bytes,
    };
    if input.follow && input.read.len() != 1 {
        return Err(Failure::Usage("--follow reads one file; give one -r.".into()));
    }
    let fio_columns = typed.log_columns.as_deref().map(fio_columns).transpose()?;
    Ok(Reading {
        files: input.read.clone(),
        missing: 0,
        over_time,
        follow: input.follow,
        live,
        // Whoever says what the columns of a log are says that it is one.
        format: format.or(fio_columns.map(|_| Format::FioLog)),
        all_syscalls: input.source == Some(args::Source::Syscall),
        only_io: input.source == Some(args::Source::Io),
        all_of_spark: input.source == Some(args::Source::Spark),
        usage: Vec::new(),
        two_columns,
        fio_columns,
        lenient: typed.lenient,
        from_queue: typed.latency == args::Latency::Request,
        offsets: input.offsets.clone(),
        within: None,
        block_ns: None,
        align_starts: input.align_starts,
        omitted_every_ns: duration("--correct-omission", &typed.correct_omission)?,
        tagging: tagging(&input.tagging, input.read.is_empty())?,
        filter: filter_of(input)?,
        typed_filter: typed_filter(input)?,
    })
}

/// Where tags come from.
pub fn tagging(typed: &args::Tagging, is_live: bool) -> Result<Option<Tagging>, Failure> {
    if typed.tag_postgres.is_some() && !is_live {
        return Err(Failure::Usage(
            "--tag-postgres asks a database what it does now, and needs a live capture.".into(),
        ));
    }
    if typed.tag_socket.is_some() && !is_live {
        return Err(Failure::Usage(
            "--tag-socket takes what programs say now, and needs a live capture; files have --tag-file.".into(),
        ));
    }
    let server = typed.tag_postgres.as_deref().map(Server::parse).transpose();
    let postgres = server.map_err(|why| Failure::Usage(format!("--tag-postgres: {why}.")))?;
    let sources = TagSources { file: typed.tag_file.clone(), socket: typed.tag_socket.clone(), postgres };
    let is_given = sources != TagSources::default() || typed.tag.is_some();
    Ok(is_given.then(|| Tagging::new(sources, typed.tag.clone())))
}

/// Hubs have addresses, and those of other machines can be trusted.
fn check_hubs(input: &args::Input) -> Result<(), Failure> {
    for address in input.read.iter().filter_map(|path| Address::of_input(path)) {
        let address = address.map_err(|why| Failure::Usage(format!("-r hub: {why}")))?;
        let is_encrypted = Credentials::of_environment().encrypt_to_hub();
        let is_encrypted = is_encrypted.map_err(|why| Failure::Usage(format!("{why}: set LATSCOPE_CA.")))?;
        if !address.is_local() && !is_encrypted {
            return Err(Failure::Usage(format!(
                "-r hub://{address} is another machine, which needs TLS: set LATSCOPE_CA, and LATSCOPE_TOKEN_FILE or \
                 LATSCOPE_CERT and LATSCOPE_KEY, to the names of files."
            )));
        }
    }
    Ok(())
}

fn fio_columns(names: &str) -> Result<FioColumns, Failure> {
    FioColumns::parse(names).ok_or_else(|| {
        Failure::Usage(format!(
            "--log-columns {names}: no version of fio writes such rows; use {} in this order, omitting only max, \
             offset, priority or issue.",
            FioColumns::NAMES.join(",")
        ))
    })
}

pub fn live(typed_source: Option<args::Source>, typed: &args::Live) -> Result<Live, Failure> {
    let source = typed_source.unwrap_or(args::Source::Block).captured();
    let source = source.ok_or_else(|| Failure::Usage("-s spark is for event logs; give one with -r.".into()))?;
    let of_stacks = source.stacks().is_some();
    if let Some(option) = typed.stacks.given_of_sampler().filter(|_| !of_stacks) {
        return Err(Failure::Usage(format!("{option} needs -s stacks, offcpu or oncpu.")));
    }
    if typed.stacks.stacks.is_some() && source.alone() != Source::Block {
        return Err(Failure::Usage("--stacks is about requests to block devices and needs -s block.".into()));
    }
    let has_stacks = of_stacks || typed.stacks.stacks.is_some();
    if let Some(option) = typed.stacks.given_of_names().filter(|_| !has_stacks) {
        return Err(Failure::Usage(format!("{option} needs -s stacks, offcpu or oncpu, or -s block with --stacks.")));
    }
    if !matches!(source.alone(), Source::Io | Source::Syscall) && !typed.calls.is_empty() {
        return Err(Failure::Usage("--calls needs -s io or -s syscall.".into()));
    }
    let calls = (!typed.calls.is_empty()).then(|| typed.calls.clone());
    Ok(Live {
        source,
        for_ns: duration("--for", &typed.for_)?,
        calls,
        mode: mode(typed.mode),
        sample: None,
        stacks: typed.stacks.options(typed_source),
    })
}

fn mode(typed: args::Mode) -> Mode {
    match typed {
        args::Mode::Auto => Mode::Auto,
        args::Mode::Histogram => Mode::Histogram,
        args::Mode::Event => Mode::Event,
    }
}

/// What `-s` selects of files.
pub fn source_filter(source: Option<args::Source>) -> Option<String> {
    source.map(args::Source::filter)
}

/// The filter that was typed, combined with one that is implied.
pub fn filter(typed: &str, kept: Option<String>) -> Result<Option<Filter>, Failure> {
    let parse = |text: &str| Filter::parse(text).map_err(|error| Failure::Usage(format!("{error}\n{}", error.caret())));
    // The user's words are parsed alone first, so that an error points into them.
    let own = if typed.trim().is_empty() { None } else { Some(parse(typed)?) };
    Ok(match (own, kept) {
        (own, None) => own,
        (None, Some(kept)) => Some(parse(&kept)?),
        (Some(own), Some(kept)) => Some(parse(&format!("({kept}) and ({own})"))?),
    })
}

/// The filter of a whole command line.
pub fn filter_of(input: &args::Input) -> Result<Option<Filter>, Failure> {
    filter(&input.filter.join(" "), source_filter(input.source.filter(|_| !input.read.is_empty())))
}

/// What of it was typed, where `-s` implies more.
fn typed_filter(input: &args::Input) -> Result<Option<String>, Failure> {
    if input.source.is_none() || input.read.is_empty() {
        return Ok(None);
    }
    let typed = filter(&input.filter.join(" "), None)?;
    Ok(Some(typed.map_or(String::new(), |filter| filter.to_string())))
}
