//! Pictures of the user that a history has: words stand in their place.
//!
//! - Only those before the last answer, and those before the user's last message. To the former a model that reads
//!   pictures has answered, the latter were refused when they were the newest, and the user went on. A client sends
//!   both with each later request; to refuse them would end its chat. The begin of an answer that the request continues
//!   is none: no model has seen the picture in front of it.
//! - Those behind both are left to be refused: the user learns why, and can say in words what they show.

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
    let followed = before_newest(messages, continues_last, is_answer);
    let (followed, newest) = messages.split_at(followed);
    followed.iter().map(words_in).chain(newest.iter().map(Cow::Borrowed))
}

/// How many messages an answer follows, or another message of the user. The parameters are those of
/// [`words_for_pictures`].
pub fn before_newest(
    messages: &[Value],
    continues_last: bool,
    is_answer: impl Fn(&Value) -> bool,
) -> usize {
    let whole = messages.len().saturating_sub(usize::from(continues_last));
    let last_answer = messages[..whole].iter().rposition(is_answer).unwrap_or(0);
    let last_of_user = messages.iter().rposition(|message| message["role"] == "user").unwrap_or(0);
    last_answer.max(last_of_user)
}

/// Whether it is a message of the assistant, in APIs whose messages have roles.
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
        assert_eq!(before_newest(&asked, false, is_assistants), 3);
        assert_eq!(before_newest(&asked, true, is_assistants), 2);
        assert_eq!(before_newest(&asked[..2], true, is_assistants), 0);
        assert_eq!(before_newest(&[], true, is_assistants), 0);
    }

    #[test]
    fn words_stand_in_place_of_a_refused_picture_once_the_user_goes_on() {
        let on = json!({"role": "user", "content": "It is a cat."});
        let went_on = read(&[seen("image_url"), on.clone()]);
        assert_eq!(went_on[0]["content"][1]["text"], SENT_PICTURE);
        assert_eq!(went_on[1], on);
        let again = [on, seen("image_url")];
        assert_eq!(read(&again), again, "the newest message is refused");
        let rules = json!({"role": "system", "content": "Be brief."});
        let alone = [seen("image_url"), rules];
        assert_eq!(read(&alone), alone, "the user has not gone on");
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
