//! Tests of the whole: the program as a user runs it, and the picture that DESIGN draws of the workspace.

#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

#[macro_use]
mod skip;

mod agent;
mod agent_ping;
mod agent_queue;
mod alerts;
mod blk_traces;
mod calls;
mod cli;
mod clock;
mod cluster;
mod cluster_network;
mod combinations;
mod compare;
mod compare_labs;
mod compare_limit;
mod compare_one;
mod compare_same;
mod consumer;
mod covered;
mod derived;
mod events_text;
mod examples;
mod explain;
mod exports;
mod exports_api;
mod files;
mod files_at_the_end;
mod fio_jobs;
mod fio_sources;
mod fio_trees;
mod generator;
mod golden;
mod histogram_texts;
mod history;
mod hostile;
mod house;
mod hub_page;
mod known_truth;
mod lab;
mod live;
mod many_files;
mod many_rows;
mod percentiles;
mod perf_script;
mod picture;
mod ping;
mod precision;

mod program;
mod projection;
mod push_down;
mod python_package;
mod report;
mod round_trip;
mod scap;
mod serve;
mod shells;
mod spark;
mod spark_eventlog;
mod spark_report;
mod stack_files;
mod stacks;
mod stream;
mod tags;
mod terminal;
mod texts;
mod trace_dat;
mod traces;
mod tui;
mod unfinished;
mod usage;
mod words;
