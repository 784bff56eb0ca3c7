//! Arguments of calls that are no JSON: an answer may end or break off within them.
//!
//! - A prompt has them as the model wrote them, not as a quoted string, so that the call keeps its
//!   tokens. A mark stands for them while the template is rendered.

use serde_json::Value;
use sha2::{Digest, Sha256};

use hob_slots::hex_text;

/// The marks in rendered text, and what each stands for.
#[derive(Debug, Default)]
pub(super) struct Malformed {
    texts: Vec<(String, String)>,
}

impl Malformed {
    /// Replaces such arguments by marks.
    pub fn take_from(messages: &mut [Value]) -> Self {
        let mut malformed = Self::default();
        let calls = messages.iter_mut().filter_map(|message| message.get_mut("tool_calls"));
        for call in calls.filter_map(Value::as_array_mut).flatten() {
            let Some(arguments) = call.pointer_mut("/function/arguments") else { continue };
            if let Some(text) = arguments.as_str().filter(|text| is_malformed(text)) {
                let mark = format!("arguments-{}", hex_text(&Sha256::digest(text)[..16]));
                malformed.texts.push((mark.clone(), text.to_owned()));
                *arguments = mark.into();
            }
        }
        malformed
    }

    /// Writes what the marks stand for, also where the template quoted them.
    pub fn put_into(&self, mut prompt: String) -> String {
        for (mark, text) in &self.texts {
            prompt = prompt.replace(&format!("\"{mark}\""), text).replace(mark, text);
        }
        prompt
    }
}

/// Whether it began as an object and is none.
fn is_malformed(text: &str) -> bool {
    text.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err()
}
