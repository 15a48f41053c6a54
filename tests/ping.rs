//! `latscope ping` against ioping itself, against targets of known latency, and against faults.

#[cfg(target_os = "linux")]
pub mod faults;
#[cfg(target_os = "linux")]
mod golden;
#[cfg(target_os = "linux")]
mod hang;
#[cfg(target_os = "linux")]
mod known_truth;
mod sources;
mod transcript;
