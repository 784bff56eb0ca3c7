//! What compiling a grammar and masking an answer cost, for the tests of their bounds.

/// Steps of llguidance, which it counts: the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Of its lexer, about 20 ns each.
    pub fuel: u64,
    /// Of its parser, about 50 ns each.
    pub items: usize,
}
