//! Tests of the whole: the program as a user runs it, and the picture that DESIGN draws of the workspace.

mod generator;
mod house;
mod known_truth;
mod perf_script;
mod program;
