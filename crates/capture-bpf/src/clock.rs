//! What the kernel knows of its clock.

/// `TIME_ERROR`: the clock is not synchronised.
#[cfg(target_os = "linux")]
const TIME_ERROR: i32 = 5;

/// Whether the kernel takes its clock for synchronised; `None` where it does not answer.
#[cfg(target_os = "linux")]
pub fn clock_is_synchronised() -> Option<bool> {
    // SAFETY: a structure of numbers only, for which zeros are a question that changes nothing.
    let mut question: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to that structure, which the call fills.
    let state = unsafe { libc::adjtimex(&raw mut question) };
    (state >= 0).then_some(state != TIME_ERROR)
}

/// Whether the kernel takes its clock for synchronised: only Linux is asked.
#[cfg(not(target_os = "linux"))]
pub fn clock_is_synchronised() -> Option<bool> {
    None
}
