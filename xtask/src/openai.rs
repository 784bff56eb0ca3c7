//! Runs the official clients of OpenAI and Ollama for Python against a real hobd.

use std::fs;

use crate::command::{Failure, Line};

const VENV: &str = "target/venv";
const REQUIREMENTS: &str = "tests/openai/requirements.txt";

pub fn check() -> Result<(), Failure> {
    install()?;
    Line::new("target/venv/bin/python -m pytest tests/openai -p no:cacheprovider")
        .env("HOBD", "target/release/hobd")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .run()
}

/// Installs the pinned clients into a virtual environment, unless a stamp file says that it is
/// there.
fn install() -> Result<(), Failure> {
    let stamp = format!("{VENV}/installed.txt");
    let wanted = fs::read_to_string(REQUIREMENTS).map_err(|e| {
        Failure::new(format!("cannot read {REQUIREMENTS}: {e}"), "restore it from git")
    })?;
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    Line::new("python3 -m venv --clear").arg(VENV).run()?;
    Line::new(
        "target/venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement",
    )
    .arg(REQUIREMENTS)
    .run()?;
    fs::write(&stamp, wanted).map_err(|e| {
        Failure::new(format!("cannot write {stamp}: {e}"), "check the permissions of target/")
    })
}
