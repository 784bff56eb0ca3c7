//! Why a child ended, in words for the user.

use std::process::ExitStatus;

use hob_runtime::backend::llama::ABORTS;

/// Of a line: an assertion is shorter.
const MAX_CHARS: usize = 240;

/// What llama.cpp says at the end of each failed load: the line before has the reason.
const SUMMARY: &str = "failed to load model";

/// The last thing that a child wrote on standard error, without where in the source that was.
pub fn last(errors: &[String]) -> Option<String> {
    let lines = errors.iter().rev().map(|line| line.trim());
    let line = lines.filter(|line| !line.starts_with(SUMMARY)).find(|line| !line.is_empty())?;
    if line.contains("foreign exception") {
        return Some("an exception in C++".to_owned()); // In the words of Rust's runtime.
    }
    let line = line.strip_prefix(ABORTS).unwrap_or(line).trim();
    let line = line.split(" module=\"").next().unwrap_or(line); // A field of llama.cpp's log.
    Some(without_place(line).chars().take(MAX_CHARS).collect())
}

/// `…/ggml.c:12: GGML_ASSERT(x) failed` without file and number.
fn without_place(line: &str) -> &str {
    match line.split_once(": ") {
        Some((place, rest)) if is_place(place) => rest,
        _ => line,
    }
}

fn is_place(text: &str) -> bool {
    let number = text.rsplit_once(':').map(|(_, number)| number);
    number.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The cause, and whether it may lie outside of the file.
#[cfg(unix)]
pub fn of_end(status: ExitStatus) -> (String, bool) {
    use std::os::unix::process::ExitStatusExt;

    use rustix::process::Signal;

    let Some(signal) = status.signal() else { return of_code(status) };
    let is = |known: Signal| signal == known.as_raw();
    if is(Signal::XCPU) {
        return ("out of processor time".to_owned(), false);
    }
    let is_outside = is(Signal::KILL) || is(Signal::TERM) || is(Signal::INT);
    (format!("signal {signal}"), is_outside)
}

#[cfg(not(unix))]
pub fn of_end(status: ExitStatus) -> (String, bool) {
    of_code(status)
}

fn of_code(status: ExitStatus) -> (String, bool) {
    (status.code().map_or("no exit code".to_owned(), |code| format!("exit code {code}")), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_have_no_place_and_are_short() {
        let last = |line: &str| last(&[line.to_owned(), "  ".to_owned()]).unwrap();
        assert_eq!(last("/x/ggml.c:12: GGML_ASSERT(x) failed"), "GGML_ASSERT(x) failed");
        assert_eq!(
            last("llama.cpp aborts /x/ggml.c:12: GGML_ASSERT(x) failed"),
            "GGML_ASSERT(x) failed"
        );
        assert_eq!(last("error: missing tensor module=\"llama.cpp::x\""), "error: missing tensor");
        assert_eq!(last("Rust cannot catch foreign exceptions"), "an exception in C++");
        assert_eq!(last(&"é".repeat(1000)).chars().count(), MAX_CHARS);
    }
}
