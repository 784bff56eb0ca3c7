//! Checks licences, sources, bans and advisories of every dependency with cargo-deny.
//!
//! - Installs cargo-deny into `target/tools`, compiled with little optimisation: it runs for
//!   seconds.
//! - Without a network it skips the advisories, with a warning. Any finding is a failure.

use std::path::Path;

use crate::command::{Failure, Line};
use crate::outcome::Outcome;

const VERSION: &str = "0.20.2";
const TOOL: &str = "target/tools/bin/cargo-deny";

pub fn check() -> Result<Outcome, Failure> {
    install()?;
    let has_advisories = Line::new(TOOL).args(["fetch", "db"]).run().is_ok();
    // The root is a package: without the flag cargo-deny would check that package only.
    let check = Line::new(TOOL).args(["--workspace", "--all-features", "check"]);
    if has_advisories {
        check.args(["advisories", "bans", "licenses", "sources"]).run()?;
        return Ok(Outcome::Passed);
    }
    check.args(["bans", "licenses", "sources"]).run()?;
    println!(
        "\n  !!! ADVISORIES WERE NOT CHECKED: their database could not be fetched.\n  \
         !!! Known vulnerabilities would not have been found. With a network, run:\n  \
         !!!   {TOOL} check advisories\n"
    );
    Ok(Outcome::Skipped("advisories; their database could not be fetched"))
}

fn install() -> Result<(), Failure> {
    let output = Line::new(TOOL).arg("--version").command().output().ok();
    let current = output.and_then(|output| String::from_utf8(output.stdout).ok());
    if current.is_some_and(|version| version.trim() == format!("cargo-deny {VERSION}")) {
        return Ok(());
    }
    let root = Path::new(TOOL).ancestors().nth(2).expect("it is in tools/bin").display();
    Line::new("cargo install --locked --force cargo-deny --version")
        .arg(VERSION)
        .args(["--root".to_owned(), root.to_string()])
        .args(["--target-dir".to_owned(), format!("{root}/build")])
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .run()
}
