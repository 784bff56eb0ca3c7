//! Asks before a text is deleted for good.
//!
//! - At a terminal only: a script cannot answer, and names what it deletes.
//! - Only `y` and `yes` are a yes; the end of the input is a no.

use std::io::{self, Write};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::warn;

/// Whether a user can see a question and answer it.
pub fn can_ask(context: &Context) -> bool {
    context.terminal.input && context.terminal.error
}

/// Asks whether to delete what `shown` names; says that it is kept where the answer is no. `question`: without its
/// question mark.
///
/// # Errors
/// When standard input cannot be read.
pub fn keeps(question: &str, shown: &str) -> Result<bool, Failure> {
    let keeps = !is_confirmed(question)?;
    if keeps {
        warn(&format!("kept {shown}"));
    }
    Ok(keeps)
}

/// Asks on standard error, which `--json` leaves to people.
fn is_confirmed(question: &str) -> Result<bool, Failure> {
    let mut error = io::stderr();
    // An error: no one sees the question, and the answer decides all the same.
    let _ = write!(error, "{question}? [y/N] ").and_then(|()| error.flush());
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Failure::Input)?;
    if !answer.ends_with('\n') {
        warn(""); // Ctrl-D has no line break.
    }
    let answer = answer.trim().to_lowercase();
    Ok(answer == "y" || answer == "yes")
}
