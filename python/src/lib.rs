//! The native half of the Python package `latscope`: what to read is given to the pipeline, and its answers become Arrow data, JSON
//! and pictures. `latscope/` is what users import.

#![forbid(unsafe_code)]

mod answers;
mod arguments;
mod capture;
mod compare;
mod raised;
mod series;
mod stream;
mod trace;

/// The words of the program for what is noted of a trace.
#[path = "../../apps/latscope/src/notes.rs"]
#[allow(dead_code)]
mod notes;

use pyo3::prelude::*;

/// The module `latscope._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<raised::Error>())?;
    module.add("UsageError", module.py().get_type::<raised::UsageError>())?;
    module.add_class::<capture::Capture>()?;
    module.add_class::<trace::Trace>()?;
    module.add_class::<series::Series>()?;
    module.add_class::<stream::Stream>()?;
    module.add_function(wrap_pyfunction!(compare::compare, module)?)?;
    module.add_function(wrap_pyfunction!(arguments::duration_ns, module)?)?;
    module.add_function(wrap_pyfunction!(arguments::quantity_unit, module)?)?;
    module.add_function(wrap_pyfunction!(arguments::formats, module)?)
}
