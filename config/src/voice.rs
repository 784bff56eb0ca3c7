//! Parses the voice settings: commands and phrases.
//!
//! Pure, as [`parse`](crate::parse) is. A command is split by the POSIX shell's quoting rules, and
//! never handed to a shell: `$`, `;` and `|` have no meaning.

use crate::parse::{InvalidValue, Raw, invalid, items};

const MAX_PHRASES: usize = 64;
const MAX_PHRASE_BYTES: usize = 200;

/// A command's program and arguments: an array, or one text of words. `off` gives no words.
pub fn command(raw: &Raw) -> Result<Vec<String>, InvalidValue> {
    let words = match raw {
        Raw::List(words) => words.clone(),
        Raw::Text(text) if text.trim() == "off" => return Ok(Vec::new()),
        Raw::Text(text) => shlex::split(text)
            .ok_or_else(|| invalid("has a quote that is not closed", "close it"))?,
        _ => {
            let remedy = "write it in quotes, or as an array of its words";
            return Err(invalid("is not a command", remedy));
        }
    };
    if words.first().is_some_and(|program| !program.is_empty()) {
        Ok(words)
    } else {
        Err(invalid("names no program", "write a command, or off"))
    }
}

/// Phrases: an array, or one text with `|` between them, because phrases have commas.
pub fn phrases(raw: &Raw) -> Result<Vec<String>, InvalidValue> {
    let mut phrases = Vec::new();
    for item in items(raw, '|', "One second.")? {
        if item.len() > MAX_PHRASE_BYTES || item.contains(char::is_control) {
            let remedy = format!("keep each within one line of {MAX_PHRASE_BYTES} bytes");
            return Err(invalid("has a phrase that is too long", &remedy));
        }
        if !phrases.contains(&item) {
            phrases.push(item);
        }
    }
    if phrases.len() > MAX_PHRASES {
        return Err(invalid("has too many phrases", &format!("keep {MAX_PHRASES} of them")));
    }
    Ok(phrases)
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
        assert_eq!(split(r"/a\ b/tts \$x").unwrap(), ["/a b/tts", "$x"]);
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
