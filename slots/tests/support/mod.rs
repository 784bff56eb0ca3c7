//! What the proofs of the store share.
//!
//! - [`talk`]: conversations to save, and what reading them must give
//! - [`memory`]: a file system in memory that knows what a power cut takes away
//! - [`random`]: numbers that repeat
//! - [`scenes`]: everything that changes a directory
//!
//! Every proof runs a bounded share of its cases; `HOB_TEST_ALL=1` runs all of them, which is meant
//! for `--release`.

// Each proof is a program of its own and uses its part of this.
#![allow(dead_code)]

pub mod memory;
pub mod random;
pub mod scenes;
pub mod talk;

/// Whether everything is to run.
pub fn everything() -> bool {
    std::env::var("HOB_TEST_ALL").is_ok_and(|all| all == "1")
}

/// `all` when everything is to run, else `some`.
pub fn bounded<T>(some: T, all: T) -> T {
    if everything() { all } else { some }
}
