//! Rows and ticks.
