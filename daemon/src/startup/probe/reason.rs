//! Why a child ended, in words for the user.

use hob_runtime::backend::llama::ABORTS;

/// Maximum length of a line: an assertion is shorter.
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
    let message = line.strip_prefix(ABORTS).unwrap_or(line).trim();
    // Behind it is a field of llama.cpp's log.
    let reason = message.split(" module=\"").next().unwrap_or(message);
    Some(without_place(reason).chars().take(MAX_CHARS).collect())
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
