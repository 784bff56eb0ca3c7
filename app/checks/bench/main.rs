//! `cargo xtask bench page`: the speed of the page in headless Chromium with a real hobd; with `--app`,
//! the start of the app's window while a model loads.
//!
//! - The page measures frames and waits on its own clock, until the change is painted.
//! - Each figure is the median over runs, with the worst run. A missed bar is printed and fails nothing:
//!   other work on the machine can cause it.

mod figures;
mod frames;
mod load;
mod pixels;
mod search;
mod seed;
mod start;

use clap::Parser;
use figures::Table;

/// Measures the page.
#[derive(Parser)]
#[command(name = "cargo xtask bench page")]
struct Args {
    /// Measures in the app's own window.
    #[arg(long)]
    app: bool,
    /// The model that loads behind the window: `bundled`, or a file.
    #[arg(long, requires = "app", default_value = "bundled")]
    model: String,
    /// How often each figure is taken.
    #[arg(default_value_t = 5)]
    runs: usize,
}

fn main() {
    let Args { app, model, runs } = Args::parse();
    let mut table = Table::default();
    if app {
        start::measure(&model, runs, &mut table);
        pixels::measure_in_the_window(runs, &mut table);
    } else {
        load::measure(runs, &mut table);
        frames::measure(runs, &mut table);
        search::measure(runs, &mut table);
    }
    println!("{table}");
}
