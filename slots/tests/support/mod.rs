//! Shared by the tests of the store.
//!
//! - [`talk`]: conversations to save, and their expected content
//! - [`memory`]: a file system in memory that simulates power cuts
//! - [`random`]: reproducible numbers
//! - [`scenarios`]: everything that changes a directory
//!
//! Each test runs a bounded share of its cases; `HOB_TEST_ALL=1` runs all, which needs `--release`.

// Each test program uses a part of this.
#![allow(dead_code)]

pub mod memory;
pub mod random;
pub mod scenarios;
pub mod talk;

/// Whether to run all cases.
pub fn everything() -> bool {
    std::env::var("HOB_TEST_ALL").is_ok_and(|all| all == "1")
}

/// `all` when all cases run, else `some`.
pub fn bounded<T>(some: T, all: T) -> T {
    if everything() { all } else { some }
}
