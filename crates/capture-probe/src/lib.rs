//! Active measuring: requests of our own to a directory, a file or a device, timed one by one.
//!
//! A [`Probe`] says what is done to one target: its [`Work`], its [`Pace`] and its [`Engine`]. A [`Capture`] runs one or
//! several of them at once, each on threads of its own, and hands on [`Sample`]s, or events with a [`Context`] to a sink
//! as other captures do. Reads never write to what exists: a directory gets a file without a name that vanishes with the
//! process, and existing files and devices are written only when [`Work::destroy`] says so.
//!
//! Times are `CLOCK_MONOTONIC` since the start of the capture; events carry them as Unix time by the offset at the start.
//!
//! [`Context`]: latscope_event::Context

mod account;
mod aio;
mod cache;
mod capture;
mod clock;
mod cpu;
mod engine;
mod error;
mod lab;
mod pace;
mod place;
mod probe;
mod sample;
mod settings;
mod target;
mod uring;
mod worker;

pub use capture::{Capture, Outstanding, Sink};
pub use error::Error;
pub use lab::{Compare, Experiment, Lab, LabError, PRESETS, Turn};
pub use pace::{Due, Pace};
pub use place::Place;
pub use probe::{AfterWrite, Cache, Engine, OpenSync, Operation, Order, Probe, Work};
pub use sample::{FILLS, Sample};
pub use worker::Fold;
