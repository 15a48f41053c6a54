//! Active measuring: requests of our own to a directory, a file or a device, timed one by one.
//!
//! A [`Probe`] says what is done to one target: its [`Work`], its [`Pace`] and its [`Engine`]. A [`Capture`] runs one or
//! several of them at once, each on threads of its own, and hands on [`Sample`]s, or events with a [`Context`] to a sink
//! as other captures do. Reads never write to what exists: a directory gets a file without a name that vanishes with the
//! process, and existing files and devices are written only when [`Work::destroy`] says so.
//!
//! Probing needs Linux; elsewhere a capture does not start, and says so.
//!
//! Times are `CLOCK_MONOTONIC` since the start of the capture; events carry them as Unix time by the offset at the start.
//!
//! [`Context`]: latscope_event::Context

#[cfg(target_os = "linux")]
mod account;
#[cfg(target_os = "linux")]
mod aio;
#[cfg(target_os = "linux")]
mod cache;
#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod cpu;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod engine;
mod error;
mod lab;
#[cfg(target_os = "linux")]
mod mount;
mod pace;
mod place;
mod probe;
#[cfg(target_os = "linux")]
mod random;
#[cfg(target_os = "linux")]
mod rows;
mod sample;
#[cfg(target_os = "linux")]
mod settings;
#[cfg(target_os = "linux")]
mod settle;
#[cfg(target_os = "linux")]
mod target;
#[cfg(target_os = "linux")]
mod uring;
#[cfg(target_os = "linux")]
mod worker;

#[cfg(target_os = "linux")]
pub use capture::{Capture, Outstanding, Overdue, Sink};
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Capture, Fold, Outstanding, Overdue, Settled, Sink};
pub use error::Error;
pub use lab::{Compare, Experiment, Lab, LabError, PRESETS, Turn};
pub use pace::{Due, Pace};
pub use place::{Place, is_memory};
pub use probe::{AfterWrite, Cache, Engine, OpenSync, Operation, Order, Probe, Work};
pub use sample::{FILLS, Sample};
#[cfg(target_os = "linux")]
pub use settle::Settled;
#[cfg(target_os = "linux")]
pub use worker::Fold;
