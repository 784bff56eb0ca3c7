//! Regular expressions without the assertions that llguidance cannot follow.

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
