//! Alerts of a hub: rules, the states of their groups, and the delivery of what fires.
//!
//! Nothing here asks for the time: it comes with the data, so a rule behaves over recorded intervals as it does live.

mod alert;
mod courier;
mod engine;
mod fault;
mod in_flight;
mod judge;
mod parse;
mod print;
mod queue;
mod replay;
mod rules;
mod run;
mod saved;
mod slo;
mod state;
mod sums;
mod table;
mod track;

pub use alert::{Alert, Change};
pub use courier::check_deliveries;
pub use engine::{Engine, Filters};
pub use in_flight::InFlight;
pub use print::{Dialect, print};
pub use replay::{Replay, is_journal};
pub use rules::{Delivery, Rule, Rules, Slo};
pub use run::{Active, Report, RulesFile, Watcher};
pub use slo::BudgetState;
pub use sums::Predicate;
