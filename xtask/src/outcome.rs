//! The result of a check that did not fail.

pub enum Outcome {
    Passed,
    /// Passed, except for a part that could not be checked here.
    Skipped(&'static str),
}
