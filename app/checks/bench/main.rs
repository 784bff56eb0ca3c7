//! `cargo xtask bench page`: how fast the page is, in a headless Chromium in front of a real hobd; with
//! `--app`, what can be measured in the app's own window.
//!
//! - Frames and waits are taken in the page itself, on its own clock: until what changed is painted.
//! - Each figure is the median over runs, beside the worst. A bar that is missed is told; it fails
//!   nothing, because other work on the machine can miss it, too.

mod figures;
mod frames;
mod load;
mod pixels;
mod search;
mod seed;

use figures::Table;

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let is_app = words.first().is_some_and(|word| word == "--app");
    words.drain(..usize::from(is_app));
    let runs = match words.first() {
        None => 5,
        Some(runs) => runs.parse().unwrap_or_else(|_| {
            eprintln!("usage: cargo xtask bench page [--app] [RUNS]");
            std::process::exit(2)
        }),
    };
    let mut table = Table::default();
    if is_app {
        pixels::measure_in_the_window(runs, &mut table);
    } else {
        load::measure(runs, &mut table);
        frames::measure(runs, &mut table);
        search::measure(runs, &mut table);
    }
    println!("{table}");
}
