//! What the words of `spark` mean.

use super::Reading;
use crate::{Failure, args};
use std::path::PathBuf;

/// Plan of `spark`.
#[derive(Debug, PartialEq)]
pub struct Spark {
    pub top: usize,
    pub json: bool,
    pub output: Option<PathBuf>,
}

/// Plans `spark`, for which all events of the log are read.
pub fn plan(typed: args::Spark, reading: &mut Reading) -> Result<Spark, Failure> {
    if typed.input.follow || reading.files.len() != 1 {
        return Err(Failure::Usage("latscope spark reads one complete event log; give one with -r.".into()));
    }
    reading.all_of_spark = true;
    Ok(Spark { top: typed.top, json: typed.json, output: typed.output })
}
