//! Runs every check, the quick ones first. The first that fails ends the builds; a test that fails
//! does not end the tests, so that one run names all of them.

use std::time::Instant;

use crate::build::ALL;
use crate::command::{Failure, Line};
use crate::failed_tests::FailedTests;
use crate::outcome::Outcome;
use crate::{bundle, deny, layers, llama_server, model, openai, peer, pure};

struct Step {
    name: &'static str,
    check: fn(whole: bool) -> Result<Outcome, Failure>,
    /// Replaces the remedy of the failure.
    remedy: Option<&'static str>,
}

/// What the [`TESTS`] run, and quick checks.
const BUILDS: [Step; 8] = [
    Step {
        name: "format",
        check: |_| passed(format()),
        remedy: Some("run `cargo fmt`, and commit"),
    },
    Step { name: "layers", check: |_| passed(layers::check()), remedy: None },
    Step { name: "builds without C++", check: |_| passed(pure::check()), remedy: None },
    Step { name: "lints", check: |_| passed(lints()), remedy: Some("fix the warnings above") },
    Step { name: "each program alone", check: |_| passed(alone()), remedy: None },
    Step { name: "programs and tests", check: |_| passed(build()), remedy: None },
    Step { name: "a real model", check: |_| model::for_tests(), remedy: None },
    Step { name: "chat templates", check: |_| model::templates_for_tests(), remedy: None },
];

const TESTS: [Step; 6] = [
    Step {
        name: "tests",
        check: tests,
        remedy: Some(
            "see the failing tests above; target/checks has pictures of the page and the window",
        ),
    },
    Step {
        name: "eviction policy",
        check: |whole| passed(eviction_policy(whole)),
        remedy: Some("see which figure missed its bar; docs/SIMULATOR.md explains them"),
    },
    Step { name: "dependencies", check: |_| deny::check(), remedy: Some(DEPENDENCIES_REMEDY) },
    Step { name: "clients", check: |_| passed(openai::check(false)), remedy: None },
    Step {
        name: "llama-server's tests",
        check: |_| llama_server::check(),
        remedy: Some(
            "see the cases above; tests/llama_server/not_passed.toml lists those that may fail",
        ),
    },
    Step { name: "archive to install", check: archive, remedy: None },
];

/// What `cargo xtask bundle` and a hand-typed build of some packages compile: without the others, a crate has fewer
/// features than with [`ALL`].
const ALONE: [&str; 2] = [
    "cargo check --release --package hob-daemon --package hob-cli",
    "cargo check --release --package hob-desktop --features desktop",
];

/// Cargo's commands that the checks run, and the components of Rust that have them. A minimal installation has neither.
const COMPONENTS: [(&str, &str); 2] = [("fmt", "rustfmt"), ("clippy", "clippy")];

const DEPENDENCIES_REMEDY: &str = "update or replace the crate above; `deny.toml` says what is \
                                   allowed and why";

/// Fails where a component of Rust is missing, before packages are installed.
pub fn ensure_components() -> Result<(), Failure> {
    let runs = |command: &str| Line::new("cargo").args([command, "--version"]).succeeds();
    let missing = missing_components(runs);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        format!("missing in this installation of Rust: {}", missing.join(", ")),
        format!("run `rustup component add {}`; then try again", missing.join(" ")),
    ))
}

fn missing_components(runs: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let missing = COMPONENTS.into_iter().filter(|(command, _)| !runs(command));
    missing.map(|(_, component)| component).collect()
}

/// `whole`: runs the ignored tests too.
pub fn run(whole: bool) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut summary = String::new();
    let mut failures = Vec::new();
    for (index, step) in BUILDS.iter().chain(&TESTS).enumerate() {
        println!("\n=== {}/{} {} ===", index + 1, BUILDS.len() + TESTS.len(), step.name);
        let step_begun = Instant::now();
        let outcome = (step.check)(whole).map_err(|failure| match step.remedy {
            Some(remedy) => failure.with_remedy(remedy),
            None => failure,
        });
        let secs = step_begun.elapsed().as_secs_f64();
        println!("--- {}: {secs:.1} s", step.name);
        let note = match outcome {
            Ok(Outcome::Passed) => String::new(),
            Ok(Outcome::Skipped(what)) => format!("   NOT CHECKED: {what}"),
            Err(failure) if index < BUILDS.len() => return Err(failure),
            Err(failure) => {
                println!("{failure}");
                failures.push(failure);
                "   FAILED".to_owned()
            }
        };
        summary += &format!("\n  {:<20} {secs:>7.1} s{note}", step.name);
    }
    let secs = begun.elapsed().as_secs_f64();
    println!("\nChecked in {secs:.0} s, {} failed:{summary}", failures.len());
    Failure::of_all(failures)
}

fn passed(result: Result<(), Failure>) -> Result<Outcome, Failure> {
    result.map(|()| Outcome::Passed)
}

fn format() -> Result<(), Failure> {
    Line::new("cargo fmt --all --check").run()
}

fn lints() -> Result<(), Failure> {
    Line::new("cargo clippy --all-targets")
        .args(ALL)
        .args(["--", "-D", "warnings", "-D", "clippy::undocumented_unsafe_blocks"])
        .run()
}

fn alone() -> Result<(), Failure> {
    ALONE.into_iter().try_for_each(|check| Line::new(check).run())
}

fn build() -> Result<(), Failure> {
    Line::new("cargo build --all-targets").args(ALL).run()
}

/// With the hob of the build above.
fn eviction_policy(whole: bool) -> Result<(), Failure> {
    let check = Line::new("target/release/hob simulate --check");
    if whole { check.arg("--whole").run() } else { check.run() }
}

/// The portable build, which nothing else compiles, and an answer of the program in the archive.
fn archive(whole: bool) -> Result<Outcome, Failure> {
    if whole {
        return passed(bundle::make(true, None));
    }
    Ok(Outcome::Skipped("`cargo xtask bundle --headless` compiles llama.cpp again, and tries it"))
}

/// With the page and the window, in a browser and in the app of the build above. Those in front of llama-server skip
/// themselves without it.
fn tests(whole: bool) -> Result<Outcome, Failure> {
    let mut tests = Line::new("cargo test --no-fail-fast").args(ALL);
    if whole {
        tests = tests.args(["--", "--include-ignored"]).env("HOB_TEST_ALL", "1");
    }
    let mut failed = FailedTests::default();
    let ran = tests.run_reading(|line| failed.read(line));
    ran.map_err(|failure| failure.with_report(&failed.report()))?;
    Ok(if peer::is_built() {
        Outcome::Passed
    } else {
        Outcome::Skipped("hobd in front of llama-server; `cargo xtask peer` builds it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_that_a_minimal_installation_of_rust_lacks_are_named() {
        assert_eq!(missing_components(|_| false), ["rustfmt", "clippy"]);
        assert_eq!(missing_components(|command| command == "fmt"), ["clippy"]);
        assert!(missing_components(|_| true).is_empty());
    }
}
