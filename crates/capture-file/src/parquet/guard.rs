//! Keeps panics of the Parquet library in.
//!
//! It panics on some damaged files (negative offsets in the metadata, pages that end in the middle of a number), in more
//! places than could be checked beforehand without writing a second one. Nothing of it is used after a panic.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs what calls into the library; a panic there is an error, and prints nothing.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                others(panic);
            }
        }));
    });
    GUARDED.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    result.map_err(|_| "its metadata or pages are inconsistent".to_string())
}
