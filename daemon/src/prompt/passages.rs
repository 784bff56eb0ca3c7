//! Finds messages in the text that the chat template has written for them.
//!
//! - Each is sought behind the one before it. Instructions may stand anywhere: some templates put them
//!   in front of the last message of the user.
//! - A message that the template writes in another form is not found.

/// A message, by its number, and the byte of the text where it ends.
pub type Passage = (usize, usize);

/// The messages that the text contains, in the order of their ends. `messages`: their texts, of which
/// the first `instructions` are instructions.
pub fn passages(messages: &[String], instructions: usize, text: &str) -> Vec<Passage> {
    let (systems, others) = messages.split_at(instructions);
    let systems = in_order(systems, text, 0);
    let behind = systems.last().map_or(0, |&(_, end)| end);
    let [behind, anywhere] = [behind, 0].map(|from| in_order(others, text, from));
    let others = if behind.len() < anywhere.len() { anywhere } else { behind };
    let others = others.into_iter().map(|(n, end)| (n + instructions, end));
    let mut found: Vec<Passage> = systems.into_iter().chain(others).collect();
    found.sort_by_key(|&(_, end)| end);
    found
}

/// The passages that follow each other from the byte `from` on.
fn in_order(messages: &[String], text: &str, mut from: usize) -> Vec<Passage> {
    let mut found = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        // Templates cut white space around a text.
        let trimmed = message.trim();
        let forms = [message.as_str(), trimmed].into_iter().filter(|_| !trimmed.is_empty());
        let mut ends = forms.filter_map(|form| Some(from + text[from..].find(form)? + form.len()));
        if let Some(end) = ends.next() {
            found.push((n, end));
            from = end;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the messages, and the text up to the end of each.
    fn found(
        messages: &[&str],
        instructions: usize,
        text: &'static str,
    ) -> Vec<(usize, &'static str)> {
        let messages: Vec<String> = messages.iter().map(|message| (*message).to_owned()).collect();
        let found = passages(&messages, instructions, text);
        found.into_iter().map(|(n, end)| (n, &text[..end])).collect()
    }

    #[test]
    fn messages_are_found_one_behind_the_other() {
        let text = "[u]Hi[a]Hi[u]Hi again";
        let expected = [(0, "[u]Hi"), (1, "[u]Hi[a]Hi"), (2, text)];
        assert_eq!(found(&["Hi", " Hi\n", "Hi again"], 0, text), expected);
    }

    #[test]
    fn instructions_are_found_in_front_of_the_last_message_too() {
        let text = "[u]one[a]two[u]Be brief.\n\nthree";
        let expected =
            [(1, "[u]one"), (2, "[u]one[a]two"), (0, "[u]one[a]two[u]Be brief."), (3, text)];
        assert_eq!(found(&["Be brief.", "one", "two", "three"], 1, text), expected);
        let usual = "[s]one rule[u]one[a]two";
        let expected = [(0, "[s]one rule"), (1, "[s]one rule[u]one"), (2, usual)];
        assert_eq!(found(&["one rule", "one", "two"], 1, usual), expected);
    }

    #[test]
    fn a_message_in_another_form_is_left_out() {
        let text = r#"[u]go[call]{"a":1}[result]5"#;
        assert_eq!(found(&["go", "", r#"{"a": 1}"#, "5"], 0, text), [(0, "[u]go"), (3, text)]);
    }
}
