//! Pictures of the user that a history has: words stand in their place.
//!
//! - Only those before the last answer: a model that reads pictures has answered them. A client that goes on with Hob
//!   sends them with each later request; to refuse them would end its chat. The begin of an answer that the request
//!   continues is none: no model has seen the picture in front of it.
//! - Those behind it are left to be refused: the user learns why, and can say in words what they show.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// What a model reads in place of such a picture.
pub const SENT_PICTURE: &str = "(The user sent a picture. This model reads text alone.)";

/// The types of its parts, in the forms of each API.
const TYPES: [&str; 3] = ["image_url", "input_image", "image"];

/// The messages, or items, with parts of type `text` in place of such pictures. `continues_last`: the request continues
/// the last one. `is_answer`: whether a model has written one.
pub fn words_for_pictures<'m>(
    messages: &'m [Value],
    continues_last: bool,
    is_answer: impl Fn(&Value) -> bool,
) -> impl Iterator<Item = Cow<'m, Value>> {
    let answered = before_last_answer(messages, continues_last, is_answer);
    let (answered, newest) = messages.split_at(answered);
    answered.iter().map(words_in).chain(newest.iter().map(Cow::Borrowed))
}

/// How many messages the last answer follows. The parameters are those of [`words_for_pictures`].
pub fn before_last_answer(
    messages: &[Value],
    continues_last: bool,
    is_answer: impl Fn(&Value) -> bool,
) -> usize {
    let whole = messages.len().saturating_sub(usize::from(continues_last));
    messages[..whole].iter().rposition(is_answer).unwrap_or(0)
}

/// Of the APIs whose messages have roles.
pub fn is_assistants(message: &Value) -> bool {
    message["role"] == "assistant"
}

fn words_in(message: &Value) -> Cow<'_, Value> {
    let (Some(fields), Some(parts)) = (message.as_object(), message["content"].as_array()) else {
        return Cow::Borrowed(message);
    };
    if message["role"] != "user" || !parts.iter().any(is_picture) {
        return Cow::Borrowed(message);
    }
    let words = |part: &Value| if is_picture(part) { words_for(part) } else { part.clone() };
    // A picture is not copied: it may have megabytes.
    let read = fields.iter().map(|(name, value)| {
        let value = match name.as_str() {
            "content" => parts.iter().map(words).collect(),
            _ => value.clone(),
        };
        (name.clone(), value)
    });
    Cow::Owned(Value::Object(read.collect::<Map<_, _>>()))
}

fn is_picture(part: &Value) -> bool {
    part["type"].as_str().is_some_and(|kind| TYPES.contains(&kind))
}

fn words_for(part: &Value) -> Value {
    let mut words = json!({"type": "text", "text": SENT_PICTURE});
    // Anthropic's mark of a prefix.
    if let Some(mark) = part.get("cache_control") {
        words["cache_control"] = mark.clone();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(kind: &str) -> Value {
        json!({"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": kind}], "name": "a"})
    }

    fn read(messages: &[Value]) -> Vec<Value> {
        words_for_pictures(messages, false, is_assistants).map(Cow::into_owned).collect()
    }

    #[test]
    fn words_stand_in_place_of_pictures_that_were_answered_alone() {
        let answer = json!({"role": "assistant", "content": "A cat."});
        let words = json!({"role": "user", "name": "a", "content": [
            {"type": "text", "text": "Look"}, {"type": "text", "text": SENT_PICTURE}]});
        for kind in TYPES {
            let read = read(&[seen(kind), answer.clone(), seen(kind)]);
            assert_eq!(read, [words.clone(), answer.clone(), seen(kind)], "{kind}");
        }
        for unchanged in [vec![], vec![seen("image")], vec![seen("input_audio"), answer.clone()]] {
            assert_eq!(read(&unchanged), unchanged);
        }
        let of_tool = json!({"role": "tool", "content": [{"type": "image_url"}]});
        let others = [of_tool, json!("x"), json!({"role": "user", "content": "Hi"}), answer];
        assert_eq!(read(&others), others);
    }

    #[test]
    fn the_begin_of_an_answer_that_is_continued_answers_no_picture() {
        let begin = json!({"role": "assistant", "content": "It is"});
        let asked = [seen("image"), begin.clone(), seen("image"), begin];
        assert_eq!(before_last_answer(&asked, false, is_assistants), 3);
        assert_eq!(before_last_answer(&asked, true, is_assistants), 1);
        assert_eq!(before_last_answer(&asked[..2], true, is_assistants), 0);
        assert_eq!(before_last_answer(&[], true, is_assistants), 0);
    }

    #[test]
    fn a_mark_of_the_picture_is_that_of_the_words() {
        let mark = json!({"type": "ephemeral"});
        let picture =
            json!({"role": "user", "content": [{"type": "image", "cache_control": mark}]});
        let read = read(&[picture, json!({"role": "assistant"})]);
        assert_eq!(read[0]["content"][0]["cache_control"], mark);
    }
}
