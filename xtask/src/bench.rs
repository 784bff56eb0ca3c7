//! Builds what a benchmark starts, and runs the benchmark.

use crate::app;
use crate::command::{Failure, Line};
use crate::need::Need;
use crate::setup;

/// `bench_args`: the name of the benchmark, and its own arguments. `yes`: install without asking.
pub fn run(bench_args: &[String], yes: bool) -> Result<(), Failure> {
    setup::ensure(&Need::BUILD, yes)?;
    let name = bench_args.first().map(String::as_str);
    if let Some(package) = name.and_then(started_package) {
        Line::new("cargo build --release --package").arg(package).run()?;
    }
    if name == Some("page") {
        return page(&bench_args[1..], yes);
    }
    Line::new("cargo run --release --package hob-bench --").args(bench_args).run()
}

/// The package of the program that the benchmark `name` starts.
fn started_package(name: &str) -> Option<&'static str> {
    match name {
        "store" => Some("hob-cli"),
        "idle" | "load" | "peer" | "soak" | "template" | "typing" | "page" => Some("hob-daemon"),
        _ => None,
    }
}

/// The crate that checks the page also measures it; with `--app` in the app's window.
fn page(args: &[String], yes: bool) -> Result<(), Failure> {
    if args.iter().any(|word| word == "--app") {
        setup::ensure(&Need::app(), yes)?;
        setup::ensure(&Need::WINDOW, yes)?;
        Line::new(app::BUILD).run()?;
    } else {
        setup::ensure(&Need::PAGE, yes)?;
    }
    Line::new("cargo run --release --package hob-checks --").args(args).run()
}
