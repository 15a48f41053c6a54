//! Tags of the application.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// What the application did meanwhile.
#[derive(Args, Clone, Debug, Default)]
pub struct Tagging {
    /// File of tags: lines of "TID FROM TO KEY=VALUE ...", or pid:PID
    ///
    /// Times are seconds since 1970 (1763892725.25), nanoseconds if they have no point and are 100000000000 or more, numbers with a unit, or
    /// 2026-11-21T10:32:05Z; TO is - while it lasts. Live, the file may grow.
    /// Filters and --by have the fields tags and tag.
    #[arg(long, value_name = "FILE", help_heading = "Tags")]
    pub tag_file: Option<PathBuf>,
    /// Make this Unix socket, and take lines of tags that programs write to it while the capture runs
    #[arg(long, value_name = "PATH", help_heading = "Tags")]
    pub tag_socket: Option<PathBuf>,
    /// Ask this PostgreSQL server what its backends do, e.g. "host=/var/run/postgresql user=postgres"
    #[arg(long, value_name = "WORDS", help_heading = "Tags")]
    pub tag_postgres: Option<String>,
    /// Tag whose value is the field tag; --by tag:KEY gives it, too
    #[arg(long, value_name = "KEY", help_heading = "Tags")]
    pub tag: Option<String>,
}

/// `--by tag:KEY` is `--tag KEY --by tag`.
pub fn spelled_out(words: Vec<OsString>) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::with_capacity(words.len());
    let mut is_by = false;
    for word in words {
        let text = word.to_str().unwrap_or_default();
        let names = text.strip_prefix("--by=").or(is_by.then_some(text));
        let key = names.and_then(|names| names.split(',').find_map(|name| name.trim().strip_prefix("tag:")));
        let next_is_by = text == "--by";
        match key {
            Some(key) => {
                let at = out.len() - usize::from(is_by);
                out.insert(at, format!("--tag={key}").into());
                out.push(text.replace(&format!("tag:{key}"), "tag").into());
            }
            None => out.push(word),
        }
        is_by = next_is_by;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::spelled_out;

    #[test]
    fn a_key_may_be_named_where_it_is_grouped_by() {
        let spelled = |words: &str| {
            let words = spelled_out(words.split(' ').map(Into::into).collect());
            words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(spelled("x --by device,tag:q -r f"), "x --tag=q --by device,tag -r f");
        assert_eq!(spelled("x --by=tag:q"), "x --tag=q --by=tag");
        assert_eq!(spelled("x --by tag tag:q"), "x --by tag tag:q");
    }
}
