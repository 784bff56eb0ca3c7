//! `cargo xtask bench page`: how fast the page is, in a headless Chromium in front of a real hobd.
//!
//! - Frames and waits are taken in the page itself, on its own clock: until what changed is painted.
//! - Each figure is the median over runs, beside the worst. A bar that is missed is told; it fails
//!   nothing, because other work on the machine can miss it, too.

mod figures;
mod frames;
mod load;
mod search;
mod seed;

use figures::Table;

fn main() {
    let runs = match std::env::args().nth(1).as_deref() {
        None => 5,
        Some(runs) => runs.parse().unwrap_or_else(|_| {
            eprintln!("usage: cargo xtask bench page [RUNS]");
            std::process::exit(2)
        }),
    };
    let mut table = Table::default();
    load::measure(runs, &mut table);
    frames::measure(runs, &mut table);
    search::measure(runs, &mut table);
    println!("{table}");
}
