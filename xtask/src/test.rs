//! Every check, in order: the quick ones first, and the first that fails ends it.

use std::time::Instant;

use crate::command::{Failure, Line};
use crate::{deny, layers, openai, pure, run};

/// One check: its heading, what it does, and what to do when it fails (when the check itself has
/// nothing better to say).
struct Step {
    name: &'static str,
    check: fn(whole: bool) -> Result<(), Failure>,
    remedy: Option<&'static str>,
}

const STEPS: [Step; 8] = [
    Step { name: "format", check: |_| format(), remedy: Some("run `cargo fmt`, and commit") },
    Step { name: "layers", check: |_| layers::check(), remedy: None },
    Step { name: "builds without C++", check: |_| pure::check(), remedy: None },
    Step { name: "lints", check: |_| lints(), remedy: Some("mend what clippy names above") },
    Step { name: "hobd and hob", check: |_| Line::new(run::BUILD).run(), remedy: None },
    Step { name: "tests", check: tests, remedy: Some("the failing tests are named above") },
    Step { name: "dependencies", check: |_| deny::check(), remedy: Some(DEPENDENCIES_REMEDY) },
    Step { name: "OpenAI client", check: |_| openai::check(), remedy: None },
];

const DEPENDENCIES_REMEDY: &str = "update or replace the crate that is named above; `deny.toml` says \
                                   what is allowed and why";

/// Runs every check. `whole`: also the tests that are marked as slow.
pub fn run(whole: bool) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut times = Vec::new();
    for (index, step) in STEPS.iter().enumerate() {
        println!("\n=== {}/{} {} ===", index + 1, STEPS.len(), step.name);
        let step_begun = Instant::now();
        (step.check)(whole).map_err(|failure| match step.remedy {
            Some(remedy) => failure.with_remedy(remedy),
            None => failure,
        })?;
        times.push((step.name, step_begun.elapsed()));
        println!("--- {}: {:.1} s", step.name, step_begun.elapsed().as_secs_f64());
    }
    println!("\nEvery check passed, in {:.0} s:", begun.elapsed().as_secs_f64());
    for (name, time) in times {
        println!("  {name:<20} {:>7.1} s", time.as_secs_f64());
    }
    Ok(())
}

fn format() -> Result<(), Failure> {
    Line::new("cargo fmt --all --check").run()
}

fn lints() -> Result<(), Failure> {
    Line::new("cargo clippy --workspace --all-targets --release -- -D warnings")
        .args(["-D", "clippy::undocumented_unsafe_blocks"])
        .run()
}

fn tests(whole: bool) -> Result<(), Failure> {
    let tests = Line::new("cargo test --release --workspace");
    let tests = if whole { tests.args(["--", "--include-ignored"]) } else { tests };
    tests.run()
}
