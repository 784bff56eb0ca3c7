//! Runs the locked steps of low-priority threads at normal priority.
//!
//! - The writer and the maintenance on it have a low priority. A thread of low priority that gets no
//!   core while it holds a mutex makes the engine's thread wait, and with it every answer. So a
//!   step that takes a mutex of [`Shared`] runs on a thread of normal priority, and the thread of low
//!   priority waits for the step's end.
//! - A step concerns [`MAX_IDS`] objects at most, and does no I/O. Memory that a step frees is returned
//!   to the caller. The longest step is counted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;

use super::counters::Counters;
use super::shared::Shared;

/// Objects that one step looks at.
pub(super) const MAX_IDS: usize = 64;

type Step = Box<dyn FnOnce(&Shared) + Send>;

/// Hands steps to the thread that [`serve`]s them. The thread ends when this is dropped.
pub(super) struct LockedSteps(Sender<Step>);

impl LockedSteps {
    pub fn channel() -> (Self, Receiver<Step>) {
        let (steps, inbox) = mpsc::channel();
        (Self(steps), inbox)
    }

    /// Runs `step` on the other thread. Returns its result.
    pub fn run<T: Send + 'static>(&self, step: impl FnOnce(&Shared) -> T + Send + 'static) -> T {
        let (done, result) = mpsc::channel();
        let step = move |shared: &Shared| done.send(step(shared)).unwrap_or(());
        self.0.send(Box::new(step)).expect("the thread runs until this is dropped");
        result.recv().expect("a step that panicked has no result")
    }
}

/// Runs steps until their sender is dropped.
pub(super) fn serve(shared: &Shared, steps: &Receiver<Step>) {
    for step in steps {
        let began = Instant::now();
        // The thread that waits for the step panics in its place: its job ends, this thread not.
        catch_unwind(AssertUnwindSafe(|| step(shared))).ok();
        Counters::at_least(&shared.counters.longest_lock_micros, began.elapsed().as_micros());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backend::fake::FakeModel;
    #[cfg(target_os = "linux")]
    use crate::background::{BEHIND_ANSWERS, in_the_background, lower_priority};
    use crate::tiers::shared::MemoryBudget;
    use hob_slots::ModelHash;

    fn shared() -> Shared {
        let budget = MemoryBudget { memory_bytes: 0, unsaved_bytes: 0 };
        Shared::new(Arc::new(FakeModel::new()), ModelHash([0; 8]), None, budget, None)
    }

    #[test]
    fn a_step_that_panics_ends_the_job_that_waits_for_it_and_later_steps_run() {
        let (shared, (steps, inbox)) = (shared(), LockedSteps::channel());
        std::thread::scope(|scope| {
            scope.spawn(move || serve(&shared, &inbox));
            let panics =
                AssertUnwindSafe(|| steps.run(|_| -> u8 { panic!("a test asks for a panic") }));
            assert!(catch_unwind(panics).is_err());
            assert_eq!(steps.run(|_| 7), 7);
            drop(steps);
        });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn steps_of_threads_of_low_priority_run_at_normal_priority() {
        let (shared, (steps, inbox)) = (shared(), LockedSteps::channel());
        let niceness = || rustix::process::nice(0).unwrap();
        std::thread::scope(|scope| {
            let serving = scope.spawn(move || serve(&shared, &inbox));
            let writing = scope.spawn(move || {
                let normal = niceness();
                lower_priority(BEHIND_ANSWERS);
                assert_eq!(niceness(), normal + BEHIND_ANSWERS);
                assert_eq!(steps.run(move |_| niceness()), normal);
                in_the_background(|| {
                    assert!(niceness() > normal);
                    assert_eq!(steps.run(move |_| niceness()), normal);
                });
            });
            writing.join().unwrap();
            serving.join().unwrap();
        });
    }
}
