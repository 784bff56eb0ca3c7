//! Runs llama-server's own tests against a real hobd, and keeps docs/LLAMA_SERVER.md.

use crate::command::{Failure, Line};
use crate::outcome::Outcome;
use crate::{model, openai};

/// Skipped where the package index cannot be reached.
pub fn check() -> Result<Outcome, Failure> {
    if let skipped @ Outcome::Skipped(_) = model::llama_server_tests()? {
        return Ok(skipped);
    }
    openai::install()?;
    Line::new("target/venv/bin/python tests/llama_server/check.py")
        .arg(model::LLAMA_SERVER)
        .env("HOBD", "target/release/hobd")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .run()?;
    Ok(Outcome::Passed)
}
