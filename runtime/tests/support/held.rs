//! A fake model that computes when the test lets it, so that what happens between two micro-batches does not depend
//! on how long they take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use hob_runtime::backend::Row;
use hob_runtime::backend::fake::{BatchLog, FailsAt, FakeModel};
use hob_runtime::{Engine, Model, Turn, TurnRequest};
use parking_lot::MutexGuard;

use super::wait::until;
use super::{block_on, settle};

/// The micro-batches of a model. Each locks the log of those that begin, and then, behind its computation, what fails.
#[derive(Default)]
pub struct MicroBatches {
    begun: BatchLog,
    fails_at: FailsAt,
    /// Those that have ended.
    ended: Arc<AtomicUsize>,
}

/// No micro-batch begins before this is dropped. The engine then waits in the next one, and answers nothing.
pub struct Paused<'b> {
    batches: &'b MicroBatches,
    /// The rows of each micro-batch so far.
    pub begun: MutexGuard<'b, Vec<Vec<Row>>>,
}

impl MicroBatches {
    /// The same model, whose micro-batches these are.
    pub fn of(&self, fake: FakeModel) -> Arc<dyn Model> {
        let fake = fake.with_batch_log(self.begun.clone()).with_failure(self.fails_at.clone());
        Arc::new(fake.with_ended_batches(self.ended.clone()))
    }

    /// Of an engine that has nothing to do.
    pub fn pause(&self) -> Paused<'_> {
        Paused { batches: self, begun: self.begun.lock() }
    }

    /// Begins a turn when the engine has nothing else to do, and computes its first micro-batch alone.
    pub fn first_of(&self, engine: &Engine, turn: TurnRequest) -> (Turn, Paused<'_>) {
        settle(engine);
        let paused = self.pause();
        let turn = engine.submit(turn).expect("a valid turn");
        (turn, paused.step())
    }

    /// Drops a turn behind its first micro-batch, and waits until the engine has nothing to do.
    pub fn cancel_after_first(&self, engine: &Engine, turn: TurnRequest) {
        let (turn, paused) = self.first_of(engine, turn);
        drop(turn);
        drop(paused);
        settle(engine);
    }
}

impl Paused<'_> {
    /// Lets one micro-batch be computed. A turn that was submitted before may cut it.
    pub fn step(self) -> Self {
        self.step_during(|| ()).1
    }

    /// Calls `during` while the next micro-batch is computed: what it submits is admitted behind that one.
    pub fn step_during<T>(self, during: impl FnOnce() -> T) -> (T, Self) {
        let Self { batches, begun } = self;
        let before = begun.len();
        let fails_at = batches.fails_at.lock();
        drop(begun);
        until("a micro-batch begins", || batches.begun.lock().len() > before);
        let done = during();
        let ended = || batches.ended.load(Ordering::SeqCst);
        let (before, begun) = (ended(), batches.begun.lock());
        drop(fails_at);
        until("it ends", || ended() > before);
        (done, Self { batches, begun })
    }

    /// What the engine replies before or behind the next micro-batch.
    pub fn reply<T>(self, asked: impl Future<Output = T>) -> (T, Self) {
        let mut asked = Box::pin(asked);
        match asked.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => (reply, self),
            Poll::Pending => {
                let paused = self.step();
                (block_on(asked), paused)
            }
        }
    }
}
