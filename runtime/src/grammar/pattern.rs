//! Regular expressions without the assertions that llguidance cannot follow, and those that it can follow as a
//! schema's `pattern`.

use llguidance::derivre::{RegexAst, RegexBuilder};

use super::error::GrammarError;

pub(super) const MAX_BYTES: usize = 64 << 10;

/// A schema's `pattern` for the texts that a regular expression matches as a whole.
///
/// # Errors
/// When it cannot be followed. The error repeats nothing of it, because it is a tool's.
pub fn whole_pattern(expression: &str) -> Result<String, GrammarError> {
    let refused = |why: &str| {
        let message = format!("the regular expression cannot be followed: {why}");
        Err(GrammarError::Unsupported(message))
    };
    if expression.is_empty() {
        return refused("it is empty");
    }
    if expression.len() > MAX_BYTES {
        return refused(&format!("it has more than {MAX_BYTES} bytes"));
    }
    if without_assertions(expression) != expression {
        return refused("it has look-around or word boundaries");
    }
    let pattern = format!("^(?:{expression})$");
    let search = RegexAst::SearchRegex(llguidance::regex_to_lark(&pattern, "dw"));
    match RegexBuilder::new().mk(&search) {
        Ok(_) => Ok(pattern),
        Err(_) => refused("its syntax is unknown"),
    }
}

/// The same expression without look-around and word boundaries: it matches all that it matched, and more.
pub(super) fn without_assertions(pattern: &str) -> String {
    const LOOK_AROUND: [&str; 4] = ["(?=", "(?!", "(?<=", "(?<!"];
    let mut kept = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let is_assertion = LOOK_AROUND.iter().any(|open| rest.starts_with(open))
            || rest.starts_with(r"\b")
            || rest.starts_with(r"\B");
        let bytes = match first {
            '(' if is_assertion => group_bytes(rest),
            _ => unit_bytes(rest),
        };
        if !is_assertion {
            kept.push_str(&rest[..bytes]);
        }
        rest = &rest[bytes..];
    }
    kept
}

/// A group with what it contains; all of the text where it has no end.
fn group_bytes(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < text.len() {
        match text.as_bytes()[at] {
            b'(' => depth += 1,
            b')' if depth == 1 => return at + 1,
            b')' => depth -= 1,
            _ => {}
        }
        at += unit_bytes(&text[at..]);
    }
    text.len()
}

/// A character, an escape, or a class in brackets.
fn unit_bytes(text: &str) -> usize {
    let mut characters = text.chars();
    let first = characters.next().map_or(0, char::len_utf8);
    match text.as_bytes().first() {
        Some(b'\\') => first + characters.next().map_or(0, char::len_utf8),
        Some(b'[') => class_bytes(text),
        _ => first,
    }
}

fn class_bytes(text: &str) -> usize {
    let mut at = if text.starts_with("[^") { 2 } else { 1 };
    let begin = at;
    while at < text.len() {
        match text.as_bytes()[at] {
            b']' if at > begin => return at + 1,
            b'\\' => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
            _ => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_that_cannot_be_followed_is_refused_without_its_text() {
        assert_eq!(whole_pattern("^a|b/$").unwrap(), "^(?:^a|b/$)$");
        let long = "a".repeat(MAX_BYTES + 1);
        for (expression, why) in [
            ("", "it is empty"),
            (long.as_str(), "it has more than 65536 bytes"),
            ("(?=secret)", "it has look-around or word boundaries"),
            ("(secret", "its syntax is unknown"),
            (r"(secret)\1", "its syntax is unknown"),
        ] {
            let error = whole_pattern(expression).unwrap_err().to_string();
            assert_eq!(error, format!("the regular expression cannot be followed: {why}"));
        }
    }

    #[test]
    fn assertions_are_left_out_and_the_rest_stays() {
        for (pattern, expected) in [
            (
                r"^(?!\.)(?!.*\.\.)([a-z_'+\-\.]*)@(?:[a-z]+\.)+[a-z]{2,}$",
                r"^([a-z_'+\-\.]*)@(?:[a-z]+\.)+[a-z]{2,}$",
            ),
            (r"^(?=.*[A-Z)])(?<=a(b)c)x", "^x"),
            (r"\bword\B[\b(?=]é\\b", r"word[\b(?=]é\\b"),
            (r"(?<year>\d{4})[]()]", r"(?<year>\d{4})[]()]"),
            ("(?!", ""),
            (r"a\", r"a\"),
            ("[", "["),
        ] {
            assert_eq!(without_assertions(pattern), expected, "{pattern}");
        }
    }
}
