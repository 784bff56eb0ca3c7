//! What compiling a grammar and masking an answer cost, for the tests of their bounds.

/// Steps of llguidance, which it counts: the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Steps of the lexer, about 20 ns each.
    pub fuel: u64,
    /// Steps of the parser, about 50 ns each.
    pub items: usize,
}
