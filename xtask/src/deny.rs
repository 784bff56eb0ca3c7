//! Licences, sources, bans and advisories of every dependency, through cargo-deny.
//!
//! - cargo-deny is compiled once, into `target/tools`, in a light profile: it runs for seconds.
//! - The advisories live on a public git host. When that cannot be reached they are skipped, loudly;
//!   a finding, of any kind, always fails.

use std::path::Path;

use crate::command::{Failure, Line};
use crate::test::Outcome;

const VERSION: &str = "0.20.2";
const TOOL: &str = "target/tools/bin/cargo-deny";

pub fn check() -> Result<Outcome, Failure> {
    install()?;
    let has_advisories = Line::new(TOOL).args(["fetch", "db"]).run().is_ok();
    // The root is a package of its own; without the flag it would be the only one that is checked.
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
    let current = Line::new(TOOL).arg("--version").command().output().ok();
    let current = current.and_then(|output| String::from_utf8(output.stdout).ok());
    if current.is_some_and(|version| version.trim() == format!("cargo-deny {VERSION}")) {
        return Ok(());
    }
    let root = Path::new(TOOL).ancestors().nth(2).expect("it lies in tools/bin").display();
    Line::new("cargo install --locked --force cargo-deny --version")
        .arg(VERSION)
        .args(["--root".to_owned(), root.to_string()])
        .args(["--target-dir".to_owned(), format!("{root}/build")])
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .run()
}
