//! How the command that synthesises speech, and what it says, are written.
//!
//! Pure, as [`parse`](crate::parse) is. A command is never handed to a shell: quotes keep words
//! together, and nothing else has a meaning.

use crate::parse::{Complaint, Raw, complaint, items};

const MOST_PHRASES: usize = 64;
const LONGEST_PHRASE: usize = 200;

/// A command's program and arguments: an array, or one text of words. `off` is none at all.
pub fn command(raw: &Raw) -> Result<Vec<String>, Complaint> {
    let words = match raw {
        Raw::List(words) => words.clone(),
        Raw::Text(text) if text.trim() == "off" => return Ok(Vec::new()),
        Raw::Text(text) => split(text)?,
        _ => {
            let remedy = "write it in quotes, or as an array of its words";
            return Err(complaint("is no command", remedy));
        }
    };
    match words.first().is_some_and(|program| !program.is_empty()) {
        true => Ok(words),
        false => Err(complaint("names no program", "write a command, or off")),
    }
}

/// Words between spaces; a quoted piece belongs to its word, spaces and all.
fn split(text: &str) -> Result<Vec<String>, Complaint> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        None => Ok(words),
        Some(_) => Err(complaint("has a quote that is not closed", "close it")),
    }
}

/// Phrases: an array, or one text with `|` between them, because phrases have commas.
pub fn phrases(raw: &Raw) -> Result<Vec<String>, Complaint> {
    let mut phrases = Vec::new();
    for item in items(raw, '|', "One second.")? {
        if item.len() > LONGEST_PHRASE || item.contains(char::is_control) {
            let remedy = format!("keep each within one line of {LONGEST_PHRASE} bytes");
            return Err(complaint("has a phrase that is too long", &remedy));
        }
        if !phrases.contains(&item) {
            phrases.push(item);
        }
    }
    match phrases.len() {
        0..=MOST_PHRASES => Ok(phrases),
        _ => Err(complaint("has too many phrases", &format!("keep {MOST_PHRASES} of them"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_into_words_and_meets_no_shell() {
        let split = |text: &str| command(&Raw::Text(text.to_owned()));
        assert_eq!(split("say -v {voice}  {text}").unwrap(), ["say", "-v", "{voice}", "{text}"]);
        assert_eq!(split("'/a b/tts' --x=\"1 2\" ''").unwrap(), ["/a b/tts", "--x=1 2", ""]);
        assert_eq!(split("tts; rm $HOME").unwrap(), ["tts;", "rm", "$HOME"]);
        assert!(split("off").unwrap().is_empty());
        assert!(split("say 'x").is_err());
        assert!(split("''").is_err());
        assert!(command(&Raw::Integer(1)).is_err());
        let array = Raw::List(vec!["/a b/tts".into(), "{text}".into()]);
        assert_eq!(command(&array).unwrap(), ["/a b/tts", "{text}"]);
    }

    #[test]
    fn phrases_keep_their_commas() {
        let phrases = |text: &str| phrases(&Raw::Text(text.to_owned()));
        assert_eq!(phrases("Hm, yes.| One. |Hm, yes.|").unwrap(), ["Hm, yes.", "One."]);
        assert!(phrases("a\u{7}").is_err());
        assert!(phrases(&"x".repeat(201)).is_err());
    }
}
