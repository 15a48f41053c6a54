//! Many files at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Does something with each of so many files, several at a time: each worker has a state of its own, and the states are
/// merged in the end. Where files fail, the first of them is reported, as if they were read in order.
pub fn each_file<S: Send, T: Send, E: Send>(
    files: usize,
    most_workers: usize,
    new: &(impl Fn() -> S + Sync),
    take: impl Fn(&mut S, usize, bool) -> Result<T, E> + Sync,
    merge: impl Fn(&mut S, S),
) -> Result<(S, Vec<T>), E> {
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    // Files are dealt out in order, so those before one that fails are all started, and end.
    let work = |is_first: bool| {
        let (mut state, mut results) = (new(), Vec::new());
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && number < files
            && !is_over.load(Ordering::Relaxed)
        {
            let result = take(&mut state, number, is_first);
            is_over.fetch_or(result.is_err(), Ordering::Relaxed);
            results.push((number, result));
        }
        (state, results)
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(files).clamp(1, most_workers);
    let (state, mut results) = thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(|| work(false))).collect();
        let (mut state, mut results) = work(true);
        for other in others {
            let (theirs, more) = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            merge(&mut state, theirs);
            results.extend(more);
        }
        (state, results)
    });
    results.sort_by_key(|&(number, _)| number);
    let results = results.into_iter().map(|(_, result)| result).collect::<Result<_, _>>()?;
    Ok((state, results))
}
