//! Finds messages in the text that the chat template has written for them.
//!
//! - Each is sought behind the one before it. Instructions may stand anywhere: some templates put them
//!   in front of the last message of the user.
//! - A message that the template writes in another form is not found. The text is searched for such messages until that
//!   has read [`MAX_VAIN_BYTES`]; those behind are not found either.

const MAX_VAIN_BYTES: usize = 256 << 20;
/// The markup between two messages may contain the words of a short one; it has no more bytes than this.
const MAX_MARKUP_BYTES: usize = 256;

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
    let mut vain_bytes = 0;
    for (n, message) in messages.iter().enumerate() {
        if message.trim().is_empty() {
            continue;
        }
        if vain_bytes > MAX_VAIN_BYTES {
            break;
        }
        match end_of(message, &text[from..]) {
            Some(length) => {
                from += length;
                found.push((n, from));
            }
            None => vain_bytes += text.len() - from,
        }
    }
    found
}

/// The end of a message in the text. The text contains it as its client sent it, or without the white space around it,
/// which many templates cut. A search that succeeds reads no more than the text up to there and a bounded part behind.
fn end_of(message: &str, text: &str) -> Option<usize> {
    let trimmed = message.trim();
    let at = text.find(trimmed)?;
    let near = at + message.len() + MAX_MARKUP_BYTES;
    let near = (near..text.len()).find(|&byte| text.is_char_boundary(byte)).unwrap_or(text.len());
    let whole = (trimmed != message).then(|| text[..near].find(message)).flatten();
    Some(whole.map_or(at + trimmed.len(), |at| at + message.len()))
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

    #[test]
    fn a_message_with_white_space_is_found_behind_markup_with_the_same_words() {
        let text = "<user> user</user>";
        assert_eq!(found(&[" user"], 0, text), [(0, "<user> user")]);
    }

    #[test]
    fn a_hundred_thousand_messages_are_sought() {
        let (sent, text) = (vec!["said\n".to_owned(); 100_000], "[u]said".repeat(100_000));
        assert_eq!(passages(&sent, 0, &text).len(), 100_000);
        let mut missing = vec!["other".to_owned(); 1_000_000];
        missing[0] = "said".to_owned();
        assert_eq!(passages(&missing, 0, &text), [(0, 7)]);
    }
}
