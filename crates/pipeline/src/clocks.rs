//! Whether the times of several traces lie on one axis.

use latscope_event::{Context, Note};

/// Notes with each trace whose clock has nothing to do with that of the first: their times lie apart, or on different days,
/// only since their clocks count from different moments.
pub fn note_unrelated(contexts: &mut [Context]) {
    let Some(at) = contexts.iter().position(|context| context.span_ns.is_some()) else { return };
    let (known, others) = contexts.split_at_mut(at + 1);
    let Some(first) = known.last() else { return };
    for other in others.iter_mut().filter(|other| are_unrelated(first, other)) {
        let clocks = [first.clock.name.clone(), other.clock.name.clone()];
        other.note(Note::UnrelatedClocks { first: first.source.clone(), clocks });
    }
}

/// Clocks of two kinds may still count alike (`boot` and `monotonic`, of a machine that never slept); then the traces overlap.
fn are_unrelated(one: &Context, other: &Context) -> bool {
    let (Some(a), Some(b)) = (one.span_ns, other.span_ns) else { return false };
    let is_wall = |context: &Context| context.clock.to_unix_ns == Some(0);
    let are_of_one_kind = one.clock.name == other.clock.name || is_wall(one) && is_wall(other);
    !are_of_one_kind && (a.1 < b.0 || b.1 < a.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::Clock;

    fn trace(clock: Clock, span_ns: Option<(i64, i64)>) -> Context {
        Context { span_ns, ..Context::new("a trace", clock) }
    }

    #[test]
    fn clocks_of_different_kinds_whose_traces_lie_apart_are_noted() {
        let today = 1_790_000_000_000_000_000;
        let wall = || trace(Clock::wall(), Some((today, today + 10)));
        let labelled = Clock { name: "perf".into(), to_unix_ns: Some(today), approximate: true };
        for (mut contexts, noted) in [
            (vec![wall(), trace(Clock::unanchored("relative"), Some((0, 10)))], vec![1]),
            (vec![wall(), trace(labelled, Some((50, 60)))], vec![1]),
            (vec![wall(), trace(Clock::wall(), Some((5, 6)))], vec![]),
            (
                vec![
                    trace(Clock::unanchored("boot"), Some((0, 9))),
                    trace(Clock::unanchored("monotonic"), Some((5, 20))),
                ],
                vec![],
            ),
            (
                vec![trace(Clock::unanchored("boot"), Some((0, 9))), trace(Clock::unanchored("boot"), Some((50, 60)))],
                vec![],
            ),
            (
                vec![
                    trace(Clock::unanchored("boot"), None),
                    wall(),
                    wall(),
                    trace(Clock::unanchored("boot"), Some((5, 9))),
                ],
                vec![3],
            ),
        ] {
            note_unrelated(&mut contexts);
            let found = contexts.iter().enumerate().filter(|(_, context)| !context.notes.is_empty());
            assert_eq!(found.map(|(at, _)| at).collect::<Vec<_>>(), noted, "{contexts:?}");
        }
    }
}
