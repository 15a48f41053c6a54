//! What the alerts of a hub mean: watched, checked or printed.

use super::{Plan, Reading, hub};
use crate::{Failure, args};
use latscope_wire::alerts::Dialect;
use std::path::PathBuf;

/// A file of alerts, without a hub.
#[derive(Debug, PartialEq)]
pub enum Alerts {
    /// Checked, and held against what is read.
    Check(PathBuf),
    /// Printed for Prometheus, with tests in another file.
    Print(Option<PathBuf>, Dialect, Option<PathBuf>),
}

/// Plans `hub`, or what it does instead of running.
pub fn plan(typed: args::Hub) -> Result<Plan, Failure> {
    let alerts = &typed.alerts;
    if let Some(file) = &alerts.check_alerts {
        let reading = Reading { files: alerts.read.clone(), over_time: true, ..Reading::default() };
        return Ok(Plan::Alerts(reading, Alerts::Check(file.clone())));
    }
    if let Some(dialect) = alerts.print_rules {
        let dialect = match dialect {
            args::Dialect::Native => Dialect::Native,
            args::Dialect::Classic => Dialect::Classic,
        };
        let print = Alerts::Print(alerts.alerts.clone(), dialect, alerts.tests.clone());
        return Ok(Plan::Alerts(Reading::default(), print));
    }
    Ok(Plan::Hub(hub::plan(typed)?))
}
