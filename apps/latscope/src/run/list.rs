//! `latscope fields` and `latscope formats`.

use super::output;
use crate::Failure;
use latscope_capture_file::Format;
use latscope_event::{Field, FieldSet};
use latscope_filter::filter_fields;
use latscope_view_term::{Align, Line, Table};
use std::path::Path;

pub fn fields(json: bool) -> Result<(), Failure> {
    let aliases = |name: &str| {
        let known = filter_fields().iter().find(|known| known.name() == name);
        known.map_or(String::new(), |known| known.aliases().join(" "))
    };
    let columns: Vec<_> = Field::ALL
        .iter()
        .map(|&field| {
            (
                field.name().to_string(),
                aliases(field.name()),
                field.field_type().word(),
                field.meaning(),
                FieldSet::default().with(&[field]),
            )
        })
        .collect();
    let own = |name: &str| Field::ALL.iter().any(|field| field.name() == name);
    let filters = filter_fields().iter().filter(|field| !own(field.name()));
    let filters: Vec<_> = filters
        .map(|field| {
            (field.name().to_string(), field.aliases().join(" "), field.type_word(), field.meaning(), field.fields())
        })
        .collect();
    if json {
        let object = |kind: &str, (name, aliases, word, meaning, needs): &(String, String, &str, &str, FieldSet)| {
            let list = |words: Vec<&str>| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(",");
            let aliases = list(aliases.split_whitespace().collect());
            format!(
                "{{\"name\":\"{name}\",\"aliases\":[{aliases}],\"use\":\"{kind}\",\"type\":\"{word}\",\"meaning\":\"{}\",\"formats\":[{}]}}",
                meaning.replace('"', "'"),
                list(filled_by(*needs))
            )
        };
        let lines: Vec<_> = columns
            .iter()
            .map(|row| object("column", row))
            .chain(filters.iter().map(|row| object("filter", row)))
            .collect();
        return output::text(None, &format!("[\n{}\n]\n", lines.join(",\n")));
    }
    let mut lines =
        vec![Line::new("Columns: for --by, --columns, CSV, JSON, Parquet, and in the filter."), Line::default()];
    lines.extend(table(&columns));
    lines.extend([
        Line::default(),
        Line::new("More names for the filter (those of sysdig, and short ones)."),
        Line::default(),
    ]);
    lines.extend(table(&filters));
    output::lines(None, lines)
}

/// Every name that a filter understands, a line each.
pub fn names() -> Result<(), Failure> {
    let known =
        filter_fields().iter().flat_map(|field| [field.name()].into_iter().chain(field.aliases().iter().copied()));
    let mut names: Vec<&str> = Field::ALL.iter().map(|field| field.name()).chain(known).collect();
    names.sort_unstable();
    names.dedup();
    output::text(None, &(names.join("\n") + "\n"))
}

/// Writes these texts to files of these names in a folder, which is made if it is not there.
pub fn pages(folder: &Path, pages: &[(String, String)]) -> Result<(), Failure> {
    if folder.exists() && !folder.is_dir() {
        let message = format!("{} is no folder; give the name of a folder, or of a command.", folder.display());
        return Err(Failure::Usage(message));
    }
    let fails = |error| Failure::Input(format!("{}: Cannot be made: {error}.", folder.display()));
    std::fs::create_dir_all(folder).map_err(fails)?;
    pages.iter().try_for_each(|(name, text)| output::text(Some(&folder.join(name)), text))?;
    say!("latscope: {} manual pages in {}", pages.len(), folder.display());
    Ok(())
}

fn table(rows: &[(String, String, &str, &str, FieldSet)]) -> Vec<Line> {
    let mut table = Table::new(["name", "also", "type", "formats", "meaning"].map(|title| (title, Align::Left)));
    for (name, aliases, word, meaning, needs) in rows {
        let formats = filled_by(*needs);
        let with_events = Format::ALL.iter().filter(|format| format.fills() != FieldSet::default()).count();
        let formats = if formats.len() == with_events { "all".into() } else { formats.join(" ") };
        table.push(vec![name.clone(), aliases.clone(), word.to_string(), formats, meaning.to_string()]);
    }
    let width = if output::to_terminal(&None) { output::columns(&None) } else { 10_000 };
    let heading = table.heading(width);
    std::iter::once(heading).chain(table.take_lines(width)).collect()
}

/// The formats that can fill all of these, or what they are derived from.
fn filled_by(fields: FieldSet) -> Vec<&'static str> {
    let fields = fields.iter().fold(FieldSet::EMPTY, |needed, field| needed.union(field.needed()));
    Format::ALL
        .iter()
        .filter(|format| !format.is_series() && format.fills().intersection(fields) == fields)
        .map(|format| format.name())
        .collect()
}

pub fn formats(json: bool) -> Result<(), Failure> {
    if json {
        let lines: Vec<_> = Format::ALL
            .iter()
            .map(|format| {
                let fields: Vec<_> = format.fills().iter().map(|field| format!("\"{}\"", field.name())).collect();
                format!(
                    "{{\"name\":\"{}\",\"meaning\":\"{}\",\"fields\":[{}]}}",
                    format.name(),
                    format.meaning(),
                    fields.join(",")
                )
            })
            .collect();
        return output::text(None, &format!("[\n{}\n]\n", lines.join(",\n")));
    }
    let mut table = Table::new(["name", "what"].map(|title| (title, Align::Left)));
    Format::ALL.iter().for_each(|format| table.push(vec![format.name().into(), format.meaning().into()]));
    output::lines(None, table.take_lines(output::columns(&None)))
}
